package driver

import (
	"context"
	"fmt"

	"boxmaker/brokerd/internal/calls"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"
)

// Busy is the answer to a call for which there is no room now. Nothing was
// decided on it, so it can be asked again.
func Busy(format string, args ...any) *proto.Error {
	return &proto.Error{Code: proto.ErrNotReady, Text: fmt.Sprintf(format, args...) + "; the call did not run", Runbook: "brokerd-busy"}
}

// Call decides on a call and runs it, or gives the result that it has. ctx ends
// the wait, not the call.
func (d *Driver) Call(ctx context.Context, c *proto.Call, onAsked func(*proto.Asked)) (*proto.CallResult, error) {
	e, fresh, r, err := d.admit(c)
	if err != nil || r != nil {
		return r, err
	}
	if fresh {
		d.lead(e)
	}
	return e.wait(ctx, onAsked)
}

// admit gives the entry of the call, a fresh one if it was never seen, or the
// result that it has. Whoever gets a fresh one has to lead it.
func (d *Driver) admit(c *proto.Call) (e *entry, fresh bool, r *proto.CallResult, err error) {
	id, err := proto.ParseCallID(c.ID)
	if err != nil {
		return nil, false, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	digest := policy.Digest(c)
	if e = d.live[c.ID]; e != nil {
		if e.digest != digest {
			r, err = d.refuse(c)
			return nil, false, r, err
		}
		return e, false, nil, nil
	}
	if d.closing() {
		return nil, false, nil, ErrEnding
	}
	known, err := d.known(c.ID)
	switch {
	case err != nil:
		return nil, false, nil, err
	case known.result != nil && known.digest == digest:
		return nil, false, known.result, nil
	case known.result != nil || d.cfg.Book.Seen(id):
		r, err = d.refuse(c)
		return nil, false, r, err
	}
	if err := d.room(c); err != nil {
		return nil, false, nil, err
	}
	d.cfg.Book.Raise(id)
	e = newEntry(c, digest)
	e.before, e.decided = d.newest, make(chan struct{})
	d.newest = e.decided
	d.live[c.ID] = e
	d.wg.Add(1)
	return e, true, nil, nil
}

// room says why a new call can't be taken now. Nothing of that is on record, and
// the id stays unused. Precondition: mu is held.
func (d *Driver) room(c *proto.Call) error {
	switch n := d.inSession(c.Session); {
	case len(d.live) >= d.cfg.Limits.Live:
		return Busy("brokerd has %d calls that have not ended, and takes no more", len(d.live))
	case n >= d.cfg.Limits.Session:
		return Busy("the session has %d calls that have not ended, and may have no more", n)
	}
	room, dropped, err := d.cfg.Results.Room(d.cfg.Limits.Kept, func(id string) bool { return d.live[id] != nil })
	for _, id := range dropped {
		d.cfg.Log.Warn("a result that loopd never took was dropped", "call", id)
	}
	switch {
	case err != nil:
		d.fail(err)
		return err
	case !room:
		return Busy("brokerd keeps %d results that loopd has not taken, and makes no more", d.cfg.Results.Count())
	}
	return d.take(c)
}

func (d *Driver) inSession(session string) (n int) {
	for _, e := range d.live {
		if e.call.Session == session {
			n++
		}
	}
	return n
}

// refuse puts a call on record whose id was used before, and refuses it.
// Precondition: mu is held.
func (d *Driver) refuse(c *proto.Call) (*proto.CallResult, error) {
	if err := d.take(c); err != nil {
		return nil, err
	}
	class, untrusted, _ := d.cfg.Taint.Get(c.Session) // of a damaged record it gives the worst
	ref, err := d.cfg.Audit.Append(&proto.AuditDecision{
		ID: c.ID, Session: c.Session, Tool: c.Tool, Args: clip(c.Args, proto.MaxAuditArgs), Digest: policy.Digest(c),
		Verdict: proto.VerdictDeny, Code: proto.CodeReplayedCall, Taint: class, Untrusted: untrusted,
	})
	if err != nil {
		d.fail(err)
		return nil, err
	}
	return denial(c.ID, proto.CodeReplayedCall, d.replayed(c), ref.Head()), nil
}

// replayed is what a model reads, and so the owner. A session whose numbers lie
// behind is a restored copy, or one that took the name of another. It must not
// be taken on from there: an id says which call it was, in the log and in what
// loopd asks for after a crash. Precondition: mu is held.
func (d *Driver) replayed(c *proto.Call) string {
	id, err := proto.ParseCallID(c.ID)
	newest, ok := d.cfg.Book.Newest(c.Session)
	if err != nil || !ok || d.live[c.ID] != nil || calls.Later(id, newest) {
		return ""
	}
	d.cfg.Log.Warn("a session is older than its calls in the audit log, and gets none", "session", c.Session, "call", c.ID, "newest", newest.String(), "runbook", "session-replayed")
	return string(proto.CodeReplayedCall) + ": this call's id was used before, so nothing ran: the session's calls went further once, and its folder was perhaps restored from a backup. Tell the owner to begin a new session (runbook: session-replayed)."
}

// closing says that brokerd ends. What it knows of a call that is not live any more
// is then not all: an approval may wait on after the next start, and after a failed
// write the call's number is used up here and on no disk, or its result is kept and
// not on record. Who asks is told by the next start. Precondition: mu is held.
func (d *Driver) closing() bool { return d.ending || d.ctx.Err() != nil }

// known gives the result of a call that has ended, if it is still there.
// Precondition: mu is held.
func (d *Driver) known(id string) (finished, error) {
	if k, err := d.cfg.Results.Get(id); err != nil || k != nil {
		if err != nil {
			return finished{}, err
		}
		k.Result.Head = d.cfg.Audit.Head() // its record is in it
		return finished{k.Digest, &k.Result}, nil
	}
	if f, ok := d.ended.all[id]; ok {
		return f, nil
	}
	if f := d.cfg.Book.Final(id); f != nil {
		return finished{f.Decision.Digest, denial(id, f.Code(), "", d.cfg.Audit.Head())}, nil
	}
	return finished{}, nil
}

// Fate gives the result of a call, once it has ended, or says that there is none.
func (d *Driver) Fate(ctx context.Context, id string) (proto.Message, error) {
	e, m, err := d.find(id)
	if err != nil || m != nil {
		return m, err
	}
	return e.outcome(ctx)
}

func (e *entry) outcome(ctx context.Context) (proto.Message, error) {
	r, err := e.wait(ctx, nil)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// find gives the entry of a call that goes on, or the answer for one that does
// not.
func (d *Driver) find(id string) (*entry, proto.Message, error) {
	parsed, err := proto.ParseCallID(id)
	if err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.live[id]; e != nil {
		return e, nil, nil
	}
	if d.closing() {
		return nil, nil, ErrEnding
	}
	known, err := d.known(id)
	if err != nil {
		return nil, nil, err
	}
	if known.result != nil {
		return nil, known.result, nil
	}
	// The call itself may still be under way to us: from now on it comes too late.
	if d.cfg.Book.Seen(parsed) && !d.cfg.Book.Burnt(parsed) {
		return nil, &proto.Unknown{ID: id}, nil
	}
	d.cfg.Book.Burn(parsed)
	return nil, &proto.Unknown{ID: id, Never: true}, nil
}

// Cancel ends a call, and gives what came of it.
func (d *Driver) Cancel(ctx context.Context, id string) (proto.Message, error) {
	e, m, err := d.find(id)
	if err != nil || m != nil {
		return m, err
	}
	e.post(calls.Cancelled{Code: proto.CodeStopped})
	return e.outcome(ctx)
}

// Confirm forgets a result that loopd has logged.
func (d *Driver) Confirm(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live[id] != nil {
		return &proto.Error{Code: proto.ErrBadRequest, Text: "the call has no result yet that could be confirmed", Runbook: "bad-request"}
	}
	delete(d.ended.all, id)
	d.cfg.Book.Forget(id)
	if err := d.cfg.Results.Drop(id); err != nil {
		d.fail(err)
		return err
	}
	return nil
}

// Halt denies everything from now on, ends what runs and withdraws what waits.
func (d *Driver) Halt(reason, by string) error {
	return d.setHalt(haltState{true, clip(reason, 1<<10)}, by)
}

// Resume ends a halt, if there is one.
func (d *Driver) Resume(by string) error { return d.setHalt(haltState{}, by) }

// haltLive ends all calls. Precondition: mu is held.
func (d *Driver) haltLive() {
	for _, e := range d.live {
		e.post(calls.Cancelled{Code: proto.CodeHalted})
	}
}

func (d *Driver) setHalt(h haltState, by string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !h.on && !d.halt.on:
		return nil
	case h.on && h.reason == "": // a second halt without a word takes none back
		h.reason = d.halt.reason
	}
	if h.on {
		d.halt = h // before the record: nothing more may start
	}
	if _, err := d.cfg.Audit.Append(&proto.AuditHalt{Halted: h.on, Reason: h.reason, By: by}); err != nil {
		d.fail(err)
		return err
	}
	d.halt = h
	if h.on {
		d.haltLive()
	}
	return nil
}
