package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"
)

var errKilled = errors.New("killed here")

// kill makes brokerd die at a step, once. "x" is before the effect, so that
// nothing of it is on disk; "x done" is after it, when all of it is.
func (w *world) kill(step string) {
	struck := false
	w.setFault(func(s string) error {
		if struck || s == step { // whatever comes after it has died too
			struck = true
			return errKilled
		}
		return nil
	})
}

// died waits until brokerd has ended by the fault, and starts it again.
func (w *world) died() {
	w.t.Helper()
	if err := <-w.ended; !errors.Is(err, errKilled) {
		w.t.Errorf("ended with %v", err)
	}
	w.log.Close()
	w.closed = true
	w.setFault(nil)
	w.start()
}

// TestKilledAtEveryStep: wherever brokerd dies, the next start makes one honest
// end of the call, and it ran at most once.
func TestKilledAtEveryStep(t *testing.T) {
	lost, never := "unknown unknown-fate", "never"
	for _, tc := range []struct {
		step string
		ask  bool   // the call waits for the owner
		fate string // what loopd hears after the restart
		runs int
		tale string // of the log
	}{
		{"decide", false, never, 0, ""},
		{"decide done", false, lost, 0, "decision allow, outcome unknown unknown-fate"},
		{"run", false, lost, 0, "decision allow, outcome unknown unknown-fate"},
		{"run done", false, lost, 1, "decision allow, outcome unknown unknown-fate"},
		{"seal", false, lost, 1, "decision allow, outcome unknown unknown-fate"},
		{"seal done", false, lost, 1, "decision allow, outcome unknown unknown-fate"},
		{"keep", false, lost, 1, "decision allow, outcome unknown unknown-fate"},
		{"keep done", false, "ok ", 1, "decision allow, outcome ok"},
		{"record", false, "ok ", 1, "decision allow, outcome ok"},
		{"record done", false, "ok ", 1, "decision allow, outcome ok"},

		{"decide", true, never, 0, ""},
		{"decide done", true, "failed internal", 0, "decision ask, approval withdrawn internal"},
		{"preview", true, "failed internal", 0, "decision ask, approval withdrawn internal"},
		{"preview done", true, "failed internal", 0, "decision ask, approval withdrawn internal"},
		{"hold", true, "failed internal", 0, "decision ask, approval withdrawn internal"},
		{"hold done", true, "ok ", 1, "decision ask, approval approved, outcome ok"}, // it waits on
		{"wait", true, "ok ", 1, "decision ask, approval approved, outcome ok"},
		{"wait done", true, "ok ", 1, "decision ask, approval approved, outcome ok"}, // the answer was not on record
		{"settle", true, "ok ", 1, "decision ask, approval approved, outcome ok"},
		{"settled", true, lost, 0, "decision ask, approval approved, outcome unknown unknown-fate"},
		{"settle done", true, lost, 0, "decision ask, approval approved, outcome unknown unknown-fate"},
		{"run", true, lost, 0, "decision ask, approval approved, outcome unknown unknown-fate"},
		{"run done", true, lost, 1, "decision ask, approval approved, outcome unknown unknown-fate"},
		{"keep done", true, "ok ", 1, "decision ask, approval approved, outcome ok"},
	} {
		t.Run(fmt.Sprintf("%s ask=%v", tc.step, tc.ask), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, t.TempDir())
				w.grant("10-read.toml", grantRead)
				w.grant("20-write.toml", grantWrite)
				w.kill(tc.step)
				w.start()
				c := read("s/1/1/0", "/data/a")
				if tc.ask {
					c = write("s/1/1/0", "x")
				}
				gone := make(chan error, 1)
				go func() {
					_, err := w.d.Call(context.Background(), c, nil)
					gone <- err
				}()
				synctest.Wait()
				w.approveAll()
				if err := <-gone; !errors.Is(err, ErrEnding) {
					t.Errorf("answered: %v", err)
				}
				w.died()
				defer w.end()
				synctest.Wait()
				w.approveAll()
				m, err := w.d.Fate(context.Background(), "s/1/1/0")
				if err != nil {
					t.Fatal(err)
				}
				got := never
				switch m := m.(type) {
				case *proto.CallResult:
					got = string(m.Outcome) + " " + string(m.Code)
				case *proto.Unknown:
					if !m.Never {
						got = "unknown"
					}
				}
				if got != tc.fate || w.runner.count("s/1/1/0") != tc.runs || w.story() != tc.tale {
					t.Errorf("fate %q, %d runs, %s\nwant %q, %d, %s", got, w.runner.count("s/1/1/0"), w.story(), tc.fate, tc.runs, tc.tale)
				}
				// Asked again, it never runs again.
				if r := w.call(c); w.runner.count("s/1/1/0") != tc.runs || got != never && string(r.Outcome)+" "+string(r.Code) != tc.fate {
					t.Errorf("asked again: %+v", r)
				}
				if w.d.Counts().Running != 0 || len(w.desk.List()) != 0 {
					t.Error("something is left")
				}
			})
		})
	}
}

// approveAll says yes to everything that waits.
func (w *world) approveAll() {
	for _, a := range w.desk.List() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, _ = w.desk.Answer(ctx, &proto.Answer{Approval: a.Approval, Digest: a.Digest, Verdict: proto.VerdictApproved, Channel: "cli"}, "uid 7")
		}()
		<-done
	}
}

