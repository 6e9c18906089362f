package policy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
)

func TestApproved(t *testing.T) {
	b := newBox(t, map[string]string{"20-b.toml": askWrite})
	c := b.call("s", "write_file", writeNote)
	b.asks(b.decide(c))
	b.open() // a restart between question and answer
	r, err := b.settle(c, proto.VerdictApproved)
	if err != nil {
		t.Fatal(err)
	}
	s := b.allowed(r)
	if s.Preview || len(s.Write) != 1 || s.Write[0] != "/home/me/notes" || s.Call != c.ID {
		t.Errorf("%+v", s)
	}
	rec, ok := b.last().(*proto.AuditApproval)
	if !ok || rec.ID != c.ID || rec.Approval != approvalID || rec.Verdict != proto.VerdictApproved || rec.Code != "" || rec.By != "owner" || rec.Channel != "cli" {
		t.Errorf("%+v", rec)
	}
}

// An approval has one end: before a restart and after it, a second one is none.
func TestApprovalHasOneEnd(t *testing.T) {
	for _, first := range []proto.Verdict{proto.VerdictApproved, proto.VerdictDenied, proto.VerdictExpired, proto.VerdictWithdrawn} {
		b := newBox(t, map[string]string{"20-b.toml": askWrite})
		c := b.call("s", "write_file", writeNote)
		b.asks(b.decide(c))
		if _, err := b.settle(c, first); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if r, err := b.settle(c, proto.VerdictApproved); !errors.Is(err, ErrNotAsked) || r != nil {
				t.Errorf("after %s: %#v %v", first, r, err)
			}
			b.open()
		}
	}
}

// P45: an approval is for one call, to the byte. Nothing else passes by it, and
// nothing is remembered of it: the same again is a new question.
func TestCaseP45ApprovalCoversExactlyOneCall(t *testing.T) {
	b := newBox(t, map[string]string{
		"20-b.toml": askWrite,
		"30-c.toml": "tool = \"run\"\nmode = \"ask\"\n",
		"40-d.toml": "tool = \"shell\"\nmode = \"ask\"\n",
	})
	whoami := b.call("s", "run", `{"argv":["whoami"],"dir":"/tmp"}`)
	b.asks(b.decide(whoami))
	for name, c := range map[string]*proto.Call{
		"another argument":  {ID: whoami.ID, Session: "s", Tool: "run", Args: `{"argv":["rm"],"dir":"/tmp"}`},
		"one more argument": {ID: whoami.ID, Session: "s", Tool: "run", Args: `{"argv":["whoami","x"],"dir":"/tmp"}`},
		"another order":     {ID: whoami.ID, Session: "s", Tool: "run", Args: `{"dir":"/tmp","argv":["whoami"]}`},
		"white space":       {ID: whoami.ID, Session: "s", Tool: "run", Args: `{"argv":["whoami"], "dir":"/tmp"}`},
		"another tool":      {ID: whoami.ID, Session: "s", Tool: "shell", Args: whoami.Args},
		"another call":      {ID: "s/1/99/0", Session: "s", Tool: "run", Args: whoami.Args},
		"another session":   {ID: "r/1/1/0", Session: "r", Tool: "run", Args: whoami.Args},
	} {
		if r, err := b.settle(c, proto.VerdictApproved); !errors.Is(err, ErrNotAsked) || r != nil {
			t.Errorf("%s: %#v %v", name, r, err)
		}
	}
	if _, err := b.engine.Settle(Settlement{Call: whoami, Approval: strings.Repeat("0", 32), Digest: Digest(whoami), Verdict: proto.VerdictApproved}); !errors.Is(err, ErrNotAsked) {
		t.Errorf("another approval: %v", err)
	}
	r, err := b.settle(whoami, proto.VerdictApproved)
	if err != nil {
		t.Fatal(err)
	}
	if s := b.allowed(r); s.Args != `{"argv":["whoami"]}` {
		t.Errorf("%+v", s)
	}
	b.asks(b.decide(b.call("s", "run", whoami.Args))) // the same again is asked again
	b.asks(b.decide(b.call("s", "run", `{"argv":["rm"]}`)))
}

// P47: every call is decided by itself, from whichever session it comes, and a
// child has its parent's taint.
func TestCaseP47ChildAsksLikeItsParent(t *testing.T) {
	b := newBox(t, map[string]string{"10-a.toml": "tool = \"read_file\"\nmode = \"auto\"\nmode_untrusted = \"ask\"\n[paths]\nread = [\"/home/me/notes\"]\n"})
	b.allowed(b.decide(b.call("other", "read_file", readNote)))
	if err := b.taint.Raise("parent", proto.ClassPrivate, true); err != nil {
		t.Fatal(err)
	}
	c := b.call("parent", "read_file", readNote)
	b.asks(b.decide(c))
	if r, err := b.settle(c, proto.VerdictApproved); err != nil {
		t.Fatal(err)
	} else {
		b.allowed(r)
	}
	if err := b.taint.Inherit("child", "parent"); err != nil {
		t.Fatal(err)
	}
	if a := b.asks(b.decide(b.call("child", "read_file", readNote))); !a.Untrusted {
		t.Errorf("%+v", a.Facts)
	}
}

