package agent

import (
	"context"
	"slices"
	"sync"
	"unicode/utf8"

	"boxmaker/internal/proto"
)

// maxBehind bounds what a subscriber may be behind, in events after merging. A
// client that is slower loses its stream, not the turn: it can join again.
const maxBehind = 4096

// maxPiece bounds the text that is joined into one event, in bytes: six times as
// much, which is what JSON can make of it, still fits a frame.
const maxPiece = 64 << 10

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
	bound  int // of queue; larger while it has not caught up with its turn
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
	s.bound = maxBehind + len(first) + len(h.turn)
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

// add appends m. A piece of text joins the piece before it, progress and places in
// a line replace each other, and a retry voids what the failed try had shown.
func (s script) add(m proto.Message) script {
	switch m := m.(type) {
	case *proto.Text:
		return s.addText(m.Text, false)
	case *proto.Thinking:
		return s.addText(m.Text, true)
	case *proto.Notice:
		if m.Kind == proto.NoticeRetry {
			s = s.voidTry()
		}
	}
	if n := len(s); n > 0 && replaces(s[n-1].message, m) {
		s[n-1].message = m
		return s
	}
	return append(s, line{message: m})
}

// replaces reports whether m makes the event before it worthless.
func replaces(old, m proto.Message) bool {
	switch m := m.(type) {
	case *proto.Prefill:
		_, ok := old.(*proto.Prefill)
		return ok
	case *proto.Waiting:
		w, ok := old.(*proto.Waiting)
		return ok && w.Reason == m.Reason
	default:
		return false
	}
}

// voidTry takes out the text that has come since the last call.
func (s script) voidTry() script {
	from := len(s)
	for from > 0 {
		if _, ok := s[from-1].message.(*proto.Result); ok {
			break
		}
		from--
	}
	return append(s[:from], slices.DeleteFunc(s[from:], func(l line) bool { return l.message == nil })...)
}

func (s script) addText(text string, thought bool) script {
	for text != "" {
		if n := len(s); n == 0 || s[n-1].message != nil || s[n-1].thought != thought || len(s[n-1].text) > maxPiece-utf8.UTFMax {
			s = append(s, line{thought: thought})
		}
		l := &s[len(s)-1]
		n := min(len(text), maxPiece-len(l.text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		l.text = append(l.text, text[:n]...)
		text = text[n:]
	}
	return s
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
	if len(s.queue) > s.bound {
		s.behind = true
		s.queue = script{}.add(&proto.Error{
			Code: proto.ErrSlowClient, Runbook: "slow-client",
			Text: "this client reads too slowly, so its stream was ended; the turn goes on: join it again",
		})
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next returns the events that have come since the last call, waiting for at
// least one. The error is the context's.
func (s *Stream) Next(ctx context.Context) ([]proto.Message, error) {
	for ended := false; ; {
		s.mu.Lock()
		q := s.queue
		s.queue = nil
		if len(q) > 0 {
			s.bound = maxBehind
		}
		s.mu.Unlock()
		if len(q) > 0 {
			return q.messages(), nil
		}
		if ended {
			return nil, ctx.Err()
		}
		select {
		case <-s.wake:
		case <-ctx.Done(): // what came before is read first: perhaps it says why
			ended = true
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
