package approval

import (
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/internal/proto"
)

func TestExpiry(t *testing.T) {
	const ask = 15 * time.Minute
	for _, tc := range []struct {
		name string
		do   func(b *bench)
		left time.Duration // until it expires
	}{
		{"in peace", func(b *bench) {}, ask},
		{"the clock is set back", func(b *bench) { b.skew = -6 * time.Hour }, ask},
		{"the clock is set forward", func(b *bench) { b.skew = 10 * time.Minute }, 5 * time.Minute},
		{"restarted", func(b *bench) { time.Sleep(time.Minute); b.restart(time.Time{}) }, 14 * time.Minute},
		{"set back and restarted", func(b *bench) { time.Sleep(time.Minute); b.skew = -6 * time.Hour; b.restart(time.Time{}) }, 14 * time.Minute},
		{"rebooted", func(b *bench) {
			time.Sleep(time.Minute)
			b.boot = "boot-2"
			b.born = time.Now()
			b.restart(time.Time{})
		}, 14 * time.Minute},
		{"rebooted with the clock set back", func(b *bench) {
			time.Sleep(time.Minute)
			floor := time.Now() // of the newest record
			b.boot, b.born, b.skew = "boot-2", time.Now(), -6*time.Hour
			b.restart(floor)
		}, 14 * time.Minute},
		{"rebooted long after", func(b *bench) { time.Sleep(time.Hour); b.boot = "boot-2"; b.born = time.Now(); b.restart(time.Time{}) }, 0},
		{"asleep", (*bench).sleep, 20 * time.Second}, // found when the clocks are looked at
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				h := b.hold("s/1/1/0")
				var got chan proto.Verdict
				if tc.name == "asleep" {
					got = b.settle(h)
					synctest.Wait()
					tc.do(b)
				} else {
					tc.do(b)
					got = b.settle(h)
				}
				from := time.Now()
				if v := <-got; v != proto.VerdictExpired {
					t.Errorf("%s", v)
				}
				if took := time.Since(from); took > tc.left || took < tc.left-20*time.Second-time.Second {
					t.Errorf("it waited %v, want %v", took, tc.left)
				}
				if a, err := b.answer(h, proto.VerdictApproved, "uid 0"); err != nil || a.First || a.Verdict != proto.VerdictExpired {
					t.Errorf("an answer after the expiry: %+v %v", a, err)
				}
			})
		})
	}
}

// The timer of a machine that slept is late, but the answer is refused all the same.
func TestAnAnswerAfterTheExpiryButBeforeTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := b.hold("s/1/1/0")
		b.sleep()
		done := make(chan struct{})
		go func() {
			defer close(done)
			a, err := b.answer(h, proto.VerdictApproved, "uid 0")
			if err != nil || a.First || a.Verdict != proto.VerdictExpired {
				t.Errorf("%+v %v", a, err)
			}
		}()
		synctest.Wait()
		if v := <-b.settle(h); v != proto.VerdictExpired {
			t.Errorf("%s", v)
		}
		<-done
	})
}
