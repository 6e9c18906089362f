package approve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Serve answers gateway.sock.
func (d *Desk) Serve(ctx context.Context, m proto.Message, s *ipc.Stream) {
	var answer proto.Message
	var err error
	switch m := m.(type) {
	case *proto.Ask:
		answer, err = d.ask(ctx, m, s)
	case *proto.Retract:
		answer, err = &proto.Noted{}, d.retract(m)
	case *proto.StillWaiting:
		answer = d.stale(m)
	case *proto.Anchor:
		answer, err = &proto.Noted{}, d.post(m)
	case *proto.GetGateway:
		answer = d.status()
	default:
		err = fmt.Errorf("approve: a %s is no request", m.Tag())
	}
	switch {
	case ctx.Err() != nil && answer == nil:
		return
	case d.trouble() != nil && m.Tag() != (&proto.GetGateway{}).Tag():
		return // without an answer, so that it is asked again when there is another desk
	}
	if err != nil {
		var no *proto.Error
		if !errors.As(err, &no) {
			d.cfg.Log.Error("a request of brokerd failed", "error", err.Error())
			no = &proto.Error{Code: proto.ErrInternal, Text: "gatewayd cannot do that now; its log says why", Runbook: "gatewayd-state"}
		}
		answer = no
	}
	_ = s.Send(answer) // who is gone asks again
}

func (d *Desk) status() *proto.GatewayStatus {
	s := d.cfg.Status()
	cards, queued := d.Waiting()
	s.Checks = append(s.Checks, proto.Check{Name: "approvals", State: "ok", Detail: fmt.Sprintf("%d wait here, %d posts to make or change", cards, queued)})
	return s
}

// ask keeps an approval, then waits for the owner's answer to it.
func (d *Desk) ask(ctx context.Context, m *proto.Ask, s *ipc.Stream) (proto.Message, error) {
	told, err := d.keep(m)
	if err != nil {
		return nil, err
	}
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.asks[m.Approval], told)
	}()
	shown := false
	for {
		d.mu.Lock()
		i := d.items[m.Approval]
		var now Item
		if i != nil {
			now = *i
		}
		d.mu.Unlock()
		if now.Post != "" && !shown {
			shown = true
			if err := s.Send(&proto.Shown{Approval: m.Approval}); err != nil {
				return nil, err
			}
		}
		if now.Answer.Verdict != "" {
			return &proto.ChatAnswer{Approval: m.Approval, Digest: now.Ask.Digest, Verdict: now.Answer.Verdict, By: now.Answer.By}, nil
		}
		select {
		case <-told:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// keep makes an approval durable, unless it is, and gives what wakes its asker.
func (d *Desk) keep(m *proto.Ask) (chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.items[m.Approval]
	switch {
	case slices.Contains(d.ended, m.Approval) || i != nil && i.End.Verdict != "":
		return nil, &proto.Error{Code: proto.ErrNoApproval, Text: "that approval has ended", Runbook: "approval-gone"}
	case i != nil && (i.Ask.Digest != m.Digest || i.Anchor != ""):
		return nil, &proto.Error{Code: proto.ErrWrongDigest, Text: "another call is shown under that id", Runbook: "approval-changed"}
	case i == nil:
		if len(d.items) >= maxItems {
			return nil, &proto.Error{Code: proto.ErrNotReady, Text: "too many approvals are shown already", Runbook: "not-ready"}
		}
		if err := d.add(&Item{ID: m.Approval, Ask: *m}); err != nil {
			return nil, err
		}
	}
	told := make(chan struct{}, 1)
	if d.asks[m.Approval] == nil {
		d.asks[m.Approval] = map[chan struct{}]bool{}
	}
	d.asks[m.Approval][told] = true
	return told, nil
}

// add makes a new item durable. Precondition: mu is held.
func (d *Desk) add(i *Item) error {
	i.V, i.Key, i.Made = itemVersion, newKey(), proto.Time(d.cfg.Now())
	if err := d.save(i); err != nil {
		return err
	}
	d.items[i.ID] = i
	d.look[i.ID] = true
	d.poke()
	return nil
}

func newKey() string { return strings.ToLower(rand.Text()) }

// retract notes an end. Precondition of what follows: it is on disk.
func (d *Desk) retract(m *proto.Retract) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.items[m.Approval]
	if i == nil || i.Anchor != "" {
		d.remember(m.Approval)
		return nil
	}
	if i.End.Verdict != "" {
		return nil
	}
	was := i.End
	i.End = End{Verdict: m.Verdict, By: m.By, Channel: m.Channel}
	if err := d.save(i); err != nil {
		i.End = was
		return err
	}
	delete(d.later, i.ID)
	d.poke()
	return nil
}

// remember keeps an end for a question behind it. Precondition: mu is held.
func (d *Desk) remember(id string) {
	if slices.Contains(d.ended, id) {
		return
	}
	if d.ended = append(d.ended, id); len(d.ended) > maxEnded {
		d.ended = d.ended[1:]
	}
}

func (d *Desk) stale(m *proto.StillWaiting) *proto.Stale {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &proto.Stale{Approvals: []string{}}
	for id, i := range d.items {
		if i.Anchor == "" && i.End.Verdict == "" && !slices.Contains(m.Approvals, id) {
			out.Approvals = append(out.Approvals, id)
		}
	}
	slices.Sort(out.Approvals)
	return out
}

// post keeps an anchor for the owner.
func (d *Desk) post(m *proto.Anchor) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.items {
		if i.Anchor == m.Checkpoint {
			return nil
		}
	}
	if d.anchor == m.Checkpoint {
		return nil
	}
	if err := d.add(&Item{ID: "anchor-" + newKey(), Anchor: m.Checkpoint}); err != nil {
		return err
	}
	d.anchor = m.Checkpoint
	return nil
}
