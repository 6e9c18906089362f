package proto

import "errors"

// Messages of broker.sock: loopd asks, brokerd answers.

// BrokerRequests is what loopd may send to brokerd.
var BrokerRequests = union("broker request",
	func() Message { return new(Call) },
	func() Message { return new(Confirm) },
	func() Message { return new(Fate) },
	func() Message { return new(FindTools) },
	func() Message { return new(Cancel) },
)

// BrokerEvents is what brokerd may send back. [Asked] may come before
// [CallResult]; all others end the stream.
var BrokerEvents = union("broker event",
	func() Message { return new(Asked) },
	func() Message { return new(CallResult) },
	func() Message { return new(Confirmed) },
	func() Message { return new(Unknown) },
	func() Message { return new(ToolList) },
	func() Message { return new(Error) },
)

// Call asks brokerd to decide on one tool call and, if allowed, to run it.
// An ID is decided and run at most once; asked again, it gives the same result.
type Call struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Tool    string `json:"tool"`
	Args    string `json:"args"` // JSON text, byte for byte as the model wrote it
}

// Asked says that the call waits for the owner's approval.
type Asked struct {
	Call     string `json:"call"`
	Approval string `json:"approval"`
	Expires  string `json:"expires"`
}

// CallResult is how a call ended. brokerd keeps it until [Confirm].
type CallResult struct {
	ID        string      `json:"id"`
	Outcome   CallOutcome `json:"outcome"`
	Code      Code        `json:"code,omitzero"`
	Class     Class       `json:"class"`
	Untrusted bool        `json:"untrusted,omitzero"`
	Text      string      `json:"text"`
	Dropped   int64       `json:"dropped,omitzero"` // bytes cut from the result before it came here
	// Head is the audit log's with the record of this result in it. loopd
	// keeps it with the result: an anchor outside brokerd's own files.
	Head AuditHead `json:"head,omitzero"`
}

// Confirm tells brokerd that the result is in the session log.
type Confirm struct {
	ID string `json:"id"`
}

// Confirmed answers [Confirm].
type Confirmed struct {
	ID string `json:"id"`
}

// Fate asks for the result of a call that was under way when loopd ended. The
// answer is [CallResult] (perhaps after the call has ended) or [Unknown].
type Fate struct {
	ID string `json:"id"`
}

// Unknown answers [Fate]: brokerd has no result for this id and never will.
type Unknown struct {
	ID string `json:"id"`
	// Never is true if brokerd is certain that the call did not start.
	Never bool `json:"never,omitzero"`
}

// Cancel asks brokerd to end a call whose turn the owner stopped: an approval
// is withdrawn, a running container killed. The answer is [CallResult], with
// the code stopped unless the call had ended before, or [Unknown].
type Cancel struct {
	ID string `json:"id"`
}

// FindTools asks for tools that some grant permits and that match the query.
type FindTools struct {
	Session string `json:"session"`
	Query   string `json:"query"`
}

// ToolInfo is one tool: a line about it and the JSON schema of its arguments.
type ToolInfo struct {
	Name   string `json:"name"`
	Line   string `json:"line"`
	Schema string `json:"schema"` // JSON text; empty: not shown in this answer
}

// ToolList answers [FindTools].
type ToolList struct {
	Tools []ToolInfo `json:"tools"`
}

// MaxToolName is the longest tool name, in bytes.
const MaxToolName = 64

// CheckTool reports whether name can be a tool's name: [a-z0-9_]{1,64}.
func CheckTool(name string) error {
	if len(name) == 0 || len(name) > MaxToolName {
		return errors.New("proto: a tool name has 1 to 64 characters")
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return errors.New("proto: a tool name has only a-z, 0-9 and '_'")
		}
	}
	return nil
}

// Validate checks that the id belongs to the session.
func (m *Call) Validate() error {
	id, err := ParseCallID(m.ID)
	if err == nil && id.Session != m.Session {
		err = errors.New("proto: the call id is of another session")
	}
	return errors.Join(err, CheckTool(m.Tool))
}

// Validate checks the identifiers.
func (m *Asked) Validate() error {
	_, err := ParseCallID(m.Call)
	_, err2 := ParseTime(m.Expires)
	return errors.Join(err, err2, CheckToken(m.Approval))
}

// Validate checks the id, the enums and the head.
func (m *CallResult) Validate() error {
	_, err := ParseCallID(m.ID)
	if m.Head != (AuditHead{}) {
		err = errors.Join(err, m.Head.Validate())
	}
	return errors.Join(err, checkResult(m.Outcome, m.Code, m.Class), nonNegative(m.Dropped))
}

// Validate checks the id.
func (m *Confirm) Validate() error { _, err := ParseCallID(m.ID); return err }

// Validate checks the id.
func (m *Confirmed) Validate() error { _, err := ParseCallID(m.ID); return err }

// Validate checks the id.
func (m *Fate) Validate() error { _, err := ParseCallID(m.ID); return err }

// Validate checks the id.
func (m *Unknown) Validate() error { _, err := ParseCallID(m.ID); return err }

// Validate checks the id.
func (m *Cancel) Validate() error { _, err := ParseCallID(m.ID); return err }

// Validate checks the session id.
func (m *FindTools) Validate() error { return CheckSession(m.Session) }

// Validate checks the names.
func (m *ToolList) Validate() error {
	var errs []error
	for _, t := range m.Tools {
		errs = append(errs, CheckTool(t.Name))
	}
	return errors.Join(errs...)
}

// Tags.

func (*Call) Tag() string       { return "call" }
func (*CallResult) Tag() string { return "result" }
func (*Confirm) Tag() string    { return "confirm" }
func (*Confirmed) Tag() string  { return "confirmed" }
func (*Fate) Tag() string       { return "fate" }
func (*Unknown) Tag() string    { return "unknown" }
func (*Cancel) Tag() string     { return "cancel" }
func (*FindTools) Tag() string  { return "tools" }
func (*ToolList) Tag() string   { return "tools" }
