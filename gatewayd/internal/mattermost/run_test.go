package mattermost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/secret"
	"boxmaker/internal/testkit/fakemost"
)

// A place is a server with the people that matter, and the bot's client.
type place struct {
	*fakemost.Server
	t                           *testing.T
	admin, owner, stranger, bot *fakemost.User
	dm                          string
	c                           *Client
}

func newPlace(t *testing.T) *place {
	s := fakemost.New(t)
	p := &place{Server: s, t: t, admin: s.AddAdmin("admin"), owner: s.AddUser("owner"), stranger: s.AddUser("stranger"), bot: s.AddBot("boxmaker")}
	p.dm = s.Direct(p.owner, p.bot)
	p.c = p.client(Config{})
	return p
}

// client is the bot's with settings that fit a test: impatient where waiting is
// what happens, patient where it is not.
func (p *place) client(cfg Config) *Client {
	p.t.Helper()
	cfg.URL, cfg.Token = p.URL, secret.NewText(p.bot.Token)
	if cfg.BackMin == 0 {
		cfg.BackMin, cfg.BackMax = time.Millisecond, 5*time.Millisecond
	}
	c, err := New(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// A run is Run in the background, and what it told.
type run struct {
	t    *testing.T
	end  context.CancelFunc
	done chan error

	mu  sync.Mutex
	all []Event
	new chan struct{}
	at  int // read so far
}

func (p *place) run(c *Client) *run {
	ctx, end := context.WithCancel(p.t.Context())
	r := &run{t: p.t, end: end, done: make(chan error, 1), new: make(chan struct{}, 1)}
	go func() {
		r.done <- c.Run(ctx, func(e Event) {
			r.mu.Lock()
			r.all = append(r.all, e)
			r.mu.Unlock()
			select {
			case r.new <- struct{}{}:
			default:
			}
		})
	}()
	p.t.Cleanup(func() {
		end()
		select {
		case err := <-r.done:
			if err != nil && !errors.Is(err, context.Canceled) && !TokenRefused(err) {
				p.t.Errorf("Run ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			p.t.Error("Run does not end")
		}
	})
	return r
}

// next gives the next event that is short in words.
func (r *run) next() string {
	r.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		if r.at < len(r.all) {
			e := r.all[r.at]
			r.at++
			r.mu.Unlock()
			return short(e)
		}
		r.mu.Unlock()
		select {
		case <-r.new:
		case <-deadline:
			r.t.Fatal("no event came")
		}
	}
}

// want reads events, which must be these.
func (r *run) want(words ...string) {
	r.t.Helper()
	for _, w := range words {
		if got := r.next(); got != w {
			r.t.Fatalf("event %q, want %q", got, w)
		}
	}
}

// until reads events up to one, and gives those before.
func (r *run) until(word string) (before []string) {
	r.t.Helper()
	for {
		got := r.next()
		if got == word {
			return before
		}
		before = append(before, got)
	}
}

// short is an event in words.
func short(e Event) string {
	switch e := e.(type) {
	case Posted:
		return "posted " + e.Post.Message
	case Edited:
		return "edited " + e.Post.Message
	case Deleted:
		return "deleted " + e.Post.Message
	case Reacted:
		return "reacted " + e.Reaction.Emoji
	case Up:
		if e.Fresh {
			return "up, fresh"
		}
		return "up"
	case Down:
		return "down"
	default:
		return fmt.Sprintf("%T", e)
	}
}

// over waits for the end of Run.
func (r *run) over() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(30 * time.Second):
		r.t.Fatal("Run goes on")
		return nil
	}
}

func TestEventsAsTheyCome(t *testing.T) {
	p := newPlace(t)
	r := p.run(p.c)
	r.want("up, fresh")
	post := p.Post(p.owner, p.dm, "", "hello")
	r.want("posted hello")
	p.Edit(p.owner, post.ID, "hullo")
	p.React(p.owner, post.ID, "+1_medium_skin_tone")
	p.Delete(p.owner, post.ID)
	r.want("edited hullo", "reacted +1_medium_skin_tone", "deleted hullo")
	r.end()
	if err := r.over(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestResumeWithoutLoss(t *testing.T) {
	p := newPlace(t)
	r := p.run(p.c)
	r.want("up, fresh")
	for i := range 20 {
		p.Post(p.owner, p.dm, "", fmt.Sprint("before ", i))
		p.CutAll()
		p.Post(p.owner, p.dm, "", fmt.Sprint("after ", i))
		r.until(fmt.Sprint("posted before ", i))
		for _, e := range r.until(fmt.Sprint("posted after ", i)) {
			if strings.HasPrefix(e, "posted") || e == "up, fresh" {
				t.Fatal(e)
			}
		}
	}
}
