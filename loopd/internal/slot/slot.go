// Package slot serialises requests to the inference server's slots.
//
// Each slot runs one request at a time; the gate is held for a request, never
// across a tool call. Waiting requests go by priority, then in order of arrival.
// The gate does not reserve anything at the server: another program may use the
// same slot, and the only price is a cold cache.
package slot

import (
	"context"
	"slices"
	"sync"

	"boxmaker/internal/proto"
)

// Priority orders the requests that wait for a slot; a smaller one goes first.
type Priority int

// Priorities. Those of the background slot are the design's order; summaries have
// their place in it and no user yet.
const (
	Live Priority = iota
	Summary
	Subagent
	Cron
	Heartbeat
	ToolSummary
)

// A Slot is one configured slot.
type Slot struct {
	Name string // main, background
	ID   int    // id_slot of the server
}

// A Gate guards a fixed set of slots.
type Gate struct {
	slots []Slot

	mu     sync.Mutex // guards what follows
	holder map[int]string
	queue  map[int][]*waiter
	seq    int
}

type waiter struct {
	session string
	prio    Priority
	seq     int
	turn    chan struct{} // closed when the slot is handed over
	moved   chan int      // newest number of requests in front; capacity 1
}

// New makes a gate for these slots.
func New(slots ...Slot) *Gate {
	return &Gate{slots: slots, holder: map[int]string{}, queue: map[int][]*waiter{}}
}

// Acquire waits for slot id. onWait, if not nil, is called from this goroutine
// with the number of requests in front, each time it changes. release must be
// called exactly once; err is the context's.
func (g *Gate) Acquire(ctx context.Context, id int, prio Priority, session string, onWait func(ahead int)) (release func(), err error) {
	g.mu.Lock()
	if _, busy := g.holder[id]; !busy {
		g.holder[id] = session
		g.mu.Unlock()
		return g.releaser(id), nil
	}
	g.seq++
	w := &waiter{session: session, prio: prio, seq: g.seq, turn: make(chan struct{}), moved: make(chan int, 1)}
	q := append(g.queue[id], w)
	slices.SortStableFunc(q, func(a, b *waiter) int {
		if a.prio != b.prio {
			return int(a.prio - b.prio)
		}
		return a.seq - b.seq
	})
	g.queue[id] = q
	g.tell(id)
	g.mu.Unlock()
	for {
		select {
		case <-w.turn:
			return g.releaser(id), nil
		case n := <-w.moved:
			if onWait != nil {
				onWait(n)
			}
		case <-ctx.Done():
			g.leave(id, w)
			return nil, ctx.Err()
		}
	}
}

func (g *Gate) releaser(id int) func() {
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.pass(id)
	})
}

// pass hands the slot to the first waiter, or frees it.
//
// Preconditions: g.mu is held and the slot is held by the caller.
func (g *Gate) pass(id int) {
	q := g.queue[id]
	if len(q) == 0 {
		delete(g.holder, id)
		return
	}
	g.holder[id], g.queue[id] = q[0].session, q[1:]
	close(q[0].turn)
	g.tell(id)
}

// leave takes w out of the queue; if the slot was handed to it meanwhile, the
// slot goes on to the next.
func (g *Gate) leave(id int, w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue[id], w); i >= 0 {
		g.queue[id] = slices.Delete(g.queue[id], i, i+1)
		g.tell(id)
		return
	}
	g.pass(id)
}

// tell gives each waiter its place. Preconditions: g.mu is held.
func (g *Gate) tell(id int) {
	for i, w := range g.queue[id] {
		select {
		case <-w.moved:
		default:
		}
		w.moved <- i + 1
	}
}

// States lists the slots for the status report.
func (g *Gate) States() []proto.SlotState {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []proto.SlotState
	for _, s := range g.slots {
		out = append(out, proto.SlotState{Name: s.Name, ID: s.ID, Session: g.holder[s.ID], Waiting: len(g.queue[s.ID])})
	}
	return out
}
