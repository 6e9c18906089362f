package proto

// Examples of owner.sock, runner.sock, egress.sock and the audit log.

const (
	exArgs     = `{"path":"/notes/a.md","content":"one\ntwo\n","mode":"overwrite"}`
	exApproval = "Zm9vYmFyYmF6cXV4"
	exNote     = "boxmaker/audit\n4711\nn4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=\n\n— boxmaker/audit 3q2+7w==\n"
)

var (
	exWaiting = Approval{
		Approval: exApproval, Code: "k7-m2", Digest: exHash, Asked: exTime, Expires: exTime, Call: exCall, Session: "chat-20260304-1",
		Tool: "write_file", Fields: []Field{{Name: "path", Value: "/notes/a.md"}, {Name: "content", Value: "one\n\x1b[2Jtwo \u202e"}},
		Read: []string{"/notes"}, Write: []string{"/notes/a.md"}, Hosts: []string{"api.example.com:443"}, Secrets: []string{"example-token"},
		Class: ClassPrivate, Taint: ClassSecret, Untrusted: true, Grant: "20-notes-write", Reason: "my notes",
		Diff: "--- a.md\n+++ a.md\n@@ -1 +1,2 @@\n one\n+two\n", DiffNote: "only the first 500 lines",
	}
	exWaiting0 = Approval{
		Approval: "a", Code: "c", Digest: exHash, Asked: exTime, Expires: exTime, Call: "s/1/0/0", Session: "s", Tool: "t",
		Class: ClassPublic, Taint: ClassPublic,
	}
	exConn  = EgressConn{Host: "api.example.com:443", Address: "192.0.2.7:443", Verdict: EgressPassed, Sent: 412, Received: 20480, MS: 131}
	exConn0 = EgressConn{Verdict: EgressBadRequest}
)

func ownerRequests() []example[Message] {
	return []example[Message]{
		{&ListApprovals{Follow: true}, &ListApprovals{}},
		{
			&Answer{Approval: exApproval, Digest: exHash, Verdict: VerdictApproved, Channel: "chat"},
			&Answer{Approval: "a", Digest: exHash, Verdict: VerdictDenied, Channel: "cli"},
		},
		{&Explain{Session: "chat-20260304-1", Tool: "read_file", Args: `{"path":"/notes/a.md"}`}, &Explain{Tool: "t"}},
		{&ListTools{}, &ListTools{}},
		{&GetHead{}, &GetHead{}},
		{&GetBroker{}, &GetBroker{}},
		{&Halt{Reason: "something is odd"}, &Halt{}},
		{&Resume{}, &Resume{}},
	}
}

func ownerEvents() []example[Message] {
	return []example[Message]{
		{&exWaiting, &exWaiting0},
		{&Retracted{Approval: exApproval, Verdict: VerdictApproved, By: "uid 1000", Channel: "cli"}, &Retracted{Approval: "a", Verdict: VerdictExpired}},
		{&ApprovalList{Approvals: []Approval{exWaiting}}, &ApprovalList{}},
		{
			&Answered{Approval: exApproval, Verdict: VerdictDenied, By: "uid 1000", Channel: "chat", First: true},
			&Answered{Approval: "a", Verdict: VerdictExpired, Channel: "cli"},
		},
		{
			&Explained{
				Verdict: VerdictDeny, Code: CodeTaintTooHigh, Grant: "10-fetch", Why: "the session has seen secret text", Taint: ClassSecret, Untrusted: true,
				Steps: []ExplainStep{{Grant: "10-fetch", Fits: true, Why: "host and method fit"}},
			},
			&Explained{Verdict: VerdictAllow, Taint: ClassPublic},
		},
		{
			&ToolTable{Tools: []ToolRow{{Name: "http_fetch", Line: "fetch a URL", Schema: `{"type":"object"}`, Grants: []string{"10-fetch"}}}},
			&ToolTable{},
		},
		{&Head{Head: exHead, Checkpoint: exNote}, &Head{Head: AuditHead{Hash: NoHash}}},
		{
			&BrokerStatus{
				Version: "0.1.0", Since: exTime, Halted: true, HaltReason: "something is odd", Running: 1, Pending: 2, Kept: 3, Grants: 12,
				Broken: []string{"30-shell.toml:4: unknown key"}, Head: exHead, Checks: []Check{exCheck}, Confinement: []Check{exCheck},
			},
			&BrokerStatus{Since: exTime, Head: AuditHead{Hash: NoHash}},
		},
		{&Error{Code: ErrWrongDigest, Text: "The call that waits is another one.", Runbook: "approval-changed"}, &Error{Code: ErrNoApproval}},
	}
}

