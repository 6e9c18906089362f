package grant

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"boxmaker/internal/tool"
)

// checkSecretName allows what the store does: [a-z0-9-]{1,64}.
func checkSecretName(n string) error {
	if len(n) == 0 || len(n) > 64 || strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return errors.New("the name of a secret has 1 to 64 characters of a-z, 0-9 and -")
	}
	return nil
}

// checkInject says what is wrong with one [[secrets.inject]], and how to mend
// it.
func (f *file) checkInject(in inject) (bad [][2]string) {
	add := func(what, do string) { bad = append(bad, [2]string{what, do}) }
	if f.Tool != tool.NameHTTPFetch {
		add("only http_fetch can have a secret added to its requests", "use secrets.names, which hands it to the program over a file descriptor")
	}
	if err := checkSecretName(in.Name); err != nil {
		add(err.Error(), "write name = \"…\", under which `bxctl secret set NAME` keeps it")
	}
	switch {
	case in.Host == "":
		add("there is no host that the secret is for", "write host = \"api.example.com:443\", one of net.hosts")
	case strings.HasPrefix(in.Host, "*"):
		add(fmt.Sprintf("a secret for %s would be sent to any name below it", in.Host), "name the one host that it is for")
	case !hostIn(in.Host, f.Net.Hosts):
		add(fmt.Sprintf("%s is not in net.hosts, so that the secret would never be sent", in.Host), "add it to net.hosts, written the same way")
	}
	switch h := textproto.CanonicalMIMEHeaderKey(in.Header); {
	case in.Header == "":
		add("there is no header that carries the secret", "write header = \"Authorization\"")
	case !token(in.Header):
		add(fmt.Sprintf("%q cannot be the name of a header", in.Header), "write its name alone, such as \"Authorization\"")
	case reserved(h):
		add(h+" belongs to the connection and cannot carry a secret", "use the header that the host's documentation names, such as Authorization")
	}
	if len(in.Prefix) > 64 || strings.IndexFunc(in.Prefix, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		add("the prefix is not plain text of at most 64 characters", "write it as the host wants it, such as \"Bearer \"")
	}
	return bad
}

// token is what RFC 9110 lets a header's name be.
func token(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

// reserved headers say where a message ends or where it goes.
func reserved(h string) bool {
	return strings.HasPrefix(h, "Proxy-") || slices.Contains([]string{
		"Host", "Connection", "Content-Length", "Content-Type", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive", "Expect", "Via", "Forwarded",
	}, h)
}