func TestAnApprovalWaitsOnAfterAnOrderlyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		w.grant("20-write.toml", grantWrite)
		w.start()
		a, done := w.ask(write("s/1/1/0", "x"))
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r != nil {
			t.Errorf("it has an end: %+v", r)
		}
		time.Sleep(5 * time.Minute)
		w.start()
		defer w.end()
		b, again := w.ask(write("s/1/1/0", "x"))
		if b.Approval != a.Approval || b.Digest != a.Digest || b.Expires != a.Expires {
			t.Errorf("another question:\n%+v\n%+v", a, b)
		}
		w.answer(b, proto.VerdictApproved)
		if r := <-again; r.Outcome != proto.CallOK || w.runner.count("s/1/1/0") != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestAnApprovalThatExpiredWhileBrokerdWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		w.grant("20-write.toml", grantWrite)
		w.start()
		a, _ := w.ask(write("s/1/1/0", "x"))
		w.end()
		time.Sleep(time.Hour)
		w.start()
		defer w.end()
		if r := w.call(write("s/1/1/0", "x")); r.Code != proto.CodeApprovalExpired {
			t.Errorf("%+v", r)
		}
		if got := w.answer(a, proto.VerdictApproved); got.First || got.Verdict != proto.VerdictExpired {
			t.Errorf("%+v", got)
		}
	})
}

func TestAnOrderlyEndWhileACallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		w.grant("10-read.toml", grantRead)
		w.start()
		running := make(chan string, 1)
		w.runner.set(untilKilled(running))
		go w.d.Call(context.Background(), read("s/1/1/0", "/data/a"), nil)
		<-running
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		w.start()
		defer w.end()
		m, err := w.d.Fate(t.Context(), "s/1/1/0")
		if r, ok := m.(*proto.CallResult); err != nil || !ok || r.Outcome != proto.CallUnknown || w.runner.count("s/1/1/0") != 1 {
			t.Errorf("%+v %v", m, err)
		}
	})
}

// A write that fails ends brokerd, and nobody hears a result that is not safe.
func TestNoAnswerWithoutItsRecord(t *testing.T) {
	for _, step := range []string{"decide", "decide done", "seal", "keep", "record", "record done"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.grant("10-read.toml", grantRead)
			w.kill(step)
			w.start()
			if r, err := w.d.Call(t.Context(), read("s/1/1/0", "/data/a"), nil); r != nil || !errors.Is(err, ErrEnding) {
				t.Errorf("%+v %v", r, err)
			}
			if err := <-w.ended; !errors.Is(err, errKilled) {
				t.Errorf("%v", err)
			}
			w.ended <- nil
			if _, err := w.d.Call(t.Context(), read("t/1/1/0", "/data/a"), nil); !errors.Is(err, ErrEnding) {
				t.Errorf("a call after the end: %v", err)
			}
			for _, id := range []string{"s/1/1/0", "t/1/1/0"} {
				if m, err := w.d.Fate(t.Context(), id); m != nil || !errors.Is(err, ErrEnding) {
					t.Errorf("the fate of %s after the end: %+v %v", id, m, err)
				}
				if m, err := w.d.Cancel(t.Context(), id); m != nil || !errors.Is(err, ErrEnding) {
					t.Errorf("a stop of %s after the end: %+v %v", id, m, err)
				}
			}
			if r, err := w.d.Call(t.Context(), read("s/1/1/0", "/data/a"), nil); r != nil || !errors.Is(err, ErrEnding) {
				t.Errorf("asked for again after the end: %+v %v", r, err)
			}
			if w.runner.count("t/1/1/0") != 0 {
				t.Error("it ran")
			}
			w.log.Close()
		})
	}
}

func TestABrokenAuditLogDeniesAndStops(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.grant("10-read.toml", grantRead)
	w.start()
	w.log.Close()
	if r, err := w.d.Call(t.Context(), read("s/1/1/0", "/data/a"), nil); r != nil || err == nil || w.runner.count("s/1/1/0") != 0 {
		t.Errorf("%+v %v", r, err)
	}
	if err := <-w.ended; err == nil {
		t.Error("brokerd goes on")
	}
}

func TestRestartFindsWhatItKept(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.grant("10-read.toml", grantRead)
	w.start()
	w.runner.set(func(context.Context, policy.Spec) (Ran, error) {
		return said("the text " + strings.Repeat("é", 100)), nil
	})
	first := w.call(read("s/1/1/0", "/data/a"))
	w.end()
	w.start()
	defer w.end()
	m, err := w.d.Fate(t.Context(), "s/1/1/0")
	if err != nil {
		t.Fatal(err)
	}
	r := m.(*proto.CallResult)
	if r.Text != first.Text || r.Class != first.Class || r.Outcome != first.Outcome || r.Head.N <= first.Head.N {
		t.Errorf("%+v\n%+v", first, r)
	}
	if err := w.d.Confirm("s/1/1/0"); err != nil {
		t.Fatal(err)
	}
	w.end()
	w.start()
	if m, err := w.d.Fate(t.Context(), "s/1/1/0"); err != nil || m.Tag() != "unknown" {
		t.Errorf("a confirmed result is back: %+v %v", m, err)
	}
}
