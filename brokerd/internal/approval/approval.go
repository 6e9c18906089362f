// Package approval holds the calls that wait for the owner.
//
// It guarantees that an approval is on disk before anybody sees it, that an
// answer counts only with the digest of the very call that waits and before the
// expiry by every clock that there is, and that the first answer wins: [Desk.Wait]
// gives exactly one end, and [Desk.Answer] returns only after that end is on
// record. An approval is for one call and used once; nothing is ever remembered
// for the next.
//
// It writes no audit record and lets nothing run: both is for whoever calls Wait
// and then [Desk.Settled].
package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"boxmaker/internal/durable"
	"boxmaker/internal/proto"
	"boxmaker/internal/strict"
)

// Config is what a Desk works with.
type Config struct {
	Root  *os.Root
	Clock Clock
	// Floor is a time that has passed, whatever the clock says now: that of the
	// newest record, for example.
	Floor time.Time
	// Ended are the ends of former approvals, for answers that come too late.
	Ended map[string]proto.Answered
	// Most is how many may wait at a time.
	Most int
}

// ErrFull reports that as many approvals wait as may.
var ErrFull = errors.New("approval: too many wait already")

// maxBytes bounds all that wait together, so that a list of them fits into one
// message.
const maxBytes = 3 << 20

// A Desk holds what waits. Its methods may be called from several goroutines.
type Desk struct {
	root  *os.Root
	clock Clock
	most  int

	mu        sync.Mutex // guards what follows
	live      map[string]*item
	bytes     int
	ended     map[string]proto.Answered
	order     []string // of ended, oldest first
	followers map[*Follower]bool
}

type item struct {
	held   *Held
	size   int
	expiry expiry
	taken  *proto.Answered // what was answered first
	answer chan struct{}   // closed when taken
	end    chan struct{}   // closed when settled
}

const (
	folder = "approvals"
	// maxEnded bounds what is remembered of ended approvals.
	maxEnded = 1024
	// look is how often the clocks are looked at: a timer stands still while the
	// machine sleeps.
	look = 20 * time.Second
)

