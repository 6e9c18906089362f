package calls

import (
	"cmp"
	"fmt"

	"boxmaker/internal/proto"
)

// maxFinals is how many ends of calls, and how many of approvals, are
// remembered from the log: enough for every call that a loopd can still ask for.
const maxFinals = 1024

// An Open call was decided and has no end on record.
type Open struct {
	Decision *proto.AuditDecision
	Approved bool // after it was asked
}

// MayHaveRun reports whether the call was allowed to run.
func (o *Open) MayHaveRun() bool {
	return o.Approved || o.Decision.Verdict == proto.VerdictAllow
}

// A Final is the end of a call that never ran, as the log tells it.
type Final struct {
	Decision *proto.AuditDecision
	Approval *proto.AuditApproval // nil if it was not asked
}

// final leaves the arguments out, which may be long: the digest stands for them.
func final(d *proto.AuditDecision, a *proto.AuditApproval) *Final {
	short := *d
	short.Args = ""
	return &Final{Decision: &short, Approval: a}
}

// Code says why the call did not run.
func (f *Final) Code() proto.Code {
	if f.Approval == nil {
		return f.Decision.Code
	}
	switch f.Approval.Verdict {
	case proto.VerdictExpired:
		return cmp.Or(f.Approval.Code, proto.CodeApprovalExpired)
	case proto.VerdictDenied:
		return cmp.Or(f.Approval.Code, proto.CodeDeniedByOwner)
	default:
		return cmp.Or(f.Approval.Code, proto.CodeStopped)
	}
}

// A Book is what the audit log says of calls. It has an entry for each session,
// and for each call that has no end.
//
// A call ends in the log with a decision "deny", with an approval that does not
// let it run (every verdict but "approved", and that too if it has a code), or
// with an outcome.
type Book struct {
	Halted     bool
	HaltReason string

	highest   map[string]proto.CallID
	open      map[string]*Open
	finals    recent[*Final]
	approvals recent[proto.Answered]
	burnt     recent[bool]
}

// NewBook is the book of an empty log.
func NewBook() *Book {
	return &Book{highest: map[string]proto.CallID{}, open: map[string]*Open{}}
}

// Fold takes the next record of the log.
func (b *Book) Fold(r proto.AuditRecord) error {
	switch r := r.(type) {
	case *proto.AuditDecision:
		return b.decision(r)
	case *proto.AuditApproval:
		return b.approval(r)
	case *proto.AuditOutcome:
		if b.open[r.ID] == nil {
			return fmt.Errorf("calls: an outcome of %s, which is not open", r.ID)
		}
		delete(b.open, r.ID)
	case *proto.AuditHalt:
		b.Halted, b.HaltReason = r.Halted, r.Reason
	case *proto.AuditStart, *proto.AuditRecovered, *proto.AuditCheckpoint, *proto.AuditLimited:
	default:
		return fmt.Errorf("calls: no rule for the record %q", r.Kind())
	}
	return nil
}

func (b *Book) decision(r *proto.AuditDecision) error {
	id, err := proto.ParseCallID(r.ID)
	if err != nil {
		return err
	}
	if r.Verdict == proto.VerdictDeny && r.Code == proto.CodeReplayedCall {
		return nil // it says nothing of the call that has the id, if there is one
	}
	if !b.Raise(id) {
		if r.Verdict != proto.VerdictDeny { // a second decision on an id may only refuse it
			return fmt.Errorf("calls: a second decision lets %s run", r.ID)
		}
		return nil
	}
	if r.Verdict == proto.VerdictDeny {
		b.finals.put(r.ID, final(r, nil))
		return nil
	}
	b.open[r.ID] = &Open{Decision: r}
	return nil
}

func (b *Book) approval(r *proto.AuditApproval) error {
	o := b.open[r.ID]
	if o == nil || o.Decision.Verdict != proto.VerdictAsk || o.Approved {
		return fmt.Errorf("calls: an approval of %s, which was not asked", r.ID)
	}
	b.approvals.put(r.Approval, proto.Answered{Approval: r.Approval, Verdict: r.Verdict, By: r.By, Channel: cmp.Or(r.Channel, "brokerd")})
	if r.Verdict == proto.VerdictApproved && r.Code == "" {
		o.Approved = true
		return nil
	}
	delete(b.open, r.ID)
	b.finals.put(r.ID, final(o.Decision, r))
	return nil
}

// Raise notes that id was seen. It is false if this id, or a later one of its
// session, was seen before.
func (b *Book) Raise(id proto.CallID) bool {
	if h, ok := b.highest[id.Session]; ok && !Later(id, h) {
		return false
	}
	b.highest[id.Session] = id
	return true
}

// Newest gives the last id of a session that was seen.
func (b *Book) Newest(session string) (proto.CallID, bool) {
	h, ok := b.highest[session]
	return h, ok
}

// Seen reports whether id, or a later one of its session, was seen, or id burnt.
func (b *Book) Seen(id proto.CallID) bool {
	h, ok := b.highest[id.Session]
	return ok && !Later(id, h) || b.Burnt(id)
}

// Burnt reports whether an id was burnt.
func (b *Book) Burnt(id proto.CallID) bool { return b.burnt.get(id.String()) }

// Burn makes an id count as seen that no call ever had. Only the newest are
// remembered: enough for a call that is on its way while somebody asks for it.
func (b *Book) Burn(id proto.CallID) { b.burnt.put(id.String(), true) }

// Open gives the calls without an end.
func (b *Book) Open() map[string]*Open { return b.open }

// Final gives the end of a call that did not run, if it is among the newest.
func (b *Book) Final(id string) *Final { return b.finals.get(id) }

// Approval gives the end of an approval, if it is among the newest.
func (b *Book) Approval(id string) (proto.Answered, bool) {
	a, ok := b.approvals.all[id]
	return a, ok
}

// Approvals gives the newest ends of approvals.
func (b *Book) Approvals() map[string]proto.Answered { return b.approvals.all }

// Later reports whether a comes after b in their session.
func Later(a, b proto.CallID) bool {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Record, b.Record), cmp.Compare(a.Index, b.Index)) > 0
}

// recent remembers the newest maxFinals values that were put in.
type recent[T any] struct {
	all   map[string]T
	order []string
}

func (r *recent[T]) put(id string, v T) {
	if r.all == nil {
		r.all = map[string]T{}
	}
	if _, there := r.all[id]; !there {
		r.order = append(r.order, id)
	}
	r.all[id] = v
	if len(r.order) > maxFinals {
		delete(r.all, r.order[0])
		r.order = r.order[1:]
	}
}

func (r *recent[T]) get(id string) T { return r.all[id] }

// Forget drops the end of a call that loopd has logged.
func (b *Book) Forget(id string) { delete(b.finals.all, id) }
