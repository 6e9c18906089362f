package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/brokerd/internal/calls"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"
)

// do carries out one effect. An error ends brokerd: everything that may go
// wrong without that is part of the event, or of the call's result.
func (d *Driver) do(ctx context.Context, e *entry, f calls.Effect) (calls.Event, error) {
	if d.cfg.Fault == nil {
		return d.effect(ctx, e, f)
	}
	name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", f), "calls."))
	if err := d.fault(name); err != nil {
		return nil, err
	}
	ev, err := d.effect(ctx, e, f)
	if err == nil {
		err = d.fault(name + " done")
	}
	return ev, err
}

func (d *Driver) effect(ctx context.Context, e *entry, f calls.Effect) (calls.Event, error) {
	switch f := f.(type) {
	case calls.Decide:
		return d.decide(e)
	case calls.Preview:
		d.preview(ctx, e)
		return calls.Previewed{}, nil
	case calls.Hold:
		return d.hold(e)
	case calls.Wait:
		return d.wait(ctx, e)
	case calls.Settle:
		return d.settle(e, f)
	case calls.Run:
		d.run(ctx, e)
		return calls.Ran{}, nil
	case calls.Seal:
		return d.seal(e)
	case calls.Keep:
		return calls.Stored{}, d.cfg.Results.Put(e.kept)
	case calls.Record:
		ref, err := d.cfg.Audit.Append(e.kept.Outcome())
		if err != nil {
			return nil, err
		}
		e.kept.Result.Head = ref.Head()
		return calls.Recorded{}, nil
	default:
		return nil, fmt.Errorf("driver: no rule for the effect %T", f)
	}
}

// decide decides on calls in the order in which they were let in: in the log, an
// id that comes after a later one of its session is one that was used twice.
func (d *Driver) decide(e *entry) (calls.Event, error) {
	if e.before != nil {
		select {
		case <-e.before:
		case <-d.ctx.Done():
			return nil, context.Cause(d.ctx)
		}
	}
	ev, err := d.rule(e)
	if err == nil {
		close(e.decided)
	}
	return ev, err
}

func (d *Driver) rule(e *entry) (calls.Event, error) {
	halted, _ := d.Halted()
	r, err := d.cfg.Rules.Decide(policy.Request{
		Call: &e.call, Halted: halted, Approval: approval.NewID, Expires: d.cfg.Now().Add(d.cfg.Limits.Expires),
	})
	if err != nil {
		return nil, err
	}
	switch r := r.(type) {
	case policy.Allowed:
		e.facts, e.permit = r.Facts, r.Decision
		return calls.Ruled{Verdict: proto.VerdictAllow}, nil
	case policy.Asks:
		e.facts, e.asks = r.Facts, r
		return calls.Ruled{Verdict: proto.VerdictAsk, Preview: r.HasPreview}, nil
	case policy.Denied:
		e.denied = denial(e.call.ID, r.Code, r.Text, r.Head)
		return calls.Ruled{Verdict: proto.VerdictDeny}, nil
	default:
		return nil, fmt.Errorf("driver: no rule for the ruling %T", r)
	}
}

// hold makes the approval durable and tells loopd. If too many wait already, the
// approval ends at once.
func (d *Driver) hold(e *entry) (calls.Event, error) {
	question := d.question(e) // which notes what was seen
	h, err := d.cfg.Desk.Hold(question, e.call, policy.Canonical(&e.call), e.seen)
	if errors.Is(err, approval.ErrFull) {
		e.post(calls.Cancelled{Code: proto.CodeRateLimited})
		return calls.Held{}, nil
	}
	if err != nil {
		return nil, err
	}
	e.held = h
	d.announce(e)
	return calls.Held{}, nil
}

func (d *Driver) announce(e *entry) {
	e.change(func() {
		e.asked = &proto.Asked{Call: e.call.ID, Approval: e.held.Approval.Approval, Expires: e.held.Approval.Expires}
	})
}

// wait waits for the owner. An approval that could not be held ends with the
// stop that hold has posted.
func (d *Driver) wait(ctx context.Context, e *entry) (calls.Event, error) {
	if e.held == nil {
		<-ctx.Done()
		return calls.Answered{Verdict: proto.VerdictWithdrawn}, nil
	}
	end, err := d.cfg.Desk.Wait(ctx, e.held.Approval.Approval)
	if ctx.Err() != nil {
		return calls.Answered{Verdict: proto.VerdictWithdrawn}, nil // nobody listens any more
	}
	if err != nil {
		return nil, err
	}
	e.end = end
	return calls.Answered{Verdict: end.Verdict}, nil
}

// settle puts the end of the approval on record, and only then tells anybody.
func (d *Driver) settle(e *entry, f calls.Settle) (calls.Event, error) {
	digest, seen := e.facts.Digest, "" // if it was never shown
	if e.held != nil {
		digest, seen = e.held.Approval.Digest, e.held.Seen
	}
	if f.Verdict == proto.VerdictWithdrawn {
		e.end = proto.Answered{Approval: e.asks.Approval, Verdict: f.Verdict, Channel: "brokerd"}
	}
	halted, _ := d.Halted()
	r, err := d.cfg.Rules.Settle(policy.Settlement{
		Call: &e.call, Approval: e.end.Approval, Digest: digest, Verdict: e.end.Verdict, By: e.end.By, Channel: e.end.Channel, Code: f.Code, Halted: halted,
		Seen: seen,
	})
	if err != nil {
		return nil, err
	}
	allowed := false
	switch r := r.(type) {
	case policy.Allowed:
		e.facts, e.permit, allowed = r.Facts, r.Decision, true
	case policy.Denied:
		text := r.Text
		if e.end.Verdict != proto.VerdictApproved {
			text = "" // what the record alone gives too, after a restart
		}
		e.denied = denial(e.call.ID, r.Code, text, r.Head)
		if r.Code == proto.CodeApprovalExpired { // also if it was approved too late
			e.end = proto.Answered{Approval: e.end.Approval, Verdict: proto.VerdictExpired, Channel: "brokerd"}
		}
	default:
		return nil, fmt.Errorf("driver: no rule for the ruling %T", r)
	}
	if err := d.fault("settled"); err != nil {
		return nil, err
	}
	return calls.Settled{Allowed: allowed}, d.cfg.Desk.Settled(e.end)
}

// make makes the result of a call that did not run, or perhaps did.
func (d *Driver) make(e *entry, f calls.Make) {
	e.kept = &calls.Kept{
		Digest: e.digest, Session: e.call.Session,
		Result: proto.CallResult{ID: e.call.ID, Outcome: f.Outcome, Code: f.Code, Class: proto.ClassPublic, Text: calls.Text(f.Code, f.Outcome)},
	}
}

// publish gives the result to all who wait, and to those who ask later.
func (d *Driver) publish(e *entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := e.denied
	if e.kept != nil {
		r = &e.kept.Result
	} else {
		d.ended.put(e.call.ID, finished{e.digest, r})
	}
	delete(d.live, e.call.ID)
	e.change(func() { e.result = r })
	return nil
}

// denial is the result of a call that was not let run.
func denial(id string, code proto.Code, text string, head proto.AuditHead) *proto.CallResult {
	o := proto.CallDenied
	switch code {
	case proto.CodeApprovalExpired:
		o = proto.CallExpired
	case proto.CodeInvalidArguments, proto.CodeUnknownTool, proto.CodeInternal:
		o = proto.CallFailed
	}
	if text == "" {
		text = calls.Text(code, o)
	}
	return &proto.CallResult{ID: id, Outcome: o, Code: code, Class: proto.ClassPublic, Text: text, Head: head}
}
