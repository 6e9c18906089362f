package realllama

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"boxmaker/internal/proto"
)

// filler is text of about n tokens for a tiny model, and fewer for others.
func filler(n int) string { return strings.Repeat(" kettle", n) }

// evict takes a session's slot away and gives the turn after.
func evict(t *testing.T, h *house, d *desk) outcome {
	t.Helper()
	d.say(0, "hello", "clock", "answer", "bye")
	h.turn("chat-evicted", "Hello.", proto.TurnAnswered)
	newTalk(d.server, 0).user("I am another program, and this is my slot now.").reply(nil)
	return h.turn("chat-evicted", "What time is it?", proto.TurnAnswered)
}

func TestCase_P10_EvictionIsANotice(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "", "--cache-ram", "0")
		o := evict(t, h, d)
		held := d.exchanges(0)[0].Stream.Timings.next()
		if n := o.notices(); !slices.Equal(n, []proto.NoticeKind{proto.NoticeColdCache}) {
			t.Errorf("notices %v, want one of a cold cache", n)
		}
		for _, e := range o.Events {
			if n, ok := e.(*proto.Notice); ok && (n.Lost == 0 || n.Lost > int64(held) || n.Text == "") {
				t.Errorf("cost of the cold cache: %+v, the slot held %d", n, held)
			}
		}
		var lost []int64
		for _, r := range records[*proto.Completion](h, "chat-evicted") {
			lost = append(lost, r.Lost)
		}
		if len(lost) != 3 || lost[0] != 0 || lost[1] == 0 || lost[2] != 0 {
			t.Errorf("lost tokens in the log: %v", lost)
		}
		if n := h.turn("chat-evicted", "Bye.", proto.TurnAnswered).notices(); n != nil {
			t.Errorf("notices of the turn after: %v", n)
		}
		xs := d.exchanges(0)
		wantExtensions(t, h, "chat-evicted", xs)
		wantExactCache(t, xs[1:])
	})
}

// With its cache in host memory, which is the default, the server brings an
// evicted conversation back into a slot that is in use: nothing is lost.
func TestEvictionHealedByTheServer(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "")
		if n := evict(t, h, d).notices(); n != nil {
			t.Errorf("notices %v", n)
		}
		wantExactCache(t, d.exchanges(0))
	})
}

func TestCase_P28_ContextOverflow(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		const window = 5120
		h, d := newDeskHouse(t, m, "[sampling]\nmax_tokens = 2000\nthinking_tokens = 2000\n", "-c", fmt.Sprint(3*window))
		full := func(session, text string) {
			t.Helper()
			o := h.turn(session, text, proto.TurnContextFull)
			if o.Done.Text == "" || o.Done.Runbook == "" {
				t.Errorf("the owner is not told what to do: %+v", o.Done)
			}
			d.say(0, "bye")
			if o := h.turn(session, "Never mind.", proto.TurnAnswered); o.Done.Answer != replies()["bye"].say {
				t.Errorf("answer of the turn after: %q", o.Done.Answer)
			}
			if n := h.log(session).Number; n != 2 {
				t.Errorf("%s goes on in epoch %d, want 2", session, n)
			}
		}
		// the prompt alone does not fit
		d.say(0, "hello")
		h.turn("chat-long", "Hello.", proto.TurnAnswered)
		full("chat-long", "Read this:"+filler(2*window))

		// the prompt fits, the reply does not: first within the thinking, then within the answer
		d.drone(0)
		full("chat-think", "Talk."+filler(window*5/8))
		d.ban(0, "turn-end", "call", "late-call")
		full("chat-talk", "Talk."+filler(window*5/8))
	})
}

func TestThinkingCap(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "[sampling]\nthinking_tokens = 40\nmax_tokens = 600\n")
		d.think(0)
		o := h.turn("chat-cap", "Think.", proto.TurnAnswered)
		if n := o.notices(); !slices.Equal(n, []proto.NoticeKind{proto.NoticeThinkingCapped}) {
			t.Errorf("notices %v", n)
		}
		if r := records[*proto.Completion](h, "chat-cap"); len(r) == 0 || !r[0].Capped {
			t.Errorf("the log doesn't say that the cap was hit: %d completions", len(r))
		}
		if words := len(strings.Fields(o.thinking())); words < 40 || words > 80 {
			t.Errorf("%d words of thinking with a cap of 40 tokens", words)
		}
		wantUsable(t, h, d, "chat-cap")
		xs := d.exchanges(0)
		if m.style == "xml" { // a JSON-style template makes the cap cost a rollback, whatever its wording
			wantExactCache(t, xs)
		}
	})
}

