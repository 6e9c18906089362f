package realllama

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/proto"
)

// stopAt stops the session at the first event that is the one wanted.
func stopAt(h *house, session string, wanted func(proto.Message) bool) func(proto.Message) {
	var once sync.Once
	return func(e proto.Message) {
		if wanted(e) {
			once.Do(func() { h.stop(session) })
		}
	}
}

func TestStopInPrefill(t *testing.T) {
	each(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "")
		h.free("chat-stop", "Hello.")()
		o := h.start("chat-stop", "Read this:"+filler(4500), stopAt(h, "chat-stop", func(e proto.Message) bool {
			p, ok := e.(*proto.Prefill)
			return ok && p.Done > p.Cached && p.Done < p.Total
		}))()
		if o.Done.Outcome != proto.TurnStopped {
			t.Fatalf("outcome %s", o.Done.Outcome)
		}
		d.server.waitFree(0)
		xs := d.exchanges(0)
		if last := xs[len(xs)-1].Stream; last.Timings != nil || last.Reasoning != "" {
			t.Errorf("the server got to %+v before the stop", last)
		}
		wantUsable(t, h, d, "chat-stop")
	})
}

func TestStopInGeneration(t *testing.T) {
	each(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "")
		if m.tiny() {
			d.drone(0)
		}
		n := 0
		o := h.start("chat-stop", "Tell me a long story, and think about it well.", stopAt(h, "chat-stop", func(e proto.Message) bool {
			switch e.(type) {
			case *proto.Thinking, *proto.Text:
				n++
			}
			return n == 20
		}))()
		if o.Done.Outcome != proto.TurnStopped {
			t.Fatalf("outcome %s", o.Done.Outcome)
		}
		d.server.waitFree(0)
		if x := d.exchanges(0)[0].Stream; x.Done || x.Timings != nil {
			t.Errorf("the stream ran to its end: %+v", x)
		}
		inc := records[*proto.Incomplete](h, "chat-stop")
		if len(inc) != 1 || inc[0].Why != proto.WhyStopped || inc[0].Thinking+inc[0].Text == "" || !strings.HasPrefix(inc[0].Thinking, o.thinking()) {
			t.Errorf("what is kept of the reply: %+v", inc)
		}
		if a := records[*proto.Assistant](h, "chat-stop"); len(a) != 0 {
			t.Errorf("a stopped reply became a message: %s", a[0].Message)
		}
		wantUsable(t, h, d, "chat-stop")
	})
}

// occupy lets another program work on a slot until the returned function ends
// it; that may be called more than once.
func occupy(t *testing.T, s *server, slot int) (end func()) {
	t.Helper()
	k := newTalk(s, slot).user("A long story.")
	tk := s.model.tokens
	body := k.body(object{"max_tokens": 30000, "logit_bias": [][2]int{{tk["turn-end"], -100}, {tk["think-stop"], -100}, {tk["think-end"], -100}}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.chatUntil(ctx, body) })
	s.waitBusy(slot)
	return func() {
		cancel()
		wg.Wait()
	}
}

// A busy slot is silent: no headers, no pings, until it is free.
func TestBusySlotIsWaitedFor(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "[upstream]\nidle = \"1s\"\n")
		end := occupy(t, d.server, 0)
		defer end()
		time.AfterFunc(2*time.Second, end) // longer than silence may last once a stream has begun
		h.free("chat-wait", "Hello.")()
		wantUsable(t, h, d, "chat-wait")
	})
}

func TestStopWhileTheSlotIsBusy(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "")
		end := occupy(t, d.server, 0)
		defer end()
		wait := h.start("chat-wait", "Hello.", nil)
		waitUntil(t, "the request is at the server", func() bool { return len(d.exchanges(0)) == 1 })
		h.stop("chat-wait")
		if o := wait(); o.Done.Outcome != proto.TurnStopped {
			t.Errorf("outcome %s", o.Done.Outcome)
		}
		if !d.server.busy(0) {
			t.Error("the stop waited for the slot")
		}
		end()
		wantUsable(t, h, d, "chat-wait")
	})
}
