package bridge

import (
	"context"
	"testing"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/testkit/fakemost"
)

// listing calls a function before the nth list of channels is asked for.
type listing struct {
	Chat
	n      int
	before func(n int)
}

func (l *listing) Channels(ctx context.Context) ([]mattermost.Channel, error) {
	l.n++
	l.before(l.n)
	return l.Chat.Channels(ctx)
}

// The very first start: what was there before is past, and what comes once the bot
// listens is not, even if the list of channels knows it sooner than any event does.
func TestTheVeryFirstStart(t *testing.T) {
	r := newRig(t)
	old := r.ask("", "before")
	posted := make(chan fakemost.Post, 1)
	r.cfg = func(c *BotConfig) {
		c.Chat = &listing{c.Chat, 0, func(n int) {
			if n == 2 {
				r.Lose(1)
				posted <- r.ask("", "after")
			}
		}}
	}
	r.start()
	fresh := <-posted
	r.wants(fresh.ID, "answer to after")
	if got := r.said(old.ID); len(got) != 0 {
		t.Errorf("what is past is answered: %q", got)
	}
}

// What is written after the setup's greeting is answered, as the greeting says, also
// if the bot was not started yet; what was written before it is past.
func TestTheFirstStartAfterAGreeting(t *testing.T) {
	r := newRig(t)
	old := r.ask("", "before")
	greeting := r.Post(r.bot, r.dm, "", "This is Boxmaker's bot.")
	r.until("the server's clock goes on", func() bool { return time.Now().UnixMilli() > greeting.CreateAt })
	fresh, named := r.ask("", "after"), r.Post(r.owner, r.town, "", "@boxmaker after that")
	r.start()
	r.wants(fresh.ID, "answer to after")
	r.wants(named.ID, "answer to after that")
	if got := r.said(old.ID); len(got) != 0 {
		t.Errorf("what is past is answered: %q", got)
	}
	r.quiet()
}
