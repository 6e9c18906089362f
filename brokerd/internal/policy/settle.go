package policy

import (
	"errors"
	"fmt"

	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
)

// ErrNotAsked reports the end of an approval that does not wait: it was never
// asked, has had its end, or was asked for another call.
var ErrNotAsked = errors.New("policy: no such question waits")

// A Settlement is the end of an approval.
type Settlement struct {
	Call     *proto.Call // as it was decided on
	Approval string
	Digest   string // that the owner was shown
	Verdict  proto.Verdict
	By       string
	Channel  string
	Code     proto.Code // why it was withdrawn: stopped, halted, rate-limited or internal
	Halted   bool
	Seen     string // the file that the owner saw the change of
}

// Settle puts the end of an approval on record. If it was approved, the grants
// are looked at again: only if the very file that asked still fits does the call
// run. An error means that nothing was allowed.
func (e *Engine) Settle(s Settlement) (Ruling, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch s.Verdict {
	case proto.VerdictApproved, proto.VerdictDenied, proto.VerdictExpired, proto.VerdictWithdrawn:
	default:
		return nil, fmt.Errorf("policy: an approval can't end as %q", s.Verdict)
	}
	q, ok := e.cfg.History.take(s.Approval, s.Call.ID, Digest(s.Call))
	if !ok {
		return nil, fmt.Errorf("%w: approval %s of %s", ErrNotAsked, s.Approval, s.Call.ID)
	}
	now := e.cfg.Now()
	if s.Verdict == proto.VerdictApproved && !now.Before(q.expires) {
		s.Verdict, s.By, s.Channel = proto.VerdictExpired, "", "brokerd"
	}
	f, v := e.look(s.Call, s.Halted, now, s.Call.ID)
	v = end(s, q, v)
	ref, err := e.append(&proto.AuditApproval{
		ID: s.Call.ID, Approval: s.Approval, Verdict: s.Verdict, Code: v.Code, By: s.By, Channel: s.Channel, Digest: s.Digest,
	})
	if err != nil {
		return nil, err
	}
	f.Head = ref.Head()
	if v.Code != "" {
		return Denied{Facts: f, Code: v.Code, Text: v.Why}, nil
	}
	spec := specOf(s.Call.ID, f.Call, v)
	spec.Seen = s.Seen
	return Allowed{Facts: f, Decision: permits(ref, spec)}, nil
}

// end says what becomes of the call: its Code is empty only if the owner
// approved it, and what was approved still holds.
func end(s Settlement, q question, v grant.Verdict) grant.Verdict {
	switch {
	case s.Verdict == proto.VerdictDenied:
		return deny(proto.CodeDeniedByOwner, "the owner said no; do not ask for the same again.")
	case s.Verdict == proto.VerdictExpired:
		return deny(proto.CodeApprovalExpired, "the owner did not answer in time; go on without it.")
	case s.Verdict == proto.VerdictWithdrawn && s.Code == proto.CodeHalted:
		return deny(proto.CodeHalted, "the owner has stopped everything; do nothing more until you are told to go on.")
	case s.Verdict == proto.VerdictWithdrawn && s.Code == proto.CodeRateLimited:
		return deny(proto.CodeRateLimited, "too many calls wait for the owner already; wait for those.")
	case s.Verdict == proto.VerdictWithdrawn && s.Code == proto.CodeInternal:
		return deny(proto.CodeInternal, "the broker ended before the owner was asked; it did not run.")
	case s.Verdict != proto.VerdictApproved:
		return deny(proto.CodeStopped, "the owner stopped before this was decided.")
	case v.Verdict == proto.VerdictDeny:
		return v
	case v.Grant == nil || v.Grant.ID != q.grant || v.Grant.Hash != q.hash:
		return deny(proto.CodeNoGrant, "the owner changed the grant while this waited; make the call again if it is still needed.")
	default:
		return v
	}
}
