package approval

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/internal/proto"
)

// A bench is a desk with clocks that a test can set.
type bench struct {
	t    *testing.T
	dir  string
	desk *Desk

	mu   sync.Mutex    // guards what follows
	skew time.Duration // of the owner's clock
	boot string
	born time.Time
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), boot: "boot-1", born: time.Now()}
	b.restart(time.Time{})
	return b
}

func (b *bench) clock() Clock {
	return Clock{
		Now: func() time.Time {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.skew != 0 { // a set clock: the monotonic reading goes on
				return time.Now().Round(0).Add(b.skew)
			}
			return time.Now()
		},
		Boot: func() (string, time.Duration) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.boot, time.Since(b.born)
		},
	}
}

// sleep is an hour in which only the time since boot went on.
func (b *bench) sleep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.born = b.born.Add(-time.Hour)
}

func (b *bench) restart(floor time.Time) []string {
	b.t.Helper()
	root, err := os.OpenRoot(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { root.Close() })
	ended := map[string]proto.Answered{}
	if b.desk != nil {
		ended = b.desk.ended
	}
	d, bad, err := Open(Config{Root: root, Clock: b.clock(), Floor: floor, Most: 3, Ended: ended})
	if err != nil {
		b.t.Fatal(err)
	}
	b.desk = d
	return bad
}

func (b *bench) hold(call string) *Held {
	b.t.Helper()
	h, err := b.tryHold(call, "x")
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *bench) tryHold(call, value string) (*Held, error) {
	now := time.Now().Add(b.skew)
	return b.desk.Hold(proto.Approval{
		Approval: NewID(), Asked: proto.Time(now), Expires: proto.Time(now.Add(15 * time.Minute)),
		Call: call, Session: "s", Tool: "write_file", Fields: []proto.Field{{Name: "content", Value: value}},
		Read: []string{}, Write: []string{"/w"}, Hosts: []string{}, Secrets: []string{},
		Class: proto.ClassPrivate, Taint: proto.ClassPrivate, Grant: "10-write.toml",
	}, proto.Call{ID: call, Session: "s", Tool: "write_file", Args: `{}`}, "canonical of "+call)
}

func (b *bench) answer(h *Held, v proto.Verdict, by string) (*proto.Answered, error) {
	return b.desk.Answer(context.Background(), &proto.Answer{Approval: h.Approval.Approval, Digest: h.Approval.Digest, Verdict: v, Channel: "cli"}, by)
}

// settle waits for the end as the driver of a call does, and settles it.
func (b *bench) settle(h *Held) chan proto.Verdict {
	got := make(chan proto.Verdict, 1)
	go func() {
		end, err := b.desk.Wait(context.Background(), h.Approval.Approval)
		if err == nil {
			err = b.desk.Settled(end)
		}
		if err != nil {
			b.t.Error(err)
		}
		got <- end.Verdict
	}()
	return got
}

func code(err error) proto.ErrCode {
	var e *proto.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestP56TheFirstAnswerWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := b.hold("s/1/1/0")
		got := b.settle(h)
		a, err := b.answer(h, proto.VerdictApproved, "uid 1000")
		if err != nil || !a.First || a.Verdict != proto.VerdictApproved || a.By != "uid 1000" || a.Channel != "cli" {
			t.Errorf("%+v %v", a, err)
		}
		if v := <-got; v != proto.VerdictApproved {
			t.Errorf("%s", v)
		}
		for _, v := range []proto.Verdict{proto.VerdictDenied, proto.VerdictApproved} { // it is used once
			a, err := b.answer(h, v, "uid 0")
			if err != nil || a.First || a.Verdict != proto.VerdictApproved || a.By != "uid 1000" {
				t.Errorf("a second answer: %+v %v", a, err)
			}
		}
		b.restart(time.Time{})
		if a, err := b.answer(h, proto.VerdictDenied, "uid 0"); err != nil || a.First || a.Verdict != proto.VerdictApproved {
			t.Errorf("after a restart: %+v %v", a, err)
		}
	})
}

func TestAnAnswerIsToldOnlyOnceItIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := b.hold("s/1/1/0")
		told := make(chan *proto.Answered, 2)
		for _, by := range []string{"uid 1", "uid 2"} {
			go func() {
				a, err := b.answer(h, proto.VerdictApproved, by)
				if err != nil {
					t.Error(err)
				}
				told <- a
			}()
		}
		synctest.Wait()
		if len(told) != 0 {
			t.Fatal("told before the record")
		}
		<-b.settle(h)
		first := 0
		for range 2 {
			if a := <-told; a.First {
				first++
			}
		}
		if first != 1 {
			t.Errorf("%d were first", first)
		}
	})
}

