package proto

import (
	"strings"
	"testing"
)

// Examples of gateway.sock.

var (
	exAsk = Ask{
		Approval: exApproval, Code: "K7M2PX", Digest: exHash, Asked: exTime, Expires: exTime, Session: "mm-8f6yk3e1qjbyxg6c5dp3cxi7ba",
		Tool: "write_file", Fields: []Field{{Name: "path", Value: "/notes/a.md"}, {Name: "content", Value: "```\n@all **yes** \u202e"}},
		Read: []string{"/notes"}, Write: []string{"/notes/a.md"}, Hosts: []string{"api.example.com:443"}, Secrets: []string{"example-token"},
		Class: ClassPrivate, Taint: ClassPrivate, Untrusted: true, Grant: "20-notes-write", Reason: "my notes",
		Diff: "--- a.md\n+++ a.md\n@@ -1 +1,2 @@\n one\n+two\n", DiffNote: "only the first 500 lines",
	}
	exNews = Ask{Approval: "a", Asked: exTime, Expires: exTime, Session: "s", Tool: "t", Class: ClassPublic, Taint: ClassSecret}
)

const exOwner = "kq3w9tn8ztdgzbuh1jr4xe7mfo"

func gatewayRequests() []example[Message] {
	return []example[Message]{
		{&exAsk, &exNews},
		{&Retract{Approval: exApproval, Verdict: VerdictApproved, By: "uid 1000", Channel: "cli"}, &Retract{Approval: "a", Verdict: VerdictExpired}},
		{&StillWaiting{Approvals: []string{exApproval, "a"}}, &StillWaiting{}},
		{&Anchor{Checkpoint: exNote}, &Anchor{Checkpoint: "x"}},
		{&GetGateway{}, &GetGateway{}},
	}
}

func gatewayEvents() []example[Message] {
	return []example[Message]{
		{&Shown{Approval: exApproval}, &Shown{Approval: "a"}},
		{
			&ChatAnswer{Approval: exApproval, Digest: exHash, Verdict: VerdictApproved, By: exOwner},
			&ChatAnswer{Approval: "a", Digest: exHash, Verdict: VerdictDenied, By: "b"},
		},
		{&Noted{}, &Noted{}},
		{&Stale{Approvals: []string{exApproval}}, &Stale{}},
		{&GatewayStatus{Version: "0.1.0", Checks: []Check{exCheck}, Confinement: []Check{exCheck}}, &GatewayStatus{}},
		{&Error{Code: ErrNotReady, Text: "Too many approvals.", Runbook: "not-ready"}, &Error{Code: ErrInternal}},
	}
}

// What may not be answered in the chat is told there without the call's arguments.
func TestNewsOfAnApprovalTellNothingOfTheCall(t *testing.T) {
	for name, spoil := range map[string]func(*Ask){
		"code":    func(m *Ask) { m.Code = "K7M2PX" },
		"field":   func(m *Ask) { m.Fields = exAsk.Fields },
		"read":    func(m *Ask) { m.Read = exAsk.Read },
		"write":   func(m *Ask) { m.Write = exAsk.Write },
		"host":    func(m *Ask) { m.Hosts = exAsk.Hosts },
		"secret":  func(m *Ask) { m.Secrets = exAsk.Secrets },
		"reason":  func(m *Ask) { m.Reason = "x" },
		"diff":    func(m *Ask) { m.Diff = "x" },
		"no diff": func(m *Ask) { m.DiffNote = "x" },
	} {
		m := exNews
		if err := m.Validate(); err != nil || !m.Elsewhere() {
			t.Fatal(err)
		}
		if spoil(&m); m.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
	m := exAsk
	if m.Code = ""; m.Validate() == nil || m.Elsewhere() {
		t.Error("an approval without a code was taken")
	}
}

func TestGatewayMessagesAreChecked(t *testing.T) {
	for _, m := range []Message{
		&ChatAnswer{Approval: "a", Digest: exHash, Verdict: VerdictExpired, By: "b"},
		&ChatAnswer{Approval: "a", Digest: exHash, Verdict: VerdictApproved},
		&ChatAnswer{Approval: "a", Verdict: VerdictApproved, By: "b"},
		&Retract{Approval: "a", Verdict: VerdictAsk},
		&Retract{Approval: "a", Verdict: VerdictDenied, Channel: "no token"},
		&StillWaiting{Approvals: []string{"a", ""}},
		&Stale{Approvals: []string{"a b"}},
		&Anchor{},
		&Anchor{Checkpoint: strings.Repeat("x", maxCheckpoint+1)},
		&GatewayStatus{Checks: []Check{{Name: "x", State: "fine"}}},
	} {
		if m.Validate() == nil {
			t.Errorf("%#v was taken", m)
		}
	}
}
