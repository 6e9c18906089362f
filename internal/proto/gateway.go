package proto

import (
	"errors"
	"fmt"
)

// Messages of gateway.sock: brokerd asks, gatewayd shows it to the owner in a
// chat and brings back what the owner answered there.

// GatewayRequests is what brokerd may send to gatewayd.
var GatewayRequests = union("gateway request",
	func() Message { return new(Ask) },
	func() Message { return new(Retract) },
	func() Message { return new(StillWaiting) },
	func() Message { return new(Anchor) },
	func() Message { return new(GetGateway) },
)

// GatewayLooks is what the owner's bxctl may ask gatewayd, on a socket of its own: how
// it is, and nothing that is brokerd's.
var GatewayLooks = union("gateway look", func() Message { return new(GetGateway) })

// GatewayEvents is what gatewayd may send back; all but [Shown] end the stream.
var GatewayEvents = union("gateway event",
	func() Message { return new(Shown) },
	func() Message { return new(ChatAnswer) },
	func() Message { return new(Noted) },
	func() Message { return new(Stale) },
	func() Message { return new(GatewayStatus) },
	func() Message { return new(Error) },
)

// Ask is an [Approval] for the owner's chat. The same one may come again, on
// another connection: it is shown once. The stream stays open until the owner
// has answered; whoever asked closes it when the call waits no more.
//
// Without a digest it is news only: the call waits, but may not be answered in
// the chat, and nothing of its arguments is told.
type Ask struct {
	Approval  string   `json:"approval"`
	Code      string   `json:"code,omitzero"`
	Digest    string   `json:"digest,omitzero"`
	Asked     string   `json:"asked"`
	Expires   string   `json:"expires"`
	Session   string   `json:"session"`
	Tool      string   `json:"tool"`
	Fields    []Field  `json:"fields"`
	Read      []string `json:"read"` // paths
	Write     []string `json:"write"`
	Hosts     []string `json:"hosts"`
	Secrets   []string `json:"secrets"` // names
	Class     Class    `json:"class"`   // of the result
	Taint     Class    `json:"taint"`   // of the session
	Untrusted bool     `json:"untrusted,omitzero"`
	Grant     string   `json:"grant"`
	Reason    string   `json:"reason,omitzero"`
	Diff      string   `json:"diff,omitzero"`
	DiffNote  string   `json:"diff_note,omitzero"`
}

// Elsewhere reports that the owner cannot answer in the chat.
func (m *Ask) Elsewhere() bool { return m.Digest == "" }

// Shown says that the owner can see an [Ask] in the chat. It may come late, or
// after the answer of another channel not at all.
type Shown struct {
	Approval string `json:"approval"`
}

// ChatAnswer is the owner's word on an [Ask], with the digest that came with it.
type ChatAnswer struct {
	Approval string  `json:"approval"`
	Digest   string  `json:"digest"`
	Verdict  Verdict `json:"verdict"` // approved or denied
	By       string  `json:"by"`      // the owner's id on the chat's server
}

// Retract says how an approval ended, whoever ended it. Answered with [Noted]
// once it is on disk, also if no such approval is known.
type Retract struct {
	Approval string  `json:"approval"`
	Verdict  Verdict `json:"verdict"`
	By       string  `json:"by,omitzero"`
	Channel  string  `json:"channel,omitzero"`
}

// StillWaiting names all approvals that wait. Answered with [Stale].
type StillWaiting struct {
	Approvals []string `json:"approvals"`
}

// Stale names the approvals that gatewayd shows as waiting and that were not in
// a [StillWaiting]: how they ended was never told.
type Stale struct {
	Approvals []string `json:"approvals"`
}

// Anchor is a signed head of the audit log, to be kept where brokerd cannot
// change it. Answered with [Noted] once it is on disk.
type Anchor struct {
	Checkpoint string `json:"checkpoint"` // a signed note
}

