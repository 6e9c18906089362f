package llama

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxHead   = 64 << 10 // bytes of a response head
	firstWait = 100 * time.Millisecond
	maxWait   = 2 * time.Second
)

// request is what to send, and how long the server may then be silent.
type request struct {
	method, target string
	body           []byte
	first          time.Duration
}

// exchange is a request that has been sent and the head of its answer. The body
// is read from it; closing it cancels what the server does.
type exchange struct {
	*link
	resp *http.Response
	sent time.Time
	stop func() bool // ends the watch of the context
}

func (x *exchange) close() {
	x.stop()
	_ = x.Conn.Close() // not resp.Body.Close, which would read on to the end
}

// again says whether and why a failed attempt may be made once more, although
// the server has not begun to work on it.
type again int

const (
	never     again = iota
	reaching        // no connection to the server
	modelLoad       // 503
)

// open sends a request until the server takes it: while the server cannot be
// reached, up to Limits.Reach, and while it loads a model, up to Limits.Load.
func (c *Client) open(ctx context.Context, r request, on func(Event)) (*exchange, *Error) {
	var spent [modelLoad + 1]time.Duration
	limit := [...]time.Duration{reaching: c.limits.Reach, modelLoad: c.limits.Load}
	queued := false
	sent := func() {
		if !queued {
			queued = true
			on(Queued{})
		}
	}
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		began := time.Now()
		x, why, err := c.attempt(ctx, r, sent)
		if err == nil || why == never {
			return x, err
		}
		spent[why] += time.Since(began)
		if spent[why] >= limit[why] {
			err.Message = clean(fmt.Sprintf("%s; tried for %v", err.Message, limit[why]))
			return nil, err
		}
		wait = min(wait, limit[why]-spent[why])
		if why == reaching {
			on(Unreachable{Wait: wait})
		} else {
			on(Loading{Wait: wait})
		}
		if !sleep(ctx, wait) {
			return nil, stopped(ctx)
		}
		spent[why] += wait
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func stopped(ctx context.Context) *Error {
	e := fail(proto.WhyStopped, "the request was cancelled")
	e.cause = context.Cause(ctx)
	return e
}

// attempt sends the request once and reads the head of the answer.
func (c *Client) attempt(ctx context.Context, r request, sent func()) (*exchange, again, *Error) {
	conn, err := c.dial(ctx)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			_ = conn.Close()
		}
		return nil, never, stopped(ctx)
	case err != nil:
		return nil, reaching, fail(proto.WhyUnreachable, "no connection: %v", err)
	}
	x := &exchange{link: &link{Conn: conn, first: r.first, idle: c.limits.Idle, head: maxHead}, sent: time.Now()}
	x.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	why, e := x.do(r, sent)
	if e == nil {
		return x, never, nil
	}
	x.close()
	if ctx.Err() != nil {
		return nil, never, stopped(ctx)
	}
	return nil, why, e
}

func (x *exchange) do(r request, sent func()) (again, *Error) {
	writeErr := x.send(r)
	if errors.Is(writeErr, os.ErrDeadlineExceeded) {
		return never, fail(proto.WhyStalled, "the server did not take the request within %v", x.first)
	}
	if writeErr == nil {
		sent()
	}
	// A server that refuses a request may close before it has read all of it,
	// and still have answered.
	br := bufio.NewReaderSize(x.link, 16<<10)
	resp, err := http.ReadResponse(br, &http.Request{Method: r.method})
	if err != nil {
		return never, x.broken(err)
	}
	x.resp, x.head = resp, -1
	switch {
	case resp.StatusCode == http.StatusBadGateway && resp.Header.Get("X-Boxmaker") == "upstream-unreachable":
		return reaching, &Error{Why: proto.WhyUnreachable, Status: resp.StatusCode, Message: "inferproxy cannot reach the server"}
	case resp.StatusCode == http.StatusServiceUnavailable:
		e := x.refused()
		if e.Why == proto.WhyUnreachable {
			return modelLoad, e
		}
		return never, e
	}
	return never, nil
}

func (x *exchange) send(r request) error {
	head := []byte(r.method + " " + r.target + " HTTP/1.1\r\nHost: llama-server\r\nConnection: close\r\nUser-Agent: boxmaker\r\n")
	if r.method == http.MethodPost {
		head = append(head, "Content-Type: application/json\r\nContent-Length: "...)
		head = append(strconv.AppendInt(head, int64(len(r.body)), 10), "\r\n"...)
	}
	head = append(head, "\r\n"...)
	if err := x.SetWriteDeadline(time.Now().Add(x.first)); err != nil {
		return err
	}
	out := net.Buffers{head}
	if len(r.body) > 0 { // an empty write is an event of its own on an in-memory pipe
		out = append(out, r.body)
	}
	_, err := out.WriteTo(x.Conn)
	return err
}

// broken says what a failure to read means.
func (x *exchange) broken(err error) *Error {
	var e *Error
	var system *net.OpError
	switch {
	case errors.Is(err, errStalled) && !x.heard:
		e = fail(proto.WhyStalled, "no answer within %v", x.first)
	case errors.Is(err, errStalled):
		e = fail(proto.WhyStalled, "nothing came for %v", x.idle)
	case x.ended, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.As(err, &system):
		e = fail(proto.WhyCut, "the connection ended before the answer did")
	default:
		e = fail(proto.WhyBadData, "the answer is not what llama-server sends: %v", err)
	}
	e.cause = err
	return e
}

// refused reads the body of an answer that is not 200 and says what it means.
func (x *exchange) refused() *Error {
	status := x.resp.StatusCode
	body, _ := io.ReadAll(io.LimitReader(x.resp.Body, maxHead)) // what came is enough; the status stands
	var doc struct {
		Error jsontext.Value `json:"error"`
	}
	e := apiError{}
	err := json.Unmarshal(body, &doc)
	switch {
	case err == nil && doc.Error.Kind() == '{':
		err = json.Unmarshal(doc.Error, &e)
	case err == nil && doc.Error.Kind() == '"': // not llama-server's own form, but common
		err = json.Unmarshal(doc.Error, &e.Message)
	case err == nil:
		err = errors.New("no error member")
	}
	if err == nil {
		return classify(status, e)
	}
	out := classify(status, apiError{Message: fmt.Sprintf("%s, with a body of type %.60q that llama-server would not send",
		http.StatusText(status), x.resp.Header.Get("Content-Type"))})
	if out.Why == proto.WhyServerError && status < 500 && status != http.StatusTooManyRequests {
		out.Why = proto.WhyBadData
	}
	return out
}

// expect checks that the answer is 200 and of the given media type.
func (x *exchange) expect(media string) *Error {
	if x.resp.StatusCode != http.StatusOK {
		return x.refused()
	}
	header := x.resp.Header.Get("Content-Type")
	if got, _, err := mime.ParseMediaType(header); err != nil || got != media {
		e := fail(proto.WhyBadData, "the answer has content type %.60q instead of %s, so this is hardly llama-server", header, media)
		e.Status = x.resp.StatusCode
		return e
	}
	return nil
}
