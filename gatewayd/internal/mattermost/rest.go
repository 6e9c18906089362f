package mattermost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits on what a server may send.
const (
	answerLimit = 1 << 20  // of one thing
	listLimit   = 48 << 20 // of a list of posts: 1,000 of them as the server bounds them by default, with room
	errorLimit  = 64 << 10
	textLimit   = 300 // of a server's words in an error, in runes
	pauseLimit  = 10 * time.Minute
)

// lax reads what a server sends: members may be new, bytes that are no UTF-8
// become U+FFFD. A name that comes twice stays an error.
func lax() json.Options { return jsontext.AllowInvalidUTF8(true) }

// A request is one of the REST API. The zero method is GET, which changes nothing.
type request struct {
	method string
	path   string // below /api/v4
	in     any    // as JSON
	raw    io.Reader
	mime   string // of raw
	limit  int64  // of the answer
	time   time.Duration
	safe   bool // changes nothing that matters, or the same way when it comes twice: never Unsure
}

// do sends a request and reads its answer into out, unless that is nil.
func (c *Client) do(ctx context.Context, r request, out any) error {
	if r.method == "" {
		r.method, r.safe = http.MethodGet, true
	}
	if r.limit == 0 {
		r.limit = answerLimit
	}
	if r.time == 0 {
		r.time = c.cfg.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, r.time)
	defer cancel()
	what := r.method + " " + r.path
	body := r.raw
	if r.in != nil {
		b, err := json.Marshal(r.in)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err) // for instance text that is no UTF-8
		}
		body, r.mime = bytes.NewReader(b), "application/json"
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// A new attempt begins only if the one before sent nothing that counts.
		GetConn: func(string) { sent.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+"/api/v4"+r.path, body)
	if err != nil {
		return fmt.Errorf("%s: %w", what, c.cleanErr(err))
	}
	c.headers(req.Header)
	if r.mime != "" {
		req.Header.Set("Content-Type", r.mime)
	}
	err = c.exchange(req, r.limit, out)
	if err == nil {
		return nil
	}
	if !r.safe && sent.Load() && !certain(err) {
		err = &Unsure{Err: c.cleanErr(err)}
	}
	return fmt.Errorf("%s: %w", what, c.cleanErr(err))
}

// certain reports an error which says that nothing was changed.
func certain(err error) bool {
	var refused *Refused
	var busy *Busy
	return errors.As(err, &refused) || errors.As(err, &busy)
}

func (c *Client) headers(h http.Header) {
	h.Set("Authorization", "Bearer "+c.cfg.Token.Reveal())
	h.Set("User-Agent", "boxmaker-gatewayd")
}

// exchange is one request on the wire.
func (c *Client) exchange(req *http.Request, limit int64, out any) error {
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // nothing is to be learned from it
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return c.failure(res)
	}
	body := &capped{r: res.Body, left: limit}
	if out == nil {
		_, err = io.Copy(io.Discard, body)
	} else {
		err = json.UnmarshalRead(body, out, lax())
	}
	if err != nil {
		if errors.Is(err, ErrTooBig) {
			err = ErrTooBig // without the reader's words on where it was
		}
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// capped is a reader that fails where io.LimitReader would say that all is read.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, ErrTooBig
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.left -= int64(n)
	return n, err
}

// failure makes an error of an answer that is none of 2xx.
func (c *Client) failure(res *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, errorLimit))
	if err != nil {
		b = nil // the status alone says enough
	}
	var said struct {
		ID      string `json:"id"`
		Message string `json:"message"`
	}
	if json.Unmarshal(b, &said, lax()) != nil { // plain text, or a page of a proxy before the server
		said.ID, said.Message = "", string(b)
	}
	id, text := c.words(said.ID), c.words(said.Message)
	switch s := res.StatusCode; {
	case s == http.StatusTooManyRequests:
		return &Busy{After: pause(res.Header)}
	case s >= 300 && s <= 399:
		return &Refused{Status: s, ID: id, Text: "it sends us to another address, and the token does not follow; is the URL in the settings the server's own?"}
	case s >= 400 && s <= 499 && s != http.StatusRequestTimeout:
		return &Refused{Status: s, ID: id, Text: text}
	default:
		return &Failed{Status: s, ID: id, Text: text}
	}
}

// words are what a server said, fit for a line of a log.
func (c *Client) words(s string) string { return printable(c.clean(s)) }

// pause reads Retry-After in seconds; the server writes no dates there.
func pause(h http.Header) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || n < 1 {
		n = 1
	}
	return min(time.Duration(min(n, 1<<20))*time.Second, pauseLimit)
}
