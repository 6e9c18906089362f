package bridge

import (
	"strings"
	"testing"
)

func TestAMessageIsAnswered(t *testing.T) {
	r := newRig(t)
	r.start()
	first := r.ask("", "hello")
	r.wants(first.ID, "answer to hello")
	second := r.ask(first.ID, "and then?")
	r.until("the second answer", func() bool { return len(r.said(first.ID)) == 2 })
	r.quiet()
	if got := r.said(first.ID); got[1] != "answer to and then?" {
		t.Errorf("%q", got)
	}
	other := r.ask("", "something else")
	r.wants(other.ID, "answer to something else")
	r.quiet()
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	for origin, session := range map[string]string{first.ID: "mm-" + first.ID, second.ID: "mm-" + first.ID, other.ID: "mm-" + other.ID} {
		if got := r.loop.turns[origin]; got == nil || got.session != session {
			t.Errorf("%+v, want session %s", got, session)
		}
	}
	if len(r.loop.delivered) != 3 {
		t.Errorf("%d are noted as delivered", len(r.loop.delivered))
	}
}

// The post that says to wait is there at once, is edited, and becomes the answer.
func TestThePostThatSaysToWait(t *testing.T) {
	r := newRig(t)
	r.start()
	p := r.ask("", "hold it")
	r.until("a post that says to wait", func() bool { s := r.said(p.ID); return len(s) == 1 && strings.HasPrefix(s[0], "⏳") })
	second := r.ask(p.ID, "and this")
	r.until("it says that it is queued", func() bool {
		s := r.said(p.ID)
		return len(s) == 2 && strings.Contains(s[1], "Queued: 1 message is before")
	})
	r.loop.release("hold it")
	r.until("both are answered", func() bool {
		s := r.said(p.ID)
		return s[0] == "answer to hold it" && s[1] == "answer to and this"
	})
	r.quiet()
	_ = second
}

// While the agent is at work its server shows that it is typing, in that thread; not
// while a message waits for another, or for loopd.
func TestTyping(t *testing.T) {
	r := newRig(t)
	r.start()
	idle := r.ask("", "hold")
	busy := r.ask("", "hold and think")
	r.until("it types", func() bool { return len(r.Requests("POST", "/users/me/typing")) > 0 })
	for _, q := range r.Requests("POST", "/users/me/typing") {
		if !strings.Contains(q.Body, busy.ID) || strings.Contains(q.Body, idle.ID) {
			t.Error(q.Body)
		}
	}
	r.until("it says what it does", func() bool { return strings.HasPrefix(r.said(busy.ID)[0], "⏳ _Thinking") })
	r.loop.release("hold")
	r.loop.release("hold and think")
	r.one(idle, busy)
}
