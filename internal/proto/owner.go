package proto

import "errors"

// Messages of owner.sock: the owner's tools (bxctl) ask, brokerd answers.

// OwnerRequests is what bxctl may send to brokerd.
var OwnerRequests = union("owner request",
	func() Message { return new(ListApprovals) },
	func() Message { return new(Answer) },
	func() Message { return new(Explain) },
	func() Message { return new(ListTools) },
	func() Message { return new(GetHead) },
	func() Message { return new(GetBroker) },
	func() Message { return new(Halt) },
	func() Message { return new(Resume) },
)

// OwnerEvents is what brokerd may send back. [Approval] and [Retracted] are
// the stream of a [ListApprovals] that follows; all others end the stream.
var OwnerEvents = union("owner event",
	func() Message { return new(Approval) },
	func() Message { return new(Retracted) },
	func() Message { return new(ApprovalList) },
	func() Message { return new(Answered) },
	func() Message { return new(Explained) },
	func() Message { return new(ToolTable) },
	func() Message { return new(Head) },
	func() Message { return new(BrokerStatus) },
	func() Message { return new(Error) },
)

// ListApprovals asks for the approvals that wait: one [ApprovalList], or with
// Follow each as [Approval], then those to come, until the connection ends.
type ListApprovals struct {
	Follow bool `json:"follow,omitzero"`
}

// Approval is one call that waits for the owner. Every member was made by
// brokerd from structured data. The texts in it may come from a model: whoever
// shows them escapes control characters and look-alike line breaks and marks
// where a text begins and ends, so that no text can pass for a line of ours.
type Approval struct {
	Approval  string   `json:"approval"` // 128 random bits
	Code      string   `json:"code"`     // short form for people, good only with the owner's identity
	Digest    string   `json:"digest"`   // SHA-256, hex, of the call's canonical bytes and the nonce
	Asked     string   `json:"asked"`
	Expires   string   `json:"expires"`
	Call      string   `json:"call"`
	Session   string   `json:"session"`
	Tool      string   `json:"tool"`
	Fields    []Field  `json:"fields"` // every argument in full, in the order of the schema
	Read      []string `json:"read"`   // paths that the call may read
	Write     []string `json:"write"`
	Hosts     []string `json:"hosts"`   // host:port
	Secrets   []string `json:"secrets"` // names
	Class     Class    `json:"class"`   // of the result
	Taint     Class    `json:"taint"`   // of the session
	Untrusted bool     `json:"untrusted,omitzero"`
	Grant     string   `json:"grant"`
	Reason    string   `json:"reason,omitzero"`
	Diff      string   `json:"diff,omitzero"`      // of a write or an edit, unified form
	DiffNote  string   `json:"diff_note,omitzero"` // why there is no diff, or a part only
}

// Field is one argument of a call: its name in the schema and its value as
// text; a value that is not a string as JSON.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Retracted says that an approval waits no more, whoever ended it.
type Retracted struct {
	Approval string  `json:"approval"`
	Verdict  Verdict `json:"verdict"`
	By       string  `json:"by,omitzero"`
	Channel  string  `json:"channel,omitzero"`
}

// ApprovalList answers [ListApprovals].
type ApprovalList struct {
	Approvals []Approval `json:"approvals"`
}

// Answer is the owner's word on one approval. Digest is what the owner was
// shown; it must be that of the call that waits.
type Answer struct {
	Approval string  `json:"approval"`
	Digest   string  `json:"digest"`
	Verdict  Verdict `json:"verdict"` // approved or denied
	Channel  string  `json:"channel"` // chat, cli
}

// Answered says what holds now: First is false if another answer came before.
type Answered struct {
	Approval string  `json:"approval"`
	Verdict  Verdict `json:"verdict"`
	By       string  `json:"by"`
	Channel  string  `json:"channel"`
	First    bool    `json:"first,omitzero"`
}

// Explain asks which grant would decide on a call, without running anything.
// An empty session stands for one that has seen nothing.
type Explain struct {
	Session string `json:"session,omitzero"`
	Tool    string `json:"tool"`
	Args    string `json:"args"` // JSON text
}

// Explained answers [Explain].
type Explained struct {
	Verdict   Verdict       `json:"verdict"`
	Code      Code          `json:"code,omitzero"`
	Grant     string        `json:"grant,omitzero"`
	Why       string        `json:"why"`
	Taint     Class         `json:"taint"`
	Untrusted bool          `json:"untrusted,omitzero"`
	Steps     []ExplainStep `json:"steps"` // every grant of the tool, in the order of their files
}

// ExplainStep says what one grant made of the call.
type ExplainStep struct {
	Grant string `json:"grant"`
	Fits  bool   `json:"fits,omitzero"`
	Why   string `json:"why"`
}

// ListTools asks for all tools and what is granted of each.
type ListTools struct{}

// ToolTable answers [ListTools].
type ToolTable struct {
	Tools []ToolRow `json:"tools"`
}

// ToolRow is one tool. Grants are the ids of the unexpired grants for it.
type ToolRow struct {
	Name   string   `json:"name"`
	Line   string   `json:"line"`
	Schema string   `json:"schema"` // JSON text
	Grants []string `json:"grants"`
}

// GetHead asks for the head of the audit log as a signed checkpoint.
type GetHead struct{}

// Head answers [GetHead].
type Head struct {
	Head       AuditHead `json:"head"`
	Checkpoint string    `json:"checkpoint"` // a signed note
}

