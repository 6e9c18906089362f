package tui

import (
	"context"
	"sync"
	"time"

	"boxmaker/bxctl/internal/tui/chat"
	"boxmaker/internal/proto"
)

// batch is messages for the chat that are handled and drawn together.
type batch []any

// feed collects what comes from turns, so that the terminal is drawn once for
// what arrives within one pause and not once a token.
type feed struct {
	wake chan struct{}

	mu    sync.Mutex // guards what follows
	queue batch
}

// pause is the least time between two drawings because of events. The first
// event after a pause is passed on at once. Half of it is most of what a token
// waits for its paint, and each halving costs about 4% of a core at 200 tokens/s.
const pause = 12 * time.Millisecond

func newFeed() *feed { return &feed{wake: make(chan struct{}, 1)} }

func (f *feed) put(m any) {
	f.mu.Lock()
	f.queue = append(f.queue, m)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default: // it will look
	}
}

func (f *feed) event(job int, m proto.Message) {
	f.put(chat.Events{Job: job, Events: []proto.Message{m}})
}

// run hands batches to send until ctx ends.
func (f *feed) run(ctx context.Context, send func(batch)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		f.mu.Lock()
		all := f.queue
		f.queue = nil
		f.mu.Unlock()
		if len(all) > 0 {
			send(all)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