// P56: an answer counts for the bytes that were shown, and nothing else.
func TestP56AnAnswerIsForWhatWasShown(t *testing.T) {
	b := newBench(t)
	h, other := b.hold("s/1/1/0"), b.hold("s/1/2/0")
	for _, tc := range []struct {
		name string
		m    proto.Answer
		want proto.ErrCode
	}{
		{"the digest of another call", proto.Answer{Approval: h.Approval.Approval, Digest: other.Approval.Digest}, proto.ErrWrongDigest},
		{"a digest without the nonce", proto.Answer{Approval: h.Approval.Approval, Digest: Digest("canonical of s/1/1/0", "")}, proto.ErrWrongDigest},
		{"no such approval", proto.Answer{Approval: NewID(), Digest: h.Approval.Digest}, proto.ErrNoApproval},
		{"the code for people", proto.Answer{Approval: h.Approval.Code, Digest: h.Approval.Digest}, proto.ErrNoApproval},
		{"the id of the call", proto.Answer{Approval: "s-1-1-0", Digest: h.Approval.Digest}, proto.ErrNoApproval},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.m.Verdict, tc.m.Channel = proto.VerdictApproved, "cli"
			if a, err := b.desk.Answer(context.Background(), &tc.m, "uid 0"); code(err) != tc.want {
				t.Errorf("%v %v", a, err)
			}
		})
	}
	if len(b.desk.List()) != 2 {
		t.Error("a refused answer ended something")
	}
}

func TestTheSameCallTwiceHasTwoDigests(t *testing.T) {
	b := newBench(t)
	h, again := b.hold("s/1/1/0"), b.hold("s/1/1/0")
	if h.Approval.Digest == again.Approval.Digest || h.Approval.Code == again.Approval.Code || h.Approval.Approval == again.Approval.Approval {
		t.Errorf("%+v\n%+v", h.Approval, again.Approval)
	}
}

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

func TestAWithdrawalBeatsAnAnswerThatIsNotOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := b.hold("s/1/1/0")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if a, err := b.answer(h, proto.VerdictApproved, "uid 0"); err != nil || a.First || a.Verdict != proto.VerdictWithdrawn {
				t.Errorf("%+v %v", a, err)
			}
		}()
		synctest.Wait()
		if err := b.desk.Discard(h.Approval.Approval); err != nil {
			t.Error(err)
		}
		<-done
	})
}

func TestApprovalsSurviveARestart(t *testing.T) {
	b := newBench(t)
	h := b.hold("s/1/1/0")
	if bad := b.restart(time.Time{}); len(bad) > 0 {
		t.Fatal(bad)
	}
	got := b.desk.Get(h.Approval.Approval)
	if got == nil || got.Approval.Digest != h.Approval.Digest || got.Approval.Code != h.Approval.Code || got.Call != h.Call {
		t.Errorf("%+v", got)
	}
	if err := b.desk.Discard(h.Approval.Approval); err != nil {
		t.Fatal(err)
	}
	if b.restart(time.Time{}); len(b.desk.List()) != 0 {
		t.Error("an ended approval is back")
	}
}

func TestADamagedApprovalIsSetAside(t *testing.T) {
	b := newBench(t)
	h := b.hold("s/1/1/0")
	file := filepath.Join(b.dir, filepath.FromSlash(fileName(h.Approval.Approval)))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, text string }{
		{"cut", string(text[:len(text)-2])},
		{"of another call", strings.Replace(string(text), `"id":"s/1/1/0"`, `"id":"s/1/2/0"`, 1)},
		{"under another name", strings.Replace(string(text), `"approval":"`+h.Approval.Approval, `"approval":"`+NewID(), 1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if bad := b.restart(time.Time{}); len(bad) != 1 || len(b.desk.List()) != 0 {
				t.Errorf("%v %d", bad, len(b.desk.List()))
			}
		})
	}
}

func TestTheDeskIsBounded(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.hold("s/1/1/0")
	}
	if _, err := b.tryHold("s/1/1/0", "x"); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth: %v", err)
	}
	c := newBench(t)
	if _, err := c.tryHold("s/1/1/0", strings.Repeat("x", 2<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.tryHold("s/1/2/0", strings.Repeat("x", 2<<20)); !errors.Is(err, ErrFull) {
		t.Errorf("more than a message holds: %v", err)
	}
}

func TestFollowersSeeEverything(t *testing.T) {
	b := newBench(t)
	old := b.hold("s/1/1/0")
	f := b.desk.Follow()
	defer f.Close()
	later := b.hold("s/1/2/0")
	if err := b.desk.Settled(proto.Answered{Approval: old.Approval.Approval, Verdict: proto.VerdictDenied, By: "uid 7", Channel: "chat"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 3 {
		m, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *proto.Approval:
			got = append(got, m.Approval)
		case *proto.Retracted:
			got = append(got, string(m.Verdict)+" "+m.Approval+" "+m.By+" "+m.Channel)
		}
	}
	want := []string{old.Approval.Approval, later.Approval.Approval, "denied " + old.Approval.Approval + " uid 7 chat"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v", got)
	}
}

func TestAFollowerThatDoesNotReadIsLeftBehind(t *testing.T) {
	b := newBench(t)
	f := b.desk.Follow()
	for range queue {
		h := b.hold("s/1/1/0")
		if err := b.desk.Discard(h.Approval.Approval); err != nil {
			t.Fatal(err)
		}
	}
	for {
		if _, err := f.Next(t.Context()); err != nil {
			if !errors.Is(err, ErrSlow) {
				t.Error(err)
			}
			return
		}
	}
}

func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		c := newCode(func(s string) bool { return seen[s] })
		if len(c) != codeLength || strings.Trim(c, alphabet) != "" || seen[c] {
			t.Fatalf("%q", c)
		}
		seen[c] = true
	}
	n := 0
	newCode(func(string) bool { n++; return n < 3 })
	if n != 3 {
		t.Error("a code that is taken was given")
	}
}
