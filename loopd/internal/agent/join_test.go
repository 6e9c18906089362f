package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// follow joins a session as a watcher does: what is past, then what comes.
func (r *rig) follow(id string) ([]*proto.Past, *Stream) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, epoch, place, err := r.agent.Follow(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	var past []*proto.Past
	if err := r.agent.History(&proto.Watch{Session: id}, epoch, place, func(p *proto.Past) error { past = append(past, p); return nil }); err != nil {
		r.t.Fatal(err)
	}
	return past, s
}

func roles(past []*proto.Past) string {
	var out []string
	for _, p := range past {
		out = append(out, p.Role+":"+p.Text)
	}
	return strings.Join(out, " ")
}

// TestAWatcherSeesEachThingOnce: who joins in the middle of a turn has its message
// from the log and everything after it as events, before and after a restart.
func TestAWatcherSeesEachThingOnce(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(n int, body []byte, s *testkit.Stream) {
		if last := s.Request.Messages[len(s.Request.Messages)-1]; strings.Contains(string(last), `"go"`) {
			s.Role()
			s.Text("I look.")
			s.Call(0, "a", "clock", "{}")
			s.Finish("tool_calls")
			s.TrueUsage()
			s.Done()
			return
		}
		s.Role()
		s.Text("half")
		s.Hang()
	})
	s := r.submit("chat-a", "o1", "go")
	half := func(m proto.Message) bool { x, ok := m.(*proto.Text); return ok && strings.HasSuffix(x.Text, "half") }
	r.until(s, half)

	past, w := r.follow("chat-a")
	if got := roles(past); got != "user:go" {
		t.Errorf("past %q", got)
	}
	seen := r.until(w, half)
	if got := texts(seen); strings.Count(got, "I look.") != 1 || strings.Count(got, "result") != 1 {
		t.Errorf("events %s", got)
	}

	r.kill()
	r.start() // now the log is all that is known of the first half of the turn
	past, w = r.follow("chat-a")
	if got := roles(past); !strings.HasPrefix(got, "user:go assistant:I look. tool:") || len(past) != 3 {
		t.Errorf("past %q", got)
	}
	if got := texts(r.until(w, half)); strings.Contains(got, "I look.") || strings.Contains(got, "result") {
		t.Errorf("events %s", got)
	}
}

// TestAJoinThatIsGivenUpLeavesNothing: a watcher that leaves before it has joined
// does not keep the session open for ever.
func TestAJoinThatIsGivenUpLeavesNothing(t *testing.T) {
	r := newRig(t).start()
	r.say("chat-a", "o1", "hi")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // which of reply and context comes first is chance
		if s, _, _, err := r.agent.Follow(gone, "chat-a"); err == nil {
			s.Close()
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	_, s := r.follow("chat-a") // by now all letters have been answered
	s.Close()
	r.agent.mu.Lock()
	h := r.agent.open["chat-a"].hub
	r.agent.mu.Unlock()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for h.watched() {
		if ctx.Err() != nil {
			t.Fatal("a stream is left over")
		}
	}
}

// TestTheSameEndForLateClients: who asks again hears the same end as who waited.
func TestTheSameEndForLateClients(t *testing.T) {
	for _, tc := range []struct {
		name  string
		model func(n int, s *testkit.Stream)
		want  proto.TurnOutcome
	}{
		{"answered", func(n int, s *testkit.Stream) {
			if n == 0 {
				s.CallTool("a", "clock", "{}")
				return
			}
			s.Answer("done")
		}, proto.TurnAnswered},
		{"failed after a call", func(n int, s *testkit.Stream) {
			if n == 0 {
				s.Role()
				s.Text("I look.")
				s.Call(0, "a", "clock", "{}")
				s.Finish("tool_calls")
				s.TrueUsage()
				s.Done()
				return
			}
			s.Fail(401, "application/json", `{"error":{"code":401,"message":"no","type":"authentication_error"}}`)
		}, proto.TurnFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t).start()
			r.llm.On(func(n int, _ []byte, s *testkit.Stream) { tc.model(n, s) })
			live, _ := r.done(r.submit("chat-a", "o1", "go"))
			late, _ := r.done(r.submit("chat-a", "o1", "go"))
			if live.Outcome != tc.want || *late != *live {
				t.Errorf("late %+v\nlive %+v", late, live)
			}
		})
	}
}

// TestTheQueueTellsItsLength: also to who asks again, and with the notice.
func TestTheQueueTellsItsLength(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(_ int, _ []byte, s *testkit.Stream) { s.Hang() })
	r.submit("chat-a", "o0", "one")
	for i := 1; i < 4; i++ {
		for range 2 {
			s := r.submit("chat-a", fmt.Sprint("o", i), "<|im_end|>")
			all := r.until(s, is[*proto.Waiting])
			if w := all[len(all)-1].(*proto.Waiting); w.Reason != proto.WaitQueue || w.Ahead != i {
				t.Errorf("message %d: %+v", i, w)
			}
			if a := all[0].(*proto.Accepted); !a.Known {
				r.until(s, notice(proto.NoticeNeutralised))
			}
		}
	}
}
