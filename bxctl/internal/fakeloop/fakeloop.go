// Package fakeloop is a loopd for tests: it answers on a real Unix socket, with
// what the test says. It is for tests only.
package fakeloop

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A Loop listens until [Loop.Stop] or the end of the test.
type Loop struct {
	Path   string
	Handle func(ctx context.Context, req proto.Message, out *ipc.Stream)

	tb     testing.TB
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex // guards what follows
	reqs []proto.Message
}

// New starts a loop at a path of its own.
func New(tb testing.TB, handle func(context.Context, proto.Message, *ipc.Stream)) *Loop {
	tb.Helper()
	dir, err := os.MkdirTemp("", "fl-") // short: a socket's address is
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return At(tb, filepath.Join(dir, "loop.sock"), handle)
}

// At starts a loop at path.
func At(tb testing.TB, path string, handle func(context.Context, proto.Message, *ipc.Stream)) *Loop {
	tb.Helper()
	l := &Loop{Path: path, Handle: handle, tb: tb}
	l.Start()
	tb.Cleanup(l.Stop)
	return l
}

// Start listens again after Stop.
func (l *Loop) Start() {
	l.tb.Helper()
	ln, err := ipc.Listen(l.Path)
	if err != nil {
		l.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.done = cancel, make(chan struct{})
	srv := ipc.Server{Listener: ln, Requests: proto.LoopRequests, Handle: func(ctx context.Context, req proto.Message, s *ipc.Stream) {
		l.mu.Lock()
		l.reqs = append(l.reqs, req)
		l.mu.Unlock()
		l.Handle(ctx, req, s)
	}}
	go func() {
		defer close(l.done)
		if err := srv.Serve(ctx); err != nil {
			l.tb.Error(err)
		}
	}()
}

// Stop ends all connections and the listening.
func (l *Loop) Stop() {
	l.cancel()
	<-l.done
}

// Requests gives what was asked so far.
func (l *Loop) Requests() []proto.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]proto.Message{}, l.reqs...)
}

// Send sends events one after another.
func Send(out *ipc.Stream, events ...proto.Message) {
	for _, m := range events {
		if out.Send(m) != nil {
			return // the client left
		}
	}
}
