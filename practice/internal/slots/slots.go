// Package slots is the practice model's context memory: a few slots, each with
// the tokens that it has processed, and a queue for those who want one.
//
// It guarantees that the cache figures are true: what counts as cached is the
// longest common prefix of the new prompt and the tokens that the slot holds,
// and nothing else. At least one token of every prompt is processed. A slot is
// used by one request at a time, in the order in which they asked.
//
// It does not imitate the checkpoints of hybrid models: a changed prefix costs
// what follows the change, as on a model that can rewind.
package slots

import (
	"context"
	"sync"
	"time"

	"boxmaker/practice/internal/tokenizer"
)

// similar is the share of a prompt that must be in a slot for the slot to be
// chosen by content (llama-server's --slot-prompt-similarity).
const similar = 0.1

// A Pool holds the slots.
type Pool struct {
	ctx int // tokens a slot can hold

	mu      sync.Mutex // guards everything below
	slots   []*slot
	waiters []*waiter // in the order of arrival
	uses    int64
	stats   Stats
}

type slot struct {
	busy   bool
	used   int64 // for the least recently used
	tokens []tokenizer.Token
	state  State
}

type waiter struct {
	want   int // a slot, or -1 for any
	prompt []tokenizer.Token
	got    chan int
}

// State is what /slots shows of one slot. The counts are of the request that
// holds it.
type State struct {
	ID, Task                  int
	Busy                      bool
	Prompt, Processed, Cached int // tokens of the prompt so far with what was generated; of them processed; of them cached
	Decoded, Remain           int
	MaxTokens                 int
	Stream                    bool
	Sampling                  map[string]float64 // never changed once it is here
}

// Stats are the counters of /metrics.
type Stats struct {
	PromptTokens, CachedTokens, PredictedTokens int64
	PromptTime, PredictedTime                   time.Duration
	Decodes, Largest                            int64
	Processing, Deferred                        int
}

// New makes n empty slots of ctx tokens each.
func New(n, ctx int) *Pool {
	p := &Pool{ctx: ctx}
	for i := range n {
		p.slots = append(p.slots, &slot{state: State{ID: i}})
	}
	return p
}

// Len is the number of slots, Context how many tokens each can hold.
func (p *Pool) Len() int     { return len(p.slots) }
func (p *Pool) Context() int { return p.ctx }

// Acquire waits for a slot. A want that is no slot takes any: the free one that
// shares most with the prompt, else the one that was used longest ago. It ends
// early only with ctx, which should be the server's and not the client's: the
// real server notices that a queued client has gone only at its turn.
func (p *Pool) Acquire(ctx context.Context, want int, prompt []tokenizer.Token) (*Lease, error) {
	p.mu.Lock()
	if want < 0 || want >= len(p.slots) {
		want = -1
	}
	if id, ok := p.free(want, prompt); ok {
		l := p.take(id)
		p.mu.Unlock()
		return l, nil
	}
	w := &waiter{want: want, prompt: prompt, got: make(chan int, 1)}
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()
	select {
	case id := <-w.got: // release has already marked it busy
		return &Lease{pool: p, id: id}, nil
	case <-ctx.Done():
		p.leave(w)
		return nil, ctx.Err()
	}
}

// free finds a free slot for a request. Called with mu held.
func (p *Pool) free(want int, prompt []tokenizer.Token) (int, bool) {
	if want >= 0 {
		return want, !p.slots[want].busy
	}
	best, found := 0, false
	bestShare := similar
	for i, s := range p.slots {
		if s.busy || len(prompt) == 0 {
			continue
		}
		if share := float64(common(s.tokens, prompt)) / float64(len(prompt)); share > bestShare {
			best, bestShare, found = i, share, true
		}
	}
	if found {
		return best, true
	}
	for i, s := range p.slots {
		if !s.busy && (!found || s.used < p.slots[best].used) {
			best, found = i, true
		}
	}
	return best, found
}

// take marks a slot. Called with mu held.
func (p *Pool) take(id int) *Lease {
	s := p.slots[id]
	p.uses++
	s.busy, s.used = true, p.uses
	s.state = State{ID: id, Task: int(p.uses) - 1, Busy: true}
	return &Lease{pool: p, id: id}
}

func (p *Pool) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiters {
		if other == w {
			p.waiters = append(p.waiters[:i], p.waiters[i+1:]...)
			return
		}
	}
	p.release(<-w.got) // it was given a slot just now
}

// release frees a slot and gives it to the first who can use it. Called with mu
// held.
func (p *Pool) release(id int) {
	s := p.slots[id]
	s.busy, s.state = false, State{ID: id}
	for i, w := range p.waiters {
		if got, ok := p.free(w.want, w.prompt); ok {
			p.waiters = append(p.waiters[:i], p.waiters[i+1:]...)
			p.take(got)
			w.got <- got
			return
		}
	}
}

// Erase empties a slot once it is free, and says how many tokens it held.
func (p *Pool) Erase(ctx context.Context, id int) (int, error) {
	if id < 0 || id >= p.Len() {
		return 0, nil
	}
	l, err := p.Acquire(ctx, id, nil)
	if err != nil {
		return 0, err
	}
	defer l.Release()
	return l.Evict(), nil
}

// States is a copy of what the slots do now.
func (p *Pool) States() []State {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []State
	for _, s := range p.slots {
		out = append(out, s.state)
	}
	return out
}

// Stats is a copy of the counters.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.stats
	st.Deferred = len(p.waiters)
	for _, s := range p.slots {
		if s.busy {
			st.Processing++
		}
	}
	return st
}

// Held is how many tokens a slot holds.
func (p *Pool) Held(id int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.slots[id].tokens)
}

func common(a, b []tokenizer.Token) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