// AuditHead names the newest record of an audit log: how many records there
// are, and the SHA-256, hex, of the last line's bytes.
type AuditHead struct {
	N    int64  `json:"n"`
	Hash string `json:"hash"`
}

// GetBroker asks how brokerd is.
type GetBroker struct{}

// BrokerStatus answers [GetBroker], [Halt] and [Resume].
type BrokerStatus struct {
	Version     string    `json:"version"`
	Since       string    `json:"since"`
	Halted      bool      `json:"halted,omitzero"`
	HaltReason  string    `json:"halt_reason,omitzero"`
	Running     int       `json:"running,omitzero"` // calls
	Pending     int       `json:"pending,omitzero"` // approvals
	Kept        int       `json:"kept,omitzero"`    // results that loopd has not confirmed
	Grants      int       `json:"grants,omitzero"`
	Broken      []string  `json:"broken"` // grant files that grant nothing, one line each
	Head        AuditHead `json:"head"`
	Checks      []Check   `json:"checks"` // runner, egress, secrets, cgroups
	Confinement []Check   `json:"confinement"`
}

// Halt makes brokerd deny everything and kill what runs, until [Resume].
type Halt struct {
	Reason string `json:"reason,omitzero"`
}

// Resume ends a [Halt].
type Resume struct{}

// Validate accepts both values.
func (m *ListApprovals) Validate() error { return nil }

// Validate checks identifiers, times and enums.
func (m *Approval) Validate() error {
	_, err := ParseCallID(m.Call)
	_, err2 := ParseTime(m.Asked)
	_, err3 := ParseTime(m.Expires)
	return errors.Join(err, err2, err3, CheckToken(m.Approval), CheckToken(m.Code), CheckHash(m.Digest),
		CheckSession(m.Session), CheckTool(m.Tool), m.Class.Validate(), m.Taint.Validate())
}

// Validate checks the identifiers.
func (m *Retracted) Validate() error {
	return errors.Join(CheckToken(m.Approval), m.Verdict.Validate())
}

// Validate checks each row.
func (m *ApprovalList) Validate() error {
	var errs []error
	for i := range m.Approvals {
		errs = append(errs, m.Approvals[i].Validate())
	}
	return errors.Join(errs...)
}

// Validate checks that the verdict is one that an owner can give.
func (m *Answer) Validate() error {
	return errors.Join(CheckToken(m.Approval), CheckHash(m.Digest), CheckToken(m.Channel),
		oneOf("answer", m.Verdict, VerdictApproved, VerdictDenied))
}

// Validate checks the identifiers.
func (m *Answered) Validate() error {
	return errors.Join(CheckToken(m.Approval), CheckToken(m.Channel), m.Verdict.Validate())
}

// Validate checks session and tool.
func (m *Explain) Validate() error {
	if m.Session != "" {
		return errors.Join(CheckSession(m.Session), CheckTool(m.Tool))
	}
	return CheckTool(m.Tool)
}

// Validate checks the enums.
func (m *Explained) Validate() error {
	errs := []error{oneOf("explained verdict", m.Verdict, VerdictAllow, VerdictAsk, VerdictDeny), m.Taint.Validate()}
	if m.Code != "" {
		errs = append(errs, m.Code.Validate())
	}
	return errors.Join(errs...)
}

// Validate accepts the only value.
func (m *ListTools) Validate() error { return nil }

// Validate checks the names.
func (m *ToolTable) Validate() error {
	var errs []error
	for _, t := range m.Tools {
		errs = append(errs, CheckTool(t.Name))
	}
	return errors.Join(errs...)
}

// Validate accepts the only value.
func (m *GetHead) Validate() error { return nil }

// Validate checks the head.
func (m *Head) Validate() error { return m.Head.Validate() }

// Validate checks number and hash.
func (h AuditHead) Validate() error { return errors.Join(nonNegative(h.N), CheckHash(h.Hash)) }

// Validate accepts the only value.
func (m *GetBroker) Validate() error { return nil }

// Validate checks time, head and states.
func (m *BrokerStatus) Validate() error {
	_, err := ParseTime(m.Since)
	errs := []error{err, m.Head.Validate(), nonNegative(int64(m.Running), int64(m.Pending), int64(m.Kept), int64(m.Grants))}
	for _, c := range append(append([]Check{}, m.Checks...), m.Confinement...) {
		errs = append(errs, oneOf("check state", c.State, "ok", "failed", "skipped", "pending"))
	}
	return errors.Join(errs...)
}

// Validate accepts any reason.
func (m *Halt) Validate() error { return nil }

// Validate accepts the only value.
func (m *Resume) Validate() error { return nil }

// Tags.

func (*ListApprovals) Tag() string { return "approvals" }
func (*Approval) Tag() string      { return "approval" }
func (*Retracted) Tag() string     { return "retracted" }
func (*ApprovalList) Tag() string  { return "approvals" }
func (*Answer) Tag() string        { return "answer" }
func (*Answered) Tag() string      { return "answered" }
func (*Explain) Tag() string       { return "explain" }
func (*Explained) Tag() string     { return "explained" }
func (*ListTools) Tag() string     { return "tools" }
func (*ToolTable) Tag() string     { return "tools" }
func (*GetHead) Tag() string       { return "head" }
func (*Head) Tag() string          { return "head" }
func (*GetBroker) Tag() string     { return "status" }
func (*BrokerStatus) Tag() string  { return "status" }
func (*Halt) Tag() string          { return "halt" }
func (*Resume) Tag() string        { return "resume" }
