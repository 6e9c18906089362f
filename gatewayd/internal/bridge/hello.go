package bridge

import (
	"context"
	"errors"

	"boxmaker/gatewayd/internal/allow"
	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/gatewayd/internal/queue"
)

// A Self is who the bot is on its server.
type Self struct {
	allow.Bot
	Home  string // the direct channel with the first owner
	Limit int    // runes of a post
}

// Self gives who we are, as soon as the server has said so, and while it lets us in.
func (b *Bot) Self() (Self, bool) { b.mu.Lock(); defer b.mu.Unlock(); return b.self, b.known }

// hello learns who we are, for as long as it takes.
func (b *Bot) hello(ctx context.Context) error {
	for n := 1; ; n++ {
		self, err := b.whoami(ctx)
		var past int64
		if err == nil {
			past, err = b.past(ctx, self.Bot)
		}
		if err == nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.self, b.known = self, true
			return b.begin(past)
		}
		if mattermost.TokenRefused(err) {
			return err
		}
		b.lost(err)
		b.cfg.Log.Warn("the Mattermost server does not say who we are", "error", err.Error())
		if err := b.pause(ctx, backOff(n, backMax)); err != nil {
			return err
		}
	}
}

func (b *Bot) whoami(ctx context.Context) (Self, error) {
	me, err := b.cfg.Chat.Me(ctx)
	if err != nil {
		return Self{}, err
	}
	s := Self{Bot: allow.Bot{ID: me.ID, Name: me.Name}, Limit: mattermost.DefaultPostSize}
	if c, err := b.cfg.Chat.Config(ctx); err == nil {
		s.Limit = c.PostSize
	} else if mattermost.TokenRefused(err) {
		return Self{}, err
	}
	home, err := b.cfg.Chat.Direct(ctx, me.ID, b.cfg.Rules.Owners[0])
	if err != nil {
		return Self{}, &noDirect{b.cfg.Rules.Owners[0], err}
	}
	s.Home = home.ID
	b.channels[home.ID] = home
	return s, nil
}

// past gives, the first time ever, the time up to which posts are none of ours: that
// of the newest one there is before we listen, or of the newest of our own in a direct
// channel, if that is earlier. The setup greets the owner there, and says that what is
// written next will be answered. What comes after it is told of, or read when we are
// connected.
func (b *Bot) past(ctx context.Context, me allow.Bot) (last int64, err error) {
	if _, ok := b.cfg.Queue.First(); ok {
		return 0, nil
	}
	if b.cfg.Past != nil && *b.cfg.Past > 0 {
		return *b.cfg.Past, nil
	}
	all, err := b.cfg.Chat.Channels(ctx)
	if err != nil {
		return 0, err
	}
	greeted := int64(0)
	for _, ch := range all {
		last = max(last, ch.LastPostAt)
		if ch.Type != mattermost.Direct || !allow.Relevant(b.cfg.Rules, me, ch) {
			continue
		}
		at, err := b.ownPost(ctx, me, ch)
		if err != nil {
			return 0, err
		}
		greeted = max(greeted, at)
	}
	if greeted > 0 {
		last = min(last, greeted)
	}
	if b.cfg.Past != nil {
		*b.cfg.Past = max(last, 1) // of no post at all, too
	}
	return last, nil
}

// recently is how far behind the last post of a channel our own is looked for,
// in milliseconds.
const recently = 7 * 24 * 3600 * 1000

// ownPost gives the time of our newest post of late in a channel; 0: there is none, or
// so much that it is not known.
func (b *Bot) ownPost(ctx context.Context, me allow.Bot, ch mattermost.Channel) (newest int64, err error) {
	batch, err := b.cfg.Chat.Since(ctx, ch.ID, ch.LastPostAt-recently)
	var no *mattermost.Refused
	switch {
	case errors.As(err, &no) && !no.Token(), batch.Cut:
		return 0, nil
	case err != nil:
		return 0, err
	}
	for _, p := range batch.Posts {
		if p.User == me.ID {
			newest = max(newest, p.CreateAt)
		}
	}
	return newest, nil
}

// begin makes durable what is past.
func (b *Bot) begin(past int64) error {
	if _, ok := b.cfg.Queue.First(); ok {
		return nil
	}
	return b.cfg.Queue.Put(&queue.First{At: past})
}

// A place is where a session is talked about.
type place struct{ channel, root string }

// Place gives where the cards of a session belong: its thread in a direct channel,
// where nobody but its owner reads them.
func (b *Bot) Place(session string) (channel, root string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.places[session]
	return p.channel, p.root, ok
}

// seat keeps up with the queue: what others ask of it, they ask here.
func (b *Bot) seat() {
	n, last := b.cfg.Queue.Len(), b.cfg.Queue.Last()
	shut := b.machine.Closed("")
	b.note(func(s *state) { s.shut = shut })
	if b.places != nil && n == b.seated && last == b.newest {
		return
	}
	places := map[string]place{}
	for _, i := range b.cfg.Queue.Open() {
		if b.channels[i.Channel].Type == mattermost.Direct && i.Command == "" {
			places[Session(i.Root)] = place{i.Channel, i.Root}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seated, b.newest, b.places, b.state.open = n, last, places, n
}
