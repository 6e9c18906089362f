package api

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/gen"
)

// A sink is where a completion goes: an event stream or one document.
type sink interface {
	begin() error
	role(p *progress, t *timings) error // the role delta, which progress events repeat
	delta(d gen.Delta, t *timings) error
	finish(reason string, u usage, t timings) error
	fail(e *chat.Error) error
	raw(event []byte) error
	wait(ctx context.Context, d time.Duration) error
}

// A head is what every chunk of a completion repeats.
type head struct {
	id      string
	created int64
}

// A stream is the event stream of one completion. It belongs to the request's
// goroutine: pings are written while that one waits.
type stream struct {
	head
	w     http.ResponseWriter
	rc    *http.ResponseController
	usage bool          // include_usage
	ping  time.Duration // 0: none
	last  time.Time     // of the last bytes
	buf   bytes.Buffer
}

func newStream(w http.ResponseWriter, h head, includeUsage bool, ping time.Duration) *stream {
	return &stream{head: h, w: w, rc: http.NewResponseController(w), usage: includeUsage, ping: ping}
}

func (s *stream) begin() error {
	h := s.w.Header()
	h.Set("X-Accel-Buffering", "no")
	h.Set("Content-Type", "text/event-stream")
	h.Set("Keep-Alive", "timeout=5, max=100")
	s.w.WriteHeader(http.StatusOK)
	s.last = time.Now()
	return s.rc.Flush()
}

func (s *stream) send(b []byte) error {
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	s.last = time.Now()
	return s.rc.Flush()
}

func (s *stream) event(v any) error {
	s.buf.Reset()
	s.buf.WriteString("data: ")
	if err := json.MarshalWrite(&s.buf, v); err != nil {
		return err
	}
	s.buf.WriteString("\n\n")
	return s.send(s.buf.Bytes())
}

func (s *stream) chunk(finish *string, delta any) chunk {
	return chunk{
		Choices: []chunkChoice{{Finish: finish, Delta: delta}}, Created: s.created, ID: s.id,
		Model: Alias, Fingerprint: Build, Object: "chat.completion.chunk",
	}
}

func (s *stream) role(p *progress, t *timings) error {
	c := s.chunk(nil, roleDelta{Role: "assistant"})
	c.Progress, c.Timings = p, t
	return s.event(c)
}

func (s *stream) delta(d gen.Delta, t *timings) error {
	var v any
	switch {
	case d.Call != nil:
		cd := callDelta{Index: d.Call.Index, Function: functionDelta{Name: d.Call.Name, Arguments: d.Call.Arguments}}
		if d.Call.Name != "" {
			cd.ID, cd.Type = randomID(), "function"
		}
		v = callsDelta{Calls: []callDelta{cd}}
	case d.Reasoning != "":
		v = reasoningDelta{d.Reasoning}
	default:
		v = contentDelta{d.Content}
	}
	c := s.chunk(nil, v)
	c.Timings = t
	return s.event(c)
}

func (s *stream) finish(reason string, u usage, t timings) error {
	c := s.chunk(&reason, noDelta{})
	if !s.usage {
		c.Timings = &t
	}
	if err := s.event(c); err != nil {
		return err
	}
	if s.usage {
		c := s.chunk(nil, nil)
		c.Choices, c.Usage, c.Timings = []chunkChoice{}, &u, &t
		if err := s.event(c); err != nil {
			return err
		}
	}
	return s.send([]byte("data: [DONE]\n\n"))
}

func (s *stream) fail(e *chat.Error) error { return s.event(wrapped{asHandlerError(e)}) }

func (s *stream) raw(event []byte) error {
	return s.send([]byte("data: " + string(event) + "\n\n"))
}

// wait passes time, with a ping whenever nothing was sent for too long.
func (s *stream) wait(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	for {
		left := time.Until(until)
		ping := false
		if due := time.Until(s.last.Add(s.ping)); s.ping > 0 && due < left {
			left, ping = due, true
		}
		if err := sleep(ctx, left); err != nil {
			return err
		}
		if !ping {
			return nil
		}
		if err := s.send([]byte(":\n\n")); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A document collects a completion that is not streamed.
type document struct {
	head
	w       http.ResponseWriter
	message bodyMessage
}

func (*document) begin() error                                    { return nil }
func (*document) role(*progress, *timings) error                  { return nil }
func (*document) raw([]byte) error                                { return nil }
func (d *document) fail(e *chat.Error) error                      { fail(d.w, e); return nil }
func (*document) wait(ctx context.Context, t time.Duration) error { return sleep(ctx, t) }

func (d *document) delta(x gen.Delta, _ *timings) error {
	d.message.Reasoning += x.Reasoning
	d.message.Content += x.Content
	if c := x.Call; c != nil {
		if c.Name != "" {
			d.message.Calls = append(d.message.Calls, bodyCall{Type: "function", Function: bodyFunction{Name: c.Name}, ID: randomID()})
		}
		d.message.Calls[len(d.message.Calls)-1].Function.Arguments += c.Arguments
	}
	return nil
}

func (d *document) finish(reason string, u usage, t timings) error {
	d.message.Role = "assistant"
	reply(d.w, http.StatusOK, completionBody{
		Choices: []bodyChoice{{Finish: reason, Message: d.message}}, Created: d.created, Model: Alias, Fingerprint: Build,
		Object: "chat.completion", Usage: u, ID: d.id, Timings: t,
	})
	return nil
}
