// Package mattermost speaks to a Mattermost server as a bot: requests over REST,
// events over a WebSocket.
//
// It guarantees that the token is in the Authorization header and nowhere else,
// and goes to the configured server only: no redirect is followed, no proxy of the
// environment asked, no error or log line holds it. Answers, frames and times are
// capped. A request that changes something ends in one of three ways: done, not
// done, or *Unsure. Run reconnects for ever, and says whenever events may have been
// lost; it notices a connection that has gone silent and a token that has been
// revoked under it.
//
// It does not guarantee that each event arrives, nor that it arrives once: whoever
// uses it catches up with Since and knows posts by their ids. It judges nobody's
// rights: an event says what the server says.
//
// The protocol is that of API version 4, observed on server 11.1. Members that it
// does not know it passes over; those that it needs it checks.
package mattermost

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"boxmaker/internal/secret"
)

// Config says which server, and with which patience. Only URL and Token are needed.
type Config struct {
	URL   string // https://host[:port][/path]; http:// for loopback only, or with Plain
	Token secret.Text
	Plain bool         // http:// to another machine: token and messages in the clear
	HTTP  *http.Client // its Transport is used; nil for one of our own
	Log   *slog.Logger
	Rand  func() float64 // [0, 1), for the jitter

	Timeout   time.Duration // of one request, 30 s
	Upload    time.Duration // of one upload, 5 min
	PingEvery time.Duration // 20 s; how long a silent connection is trusted
	PongIn    time.Duration // 10 s; how long an answer to that may take
	BackMin   time.Duration // 0.5 s; the first pause between two attempts
	BackMax   time.Duration // 60 s; the longest
}

// A Client is a bot's access to one server. Its methods may be used at the same
// time; Run only once at a time.
type Client struct {
	cfg  Config
	base string // without a slash at its end
	http *http.Client
}

// New checks the settings. It does not ask the server anything.
func New(cfg Config) (*Client, error) {
	base, err := checkURL(cfg.URL, cfg.Plain)
	if err != nil {
		return nil, err
	}
	tok := cfg.Token.Reveal()
	if len(tok) < 8 || len(tok) > 512 || strings.ContainsFunc(tok, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the Mattermost token is not one: it has 8 to 512 visible ASCII characters, usually 26")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	cfg.Upload = cmp.Or(cfg.Upload, 5*time.Minute)
	cfg.PingEvery = cmp.Or(cfg.PingEvery, 20*time.Second)
	cfg.PongIn = cmp.Or(cfg.PongIn, 10*time.Second)
	cfg.BackMin = cmp.Or(cfg.BackMin, 500*time.Millisecond)
	cfg.BackMax = cmp.Or(cfg.BackMax, time.Minute)
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{cfg: cfg, base: base, http: newHTTP(cfg.HTTP)}, nil
}

// newHTTP gives a client that follows no redirect, keeps no cookie, and has no
// time-out of its own: each request brings one.
func newHTTP(given *http.Client) *http.Client {
	var t http.RoundTripper = &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   4,
		MaxConnsPerHost:       8,
		IdleConnTimeout:       30 * time.Second,
		ForceAttemptHTTP2:     true,
	}
	if given != nil && given.Transport != nil {
		t = given.Transport
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CheckURL says why an address is not one that [New] takes.
func CheckURL(raw string, plain bool) error {
	_, err := checkURL(raw, plain)
	return err
}

// checkURL gives the address without what must not be in it.
func checkURL(raw string, plain bool) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("the URL of the Mattermost server cannot be read") // the error would quote it, with a password maybe
	}
	switch {
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return "", errors.New("the URL of the Mattermost server may have a host, a port and a path, no user, query or fragment")
	case u.Hostname() == "":
		return "", fmt.Errorf("the URL of the Mattermost server has no host: %q", raw)
	case u.Scheme == "https":
	case u.Scheme != "http":
		return "", fmt.Errorf("the URL of the Mattermost server begins with https://, not with %q", u.Scheme)
	case !plain && !loopback(u.Hostname()):
		return "", errors.New("http:// would send the token and every message in the clear; use https://, or allow it in the settings")
	}
	return strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), nil
}

// loopback reports an address of this machine. A name counts only if no resolver
// is asked for it.
func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// clean takes the token out of a text that came from outside.
func (c *Client) clean(s string) string {
	return strings.ReplaceAll(s, c.cfg.Token.Reveal(), "[secret]")
}

// cleanErr is an error whose words may hold what a server sent.
func (c *Client) cleanErr(err error) error {
	if err == nil || !strings.Contains(err.Error(), c.cfg.Token.Reveal()) {
		return err
	}
	return errors.New(c.clean(err.Error()))
}

// Port is the TCP port of an address whose form was checked.
func Port(address string) uint16 {
	u, err := url.Parse(address)
	if err != nil {
		return 443
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}
