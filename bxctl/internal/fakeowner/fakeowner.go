// Package fakeowner is a brokerd for tests, as the owner's tools see it: it
// listens on a real Unix socket and keeps approvals, of which the first answer
// holds. It is for tests only.
package fakeowner

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A Broker listens until [Broker.Stop] or the end of the test.
type Broker struct {
	Path string

	tb     testing.TB
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex // guards what follows
	waiting []proto.Approval
	ended   map[string]*proto.Answered
	answers []proto.Answer
	streams []*ipc.Stream
	tools   []proto.ToolRow
	status  proto.BrokerStatus
}

// New starts a broker at a path of its own.
func New(tb testing.TB) *Broker {
	tb.Helper()
	dir, err := os.MkdirTemp("", "fo-") // short: a socket's address is
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return At(tb, filepath.Join(dir, "owner.sock"))
}

// At starts a broker at path.
func At(tb testing.TB, path string) *Broker {
	tb.Helper()
	b := &Broker{
		Path: path, tb: tb, ended: map[string]*proto.Answered{}, tools: []proto.ToolRow{},
		status: proto.BrokerStatus{
			Version: "0.0.0", Since: "2026-01-02T15:00:00.000Z", Head: proto.AuditHead{Hash: Hash}, Broken: []string{},
			Checks: []proto.Check{}, Confinement: []proto.Check{},
		},
	}
	b.Start()
	tb.Cleanup(b.Stop)
	return b
}

// Hash is a digest like any other.
const Hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Start listens again after Stop.
func (b *Broker) Start() {
	b.tb.Helper()
	ln, err := ipc.Listen(b.Path)
	if err != nil {
		b.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.done = cancel, make(chan struct{})
	srv := ipc.Server{Listener: ln, Requests: proto.OwnerRequests, Handle: b.handle}
	go func() {
		defer close(b.done)
		if err := srv.Serve(ctx); err != nil {
			b.tb.Error(err)
		}
	}()
}

// Stop ends all connections and the listening.
func (b *Broker) Stop() {
	b.cancel()
	<-b.done
}

// Ask lets an approval wait.
func (b *Broker) Ask(a proto.Approval) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, a)
	for _, s := range b.streams {
		_ = s.Send(&a) // a client that left is no matter
	}
}

// End ends an approval as somebody else would; false if it has ended before.
func (b *Broker) End(id string, v proto.Verdict, by, channel string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end(id, v, by, channel)
}

// end is End. Precondition: mu is held.
func (b *Broker) end(id string, v proto.Verdict, by, channel string) bool {
	at := slices.IndexFunc(b.waiting, func(a proto.Approval) bool { return a.Approval == id })
	if at < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	b.ended[id] = &proto.Answered{Approval: id, Verdict: v, By: by, Channel: channel}
	for _, s := range b.streams {
		_ = s.Send(&proto.Retracted{Approval: id, Verdict: v, By: by, Channel: channel})
	}
	return true
}

// SetStatus changes what the broker says of itself.
func (b *Broker) SetStatus(f func(*proto.BrokerStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
}

// SetTools sets what [proto.ListTools] is answered with.
func (b *Broker) SetTools(rows ...proto.ToolRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tools = rows
}

// Answers gives the answers that came.
func (b *Broker) Answers() []proto.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.answers)
}

// Halted tells whether a halt holds, and its reason.
func (b *Broker) Halted() (bool, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status.Halted, b.status.HaltReason
}

func (b *Broker) handle(ctx context.Context, req proto.Message, out *ipc.Stream) {
	if l, ok := req.(*proto.ListApprovals); ok && l.Follow {
		b.follow(ctx, out)
		return
	}
	_ = out.Send(b.answer(req))
}

func (b *Broker) follow(ctx context.Context, out *ipc.Stream) {
	b.mu.Lock()
	for i := range b.waiting {
		_ = out.Send(&b.waiting[i])
	}
	b.streams = append(b.streams, out)
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams = slices.DeleteFunc(b.streams, func(s *ipc.Stream) bool { return s == out })
}

func (b *Broker) answer(req proto.Message) proto.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch m := req.(type) {
	case *proto.ListApprovals:
		return &proto.ApprovalList{Approvals: append([]proto.Approval{}, b.waiting...)}
	case *proto.Answer:
		return b.decide(m)
	case *proto.ListTools:
		return &proto.ToolTable{Tools: b.tools}
	case *proto.GetBroker:
		st := b.status
		return &st
	case *proto.Halt:
		b.status.Halted, b.status.HaltReason = true, m.Reason
		st := b.status
		return &st
	case *proto.Resume:
		b.status.Halted, b.status.HaltReason = false, ""
		st := b.status
		return &st
	default:
		return &proto.Error{Code: proto.ErrBadRequest, Text: "not in this fake"}
	}
}

// decide takes an answer. Precondition: mu is held.
func (b *Broker) decide(m *proto.Answer) proto.Message {
	b.answers = append(b.answers, *m)
	if e := b.ended[m.Approval]; e != nil {
		return e
	}
	at := slices.IndexFunc(b.waiting, func(a proto.Approval) bool { return a.Approval == m.Approval })
	switch {
	case at < 0:
		return &proto.Error{Code: proto.ErrNoApproval, Text: "no approval of that id waits"}
	case b.waiting[at].Digest != m.Digest:
		return &proto.Error{Code: proto.ErrWrongDigest, Text: "the answer is for another call than the one that waits"}
	}
	b.end(m.Approval, m.Verdict, "owner", m.Channel)
	e := *b.ended[m.Approval]
	e.First = true
	return &e
}