// What was approved must still hold when the answer comes.
func TestGrantsAreLookedAtAgain(t *testing.T) {
	for _, tc := range []struct {
		name    string
		between func(b *box)
		code    proto.Code
	}{
		{"removed", func(b *box) { b.remove("20-b.toml") }, proto.CodeNoGrant},
		{"broken", func(b *box) { b.put("20-b.toml", askWrite+"x = 1\n") }, proto.CodeNoGrant},
		{"changed, and it still fits", func(b *box) { b.put("20-b.toml", askWrite+"# a comment\n") }, proto.CodeNoGrant},
		{"another comes first", func(b *box) { b.put("10-a.toml", askWrite) }, proto.CodeNoGrant},
		{"denied meanwhile", func(b *box) { b.put("90-z.toml", "tool = \"write_file\"\nmode = \"deny\"\n") }, proto.CodeDeniedByGrant},
		{"the session saw more", func(b *box) {
			if err := b.taint.Raise("s", proto.ClassSecret, false); err != nil {
				b.t.Fatal(err)
			}
		}, proto.CodeTaintTooHigh},
		{"too late", func(b *box) { b.now = b.now.Add(15 * time.Minute) }, proto.CodeApprovalExpired},
		{"nothing happened", func(*box) {}, ""},
		{"a minute before the end", func(b *box) { b.now = b.now.Add(14 * time.Minute) }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBox(t, map[string]string{"20-b.toml": askWrite})
			c := b.call("s", "write_file", writeNote)
			b.asks(b.decide(c))
			tc.between(b)
			r, err := b.settle(c, proto.VerdictApproved)
			if err != nil {
				t.Fatal(err)
			}
			if tc.code == "" {
				b.allowed(r)
				return
			}
			b.denied(r, tc.code)
			rec, ok := b.last().(*proto.AuditApproval)
			if !ok || rec.Code != tc.code {
				t.Errorf("%+v", rec)
			}
		})
	}
}

func TestOtherEnds(t *testing.T) {
	for _, tc := range []struct {
		verdict proto.Verdict
		why     proto.Code
		halted  bool
		code    proto.Code
	}{
		{proto.VerdictDenied, "", false, proto.CodeDeniedByOwner},
		{proto.VerdictExpired, "", false, proto.CodeApprovalExpired},
		{proto.VerdictWithdrawn, proto.CodeStopped, false, proto.CodeStopped},
		{proto.VerdictWithdrawn, proto.CodeHalted, true, proto.CodeHalted},
		{proto.VerdictApproved, "", true, proto.CodeHalted},
	} {
		b := newBox(t, map[string]string{"20-b.toml": askWrite})
		c := b.call("s", "write_file", writeNote)
		b.asks(b.decide(c))
		r, err := b.engine.Settle(Settlement{Call: c, Approval: approvalID, Digest: Digest(c), Verdict: tc.verdict, Code: tc.why, Halted: tc.halted, Channel: "cli"})
		if err != nil {
			t.Fatal(err)
		}
		if d := b.denied(r, tc.code); !strings.HasPrefix(d.Text, string(tc.code)+": ") {
			t.Error(d.Text)
		}
	}
	b := newBox(t, map[string]string{"20-b.toml": askWrite})
	c := b.call("s", "write_file", writeNote)
	b.asks(b.decide(c))
	for _, v := range []proto.Verdict{proto.VerdictAllow, proto.VerdictAsk, proto.VerdictDeny, "", "odd"} {
		if r, err := b.settle(c, v); err == nil {
			t.Errorf("%q ended it: %#v", v, r)
		}
	}
	if _, err := b.settle(c, proto.VerdictApproved); err != nil {
		t.Errorf("a wrong end used the question up: %v", err)
	}
}

// The count of calls goes on across a restart, and by the clock that says more.
func TestCallsPerHour(t *testing.T) {
	text := reads("auto") + "[limits]\ncalls_per_hour = 2\n"
	b := newBox(t, map[string]string{"10-a.toml": text})
	read := func() Ruling { return b.decide(b.call("s", "read_file", readNote)) }
	b.allowed(read())
	b.now = b.now.Add(30 * time.Minute)
	b.allowed(read())
	b.denied(read(), proto.CodeRateLimited)
	b.open()
	b.denied(read(), proto.CodeRateLimited) // denials don't count, and the restart forgot nothing
	b.put("10-a.toml", text+"# changed\n")
	b.denied(read(), proto.CodeRateLimited) // a changed file is the same grant
	b.now = b.now.Add(30 * time.Minute)
	b.allowed(read()) // the first is an hour ago
	b.denied(read(), proto.CodeRateLimited)
	b.now = b.now.Add(-10 * time.Hour)
	b.denied(read(), proto.CodeRateLimited) // a clock that was set back gives nothing,
	b.now = b.now.Add(59 * time.Minute)
	b.denied(read(), proto.CodeRateLimited)
	b.now = b.now.Add(time.Minute)
	b.allowed(read()) // and holds nothing up until it is there again
	b.now = b.now.Add(30 * time.Hour)
	b.allowed(read())
}

// A question counts, so that the owner is not flooded; the approved call does
// not count against itself.
func TestQuestionsCount(t *testing.T) {
	b := newBox(t, map[string]string{"20-b.toml": askWrite + "[limits]\ncalls_per_hour = 1\n"})
	c := b.call("s", "write_file", writeNote)
	b.asks(b.decide(c))
	b.denied(b.decide(b.call("s", "write_file", writeNote)), proto.CodeRateLimited)
	r, err := b.settle(c, proto.VerdictApproved)
	if err != nil {
		t.Fatal(err)
	}
	b.allowed(r)
	b.denied(b.decide(b.call("s", "write_file", writeNote)), proto.CodeRateLimited)
}
