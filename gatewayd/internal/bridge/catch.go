package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"boxmaker/gatewayd/internal/allow"
	"boxmaker/gatewayd/internal/mattermost"
)

// behind is how far before the mark the history is read, in milliseconds: of two
// posts the later one may be readable first.
const behind = 5000

// missedPause is how long to wait before history is asked for again that could not be
// read.
const missedPause = 10 * time.Second

// catchUp reads what no event may have told.
func (b *Bot) catchUp(ctx context.Context) {
	if b.catching {
		return
	}
	b.catching = true
	b.wg.Go(func() { b.box.put(caughtUp{b.history(ctx)}) })
}

// caughtUp ends a reading. One that failed is tried again.
func (b *Bot) caughtUp(ctx context.Context, err error) {
	b.catching = false
	if err == nil {
		return
	}
	b.cfg.Log.Warn("what no event told could not be read", "error", err.Error())
	b.wg.Go(func() {
		if sleep(ctx, missedPause) {
			b.box.put(missed{})
		}
	})
}

func (b *Bot) history(ctx context.Context) error {
	all, err := b.cfg.Chat.Channels(ctx)
	if mattermost.TokenRefused(err) {
		b.box.put(fatal{err})
	}
	if err == nil {
		all, err = b.homes(ctx, all)
	}
	if err != nil {
		return err
	}
	reply := make(chan []want, 1)
	b.box.put(ask{listed{all}, reply})
	var wants []want
	select {
	case wants = <-reply:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, w := range wants {
		batch, err := b.cfg.Chat.Since(ctx, w.ch.ID, w.after)
		var no *mattermost.Refused
		switch {
		case err == nil:
			b.box.put(caught{w.ch, batch})
		case errors.As(err, &no) && !no.Token(): // not ours to read any more; others are
			b.cfg.Log.Warn("the server does not let a channel be read", "channel", w.ch.ID, "error", err.Error())
		default:
			return err
		}
	}
	return nil
}

// A want is a channel to be read from a time on.
type want struct {
	ch    mattermost.Channel
	after int64
}

// ask is a letter that is answered with what to read.
type ask struct {
	listed
	reply chan []want
}

// listed takes the list of channels.
func (b *Bot) listed(all []mattermost.Channel) {
	clear(b.channels)
	for _, ch := range all {
		b.channels[ch.ID] = ch
	}
}

// wants gives the channels in which something may have been missed.
func (b *Bot) wants() []want {
	var out []want
	for _, ch := range b.channels {
		mark := b.cfg.Queue.Mark(ch.ID)
		if ch.DeleteAt == 0 && ch.LastPostAt > mark-behind && allow.Relevant(b.cfg.Rules, b.self.Bot, ch) {
			out = append(out, want{ch, mark - behind})
		}
	}
	return out
}

func (b *Bot) caught(ctx context.Context, c caught) error {
	if c.batch.Cut {
		b.cfg.Log.Warn("more was missed than is read at once; the oldest messages are not answered", "channel", c.ch.ID)
	}
	for _, p := range c.batch.Posts {
		if err := b.consider(ctx, p); err != nil {
			return err
		}
	}
	for _, id := range c.batch.Deleted {
		if err := b.step(ctx, Gone{id}); err != nil {
			return err
		}
	}
	return b.step(ctx, Caught{c.ch.ID, c.batch.Until})
}

// A mailbox takes letters from every goroutine without making it wait.
type mailbox struct {
	wake chan struct{} // capacity 1

	mu   sync.Mutex // guards what follows
	mail []any
}

func (m *mailbox) put(l any) {
	m.mu.Lock()
	m.mail = append(m.mail, l)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	mail := m.mail
	m.mail = nil
	return mail
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
