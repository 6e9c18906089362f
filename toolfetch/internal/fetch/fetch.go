// Package fetch is the tool http_fetch: one web address, as text.
//
// Every request goes through the call's door, which alone decides what can be
// reached; a redirect is a new request there. It guarantees that a body, also
// an unpacked one, has a bound while it is read; that a redirect never leads
// from https to http, and takes neither body nor headers that identify to
// another host; and that what is hidden on a page in a way that its HTML shows
// does not come back. What a style sheet or a script hides it cannot know. The
// text is untrusted and says what it likes.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"
)

// Work is what a fetch needs beside its arguments.
type Work struct {
	Door  string   // socket of the way out
	CA    string   // file of the certificates that are trusted
	Plain []string // host:port to which requests go in plain, absolute form: the door makes TLS
	Limit int64    // of the result, in bytes
}

// Bounds.
const (
	maxRedirects = 5
	maxHead      = 256 << 10
	maxRaw       = 64 << 20 // on the wire
	maxBody      = 8 << 20  // unpacked
	maxHTML      = 4 << 20  // of a page that is made readable
)

// A failure is what the model is told.
type failure struct {
	code proto.Code
	text string
}

func (f *failure) Error() string { return string(f.code) + ": " + f.text }

func failed(format string, a ...any) error {
	return &failure{proto.CodeToolFailed, fmt.Sprintf(format, a...)}
}

// Do fetches.
func Do(ctx context.Context, w Work, a *tool.HTTPFetch) tool.Output {
	out, err := w.do(ctx, a)
	var f *failure
	switch {
	case err == nil:
		return out
	case ctx.Err() != nil:
		f = &failure{proto.CodeToolTimeout, "the time of this call was over before the answer was there"}
	case !errors.As(err, &f):
		f = &failure{proto.CodeToolFailed, err.Error()}
	}
	s, _ := tooltext.Clean([]byte(f.Error()))
	return tool.Output{Code: f.code, Text: strings.TrimSuffix(tooltext.Head(s, 1000), ".") + "."}
}

func (w Work) do(ctx context.Context, a *tool.HTTPFetch) (tool.Output, error) {
	h, err := first(a)
	if err != nil {
		return tool.Output{}, err
	}
	for n := 0; ; n++ {
		resp, end, err := w.exchange(ctx, h)
		if err != nil {
			return tool.Output{}, err
		}
		to := resp.Header.Get("Location")
		if !redirects(resp.StatusCode) || to == "" {
			defer end()
			return w.output(a, h.url, resp)
		}
		end()
		if n == maxRedirects {
			return tool.Output{}, failed("%s redirects more than %d times", a.URL, maxRedirects)
		}
		if h, err = h.next(resp.StatusCode, to); err != nil {
			return tool.Output{}, err
		}
	}
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// A hop is one request on the way to the answer.
type hop struct {
	method string
	url    *url.URL
	header http.Header
	body   string
}

func first(a *tool.HTTPFetch) (hop, error) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return hop{}, failed("%s is not a web address", a.URL)
	}
	h := hop{method: a.Method, url: u, header: http.Header{}, body: a.Body}
	h.header.Set("User-Agent", "boxmaker")
	h.header.Set("Accept", "text/html, application/json;q=0.9, text/*;q=0.9, */*;q=0.5")
	for name, value := range a.Headers {
		h.header.Set(name, value)
	}
	h.header.Set("Accept-Encoding", "gzip, deflate")
	return h, nil
}

// target is host:port.
func (h hop) target() string {
	port := h.url.Port()
	if port == "" {
		port = defaultPort(h.url.Scheme)
	}
	host := h.url.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// next is the request that a redirect asks for.
func (h hop) next(status int, location string) (hop, error) {
	u, err := h.url.Parse(location)
	if err != nil {
		return h, failed("%s redirects to something that is not a web address", h.url)
	}
	host, hostErr := tool.CleanHost(u.Hostname())
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || hostErr != nil:
		return h, failed("%s redirects to %s, which is not a web address that can be fetched", h.url, shown(u))
	case u.User != nil:
		return h, failed("%s redirects to an address with a user name in it, which is refused", h.url)
	case h.url.Scheme == "https" && u.Scheme == "http":
		return h, failed("%s redirects to %s, which is not encrypted; that is refused", h.url, shown(u))
	}
	if port := u.Port(); port == "" || port == defaultPort(u.Scheme) {
		u.Host = host
	} else {
		u.Host = host + ":" + port
	}
	u.Fragment, u.RawFragment = "", ""
	n := hop{method: h.method, url: u, header: h.header.Clone(), body: h.body}
	if status == http.StatusSeeOther || h.method == http.MethodPost && (status == http.StatusMovedPermanently || status == http.StatusFound) {
		n.method, n.body = http.MethodGet, ""
		n.header.Del("Content-Type")
	}
	if n.target() != h.target() || n.url.Scheme != h.url.Scheme {
		if n.body != "" || n.method == http.MethodPost {
			return h, failed("%s redirects the POST to %s; what was to be sent is not sent to another host", h.url, shown(u))
		}
		for name := range n.header { // what could identify stays with the first host
			if !strings.HasPrefix(name, "Accept") && name != "User-Agent" {
				n.header.Del(name)
			}
		}
	}
	return n, nil
}

// shown is a URL for a message: without its query, which can be long.
func shown(u *url.URL) string {
	v := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, Opaque: u.Opaque}
	return tooltext.Head(v.String(), 200)
}
