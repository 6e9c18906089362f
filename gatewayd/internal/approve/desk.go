// Package approve has the owner decide on calls in a chat: a card for each
// approval, made from brokerd's structured fields alone, and the owner's answer
// back to brokerd.
//
// It guarantees that an answer is the owner's by user id, on the very post that
// carries the card, by one of two exact emoji or by the card's code in a message
// written by hand in the same place, before the expiry, and once; and that the
// card was then still to the letter what was posted. It decides by what the
// server says when it is asked, never by an event. What it has promised is on
// disk first: a restart neither posts twice nor loses an answer; after a failed write
// nothing more is promised or posted, and [Open] is the way back. Text of a model
// stands in the card as rows behind a mark, in code, with nothing hidden.
//
// It does not decide on a call: that is brokerd's, which takes the first answer
// of any channel. And it trusts the server to say who reacted.
package approve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/proto"
)

// Chat is what is needed of a *mattermost.Client.
type Chat interface {
	Create(context.Context, mattermost.Draft) (mattermost.Post, error)
	Find(ctx context.Context, me string, d mattermost.Draft, since int64) (mattermost.Post, bool, error)
	Patch(ctx context.Context, id, message string) (mattermost.Post, error)
	Get(ctx context.Context, id string) (mattermost.Post, error)
	React(ctx context.Context, me, post, emoji string) error
	Reactions(ctx context.Context, post string) ([]mattermost.Reaction, error)
	Upload(ctx context.Context, channel, name string, content io.Reader) (string, error)
}

// A Self is who we are on the server, and what holds there.
type Self struct {
	Me    string // our user id
	Home  string // the direct channel with the owner
	Limit int    // runes of a post
}

// Config is what a Desk works with.
type Config struct {
	Chat   Chat
	Owners []string // user ids
	// Self gives who we are, as soon as the server has said so.
	Self func() (Self, bool)
	// Place gives where a session's cards belong, if that is a direct channel with
	// an owner: in others everybody would read them. Not ok: in Self.Home.
	Place func(session string) (channel, root string, ok bool)
	// Status answers gateway.sock; its checks get a row on approvals.
	Status func() *proto.GatewayStatus
	Root   *os.Root
	Now    func() time.Time
	Zone   *time.Location
	Log    *slog.Logger
}

// A Desk holds the cards. Its methods may be called from several goroutines.
type Desk struct {
	cfg   Config
	store store
	wake  chan struct{}

	mu     sync.Mutex // guards what follows, the items too
	items  map[string]*Item
	look   map[string]bool      // of items: something may have happened
	later  map[string]time.Time // of items: not before, since the last step failed
	tries  map[string]int
	asks   map[string]map[chan struct{}]bool // told when an answer or a post is there
	ended  []string                          // approvals, for questions that come behind their end
	anchor string                            // the newest
	broken error                             // why nothing more is promised
}

const (
	lookEach = time.Minute
	maxEnded = 1024
	maxItems = 256
	backMin  = time.Second
	backMax  = time.Minute
)

// Open reads what was on disk. A file that cannot be read is named in bad.
func Open(c Config) (d *Desk, bad []string, err error) {
	d = &Desk{
		cfg: c, store: store{c.Root}, wake: make(chan struct{}, 1), look: map[string]bool{}, later: map[string]time.Time{},
		tries: map[string]int{}, asks: map[string]map[chan struct{}]bool{},
	}
	if d.items, bad, err = d.store.load(); err != nil {
		return nil, nil, fmt.Errorf("%w (see runbook: gatewayd-state)", err)
	}
	for id := range d.items {
		d.look[id] = true
	}
	return d, bad, nil
}

// ErrClosed is what a desk says to those who come too late.
var ErrClosed = errors.New("the cards of approvals are put away")

// Close has the desk promise and write nothing more, so that another one can be
// opened in its place, whoever still holds this one.
func (d *Desk) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail(ErrClosed)
}

// trouble is why nothing more is promised; nil: there is none.
func (d *Desk) trouble() error { d.mu.Lock(); defer d.mu.Unlock(); return d.broken }

// fail notes the first reason for which nothing more is promised. Precondition: mu is
// held.
func (d *Desk) fail(err error) {
	if d.broken == nil {
		d.broken = err
	}
	d.poke()
}

// save makes an item durable, or it is the last that the desk does: what is on disk is
// not known then. Precondition: mu is held.
func (d *Desk) save(i *Item) error {
	if d.broken != nil {
		return d.broken
	}
	err := d.store.save(i)
	if err != nil {
		d.fail(err)
	}
	return err
}

func (d *Desk) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Waiting is how many cards wait for the owner, and how many items for the server.
func (d *Desk) Waiting() (cards, queued int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.items {
		switch i.Next(false, false) {
		case StepWait:
			cards++
		default:
			queued++
		}
	}
	return cards, queued
}

// Event hints at a change. Whether it is one is found by asking the server.
func (d *Desk) Event(e mattermost.Event) {
	switch e := e.(type) {
	case mattermost.Reacted:
		d.hint(e.Reaction.Post)
	case mattermost.Edited:
		d.hint(e.Post.ID)
	case mattermost.Deleted:
		d.hint(e.Post.ID)
	case mattermost.Up:
		if e.Fresh {
			d.hintAll()
		}
	}
}

func (d *Desk) hint(post string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, i := range d.items {
		if i.Post == post && post != "" {
			d.look[id] = true
			d.poke()
		}
	}
}

func (d *Desk) hintAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.items {
		d.look[id] = true
		delete(d.later, id)
	}
	d.poke()
}

// Mine reports whether a post is one of ours here: replies to an event on it are
// no business of others.
func (d *Desk) Mine(post string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.items {
		if i.Post == post {
			return true
		}
	}
	return false
}

// Reply takes a message of the owner if it is an answer to a card. The caller has
// seen to it that the post is new to it; direct says that it stands in the direct
// channel. handled means that it is no message for the agent; say is what to tell
// the owner, if anything. After an error it was not taken.
func (d *Desk) Reply(p mattermost.Post, direct bool) (say string, handled bool, err error) {
	w, ok := ParseWord(p.Message)
	if !ok {
		return "", false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := false
	for id, i := range d.items {
		was := *i
		switch {
		case !strings.EqualFold(i.Ask.Code, w.Code) || i.Anchor != "":
		case i.Hear(p, w, direct, d.cfg.Owners, d.cfg.Now()):
			if err := d.save(i); err != nil {
				*i = was
				return "", false, err
			}
			d.look[id] = true
			delete(d.later, id)
			d.poke()
			return "", true, nil
		default:
			known = true
		}
	}
	switch {
	case known:
		return "That call does not wait for an answer here: it has one already, has expired, or is asked about in another place.", true, nil
	case strings.ContainsAny(w.Code, "0123456789") || w.Code == strings.ToUpper(w.Code):
		return "No approval with that code waits.", true, nil
	}
	return "", false, nil // a sentence
}
