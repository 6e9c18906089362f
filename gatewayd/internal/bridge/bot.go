package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"boxmaker/gatewayd/internal/allow"
	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/gatewayd/internal/queue"
	"boxmaker/internal/proto"
)

// Chat is what is needed of a *mattermost.Client.
type Chat interface {
	Run(ctx context.Context, tell func(mattermost.Event)) error
	Me(context.Context) (mattermost.User, error)
	Config(context.Context) (mattermost.ServerConfig, error)
	Direct(ctx context.Context, a, b string) (mattermost.Channel, error)
	Channels(context.Context) ([]mattermost.Channel, error)
	Channel(ctx context.Context, id string) (mattermost.Channel, error)
	Since(ctx context.Context, channel string, after int64) (mattermost.Batch, error)
	Find(ctx context.Context, me string, d mattermost.Draft, since int64) (mattermost.Post, bool, error)
	Create(context.Context, mattermost.Draft) (mattermost.Post, error)
	Patch(ctx context.Context, id, message string) (mattermost.Post, error)
	Get(ctx context.Context, id string) (mattermost.Post, error)
	Upload(ctx context.Context, channel, name string, content io.Reader) (string, error)
	Typing(ctx context.Context, channel, root string) error
}

// Loop is what is needed of a loop.Client.
type Loop interface {
	Turn(ctx context.Context, m *proto.Submit, tell func(proto.Message)) error
	Stop(ctx context.Context, session string) (bool, error)
	Status(context.Context) (*proto.Status, error)
	Session(ctx context.Context, id string) (*proto.SessionDetail, error)
	Delivered(ctx context.Context, session, key string) error
}

// Desk takes what is about approvals.
type Desk interface {
	Event(mattermost.Event)
	Reply(p mattermost.Post, direct bool) (say string, handled bool, err error)
}

// BotConfig is what a Bot works with.
type BotConfig struct {
	Chat    Chat
	Loop    Loop
	Desk    Desk
	Queue   *queue.Queue
	Rules   allow.Rules
	Changed func() bool // the settings are no longer those in force: nobody is heard until a new start
	Parts   int
	Open    int
	CatchUp time.Duration
	// Past, if set, is kept for the next bot of this process, where this one ends before
	// it could make durable what was past when it first looked.
	Past *int64
	// TokenPause is the first pause before a refused token is tried again; 0: 30 s.
	TokenPause time.Duration
	Log        *slog.Logger
}

// ErrChanged ends Run when the settings have changed: only a new start can read them.
var ErrChanged = errors.New("the settings have changed")

// requests is how many requests about posts are under way at a time.
const requests = 4

// A Bot carries out what a Machine wants. Make it with [NewBot], and call Run once.
type Bot struct {
	cfg   BotConfig
	box   mailbox
	wg    sync.WaitGroup
	slots chan struct{}

	// Owned by Run.
	machine  *Machine
	channels map[string]mattermost.Channel
	catching bool
	seated   int    // length of the queue when places was made
	newest   string // and its newest message

	mu     sync.Mutex // guards what follows
	self   Self
	known  bool
	state  state
	places map[string]place // of sessions with an open message in a direct channel
}

// NewBot makes a bot that is not at work yet.
func NewBot(c BotConfig) *Bot {
	return &Bot{
		cfg: c, slots: make(chan struct{}, requests), channels: map[string]mattermost.Channel{},
		box: mailbox{wake: make(chan struct{}, 1)},
	}
}

// letters that are no events of the machine.
type (
	seen struct { // a post whose channel was looked up
		ch   mattermost.Channel
		post mattermost.Post
	}
	listed struct{ all []mattermost.Channel }
	caught struct {
		ch    mattermost.Channel
		batch mattermost.Batch
	}
	caughtUp struct{ err error }
	missed   struct{} // what was missed is to be read
	fatal    struct{ err error }
)

// Pauses between looks at things that nobody tells of.
const (
	lookEach     = time.Second
	tokenPause   = 30 * time.Second
	tokenPauseTo = 10 * time.Minute
)

// Run works until ctx ends, the settings change, or the queue's log fails. A token
// that is refused it tries again now and then: the owner may give it back its
// rights, and nothing else of Boxmaker has to end for that.
func (b *Bot) Run(ctx context.Context) error {
	for n := range 1 << 30 {
		err := b.work(ctx)
		if !mattermost.TokenRefused(err) || ctx.Err() != nil {
			return err
		}
		pause := min(cmp.Or(b.cfg.TokenPause, tokenPause)<<min(n, 10), tokenPauseTo)
		b.cfg.Log.Error("the server refuses the bot's token, so that nothing is heard or posted", "error", err.Error(), "retry", pause.String(), "runbook", "mattermost-token")
		b.lost(err)
		if err := b.pause(ctx, pause); err != nil {
			return err
		}
	}
	return errors.New("bridge: the token was tried too often")
}

// pause waits, and still sees a change of the settings.
func (b *Bot) pause(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		switch {
		case b.cfg.Changed():
			return ErrChanged
		case left <= 0:
			return nil
		case !sleep(ctx, min(left, lookEach)):
			return ctx.Err()
		}
	}
}

// work is the life of the bot while its token counts.
func (b *Bot) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer b.wg.Wait()
	defer cancel()
	b.box.take() // of an earlier life
	b.catching = false
	if err := b.hello(ctx); err != nil {
		return err
	}
	b.machine = NewMachine(Config{Queue: b.cfg.Queue, Limit: b.self.Limit, Parts: b.cfg.Parts, Open: b.cfg.Open, Key: newKey})
	b.seat()
	b.wg.Go(func() {
		if err := b.cfg.Chat.Run(ctx, func(e mattermost.Event) { b.box.put(e) }); ctx.Err() == nil {
			b.box.put(fatal{err})
		}
	})
	catch := time.NewTicker(b.cfg.CatchUp)
	defer catch.Stop()
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	b.catchUp(ctx)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.box.wake:
			for _, l := range b.box.take() {
				if err := b.handle(ctx, l); err != nil {
					return err
				}
			}
		case <-catch.C:
			b.catchUp(ctx)
		case <-tick.C:
			if b.cfg.Changed() {
				return ErrChanged
			}
			if err := b.step(ctx, Tick{}); err != nil {
				return err
			}
		}
		b.seat()
	}
}

// newKey makes 130 random bits that are a token.
func newKey() string { return strings.ToLower(rand.Text()) }

func (b *Bot) handle(ctx context.Context, l any) error {
	switch l := l.(type) {
	case Event:
		return b.step(ctx, l)
	case mattermost.Event:
		return b.event(ctx, l)
	case seen:
		b.channels[l.ch.ID] = l.ch
		return b.consider(ctx, l.post)
	case ask:
		b.listed(l.all)
		l.reply <- b.wants()
		return b.reopen(ctx, l.all)
	case caught:
		return b.caught(ctx, l)
	case caughtUp:
		b.caughtUp(ctx, l.err)
		return nil
	case missed:
		b.catchUp(ctx)
		return nil
	case fatal:
		return l.err
	default:
		return errors.New("bridge: no rule for a letter")
	}
}

// step has the machine take an event, and does what it wants.
func (b *Bot) step(ctx context.Context, e Event) error {
	effects, err := b.machine.Step(time.Now(), e)
	if err != nil {
		return err
	}
	b.seat() // before anybody sees what comes of it
	for _, f := range effects {
		b.effect(ctx, f)
	}
	return nil
}
