package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
)

// A problem is a failed step in words.
type problem struct {
	key  string // section of docs/runbook.md
	what string
	do   string
}

// explain says what an error means to who sets the chat up. raw is the address as it
// was given.
func explain(raw string, err error) problem {
	if p, ok := ofAddress(raw, err); ok {
		return p
	}
	if p, ok := ofCertificate(err); ok {
		return p
	}
	if p, ok := ofAnswer(raw, err); ok {
		return p
	}
	return ofNetwork(raw, err)
}

// ofAddress: one that is not asked, or that is the wrong one of two.
func ofAddress(raw string, err error) (problem, bool) {
	var bad *mattermost.URLError
	var away *mattermost.Elsewhere
	var other *mattermost.Stranger
	switch {
	case errors.As(err, &bad):
		return problem{"mattermost-url", bad.Error(), "give the address that your browser shows for the chat, such as https://chat.example.com; http:// to another machine only with --plain, over a network of your own"}, true
	case errors.As(err, &away):
		do := "give that address, if it is your server's"
		if u, perr := url.Parse(away.To); perr == nil && u.Scheme == "https" && strings.HasPrefix(raw, "http:") {
			do = "give the address with https://"
		}
		return problem{"mattermost-url", "the server " + away.Error() + ", which is not followed: the token is for the address that you gave", do}, true
	case errors.Is(err, http.ErrSchemeMismatch):
		return problem{"mattermost-url", "the server speaks http, not https", "give the address that your browser shows for the chat; a server without TLS has it before it, in a proxy"}, true
	case errors.As(err, &other) && other.Status == http.StatusBadRequest && strings.Contains(strings.ToUpper(other.Says), "HTTPS"):
		return problem{"mattermost-url", "the server speaks https, not http", "give the address with https://"}, true
	case errors.As(err, &other):
		return problem{"mattermost-not-one", other.Error(), "give the address that your browser shows for the chat, with its path if it has one (/chat), but without the parts of a team or channel; a page for signing in before it must let /api/v4 pass"}, true
	}
	return problem{}, false
}

// ofCertificate: who is at the address cannot be known.
func ofCertificate(err error) (problem, bool) {
	var name x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var bad x509.CertificateInvalidError
	var any *tls.CertificateVerificationError
	var alert tls.AlertError
	const key = "mattermost-certificate"
	switch {
	case errors.As(err, &name):
		return problem{key, "the certificate is for another name than " + name.Host, "use the name that the certificate is for, or have it made for this one"}, true
	case errors.As(err, &unknown):
		return problem{key, "nobody whom this machine trusts has signed the server's certificate", "have the server send its whole chain; if the authority is your own, add it to this machine's (update-ca-certificates), never switch the check off"}, true
	case errors.As(err, &bad) && bad.Reason == x509.Expired:
		return problem{key, fmt.Sprintf("the server's certificate is not good now: it is for %s to %s", bad.Cert.NotBefore.UTC().Format(time.DateOnly), bad.Cert.NotAfter.UTC().Format(time.DateOnly)), "have it renewed; if it looks current, set this machine's clock"}, true
	case errors.As(err, &bad) || errors.As(err, &any):
		return problem{key, "the server's certificate cannot be trusted", "have it made anew, for this name and for servers"}, true
	case errors.As(err, &alert):
		return problem{key, "the server ends the TLS handshake: " + alert.Error(), "it must offer TLS 1.2 or 1.3, and ask for no certificate of ours"}, true
	}
	return problem{}, false
}

// ofAnswer: what a Mattermost server says.
func ofAnswer(raw string, err error) (problem, bool) {
	var no *mattermost.Refused
	var busy *mattermost.Busy
	var failed *mattermost.Failed
	switch {
	case mattermost.TokenRefused(err):
		return problem{"mattermost-token", "the server does not take the token: it is wrong, was revoked, or its bot is disabled", "copy the token anew, or make another one for the bot (Integrations, Bot Accounts); it is shown there once, when it is made"}, true
	case errors.As(err, &no) && no.Status >= 300 && no.Status <= 399:
		return problem{"mattermost-url", no.Error(), "give the address that it ends at"}, true
	case errors.As(err, &busy):
		return problem{"mattermost-unreachable", busy.Error(), "wait that long and try again"}, true
	case errors.As(err, &failed):
		return problem{"mattermost-unreachable", failed.Error(), "try again; if it stays so, ask who runs the server"}, true
	case errors.As(err, &no):
		return problem{"mattermost-not-one", no.Error(), "ask who runs the server what it forbids"}, true
	case errors.Is(err, mattermost.ErrTooBig):
		return problem{"mattermost-not-one", "the answer is " + err.Error(), "give the address of a Mattermost server"}, true
	}
	return problem{}, false
}

// ofNetwork: nobody answers.
func ofNetwork(raw string, err error) problem {
	host := raw
	if u, perr := url.Parse(raw); perr == nil {
		host = u.Host
	}
	const key = "mattermost-unreachable"
	var dns *net.DNSError
	var wait net.Error
	var made *url.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return problem{key, "there is no host " + dns.Name, "look at the address for a slip, and whether this machine resolves names: getent hosts " + dns.Name}
	case errors.As(err, &dns):
		return problem{key, "the name " + dns.Name + " cannot be looked up now", "look at this machine's network and its /etc/resolv.conf"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return problem{key, "nobody listens at " + host, "look at the port, and whether the server runs"}
	case errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH):
		return problem{key, "there is no way to " + host, "look at this machine's network"}
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &wait) && wait.Timeout():
		return problem{key, host + " does not answer in time", "look whether a firewall is between; a proxy of the environment (HTTPS_PROXY) is not used"}
	case errors.As(err, &made):
		return problem{key, "no connection to " + host + ": " + made.Err.Error(), "look at the address, and whether the server runs"}
	}
	return problem{key, "the server cannot be asked: " + err.Error(), "look at the address, and whether the server runs"}
}

// ofOwner turns what an account is not into words.
func ofOwner(given string, p problem, err error) problem {
	var no *mattermost.Refused
	switch {
	case mattermost.TokenRefused(err):
		return p
	case errors.As(err, &no) && no.Gone():
		return problem{"mattermost-owner", fmt.Sprintf("there is no account %q", given), "give the name with which you sign in there (profile, Username), not the one that is shown, nor the e-mail address"}
	case errors.As(err, &no):
		return problem{"mattermost-owner", fmt.Sprintf("the server does not show the account %q to the bot: %v", given, no), "put the bot into a team of yours"}
	case strings.Contains(err.Error(), "is no user name"):
		return problem{"mattermost-owner", err.Error(), "give the name with which you sign in there (profile, Username), not the one that is shown, nor the e-mail address"}
	}
	return p
}

// ofPlace turns a no to the direct channel, or to a post there, into words.
func ofPlace(owner string, p problem, err error) problem {
	var no *mattermost.Refused
	if errors.As(err, &no) && !no.Token() && no.Status >= 400 {
		return problem{"mattermost-direct", "the server does not let the bot write to @" + owner + ": " + no.Error(), "put the bot into a team of yours: a server may allow direct messages within a team only"}
	}
	return p
}
