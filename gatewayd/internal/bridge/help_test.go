package bridge

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/gatewayd/internal/allow"
	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/gatewayd/internal/queue"
	"boxmaker/internal/secret"
	"boxmaker/internal/testkit/fakemost"
)

// patience bounds each wait; it is not a figure of speed.
const patience = time.Minute

// A fakeDesk takes "approve K7M4PX" for an answer to a card.
type fakeDesk struct {
	mu   sync.Mutex
	said []string
	fail error
}

func (d *fakeDesk) Event(mattermost.Event) {}

func (d *fakeDesk) Reply(p mattermost.Post, _ bool) (string, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.fail != nil:
		return "", false, d.fail
	case p.Message == "approve K7M4PX":
		d.said = append(d.said, p.ID)
		return "", true, nil
	case strings.HasPrefix(p.Message, "approve "):
		return "No approval with that code waits.", true, nil
	}
	return "", false, nil
}

// A rig is a bot on a fake server, that can be stopped and started.
type rig struct {
	*fakemost.Server
	t                           *testing.T
	owner, stranger, admin, bot *fakemost.User
	dm, town                    string
	loop                        *fakeLoop
	desk                        *fakeDesk
	dir                         string
	run                         *Bot
	cfg                         func(*BotConfig)
	client                      mattermost.Config
	changed                     func() bool
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s := fakemost.New(t)
	r := &rig{
		Server: s, t: t, owner: s.AddUser("owner"), stranger: s.AddUser("stranger"), admin: s.AddAdmin("admin"), bot: s.AddBot("boxmaker"),
		loop: newLoop(), desk: &fakeDesk{}, dir: t.TempDir(), changed: func() bool { return false }, cfg: func(*BotConfig) {},
	}
	r.dm = s.Direct(r.owner, r.bot)
	r.town = s.Channel("O", "town", r.owner, r.stranger, r.bot)
	r.client = mattermost.Config{
		URL: s.URL, Token: secret.NewText(r.bot.Token), Timeout: 5 * time.Second,
		PingEvery: 200 * time.Millisecond, PongIn: 2 * time.Second, BackMin: 5 * time.Millisecond, BackMax: 50 * time.Millisecond,
	}
	return r
}

// start runs the bot until the returned function is called, which gives how it ended.
// It comes back when the bot is connected: from then on nothing may be lost.
func (r *rig) start() (stop func() error) {
	r.t.Helper()
	end, stop := r.boot()
	select {
	case err := <-end:
		r.t.Fatalf("the bot ended: %v", err)
	default:
	}
	r.until("the bot is connected", func() bool { return r.run.Checks()[0].State == "ok" })
	return stop
}

func (r *rig) boot() (end chan error, stop func() error) {
	r.t.Helper()
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	q, _, err := queue.Open(root)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := mattermost.New(r.client)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := BotConfig{
		Chat: c, Loop: r.loop, Desk: r.desk, Queue: q, Rules: allow.Rules{Owners: []string{r.owner.ID}, Channels: []string{r.town}},
		Changed: func() bool { return r.changed() }, Parts: 3, Open: 8, CatchUp: time.Hour, TokenPause: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
	r.cfg(&cfg)
	r.run = NewBot(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	end = make(chan error, 1)
	go func(b *Bot) { end <- b.Run(ctx) }(r.run)
	stop = sync.OnceValue(func() error {
		cancel()
		err := <-end
		return errors.Join(err, q.Close(), root.Close())
	})
	r.t.Cleanup(func() { _ = stop() })
	return end, stop
}

// until waits for something that the bot does.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			for _, p := range slices.Concat(r.Posts(r.dm), r.Posts(r.town)) {
				r.t.Logf("%s in %s: %.200q", p.UserID, p.RootID, p.Message)
			}
			r.t.Fatalf("it did not happen: %s", what)
		}
	}
}

// ask posts as the owner in the direct channel.
func (r *rig) ask(root, text string) fakemost.Post { return r.Post(r.owner, r.dm, root, text) }

// said gives what the bot says in the thread of a post, in order.
func (r *rig) said(root string) (out []string) {
	for _, p := range slices.Concat(r.Posts(r.dm), r.Posts(r.town)) {
		if p.UserID == r.bot.ID && p.RootID == root {
			out = append(out, p.Message)
		}
	}
	return out
}

// answered waits until all is answered, and gives what stands in a thread then.
func (r *rig) answered(root string) []string {
	r.t.Helper()
	r.until("an answer", func() bool {
		s := r.said(root)
		return len(s) > 0 && !slices.ContainsFunc(s, func(t string) bool { return strings.HasPrefix(t, "⏳") })
	})
	return r.said(root)
}

// wants waits for the one answer of a thread.
func (r *rig) wants(root, text string) {
	r.t.Helper()
	if got := r.answered(root); len(got) != 1 || got[0] != text {
		r.t.Errorf("%q, want %q", got, text)
	}
}

// quiet waits until nothing is open any more.
func (r *rig) quiet() {
	r.t.Helper()
	r.until("nothing is open", func() bool { return strings.HasPrefix(r.run.Checks()[2].Detail, "0 ") })
}