func TestCase_P12_ServerKilledAndRestarted(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "")
		d.say(0, "hello")
		h.turn("chat-kill", "Hello.", proto.TurnAnswered)
		d.drone(0)
		d.say(0, "answer")
		streaming, once := make(chan struct{}), sync.Once{}
		wait := h.start("chat-kill", "What time is it?", func(e proto.Message) {
			if _, ok := e.(*proto.Thinking); ok {
				once.Do(func() { close(streaming) })
			}
		})
		<-streaming
		d.crash()
		d.revive()
		o := wait()
		if o.Done.Outcome != proto.TurnAnswered || o.Done.Answer != replies()["answer"].say {
			t.Fatalf("outcome %s: %s %q", o.Done.Outcome, o.Done.Text, o.Done.Answer)
		}
		if n := o.notices(); !slices.Equal(n, []proto.NoticeKind{proto.NoticeIncomplete, proto.NoticeRetry, proto.NoticeColdCache}) {
			t.Errorf("notices %v", n)
		}
		xs := d.exchanges(0)
		if len(xs) != 3 || string(xs[1].Body) != string(xs[2].Body) {
			t.Errorf("%d requests, and the second try has other bytes than the first", len(xs))
		}
		wantUsable(t, h, d, "chat-kill")
		xs = d.exchanges(0)
		wantExactCache(t, xs[2:])
	})
}

// The connection breaks while the server goes on.
func TestStreamCut(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "")
		d.drone(0)
		d.cutLast(0, 8<<10)
		d.say(0, "answer")
		o := h.turn("chat-cut", "What time is it?", proto.TurnAnswered)
		if o.Done.Answer != replies()["answer"].say {
			t.Errorf("answer %q", o.Done.Answer)
		}
		if n := o.notices(); !slices.Equal(n, []proto.NoticeKind{proto.NoticeIncomplete, proto.NoticeRetry}) {
			t.Errorf("notices %v", n)
		}
		if inc := records[*proto.Incomplete](h, "chat-cut"); len(inc) != 1 || inc[0].Why != proto.WhyCut || inc[0].Thinking == "" {
			t.Errorf("what is kept: %+v", inc)
		}
		if xs := d.exchanges(0); len(xs) != 2 || string(xs[0].Body) != string(xs[1].Body) {
			t.Errorf("%d requests, and the second try has other bytes than the first", len(xs))
		}
		wantUsable(t, h, d, "chat-cut")
	})
}

func TestServerStaysAway(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "[upstream]\nreach = \"500ms\"\n")
		d.say(0, "hello")
		h.turn("chat-away", "Hello.", proto.TurnAnswered)
		d.crash()
		o := h.turn("chat-away", "Are you there?", proto.TurnFailed)
		if o.Done.Text == "" || o.Done.Runbook != "server-unreachable" {
			t.Errorf("the owner reads %q (runbook %s)", o.Done.Text, o.Done.Runbook)
		}
		d.revive()
		wantUsable(t, h, d, "chat-away")
	})
}

// A server that stops in its tracks sends neither tokens nor pings.
func TestServerStalls(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		h, d := newDeskHouse(t, m, "[upstream]\nidle = \"1500ms\"\n")
		d.drone(0)
		var once sync.Once
		o := h.start("chat-stall", "Think.", func(e proto.Message) {
			if _, ok := e.(*proto.Thinking); ok {
				once.Do(d.server.freeze)
			}
		})()
		if o.Done.Outcome != proto.TurnFailed || o.Done.Runbook != "server-stalled" {
			t.Errorf("outcome %s: %s (runbook %s)", o.Done.Outcome, o.Done.Text, o.Done.Runbook)
		}
		d.server.thaw()
		if inc := records[*proto.Incomplete](h, "chat-stall"); len(inc) != 1 || inc[0].Why != proto.WhyStalled || inc[0].Thinking == "" {
			t.Errorf("what is kept: %+v", inc)
		}
		wantUsable(t, h, d, "chat-stall")
	})
}
