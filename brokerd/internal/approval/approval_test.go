package approval

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/internal/proto"
)

func TestCaseP56TheFirstAnswerWins(t *testing.T) {
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
func TestCaseP56AnAnswerIsForWhatWasShown(t *testing.T) {
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
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // one that is taken waits for its record
			defer cancel()
			if a, err := b.desk.Answer(ctx, &tc.m, "uid 0"); code(err) != tc.want {
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
