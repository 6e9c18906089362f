package driver

import (
	"fmt"
	"maps"
	"slices"

	"boxmaker/brokerd/internal/calls"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"
)

// Restore goes on with the calls that the log has no end of. It is called once,
// before anybody is answered, and before [Driver.Run], which waits for them.
func (d *Driver) Restore() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(d.cfg.Book.Open())) {
		o := d.cfg.Book.Open()[id]
		if err := d.goOn(o); err != nil {
			return fmt.Errorf("the call %s, which was under way, cannot go on: %w", id, err)
		}
		waiting[o.Decision.Approval] = !o.MayHaveRun() && d.live[id] != nil // not if its question was found damaged
	}
	for _, id := range d.cfg.Desk.IDs() { // whose end is on record
		if waiting[id] {
			continue
		}
		end, ok := d.cfg.Book.Approval(id)
		if !ok {
			end = proto.Answered{Approval: id, Verdict: proto.VerdictWithdrawn, Channel: "brokerd"}
		}
		if err := d.cfg.Desk.Settled(end); err != nil {
			return err
		}
	}
	if d.halt.on {
		d.haltLive()
	}
	return nil
}

// goOn goes on with one call. Precondition: mu is held.
func (d *Driver) goOn(o *calls.Open) error {
	r := o.Decision
	// The record may hold a part of the arguments only: its digest is of all.
	e := newEntry(&proto.Call{ID: r.ID, Session: r.Session, Tool: r.Tool, Args: r.Args}, r.Digest)
	kept, err := d.cfg.Results.Get(r.ID)
	switch held := d.cfg.Desk.Get(r.Approval); {
	case err != nil:
		return err
	case kept != nil:
		e.digest, e.kept = kept.Digest, kept
		d.start(e, calls.Found{})
	case o.MayHaveRun():
		d.cfg.Log.Warn("the fate of a call is unknown", "call", r.ID)
		d.start(e, calls.Lost{})
	case held != nil && policy.Digest(&held.Call) == r.Digest:
		e = newEntry(&held.Call, r.Digest)
		e.held, e.asks.Approval = held, r.Approval
		d.announce(e)
		d.start(e, calls.Pending{})
	default: // brokerd ended between the decision and the question, or the question is damaged
		a := &proto.AuditApproval{ID: r.ID, Approval: r.Approval, Verdict: proto.VerdictWithdrawn, Code: proto.CodeInternal, Channel: "brokerd", Digest: r.Digest}
		if _, err := d.cfg.Audit.Append(a); err != nil {
			return err
		}
		return d.cfg.Book.Fold(a)
	}
	return nil
}
