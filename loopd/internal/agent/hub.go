package agent

import (
	"context"
	"sync"

	"boxmaker/internal/proto"
)

// maxBehind bounds what a subscriber may be behind, in events after merging. A
// client that is slower loses its stream, not the turn: it can join again.
const maxBehind = 4096

// A hub hands the events of one session to those who follow it. It keeps the
// running turn's events, so that who joins late sees the whole turn.
type hub struct {
	mu     sync.Mutex // guards what follows
	origin string     // of the running turn, or empty
	turn   script
	subs   map[*Stream]struct{}
}

// A Stream is one client's view of a session.
type Stream struct {
	hub    *hub
	origin string // only events of this origin's turn; empty: all

	mu     sync.Mutex // guards what follows
	queue  script
	closed bool
	behind bool
	wake   chan struct{} // capacity 1
}

func newHub() *hub { return &hub{subs: map[*Stream]struct{}{}} }

// subscribe adds a stream. If its turn runs already, the turn's events so far
// come first; first stands in front of them.
func (h *hub) subscribe(origin string, first ...proto.Message) *Stream {
	s := &Stream{hub: h, origin: origin, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range first {
		s.push(m)
	}
	if h.origin != "" && (origin == "" || origin == h.origin) {
		for _, m := range h.turn.messages() {
			s.push(m)
		}
	}
	h.subs[s] = struct{}{}
	return s
}

// begin starts a turn's events, finish ends them.
func (h *hub) begin(origin string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.origin, h.turn = origin, nil
}

func (h *hub) finish(done *proto.Done) {
	h.send(done)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.origin, h.turn = "", nil
}

// send gives m to all who follow the running turn.
func (h *hub) send(m proto.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn = h.turn.add(m)
	for s := range h.subs {
		if s.origin == "" || s.origin == h.origin {
			s.push(m)
		}
	}
}

// tell gives m to those who follow the session as a whole.
func (h *hub) tell(m proto.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		if s.origin == "" {
			s.push(m)
		}
	}
}

// fail ends every stream with an error.
func (h *hub) fail(e *proto.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.push(e)
	}
}

func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs) > 0
}

// A script is a list of events in which pieces of text have been joined.
type script []line

type line struct {
	message proto.Message // nil for text
	text    []byte
	thought bool
}

// add appends m. A piece of text joins the piece before it, progress replaces
// progress, and a retry voids what the failed try had shown.
func (s script) add(m proto.Message) script {
	switch m := m.(type) {
	case *proto.Text:
		return s.addText(m.Text, false)
	case *proto.Thinking:
		return s.addText(m.Text, true)
	case *proto.Prefill:
		if n := len(s); n > 0 {
			if _, ok := s[n-1].message.(*proto.Prefill); ok {
				s[n-1].message = m
				return s
			}
		}
	case *proto.Notice:
		if m.Kind == proto.NoticeRetry {
			for len(s) > 0 && s[len(s)-1].message == nil {
				s = s[:len(s)-1]
			}
		}
	}
	return append(s, line{message: m})
}

func (s script) addText(text string, thought bool) script {
	if n := len(s); n > 0 && s[n-1].message == nil && s[n-1].thought == thought {
		s[n-1].text = append(s[n-1].text, text...)
		return s
	}
	return append(s, line{text: []byte(text), thought: thought})
}

func (s script) messages() []proto.Message {
	var out []proto.Message
	for _, l := range s {
		switch {
		case l.message != nil:
			out = append(out, l.message)
		case l.thought:
			out = append(out, &proto.Thinking{Text: string(l.text)})
		default:
			out = append(out, &proto.Text{Text: string(l.text)})
		}
	}
	return out
}

func (s *Stream) push(m proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.behind {
		return
	}
	s.queue = s.queue.add(m)
	if len(s.queue) > maxBehind {
		s.behind = true
		s.queue = script{}.add(&proto.Error{Code: proto.ErrSlowClient, Runbook: "slow-client",
			Text: "this client reads too slowly, so its stream was ended; the turn goes on: join it again"})
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next returns the events that have come since the last call, waiting for at
// least one. The error is the context's.
func (s *Stream) Next(ctx context.Context) ([]proto.Message, error) {
	for {
		s.mu.Lock()
		q := s.queue
		s.queue = nil
		s.mu.Unlock()
		if len(q) > 0 {
			return q.messages(), nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close leaves the session.
func (s *Stream) Close() {
	s.hub.mu.Lock()
	delete(s.hub.subs, s)
	s.hub.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}
