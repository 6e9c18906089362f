package up

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestPolicy(t *testing.T) {
	crash, killed := exit{code: 1}, exit{code: -1, signal: syscall.SIGKILL}
	type life struct {
		lived time.Duration
		exit  exit
		delay time.Duration
		stop  string
	}
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		lives []life
	}{
		{"a refusal stops at once", []life{{time.Hour, exit{code: 78}, 0, "refused"}}},
		{"five crashes in a minute", []life{{0, crash, 200 * ms, ""}, {0, crash, 400 * ms, ""}, {0, crash, 800 * ms, ""}, {0, crash, 1600 * ms, ""}, {0, crash, 0, "5 times"}}},
		{"crashes over a longer time", []life{
			{20 * time.Second, crash, 200 * ms, ""},
			{20 * time.Second, crash, 200 * ms, ""},
			{20 * time.Second, crash, 200 * ms, ""},
			{20 * time.Second, crash, 200 * ms, ""},
			{20 * time.Second, crash, 200 * ms, ""},
			{20 * time.Second, crash, 200 * ms, ""},
		}},
		{"a long life forgives", []life{{0, crash, 200 * ms, ""}, {0, crash, 400 * ms, ""}, {10 * time.Second, crash, 200 * ms, ""}}},
		{"kills from outside are no crashes", []life{
			{time.Second, killed, 200 * ms, ""},
			{time.Second, killed, 200 * ms, ""},
			{time.Second, killed, 200 * ms, ""},
			{time.Second, killed, 200 * ms, ""},
			{time.Second, killed, 200 * ms, ""},
			{time.Second, killed, 200 * ms, ""},
		}},
		{"a start that cannot be", []life{{0, exit{code: 1, err: errors.New("no memory")}, 200 * ms, ""}}},
		{"an end without reason is a crash", []life{{0, exit{}, 200 * ms, ""}, {0, exit{}, 400 * ms, ""}, {0, exit{}, 800 * ms, ""}, {0, exit{}, 1600 * ms, ""}, {0, exit{}, 0, "5 times"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h history
			now := t0
			for i, l := range c.lives {
				now = now.Add(l.lived)
				v := h.ended(now, l.lived, l.exit)
				if v.delay != l.delay || (l.stop == "") != (v.stop == "") || !strings.Contains(v.stop, l.stop) {
					t.Fatalf("life %d: %+v", i+1, v)
				}
				now = now.Add(v.delay)
			}
		})
	}
}

// The delay is always within its bounds, and a role that only crashes is never
// started more than five times in a minute.
func TestPolicyBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h history
		now := t0
		var starts []time.Time
		for range rapid.IntRange(1, 60).Draw(t, "lives") {
			lived := time.Duration(rapid.Int64Range(0, int64(30*time.Second)).Draw(t, "lived"))
			e := rapid.SampledFrom([]exit{{code: 1}, {code: 0}, {code: -1, signal: syscall.SIGSEGV}, {code: -1, signal: syscall.SIGKILL}}).Draw(t, "exit")
			now = now.Add(lived)
			v := h.ended(now, lived, e)
			if v.stop != "" {
				return
			}
			if v.delay < firstDelay || v.delay > longDelay {
				t.Fatalf("delay %v", v.delay)
			}
			if now = now.Add(v.delay); e.signal != syscall.SIGKILL {
				starts = append(starts, now)
			}
			if n := len(starts); n > maxCrashes && starts[n-1].Sub(starts[n-1-maxCrashes]) < window-longDelay {
				t.Fatalf("%d starts in %v", maxCrashes, starts[n-1].Sub(starts[n-1-maxCrashes]))
			}
		}
	})
}

func TestExitWords(t *testing.T) {
	for _, c := range []struct {
		e    exit
		want string
	}{
		{exit{code: 3}, "exit code 3"}, {exit{code: -1, signal: syscall.SIGKILL}, "killed by signal 9 (killed)"}, {exit{code: 1, err: errors.New("x")}, "x"},
	} {
		if got := c.e.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
