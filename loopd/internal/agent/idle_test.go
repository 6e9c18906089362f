package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
	"boxmaker/loopd/internal/settings"
)

// TestIdleSessionsAreClosed: a session without work and followers leaves memory
// after a while, one with either does not, and it can be opened again.
func TestIdleSessionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, dir: t.TempDir(), llm: testkit.NewMemoryLlama(t), broker: &testkit.Broker{}, set: settings.Default(), window: 32768}
		gate := make(chan struct{})
		r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
			if n == 0 {
				s.Role()
				for range 30 { // ten minutes, told to be alive
					time.Sleep(20 * time.Second)
					s.Ping()
				}
				<-gate
			}
			s.Answer("ok")
		})
		r.start()
		open := func() bool {
			synctest.Wait()
			r.agent.mu.Lock()
			defer r.agent.mu.Unlock()
			return r.agent.open["chat-a"] != nil
		}
		stays := func(why string, want bool) {
			t.Helper()
			time.Sleep(3 * lingering)
			if open() != want {
				t.Errorf("%s: open is %v", why, !want)
			}
		}
		r.submit("chat-a", "o1", "go").Close() // nobody waits, yet the turn goes on
		stays("a turn runs", true)
		close(gate)
		time.Sleep(10 * time.Minute)
		w, _, _, err := r.agent.Follow(t.Context(), "chat-a")
		if err != nil {
			t.Fatal(err)
		}
		stays("somebody follows", true)
		w.Close()
		stays("nobody is there", false)
		if d, _ := r.done(r.submit("chat-a", "o1", "go")); d.Outcome != proto.TurnAnswered {
			t.Errorf("%+v", d)
		}
		r.say("chat-a", "o2", "again")
		r.kill()
	})
}
