package driver

import (
	"context"
	"time"

	"boxmaker/brokerd/internal/rate"
	"boxmaker/internal/proto"
)

// Each decision is a record, so that a loopd that has fallen into other hands
// could fill the disk with denials. What comes faster than the owner's settings
// say is refused without a record of its own; one record a minute counts those.
const (
	burst      = 10      // minutes of the rate at once
	perRecord  = 4 << 10 // bytes of arguments that count as a call more
	limitedGap = time.Minute
)

// newMeter is nil for no bound. One session has half of what all have.
func newMeter(perMinute int) *rate.Meter {
	if perMinute <= 0 {
		return nil
	}
	n := float64(perMinute)
	return rate.New(rate.Limit{Burst: burst * n / 2, Second: n / 60 / 2}, rate.Limit{Burst: burst * n, Second: n / 60})
}

// limited is what was refused since it was put on record.
type limited struct {
	refused int64
	session string // of the first of them
	last    time.Time
}

// take says whether a call may be decided on. Precondition: mu is held.
func (d *Driver) take(c *proto.Call) error {
	now := d.cfg.Now()
	if d.meter == nil || d.meter.Take(c.Session, 1+float64(len(c.Args))/perRecord, now) {
		return nil
	}
	if d.limited.refused == 0 {
		d.limited.session = c.Session
	}
	d.limited.refused++
	if d.limited.last.IsZero() || now.Sub(d.limited.last) >= limitedGap {
		if err := d.tellLimited(); err != nil {
			return err
		}
	}
	return Busy("calls come faster than brokerd takes them")
}

// tellLimited puts on record what was refused. Precondition: mu is held.
func (d *Driver) tellLimited() error {
	if d.limited.refused == 0 || d.ctx.Err() != nil {
		return nil
	}
	if _, err := d.cfg.Audit.Append(&proto.AuditLimited{Refused: d.limited.refused, Session: d.limited.session}); err != nil {
		d.fail(err)
		return err
	}
	d.cfg.Log.Warn("calls were refused, because they come too fast", "refused", d.limited.refused, "session", d.limited.session, "runbook", "brokerd-busy")
	d.limited = limited{last: d.cfg.Now()}
	return nil
}

// await waits for the end, and tells meanwhile what was refused.
func (d *Driver) await(ctx context.Context) {
	var tick <-chan time.Time
	if d.meter != nil {
		t := time.NewTicker(limitedGap)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.ctx.Done():
			return
		case <-tick:
			d.mu.Lock()
			_ = d.tellLimited() // which ends the driver if it can't
			d.mu.Unlock()
		}
	}
}
