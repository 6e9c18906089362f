package bridge

import (
	"context"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/gatewayd/internal/queue"
)

// closedMost is how long an answer waits for a channel that takes nothing, counted from
// its message.
const closedMost = 30 * 24 * time.Hour

// opened has what waits for a channel try again.
func (m *Machine) opened(channel string) {
	for _, t := range m.tasks {
		if t.parked && t.Channel == channel {
			t.parked, t.retry, t.fails, t.refused = false, time.Time{}, 0, 0
		}
	}
}

// outlast gives a message up whose channel did not come back.
func (m *Machine) outlast(now time.Time, t *task) error {
	if now.Sub(time.UnixMilli(t.At)) < closedMost {
		return nil
	}
	m.want(Warn{"an answer is given up, since its channel did not come back; the session's log has it", t.Post})
	return m.cfg.Queue.Put(&queue.Done{Post: t.Post})
}

// Closed is how many messages wait for their channel; with a name, for that one.
func (m *Machine) Closed(channel string) (n int) {
	for _, t := range m.tasks {
		if t.parked && (channel == "" || t.Channel == channel) {
			n++
		}
	}
	return n
}

// reopen tries again what waits for channels that we are in now.
func (b *Bot) reopen(ctx context.Context, all []mattermost.Channel) error {
	for _, ch := range all {
		if ch.DeleteAt == 0 && b.machine.Closed(ch.ID) > 0 {
			if err := b.step(ctx, Opened{ch.ID}); err != nil {
				return err
			}
		}
	}
	return nil
}
