package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"boxmaker/internal/durable"
	"boxmaker/internal/proto"
	"boxmaker/internal/strict"
)

// lastFile is on disk so that a restart posts nothing anew.
const lastFile = "gateway.json"

// last is the newest head that gatewayd has noted.
type last struct {
	V    int             `json:"v"`
	Time string          `json:"time"`
	Head proto.AuditHead `json:"head"`
}

// Validate checks all members.
func (l *last) Validate() error {
	_, err := proto.ParseTime(l.Time)
	if l.V != 1 {
		err = errors.Join(err, fmt.Errorf("gateway: a file of version %d", l.V))
	}
	return errors.Join(err, l.Head.Validate())
}

// anchors posts a head now, if a day is over, and then each day. A failure ends
// the session.
func (c *Client) anchors(ctx context.Context, fail context.CancelCauseFunc) {
	for {
		if err := c.anchor(ctx); err != nil {
			fail(err)
			return
		}
		t := time.NewTimer(lookEach)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// anchor posts the newest head if the last one is a day old and the log has
// grown by more than the record of that checkpoint.
func (c *Client) anchor(ctx context.Context) error {
	now := c.cfg.Now()
	was, err := c.posted, error(nil)
	if was == nil {
		was, err = c.last()
	}
	if err != nil {
		c.cfg.Log.Warn("when the last head of the audit log was posted is not known", "error", err.Error(), "runbook", "brokerd-state")
	}
	if was != nil {
		at, err := proto.ParseTime(was.Time)
		since := now.Sub(at)
		// One of the future was written before the clock was set back.
		if err == nil && since > -time.Hour && since < dayLong || c.cfg.Head().N <= was.Head.N+1 {
			return nil
		}
	}
	head, err := c.cfg.Checkpoint()
	if err != nil { // brokerd ends of it where it must
		c.cfg.Log.Warn("no head of the audit log can be posted", "error", err.Error())
		return nil
	}
	if err := c.note(ctx, &proto.Anchor{Checkpoint: head.Checkpoint}); err != nil {
		return err
	}
	c.posted = &last{V: 1, Time: proto.Time(now), Head: head.Head}
	b, err := strict.Marshal(c.posted)
	if err == nil {
		err = durable.WriteFile(c.cfg.State, lastFile, b, 0o600)
	}
	if err != nil { // it is posted once more after a restart
		c.cfg.Log.Warn("that a head of the audit log was posted cannot be noted", "error", err.Error(), "runbook", "brokerd-state")
	}
	return nil
}

func (c *Client) last() (*last, error) {
	b, err := c.cfg.State.ReadFile(lastFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := new(last)
	if err := strict.Unmarshal(b, l); err != nil {
		return nil, err
	}
	return l, nil
}
