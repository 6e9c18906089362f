package proto

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/strict"
)

// TestUnionsAreClosed: a union decodes its own messages and no others, not even
// those of the other direction.
func TestUnionsAreClosed(t *testing.T) {
	unions := map[string]Union{}
	for _, f := range unionFamilies() {
		unions[f.dir] = f.union
	}
	for _, f := range families(t) {
		if unions[f.dir].Tags() == nil {
			continue // records
		}
		for name, u := range unions {
			for _, ex := range f.examples {
				_, err := u.Decode(ex.bytes)
				switch {
				case name == f.dir && err != nil:
					t.Errorf("%s: %s: %v", name, ex.bytes, err)
				case name != f.dir && err == nil && !slices.Contains(u.Tags(), ex.tag):
					t.Errorf("%s takes %s", name, ex.bytes)
				case !slices.Contains(u.Tags(), ex.tag) && !errors.Is(err, ErrTag):
					t.Errorf("%s: %s: %v", name, ex.bytes, err)
				}
			}
		}
	}
	if m := LoopRequests.New("done"); m != nil {
		t.Errorf("New gave %v", m)
	}
	if n := len(LoopEvents.Tags()); n != 17 {
		t.Errorf("%d tags", n)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, doc string
		want      error // nil: any
	}{
		{"nothing", ``, ErrTag},
		{"null", `null`, ErrTag},
		{"array", `["status"]`, ErrTag},
		{"no tag", `{}`, ErrTag},
		{"tag not first", `{"session":"s","type":"stop"}`, ErrTag},
		{"tag in other case", `{"Type":"stop","session":"s"}`, ErrTag},
		{"tag with an escape", `{"type":"st\u006fp","session":"s"}`, ErrTag},
		{"key of the tag with an escape", `{"t\u0079pe":"stop","session":"s"}`, ErrTag},
		{"tag in upper case", `{"type":"STOP","session":"s"}`, ErrTag},
		{"tag is null", `{"type":null}`, ErrTag},
		{"tag is a number", `{"type":1}`, ErrTag},
		{"empty tag", `{"type":""}`, ErrTag},
		{"unknown tag", `{"type":"shutdown"}`, ErrTag},
		{"long tag", `{"type":"` + strings.Repeat("x", 1000) + `"}`, ErrTag},
		{"cut in the tag", `{"type":"stop`, ErrTag},
		{"cut behind the tag", `{"type":"status"`, ErrTag},
		{"comma and no member", `{"type":"status",}`, ErrTag},
		{"space behind the tag", `{"type":"status" }`, ErrTag},
		{"space before the tag", `{ "type":"status"}`, ErrTag},
		{"tag twice", `{"type":"stop","type":"stop","session":"s"}`, nil},
		{"behind the end", `{"type":"status"}}`, ErrTag},
		{"member of another message", `{"type":"status","session":"s"}`, nil},
		{"duplicate key", `{"type":"stop","session":"s","session":"s"}`, nil},
		{"other case", `{"type":"stop","Session":"s"}`, nil},
		{"null", `{"type":"stop","session":null}`, strict.ErrForm},
		{"float", `{"type":"watch","session":"s","after":1.0}`, nil},
		{"white space", `{"type":"stop","session": "s"}`, strict.ErrForm},
		{"reordered", `{"type":"submit","origin":"o","session":"s","text":"","surface":"ask"}`, strict.ErrForm},
		{"missing", `{"type":"submit","session":"s","origin":"o","text":""}`, nil},
		{"zero that is left out", `{"type":"watch","session":"s","after":0}`, strict.ErrForm},
		{"false that is left out", `{"type":"watch","session":"s","follow":false}`, strict.ErrForm},
		{"negative", `{"type":"watch","session":"s","after":-1}`, errNegative},
		{"path in a session id", `{"type":"stop","session":"../../etc"}`, ErrID},
		{"upper case in a session id", `{"type":"stop","session":"Chat"}`, ErrID},
		{"empty session id", `{"type":"stop","session":""}`, ErrID},
		{"long session id", `{"type":"stop","session":"` + strings.Repeat("s", 65) + `"}`, ErrID},
		{"long origin", `{"type":"submit","session":"s","origin":"` + strings.Repeat("o", 65) + `","text":"","surface":"ask"}`, ErrID},
		{"origin with a slash", `{"type":"submit","session":"s","origin":"a/b","text":"","surface":"ask"}`, ErrID},
		{"unknown surface", `{"type":"submit","session":"s","origin":"o","text":"","surface":"web"}`, nil},
		{"invalid UTF-8", "{\"type\":\"submit\",\"session\":\"s\",\"origin\":\"o\",\"text\":\"\xff\",\"surface\":\"ask\"}", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := LoopRequests.Decode([]byte(tc.doc))
			if err == nil || m != nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("%v, %v", m, err)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestValidation has what a struct of the right shape can still get wrong. It
// is refused when encoded too.
func TestValidation(t *testing.T) {
	good := "s/1/0/0"
	for _, tc := range []struct {
		name string
		m    Message
	}{
		{"call of another session", &Call{ID: "a/1/0/0", Session: "b", Tool: "t"}},
		{"tool name with a dot", &Call{ID: good, Session: "s", Tool: "a.b"}},
		{"empty tool name", &Call{ID: good, Session: "s"}},
		{"long tool name", &Call{ID: good, Session: "s", Tool: strings.Repeat("t", 65)}},
		{"ok with a code", &CallResult{ID: good, Outcome: CallOK, Code: CodeInternal, Class: ClassPublic}},
		{"failed without a code", &CallResult{ID: good, Outcome: CallFailed, Class: ClassPublic}},
		{"unknown code", &CallResult{ID: good, Outcome: CallFailed, Code: "oops", Class: ClassPublic}},
		{"unknown outcome", &CallResult{ID: good, Outcome: "fine", Class: ClassPublic}},
		{"unknown class", &CallResult{ID: good, Outcome: CallOK, Class: "top-secret"}},
		{"no class", &CallResult{ID: good, Outcome: CallOK}},
		{"negative dropped", &CallResult{ID: good, Outcome: CallOK, Class: ClassPublic, Dropped: -1}},
		{"approval that is no token", &Asked{Call: good, Approval: "a b", Expires: exTime}},
		{"expiry that is no time", &Asked{Call: good, Approval: "a", Expires: "tomorrow"}},
		{"bad name in a list", &ToolList{Tools: []ToolInfo{{Name: "ok"}, {Name: "Not OK"}}}},
		{"bad id in confirm", &Confirm{ID: "s"}},
		{"bad id in confirmed", &Confirmed{ID: "s/0/0/0"}},
		{"bad id in fate", &Fate{}},
		{"bad id in unknown", &Unknown{ID: "s/1/0/0/"}},
		{"bad session in tools", &FindTools{Session: "S"}},
		{"negative record", &Accepted{Record: -1}},
		{"role", &Past{Time: exTime, Role: "system"}},
		{"time", &Past{Time: "2026-01-01", Role: "user"}},
		{"origin of the past", &Past{Time: exTime, Role: "user", Origin: "a b"}},
		{"surface of the past", &Past{Time: exTime, Role: "user", Surface: "fax"}},
		{"call of the past", &Past{Time: exTime, Role: "tool", Call: "x"}},
		{"outcome of the past", &Past{Time: exTime, Role: "tool", Outcome: "perfect"}},
		{"code of the past", &Past{Time: exTime, Role: "tool", Code: "sorry"}},
		{"class of the past", &Past{Time: exTime, Role: "tool", Class: "odd"}},
		{"negative time of the past", &Past{Time: exTime, Role: "tool", MS: -1}},
		{"negative epoch", &Watch{Session: "s", Epoch: -1}},
		{"reason to wait", &Waiting{Reason: "lunch"}},
		{"negative prefill", &Prefill{Done: -1}},
		{"call id of a tool", &ToolStarted{Call: "x"}},
		{"call id of a result", &Result{Call: "x", Outcome: CallOK, Class: ClassPublic}},
		{"kind of notice", &Notice{Kind: "gossip"}},
		{"outcome of a turn", &Done{Outcome: "perfect"}},
		{"negative usage", &Done{Outcome: TurnAnswered, Usage: Usage{Cached: -1}}},
		{"error code", &Error{Code: "sorry"}},
		{"row of sessions", &SessionList{Sessions: []SessionInfo{{Session: "s", Modified: "never"}}}},
		{"session of a detail", &SessionDetail{Info: SessionInfo{Session: "..", Modified: exTime}}},
		{"negative turns", &SessionDetail{Info: exInfo, Turns: -1}},
		{"state", &Status{State: "happy", Since: exTime}},
		{"since", &Status{State: "ready"}},
		{"state of a check", &Status{State: "ready", Since: exTime, Checks: []Check{{State: "green"}}}},
		{"state of a confinement check", &Status{State: "ready", Since: exTime, Confinement: []Check{{}}}},
		{"prefix", &ListSessions{Prefix: "a/b"}},
		{"negative limit", &ListSessions{Limit: -1}},
		{"session to show", &GetSession{}},
		{"head of a result", &CallResult{ID: good, Outcome: CallOK, Class: ClassPublic, Head: AuditHead{N: 1}}},
		{"bad id in cancel", &Cancel{ID: "s"}},
	} {
		if b, err := Encode(tc.m); err == nil {
			t.Errorf("%s: %s", tc.name, b)
		}
	}
}

// TestAuthorityValidation is the same for the sockets of brokerd's neighbours.
func TestAuthorityValidation(t *testing.T) {
	good := "s/1/0/0"
	approval := func(change func(*Approval)) *Approval { a := exWaiting0; change(&a); return &a }
	for _, tc := range []struct {
		name string
		m    Message
	}{
		{"approval", approval(func(a *Approval) { a.Approval = "a b" })},
		{"code", approval(func(a *Approval) { a.Code = "" })},
		{"digest", approval(func(a *Approval) { a.Digest = strings.ToUpper(exHash) })},
		{"asked", approval(func(a *Approval) { a.Asked = "now" })},
		{"expires", approval(func(a *Approval) { a.Expires = "" })},
		{"call", approval(func(a *Approval) { a.Call = "s" })},
		{"session", approval(func(a *Approval) { a.Session = "" })},
		{"tool", approval(func(a *Approval) { a.Tool = "A" })},
		{"class", approval(func(a *Approval) { a.Class = "" })},
		{"taint", approval(func(a *Approval) { a.Taint = "" })},
		{"bad row of approvals", &ApprovalList{Approvals: []Approval{exWaiting, {}}}},
		{"retracted approval", &Retracted{Verdict: VerdictExpired}},
		{"retracted verdict", &Retracted{Approval: "a", Verdict: "gone"}},
		{"answer that only grants give", &Answer{Approval: "a", Digest: exHash, Verdict: VerdictAllow, Channel: "cli"}},
		{"answer without a digest", &Answer{Approval: "a", Verdict: VerdictApproved, Channel: "cli"}},
		{"answer without a channel", &Answer{Approval: "a", Digest: exHash, Verdict: VerdictApproved}},
		{"answered", &Answered{Approval: "a", Verdict: "maybe", Channel: "cli"}},
		{"explain a bad tool", &Explain{Tool: "A"}},
		{"explain for a bad session", &Explain{Session: "S", Tool: "t"}},
		{"explained as an owner", &Explained{Verdict: VerdictApproved, Taint: ClassPublic}},
		{"explained code", &Explained{Verdict: VerdictDeny, Code: "x", Taint: ClassPublic}},
		{"tool in a table", &ToolTable{Tools: []ToolRow{{Name: ""}}}},
		{"head", &Head{Head: AuditHead{N: -1, Hash: exHash}}},
		{"head of a status", &BrokerStatus{Since: exTime}},
		{"check of a status", &BrokerStatus{Since: exTime, Head: exHead, Checks: []Check{{}}}},
		{"confinement of a status", &BrokerStatus{Since: exTime, Head: exHead, Confinement: []Check{{}}}},
		{"negative count", &BrokerStatus{Since: exTime, Head: exHead, Running: -1}},
		{"launch for no call", &Launch{Entry: "t", Userland: UserlandNone}},
		{"launch of no tool", &Launch{Call: good, Entry: "../t", Userland: UserlandNone}},
		{"userland", &Launch{Call: good, Entry: "t", Userland: "all"}},
		{"delivery without a key", &Delivery{Session: "s"}},
		{"delivery for no session", &Delivery{Key: "k"}},
		{"negative limit of a launch", &Launch{Call: good, Entry: "t", Userland: UserlandNone, Limits: Limits{PIDs: -1}}},
		{"end reason", &Ended{Reason: "bored"}},
		{"negative time", &Ended{Reason: EndExit, MS: -1}},
		{"check of a runner", &RunnerStatus{Checks: []Check{{State: "green"}}}},
		{"door for no call", &OpenDoor{Until: exTime}},
		{"door for ever", &OpenDoor{Call: good}},
		{"negative bytes", &OpenDoor{Call: good, Until: exTime, Bytes: -1}},
		{"door that is nowhere", &Door{}},
		{"close no door", &CloseDoor{}},
		{"connection", &EgressReport{Connections: []EgressConn{{Verdict: "fine"}}}},
		{"negative rest", &EgressReport{More: -1}},
		{"check of a door", &EgressStatus{Confinement: []Check{{}}}},
		{"negative doors", &EgressStatus{Doors: -1}},
	} {
		if b, err := Encode(tc.m); err == nil {
			t.Errorf("%s: %s", tc.name, b)
		}
	}
}

func TestTerminal(t *testing.T) {
	terminal := []string{"done", "error", "stopped", "sessions", "session", "status", "noted"}
	for _, tag := range LoopEvents.Tags() {
		if got := Terminal(LoopEvents.New(tag)); got != slices.Contains(terminal, tag) {
			t.Errorf("%s: %v", tag, got)
		}
	}
}

func TestErrorText(t *testing.T) {
	e := &Error{Code: ErrNotReady, Text: "wait", Runbook: "not-ready"}
	if e.Error() != "wait (see runbook: not-ready)" || (&Error{Text: "wait"}).Error() != "wait" {
		t.Error(e.Error())
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	b, err := Append([]byte("before"), &Stopped{Running: true})
	if err != nil || string(b) != `before{"type":"stopped","running":true}` {
		t.Errorf("%s, %v", b, err)
	}
	if b, err := Append([]byte("before"), &Stop{}); err == nil || string(b) != "before" {
		t.Errorf("%s, %v", b, err)
	}
}
