package rate

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTake(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := New(Limit{Burst: 3, Second: 1}, Limit{Burst: 5, Second: 1})
	for i, tc := range []struct {
		session string
		n       float64
		at      time.Duration
		want    bool
	}{
		{"a", 1, 0, true},
		{"a", 2, 0, true},
		{"a", 1, 0, false},             // its own burst is over
		{"b", 2, 0, true},              // another one's is not
		{"b", 1, 0, false},             // but that of all is
		{"a", 1, time.Second, true},    // a second gives one
		{"b", 1, time.Second, false},   // which is taken
		{"a", 1, -time.Hour, false},    // the clock goes back
		{"a", 1, time.Hour, true},      // a long pause fills the bucket,
		{"a", 3, time.Hour, false},     // and no more than that
		{"c", 4, 2 * time.Hour, false}, // more than ever fits
		{"c", 3, 2 * time.Hour, true},  // what was refused took nothing
	} {
		if got := m.Take(tc.session, tc.n, start.Add(tc.at)); got != tc.want {
			t.Errorf("%d: %+v gave %v", i, tc, got)
		}
	}
}

// TestNeverMore: no order of sessions and times gets more through than burst and
// rate, and no names of sessions fill the memory.
func TestNeverMore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		each := Limit{Burst: rapid.Float64Range(1, 10).Draw(rt, "burst"), Second: rapid.Float64Range(0.1, 5).Draw(rt, "second")}
		all := Limit{Burst: 2 * each.Burst, Second: 2 * each.Second}
		m := New(each, all)
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		now := start
		got, sum := map[string]float64{}, 0.0
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(rt, "ms")) * time.Millisecond)
			s := fmt.Sprint(rapid.IntRange(0, 5).Draw(rt, "session"))
			n := rapid.Float64Range(0.5, 3).Draw(rt, "n")
			if m.Take(s, n, now) {
				got[s] += n
				sum += n
			}
			gone := now.Sub(start).Seconds()
			if got[s] > each.Burst+gone*each.Second+1e-6 || sum > all.Burst+gone*all.Second+1e-6 {
				rt.Fatalf("%v for one and %v in all within %v s", got[s], sum, gone)
			}
		}
	})
}

func TestSessionsAreForgotten(t *testing.T) {
	m := New(Limit{Burst: 10, Second: 10}, Limit{Burst: 100, Second: 10})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 100_000 {
		now = now.Add(100 * time.Millisecond)
		m.Take(fmt.Sprint(i), 1, now)
	}
	if n := len(m.sessions); n > 2*minSweep {
		t.Errorf("%d sessions are remembered", n)
	}
}
