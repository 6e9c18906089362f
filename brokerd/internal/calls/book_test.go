package calls

import (
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

var digest = strings.Repeat("ab", 32)

func decision(id string, v proto.Verdict) *proto.AuditDecision {
	d := &proto.AuditDecision{ID: id, Session: "s", Tool: "read_file", Args: "{}", Digest: digest, Verdict: v, Taint: proto.ClassPrivate}
	switch v {
	case proto.VerdictDeny:
		d.Code = proto.CodeNoGrant
	case proto.VerdictAsk:
		d.Approval = "a" + strings.ReplaceAll(id, "/", "-")
	}
	return d
}

func settled(id string, v proto.Verdict, code proto.Code) *proto.AuditApproval {
	return &proto.AuditApproval{ID: id, Approval: "a" + strings.ReplaceAll(id, "/", "-"), Verdict: v, Code: code, Digest: digest}
}

func outcome(id string) *proto.AuditOutcome {
	return &proto.AuditOutcome{ID: id, Outcome: proto.CallOK, Class: proto.ClassPrivate, Hash: digest}
}

func TestBook(t *testing.T) {
	for _, tc := range []struct {
		name    string
		records []proto.AuditRecord
		open    string // of s/1/1/0: "", "undecided", "may have run"
		code    proto.Code
	}{
		{"allowed", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAllow)}, "may have run", ""},
		{"with an outcome", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAllow), outcome("s/1/1/0")}, "", ""},
		{"denied", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictDeny)}, "", proto.CodeNoGrant},
		{"asked", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAsk)}, "undecided", ""},
		{"approved", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAsk), settled("s/1/1/0", proto.VerdictApproved, "")}, "may have run", ""},
		{"approved in vain", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAsk), settled("s/1/1/0", proto.VerdictApproved, proto.CodeNoGrant)}, "", proto.CodeNoGrant},
		{"denied by the owner", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAsk), settled("s/1/1/0", proto.VerdictDenied, "")}, "", proto.CodeDeniedByOwner},
		{"expired", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAsk), settled("s/1/1/0", proto.VerdictExpired, "")}, "", proto.CodeApprovalExpired},
		{"halted", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAsk), settled("s/1/1/0", proto.VerdictWithdrawn, proto.CodeHalted)}, "", proto.CodeHalted},
		{"replayed", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAllow), decision("s/1/1/0", proto.VerdictDeny)}, "may have run", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := NewBook()
			for _, r := range tc.records {
				if err := b.Fold(r); err != nil {
					t.Fatal(err)
				}
			}
			open := ""
			if o := b.Open()["s/1/1/0"]; o != nil {
				open = "undecided"
				if o.MayHaveRun() {
					open = "may have run"
				}
			}
			var code proto.Code
			if f := b.Final("s/1/1/0"); f != nil {
				code = f.Code()
			}
			if open != tc.open || code != tc.code {
				t.Errorf("open %q, code %q", open, code)
			}
		})
	}
}

func TestBookRefusesWhatCannotBe(t *testing.T) {
	for _, tc := range []struct {
		name    string
		records []proto.AuditRecord
	}{
		{"an outcome of nothing", []proto.AuditRecord{outcome("s/1/1/0")}},
		{"two outcomes", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAllow), outcome("s/1/1/0"), outcome("s/1/1/0")}},
		{"an approval of nothing", []proto.AuditRecord{settled("s/1/1/0", proto.VerdictApproved, "")}},
		{"an approval of what was allowed", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAllow), settled("s/1/1/0", proto.VerdictApproved, "")}},
		{"two approvals", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAsk), settled("s/1/1/0", proto.VerdictApproved, ""), settled("s/1/1/0", proto.VerdictApproved, "")}},
		{"allowed twice", []proto.AuditRecord{decision("s/1/1/0", proto.VerdictAllow), outcome("s/1/1/0"), decision("s/1/1/0", proto.VerdictAllow)}},
		{"allowed after a later one", []proto.AuditRecord{decision("s/1/2/0", proto.VerdictDeny), decision("s/1/1/0", proto.VerdictAllow)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := NewBook()
			var err error
			for _, r := range tc.records {
				if err = b.Fold(r); err != nil {
					break
				}
			}
			if err == nil {
				t.Error("taken")
			}
		})
	}
}

// An id that was refused as replayed need not be one that ran: an earlier one may
// still come.
func TestARefusedReplayIsNoUse(t *testing.T) {
	b := NewBook()
	replay := decision("s/1/5/0", proto.VerdictDeny)
	replay.Code = proto.CodeReplayedCall
	for _, r := range []proto.AuditRecord{replay, decision("s/1/1/0", proto.VerdictAllow)} {
		if err := b.Fold(r); err != nil {
			t.Fatal(err)
		}
	}
	if b.Final("s/1/5/0") != nil || b.Open()["s/1/1/0"] == nil {
		t.Error("the replay counts as the call")
	}
}

func TestSeen(t *testing.T) {
	b := NewBook()
	id := func(s string) proto.CallID {
		c, err := proto.ParseCallID(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if !b.Raise(id("s/1/10/1")) || b.Raise(id("s/1/10/1")) {
		t.Error("an id is new once")
	}
	for _, tc := range []struct {
		id   string
		seen bool
	}{{"s/1/10/0", true}, {"s/1/9/7", true}, {"s/1/10/2", false}, {"s/1/11/0", false}, {"s/2/1/0", false}, {"t/1/1/0", false}} {
		if got := b.Seen(id(tc.id)); got != tc.seen {
			t.Errorf("%s: %v", tc.id, got)
		}
	}
}

func TestOnlyTheNewestEndsAreRemembered(t *testing.T) {
	b := NewBook()
	for i := range maxFinals + 10 {
		id := proto.CallID{Session: "s", Epoch: 1, Record: int64(i)}.String()
		if err := b.Fold(decision(id, proto.VerdictDeny)); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.finals.all) != maxFinals || b.Final("s/1/0/0") != nil || b.Final("s/1/20/0") == nil {
		t.Errorf("%d remembered", len(b.finals.all))
	}
}
