package bridge

import (
	"context"
	"time"

	"boxmaker/gatewayd/internal/allow"
	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/gatewayd/internal/queue"
)

func (b *Bot) event(ctx context.Context, e mattermost.Event) error {
	b.cfg.Desk.Event(e)
	switch e := e.(type) {
	case mattermost.Posted:
		b.note(func(s *state) { s.last = time.Now() })
		if b.machine.Closed(e.Post.Channel) > 0 { // the server itself posts when a channel comes back
			if err := b.step(ctx, Opened{e.Post.Channel}); err != nil {
				return err
			}
		}
		return b.consider(ctx, e.Post)
	case mattermost.Deleted:
		return b.step(ctx, Gone{e.Post.ID})
	case mattermost.Up:
		b.note(func(s *state) { s.up, s.err = true, nil })
		if e.Fresh {
			b.catchUp(ctx)
		}
		return b.step(ctx, Up{})
	case mattermost.Down:
		b.note(func(s *state) { s.up, s.err = false, e.Err })
	case mattermost.Edited, mattermost.Reacted: // an edit changes nothing
	}
	return nil
}

// consider hears a post or does not.
func (b *Bot) consider(ctx context.Context, p mattermost.Post) error {
	if b.cfg.Changed() {
		return ErrChanged // it may be about who is heard
	}
	if !b.cfg.Queue.Fresh(p.ID, p.Channel, p.CreateAt) {
		return nil
	}
	ch, ok := b.channels[p.Channel]
	if !ok {
		ch.ID = p.Channel
		if v := allow.Decide(b.cfg.Rules, b.self.Bot, p, ch); v == allow.Place { // the owner's, and where is not known yet
			b.lookUp(ctx, p)
		}
		return nil
	}
	switch v := allow.Decide(b.cfg.Rules, b.self.Bot, p, ch); v {
	case allow.Hear:
		return b.hear(ctx, p, ch)
	case allow.Edited:
		return b.step(ctx, Heard{heard(p, "edited", "")})
	case allow.Program, allow.Gone:
		b.cfg.Log.Info("a post under the owner's id is not heard", "post", p.ID, "why", string(v))
	default: // others get nothing, not even a line for each
	}
	return nil
}

func (b *Bot) lookUp(ctx context.Context, p mattermost.Post) {
	b.wg.Go(func() {
		ch, err := b.cfg.Chat.Channel(ctx, p.Channel)
		if err != nil {
			b.cfg.Log.Warn("a channel cannot be read; its messages are heard when what was missed is read", "error", err.Error())
			return
		}
		if ch.ID == p.Channel {
			b.box.put(seen{ch, p})
		}
	})
}

func (b *Bot) hear(ctx context.Context, p mattermost.Post, ch mattermost.Channel) error {
	p.Message = allow.Strip(p.Message, b.self.Name)
	say, handled, err := b.cfg.Desk.Reply(p, ch.Type == mattermost.Direct)
	switch {
	case err != nil:
		return err
	case handled && say == "":
		return b.step(ctx, Heard{heard(p, commandNone, "")})
	case handled:
		return b.step(ctx, Heard{heard(p, "say", say)})
	}
	command, text := parse(p.Message)
	h := heard(p, command, text)
	return b.step(ctx, Heard{h})
}

func heard(p mattermost.Post, command, text string) queue.Heard {
	return queue.Heard{
		Post: p.ID, Root: p.ThreadRoot(), Channel: p.Channel, At: p.CreateAt,
		Command: command, Text: text, Files: len(p.Files) > 0,
	}
}