// Open reads what waited when brokerd ended. A file that cannot be read is moved
// aside and named in bad.
func Open(c Config) (d *Desk, bad []string, err error) {
	d = &Desk{
		root: c.Root, clock: c.Clock, most: cmp.Or(c.Most, 16),
		live: map[string]*item{}, ended: map[string]proto.Answered{}, followers: map[*Follower]bool{},
	}
	for id, a := range c.Ended {
		d.remember(id, a)
	}
	if err := durable.Mkdir(c.Root, folder, 0o700); err != nil {
		return nil, nil, err
	}
	entries, err := fs.ReadDir(c.Root.FS(), folder)
	if err != nil {
		return nil, nil, fmt.Errorf("approval: %w", err)
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		switch {
		case strings.HasSuffix(name, ".tmp"):
			err = c.Root.Remove(name)
		case strings.HasSuffix(name, ".json"):
			if badErr := d.load(name, c.Floor); badErr != nil {
				bad = append(bad, fmt.Sprintf("%s: %v", name, badErr))
				if !e.Type().IsRegular() { // a link, which brokerd may not make and so not rename
					err = c.Root.Remove(name)
					break
				}
				err = c.Root.Rename(name, strings.TrimSuffix(name, ".json")+".bad")
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("approval: %w", err)
		}
	}
	return d, bad, nil
}

func (d *Desk) load(name string, floor time.Time) error {
	b, err := d.root.ReadFile(name)
	if err != nil {
		return err
	}
	h := new(Held)
	if err := strict.Unmarshal(b, h); err != nil {
		return err
	}
	if fileName(h.Approval.Approval) != name {
		return errors.New("the file is of another approval")
	}
	e, err := expiryOf(h, d.clock, floor)
	if err != nil {
		return err
	}
	size, err := sizeOf(h)
	if err != nil {
		return err
	}
	d.live[h.Approval.Approval] = newItem(h, size, e)
	d.bytes += size
	return nil
}

// sizeOf is what an approval adds to a list of them.
func sizeOf(h *Held) (int, error) {
	b, err := strict.Marshal(&h.Approval)
	return len(b), err
}

func newItem(h *Held, size int, e expiry) *item {
	return &item{held: h, size: size, expiry: e, answer: make(chan struct{}), end: make(chan struct{})}
}

// Hold fills in code, nonce, digest, and the times of the clocks, and makes the
// approval durable; then it shows it to those who follow. The caller has set all
// else in a, asked and expires too. canonical are the bytes that the approval is
// for.
func (d *Desk) Hold(a proto.Approval, call proto.Call, canonical, seen string) (*Held, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.Code = newCode(d.hasCode)
	nonce := NewID()
	a.Digest = Digest(canonical, nonce)
	h := &Held{V: heldVersion, Approval: a, Call: call, Nonce: nonce, Seen: seen}
	e, err := expiryOf(h, d.clock, time.Time{})
	if err != nil {
		return nil, err
	}
	var since time.Duration
	h.Boot, since = d.clock.Boot()
	h.Until = (since + e.left(d.clock)).Milliseconds()
	e.boot, e.until = h.Boot, time.Duration(h.Until)*time.Millisecond
	b, err := strict.Marshal(h)
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(h)
	if err != nil {
		return nil, err
	}
	if len(d.live) >= d.most || d.bytes+size > maxBytes {
		return nil, ErrFull
	}
	if err := durable.WriteFile(d.root, fileName(a.Approval), b, 0o600); err != nil {
		return nil, fmt.Errorf("an approval cannot be made durable: %w (see runbook: brokerd-state)", err)
	}
	d.live[a.Approval] = newItem(h, size, e)
	d.bytes += size
	d.tell(&a)
	return h, nil
}

func (d *Desk) hasCode(code string) bool {
	for _, i := range d.live {
		if i.held.Approval.Code == code {
			return true
		}
	}
	return false
}

// Wait gives how an approval ends: by an answer, or because it expired. Until
// [Desk.Settled] that end stands, but nobody is told. When ctx ends first, the
// approval waits on, unless its end is settled as withdrawn.
func (d *Desk) Wait(ctx context.Context, id string) (proto.Answered, error) {
	d.mu.Lock()
	i := d.live[id]
	d.mu.Unlock()
	if i == nil {
		return proto.Answered{}, fmt.Errorf("approval: %s does not wait", id)
	}
	for {
		left := i.expiry.left(d.clock)
		if left <= 0 {
			return d.take(i, proto.Answered{Approval: id, Verdict: proto.VerdictExpired, Channel: "brokerd"}), nil
		}
		t := time.NewTimer(min(left, look))
		select {
		case <-i.answer:
			t.Stop()
			return d.take(i, proto.Answered{}), nil
		case <-ctx.Done():
			t.Stop()
			return proto.Answered{}, context.Cause(ctx)
		case <-t.C:
		}
	}
}

// take gives the first answer, which is a if there was none.
func (d *Desk) take(i *item, a proto.Answered) proto.Answered {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i.taken == nil {
		i.taken = &a
		close(i.answer)
	}
	return *i.taken
}

// Settled ends an approval whose end is on record, and tells everybody.
func (d *Desk) Settled(end proto.Answered) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.live[end.Approval]
	if i == nil {
		return nil
	}
	if err := d.root.Remove(fileName(end.Approval)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("an ended approval cannot be removed: %w (see runbook: brokerd-state)", err)
	}
	delete(d.live, end.Approval)
	d.bytes -= i.size
	end.First = false
	if i.taken == nil { // withdrawn
		i.taken = &end
		close(i.answer)
	}
	d.remember(end.Approval, end)
	close(i.end)
	d.tell(&proto.Retracted{Approval: end.Approval, Verdict: end.Verdict, By: end.By, Channel: end.Channel})
	return nil
}

// remember keeps the end for late answers. Precondition: mu is held.
func (d *Desk) remember(id string, a proto.Answered) {
	d.ended[id] = a
	d.order = append(d.order, id)
	if len(d.order) > maxEnded {
		delete(d.ended, d.order[0])
		d.order = d.order[1:]
	}
}

// Get gives a waiting approval, or nil.
func (d *Desk) Get(id string) *Held {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.live[id]; i != nil {
		return i.held
	}
	return nil
}

// List gives what waits, the oldest first.
func (d *Desk) List() []proto.Approval {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list()
}

func (d *Desk) list() []proto.Approval {
	all := make([]proto.Approval, 0, len(d.live))
	for _, i := range d.live {
		all = append(all, i.held.Approval)
	}
	slices.SortFunc(all, func(a, b proto.Approval) int {
		return cmp.Or(strings.Compare(a.Asked, b.Asked), strings.Compare(a.Approval, b.Approval))
	})
	return all
}

// IDs lists what waits.
func (d *Desk) IDs() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.live))
}

// Discard removes an approval that never was on record.
func (d *Desk) Discard(id string) error {
	return d.Settled(proto.Answered{Approval: id, Verdict: proto.VerdictWithdrawn, Channel: "brokerd"})
}

func fileName(id string) string { return path.Join(folder, id+".json") }