// Noted answers [Retract] and [Anchor].
type Noted struct{}

// GetGateway asks how gatewayd is.
type GetGateway struct{}

// GatewayStatus answers [GetGateway]. The checks say how the connection is,
// when the last event came, and what waits in the queue.
type GatewayStatus struct {
	Version     string  `json:"version"`
	Checks      []Check `json:"checks"`
	Confinement []Check `json:"confinement"`
}

// Validate checks identifiers, times and enums, and that news tell no more than
// they may.
func (m *Ask) Validate() error {
	_, err := ParseTime(m.Asked)
	_, err2 := ParseTime(m.Expires)
	err = errors.Join(err, err2, CheckToken(m.Approval), CheckSession(m.Session), CheckTool(m.Tool), m.Class.Validate(), m.Taint.Validate())
	if !m.Elsewhere() {
		return errors.Join(err, CheckToken(m.Code), CheckHash(m.Digest))
	}
	if m.Code != "" || len(m.Fields)+len(m.Read)+len(m.Write)+len(m.Hosts)+len(m.Secrets) > 0 || m.Diff+m.DiffNote+m.Reason != "" {
		return errors.Join(err, errors.New("proto: an approval without a digest that tells of the call"))
	}
	return err
}

// Validate checks the identifier.
func (m *Shown) Validate() error { return CheckToken(m.Approval) }

// Validate checks identifiers, and that the verdict is one that an owner can give.
func (m *ChatAnswer) Validate() error {
	return errors.Join(CheckToken(m.Approval), CheckHash(m.Digest), CheckToken(m.By),
		oneOf("answer", m.Verdict, VerdictApproved, VerdictDenied))
}

// Validate checks the identifiers, and that the verdict ends an approval.
func (m *Retract) Validate() error {
	err := errors.Join(CheckToken(m.Approval),
		oneOf("end of an approval", m.Verdict, VerdictApproved, VerdictDenied, VerdictExpired, VerdictWithdrawn))
	if m.Channel != "" {
		err = errors.Join(err, CheckToken(m.Channel))
	}
	return err
}

// Validate checks the identifiers.
func (m *StillWaiting) Validate() error { return checkTokens(m.Approvals) }

// Validate checks the identifiers.
func (m *Stale) Validate() error { return checkTokens(m.Approvals) }

func checkTokens(ids []string) error {
	for _, id := range ids {
		if err := CheckToken(id); err != nil {
			return err
		}
	}
	return nil
}

// maxCheckpoint bounds a signed note, which has three lines and a signature.
const maxCheckpoint = 4096

// Validate checks the length. Only who has the key can check more.
func (m *Anchor) Validate() error {
	if n := len(m.Checkpoint); n == 0 || n > maxCheckpoint {
		return fmt.Errorf("proto: a checkpoint of %d bytes", n)
	}
	return nil
}

// Validate accepts the only value.
func (m *Noted) Validate() error { return nil }

// Validate accepts the only value.
func (m *GetGateway) Validate() error { return nil }

// Validate checks the states.
func (m *GatewayStatus) Validate() error {
	var errs []error
	for _, c := range append(append([]Check{}, m.Checks...), m.Confinement...) {
		errs = append(errs, oneOf("check state", c.State, "ok", "failed", "skipped", "pending"))
	}
	return errors.Join(errs...)
}

// Tags.

func (*Ask) Tag() string           { return "ask" }
func (*Shown) Tag() string         { return "shown" }
func (*ChatAnswer) Tag() string    { return "answer" }
func (*Retract) Tag() string       { return "retract" }
func (*StillWaiting) Tag() string  { return "waiting" }
func (*Stale) Tag() string         { return "stale" }
func (*Anchor) Tag() string        { return "anchor" }
func (*Noted) Tag() string         { return "noted" }
func (*GetGateway) Tag() string    { return "status" }
func (*GatewayStatus) Tag() string { return "status" }
