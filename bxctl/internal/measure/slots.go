package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"boxmaker/bxctl/internal/measure/api"
)

// Slots is whether a request goes to the slot that it names, and leaves the
// others alone.
type Slots struct {
	Told     bool  `json:"told"`    // the server shows its slots
	Pinned   bool  `json:"pinned"`  // only the named slot was seen working for us
	Seen     []int `json:"seen"`    // slots that were seen working
	Looks    int   `json:"looks"`   // times that was looked
	Kept     bool  `json:"kept"`    // a second turn found the first one there
	Reused   int64 `json:"reused"`  // tokens
	Before   int64 `json:"before"`  // of so many
	Others   int   `json:"others"`  // other slots
	Touched  []int `json:"touched"` // of those, the ones whose tokens changed meanwhile
	Isolated bool  `json:"isolated"`
}

// slots makes two turns while it looks at all slots.
func (r *run) slots() error {
	const step = "slots"
	r.forget(step)
	out := &Slots{Seen: []int{}, Touched: []int{}}
	before, err := r.Server.Slots(r.ctx, r.req.Model)
	out.Told = err == nil
	seen := map[int]bool{}
	history := []message{system(instruction + fmt.Sprint(" Run ", r.seed(3), "."))}
	body := func(u api.Update) error {
		if out.Looks >= 20 || !out.Told {
			return nil
		}
		all, err := r.Server.Slots(r.ctx, r.req.Model)
		if err != nil {
			return r.ctx.Err()
		}
		out.Looks++
		for _, s := range all {
			if s.Busy {
				seen[s.ID] = true
			}
		}
		return nil
	}
	var last int64
	for i, text := range []string{"Say 40 words about rivers.", "Say 40 words about boats."} {
		history = append(history, user(text))
		b, err := r.req.body(shape{max: 160, think: 16}, history)
		if err != nil {
			return err
		}
		c, err := r.chat(step, fmt.Sprintf("turn %d", i+1), b, body)
		if err != nil {
			return err
		}
		history = append(history, answer(c)...)
		if i == 1 {
			out.Before, out.Reused = last, c.Timings.CacheN
			out.Kept = out.Reused >= max(last-slack, last/2)
		}
		last = c.Timings.Total()
	}
	for id := range r.res.Server.Slots {
		if seen[id] {
			out.Seen = append(out.Seen, id)
		}
	}
	out.Pinned = seen[r.req.Slot] && len(seen) == 1
	after, err := r.Server.Slots(r.ctx, r.req.Model)
	if err == nil && out.Told {
		out.touched(before, after, r.req.Slot)
	}
	r.res.Slots = out
	return r.ctx.Err()
}

// touched compares the other slots before and after.
func (s *Slots) touched(before, after []api.Slot, mine int) {
	was := map[int]int64{}
	for _, b := range before {
		was[b.ID] = b.Tokens
	}
	for _, a := range after {
		if a.ID == mine {
			continue
		}
		s.Others++
		if a.Tokens != was[a.ID] {
			s.Touched = append(s.Touched, a.ID)
		}
	}
	s.Isolated = s.Others > 0 && len(s.Touched) == 0
}

// Busy is what happens to a request whose slot is at work.
type Busy struct {
	Told      string `json:"told,omitzero"` // why it could not be measured
	Queued    bool   `json:"queued"`        // it waited and was then answered
	WaitMS    int64  `json:"wait_ms"`       // until its headers
	Pings     int    `json:"pings"`         // that came before its first token
	FreedMS   int64  `json:"freed_ms"`      // from closing a stream until the slot was free; -1: not seen
	WorkedMS  int64  `json:"worked_ms"`     // that the first request had worked when the second came
	Cancelled bool   `json:"cancelled"`     // closing the stream ended the work
}

var errEnough = errors.New("measure: enough seen")

// held is how long the first request works beside the second before it is closed.
const held = 1500 * time.Millisecond

// busy sends a second request to a slot that works on a first one, closes the
// first after a while, and sees what becomes of both.
func (r *run) busy() error {
	const step = "busy slot"
	r.forget(step)
	out := &Busy{FreedMS: -1}
	r.res.Busy = nil
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	long, err := r.req.body(shape{max: int(min(8192, r.res.Server.Window/2)), think: -1, extra: `"ignore_eos":true`},
		[]message{system(instruction), user("Say 4000 words.")})
	if err != nil {
		return err
	}
	short, err := r.req.body(shape{max: 16, think: 0}, []message{system(instruction), user("Say yes.")})
	if err != nil {
		return err
	}
	working := make(chan struct{})
	var once sync.Once
	var first *api.Completion
	var firstErr error
	ended := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		first, firstErr = r.Server.Chat(ctx, long, func(u api.Update) error {
			if u.Tokens > 0 {
				once.Do(func() { close(working) })
			}
			return nil
		})
	}()
	select {
	case <-working:
	case <-ended:
	}
	out.WorkedMS = time.Since(began).Milliseconds()
	stop := time.AfterFunc(held, func() { cancel(errEnough) })
	defer stop.Stop()
	c, err := r.chat(step, "second request", short, nil)
	cancel(errEnough)
	<-ended
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if err != nil {
		return err
	}
	out.WaitMS, out.Pings = c.Head.Milliseconds(), c.Pings
	out.Queued = true
	if err := out.judge(first, firstErr); err != nil {
		return err
	}
	out.FreedMS = r.freed(long)
	r.res.Busy = out
	return r.ctx.Err()
}

// judge says what the end of the first request means.
func (b *Busy) judge(first *api.Completion, err error) error {
	switch {
	case err == nil && first.Wall.Milliseconds() < b.WorkedMS+20:
		b.Told = "the first request was done before the second could come: the server is too fast for this"
	case err == nil:
		b.Told = "the first request ended by itself before it was closed"
	case !errors.Is(err, errEnough):
		return err
	default:
		b.Cancelled = b.WaitMS < (held + 5*time.Second).Milliseconds()
	}
	return nil
}

// freed starts the long request once more, closes it, and waits until its slot is
// free.
func (r *run) freed(long []byte) int64 {
	n := 0
	_, err := r.Server.Chat(r.ctx, long, func(u api.Update) error {
		if n = u.Tokens; n >= 8 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return -1
	}
	closed := time.Now()
	for time.Since(closed) < 20*time.Second {
		all, err := r.Server.Slots(r.ctx, r.req.Model)
		if err != nil {
			return -1
		}
		for _, s := range all {
			if s.ID == r.req.Slot && !s.Busy {
				return time.Since(closed).Milliseconds()
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-r.ctx.Done():
			return -1
		}
	}
	return -1
}
