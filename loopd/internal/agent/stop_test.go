package agent

import (
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// TestStopBeforeTheSelfTest: a turn that a restart cut off can be stopped before
// the server is there, and does not go on then.
func TestStopBeforeTheSelfTest(t *testing.T) {
	r := newRig(t).start()
	r.say("chat-b", "o1", "hi")
	r.llm.On(func(_ int, _ []byte, s *testkit.Stream) { s.Role(); s.Text("on"); s.Hang() })
	r.until(r.submit("chat-a", "o1", "go"), is[*proto.Text])
	r.kill()
	r.boot()
	for range 2 {
		if running, err := r.agent.Stop(t.Context(), "chat-a"); !running || err != nil {
			t.Fatal(running, err)
		}
	}
	for _, id := range []string{"chat-b", "chat-none"} {
		if running, err := r.agent.Stop(t.Context(), id); running || err != nil {
			t.Errorf("%s: %v, %v", id, running, err)
		}
	}
	r.ready()
	if d, _ := r.done(r.submit("chat-a", "o1", "go")); d.Outcome != proto.TurnStopped {
		t.Errorf("%+v", d)
	}
	if n := len(r.llm.Bodies()); n != 2 {
		t.Errorf("%d requests", n)
	}
	if got := kinds(r.records("chat-a")); got != "baseline user stopped turn" {
		t.Error(got)
	}
}