func runnerRequests() []example[Message] {
	return []example[Message]{
		{
			&Launch{
				Call: exCall, Entry: "write_file", Input: exArgs, Mounts: []Mount{{Path: "/notes", Write: true}}, Hide: []string{"/notes/private"}, Userland: UserlandRoot, Root: "/srv/userland",
				Door: "egressd/doors/x7f3.sock", Secrets: []LaunchSecret{{Name: "example-token", Value: "hunter2"}},
				Limits: Limits{MS: 30_000, Memory: 256 << 20, Output: 64 << 10, PIDs: 64},
			},
			&Launch{Call: "s/1/0/0", Entry: "t", Userland: UserlandNone},
		},
		{&GetRunner{}, &GetRunner{}},
	}
}

func runnerEvents() []example[Message] {
	return []example[Message]{
		{
			&Ended{Reason: EndOutput, Exit: 137, Output: []byte("a\x00\xff\n"), Dropped: 70000, Detail: "killed", MS: 31},
			&Ended{Reason: EndExit},
		},
		{
			&RunnerStatus{Version: "0.1.0", Runtime: "crun", Running: 2, Checks: []Check{exCheck}, Confinement: []Check{exCheck}},
			&RunnerStatus{},
		},
		{&Error{Code: ErrBadRequest, Text: "Not a request.", Runbook: "bad-request"}, &Error{Code: ErrInternal}},
	}
}

func egressRequests() []example[Message] {
	return []example[Message]{
		{
			&OpenDoor{Call: exCall, Allow: []string{"*.example.com:443", "nas.lan:80"}, Local: []string{"nas.lan:80"}, Bytes: 16 << 20, Until: exTime},
			&OpenDoor{Call: "s/1/0/0", Until: exTime},
		},
		{&CloseDoor{Call: exCall}, &CloseDoor{Call: "s/1/0/0"}},
		{&GetEgress{}, &GetEgress{}},
	}
}

func egressEvents() []example[Message] {
	return []example[Message]{
		{&Door{Path: "egressd/doors/x7f3.sock"}, &Door{Path: "d"}},
		{&EgressReport{Connections: []EgressConn{exConn}, More: 9}, &EgressReport{Connections: []EgressConn{exConn0}}},
		{&EgressStatus{Version: "0.1.0", Doors: 2, Confinement: []Check{exCheck}}, &EgressStatus{}},
		{&Error{Code: ErrNotReady, Text: "Too many doors.", Runbook: "not-ready"}, &Error{Code: ErrInternal}},
	}
}

func auditExamples() []example[AuditRecord] {
	return []example[AuditRecord]{
		{&AuditStart{Version: "0.1.0", PID: 4242, Lost: []AuditHead{exHead}}, &AuditStart{}},
		{
			&AuditDecision{
				ID: exCall, Session: "chat-20260304-1", Tool: "write_file", Args: exArgs, Digest: exHash, Verdict: VerdictAsk, Code: CodeRateLimited,
				Grant: "20-notes-write", GrantHash: exHash, Taint: ClassPrivate, Untrusted: true, Approval: exApproval, Expires: exTime,
			},
			&AuditDecision{ID: "s/1/0/0", Session: "s", Digest: exHash, Verdict: VerdictAllow, Taint: ClassPublic},
		},
		{
			&AuditApproval{ID: exCall, Approval: exApproval, Verdict: VerdictApproved, Code: CodeNoGrant, By: "uid 1000", Channel: "chat", Digest: exHash},
			&AuditApproval{ID: "s/1/0/0", Approval: "a", Verdict: VerdictExpired, Digest: exHash},
		},
		{
			&AuditOutcome{
				ID: exCall, Outcome: CallFailed, Code: CodeToolFailed, Class: ClassPrivate, Untrusted: true, Bytes: 48, Hash: exHash, MS: 5100,
				Egress: []EgressConn{exConn, exConn0}, More: 3, Detail: "exit status 1",
			},
			&AuditOutcome{ID: "s/1/0/0", Outcome: CallOK, Class: ClassPublic, Hash: exHash},
		},
		{&AuditRecovered{Bytes: 17, File: "2026-03.jsonl.torn-4096"}, &AuditRecovered{}},
		{&AuditCheckpoint{Head: exHead, Signature: "— boxmaker/audit 3q2+7w=="}, &AuditCheckpoint{Head: AuditHead{Hash: NoHash}}},
		{&AuditLimited{Refused: 1234, Session: "s-1"}, &AuditLimited{Session: "s"}},
		{&AuditHalt{Halted: true, Reason: "something is odd", By: "uid 1000"}, &AuditHalt{}},
	}
}
