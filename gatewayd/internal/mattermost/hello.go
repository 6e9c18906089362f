package mattermost

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Greeting is what a server says to who has no token.
type Greeting struct {
	URL     string    // as it was asked, without a slash at its end
	Expires time.Time // of its certificate; zero without TLS
}

// Elsewhere is an answer that sends us to another address.
type Elsewhere struct{ To string }

func (e *Elsewhere) Error() string { return "it sends us to " + e.To }

// Stranger is an answer that no Mattermost server gives.
type Stranger struct {
	Status int
	Says   string // the start of its text, cleaned
}

func (e *Stranger) Error() string {
	return fmt.Sprintf("it answers %d %s, and not as a Mattermost server does", e.Status, http.StatusText(e.Status))
}

// Hello asks a server whether it is a Mattermost server, before it is trusted with
// the token: that is not sent, and need not be known. An address that [New] would
// refuse is a [URLError].
func Hello(ctx context.Context, cfg Config) (Greeting, error) {
	base, err := checkURL(cfg.URL, cfg.Plain)
	if err != nil {
		return Greeting{}, &URLError{err}
	}
	g := Greeting{URL: base}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(cfg.Timeout, 30*time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v4/system/ping", nil)
	if err != nil {
		return g, err
	}
	req.Header.Set("User-Agent", "boxmaker-gatewayd")
	res, err := newHTTP(cfg.HTTP).Do(req)
	if err != nil {
		return g, err
	}
	defer func() { _ = res.Body.Close() }() // nothing is to be learned from it
	if res.TLS != nil && len(res.TLS.PeerCertificates) > 0 {
		g.Expires = res.TLS.PeerCertificates[0].NotAfter
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, errorLimit))
	if err != nil {
		return g, err
	}
	switch s := res.StatusCode; {
	case s >= 300 && s <= 399:
		return g, &Elsewhere{To: printable(res.Header.Get("Location"))}
	case s == http.StatusTooManyRequests:
		return g, &Busy{After: pause(res.Header)}
	case s == http.StatusBadGateway || s == http.StatusServiceUnavailable || s == http.StatusGatewayTimeout:
		return g, &Failed{Status: s, Text: printable(string(b))}
	}
	if !ping(b) {
		return g, &Stranger{Status: res.StatusCode, Says: printable(string(b))}
	}
	return g, nil
}

// ping reports whether this is what a server's /system/ping answers, be it well or not.
func ping(b []byte) bool {
	var said map[string]jsontext.Value
	return json.Unmarshal(b, &said, lax()) == nil && said["status"] != nil && said["AndroidLatestVersion"] != nil
}

// A URLError is an address that is not asked at all.
type URLError struct{ err error }

func (e *URLError) Error() string { return e.err.Error() }

// printable makes a stranger's words fit for a line.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if r := []rune(s); len(r) > textLimit {
		s = string(r[:textLimit]) + "…"
	}
	return strings.TrimSpace(s)
}
