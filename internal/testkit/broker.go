package testkit

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Broker is a small brokerd on a Unix socket: it decides each call id at most
// once, keeps the result until it is confirmed, ends one that is cancelled, and tells
// a call's fate.
type Broker struct {
	Socket string

	mu        sync.Mutex // guards what follows
	on        func(call *proto.Call, ask func(*proto.Asked)) *proto.CallResult
	tools     []proto.ToolInfo
	results   map[string]*proto.CallResult
	calls     []proto.Call
	fates     []string
	confirmed []string
	cancelled []string
	changed   chan struct{}
}

// NewBroker starts a brokerd whose calls all succeed with the text "done".
func NewBroker(t testing.TB) *Broker {
	t.Helper()
	return NewBrokerAt(t, filepath.Join(t.TempDir(), "broker.sock"))
}

// NewBrokerAt is NewBroker at a given socket path. The user ids in also may connect
// too.
func NewBrokerAt(t testing.TB, socket string, also ...uint32) *Broker {
	t.Helper()
	b := &Broker{Socket: socket, results: map[string]*proto.CallResult{}, changed: make(chan struct{})}
	b.on = func(call *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		return &proto.CallResult{ID: call.ID, Outcome: proto.CallOK, Class: proto.ClassPrivate, Text: "done"}
	}
	ln, err := ipc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	srv := &ipc.Server{Listener: ln, Requests: proto.BrokerRequests, Peers: append(peers(), also...), MaxConns: 64, Handle: b.handle}
	go func() { ended <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return b
}

// On sets how calls are answered. ask sends an approval request first. A nil
// result ends the connection without an answer.
func (b *Broker) On(f func(call *proto.Call, ask func(*proto.Asked)) *proto.CallResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on = f
}

// SetTools sets what find_tool finds.
func (b *Broker) SetTools(tools ...proto.ToolInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tools = tools
}

// Keep puts a result into the store, as if the call had run before.
func (b *Broker) Keep(r *proto.CallResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results[r.ID] = r
}

// Calls lists the calls that were run, in order.
func (b *Broker) Calls() []proto.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// Fates lists the ids whose fate was asked.
func (b *Broker) Fates() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.fates)
}

// AwaitConfirm waits until n results have been confirmed and lists them.
func (b *Broker) AwaitConfirm(ctx context.Context, n int) ([]string, error) {
	return b.await(ctx, n, &b.confirmed)
}

// AwaitCancel waits until n calls have been cancelled and lists them.
func (b *Broker) AwaitCancel(ctx context.Context, n int) ([]string, error) {
	return b.await(ctx, n, &b.cancelled)
}

func (b *Broker) await(ctx context.Context, n int, list *[]string) ([]string, error) {
	for {
		b.mu.Lock()
		got, changed := slices.Clone(*list), b.changed
		b.mu.Unlock()
		if len(got) >= n {
			return got, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, ctx.Err()
		}
	}
}

// note adds to a list that somebody may await. Precondition: mu is held.
func (b *Broker) note(list *[]string, id string) {
	*list = append(*list, id)
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Broker) handle(ctx context.Context, req proto.Message, s *ipc.Stream) {
	switch m := req.(type) {
	case *proto.Call:
		if r := b.call(m, s); r != nil { // nil: the call came to nothing, as if brokerd had died
			_ = s.Send(r)
		}
	case *proto.Fate:
		_ = s.Send(b.fate(m.ID))
	case *proto.Confirm:
		b.mu.Lock()
		delete(b.results, m.ID)
		b.note(&b.confirmed, m.ID)
		b.mu.Unlock()
		_ = s.Send(&proto.Confirmed{ID: m.ID})
	case *proto.Cancel:
		_ = s.Send(b.cancel(m.ID))
	case *proto.FindTools:
		b.mu.Lock()
		tools := slices.Clone(b.tools)
		b.mu.Unlock()
		if tools == nil {
			tools = []proto.ToolInfo{}
		}
		_ = s.Send(&proto.ToolList{Tools: tools})
	}
}

func (b *Broker) call(m *proto.Call, s *ipc.Stream) *proto.CallResult {
	b.mu.Lock()
	if r := b.results[m.ID]; r != nil {
		b.mu.Unlock()
		return r
	}
	b.calls = append(b.calls, *m)
	on := b.on
	b.mu.Unlock()
	r := on(m, func(a *proto.Asked) { _ = s.Send(a) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if ended := b.results[m.ID]; ended != nil {
		return ended // it was cancelled meanwhile
	}
	if r != nil {
		b.results[m.ID] = r
	}
	return r
}

// cancel ends a call. What a function of [Broker.On] gives later is of no use.
func (b *Broker) cancel(id string) proto.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(&b.cancelled, id)
	if b.results[id] == nil && slices.ContainsFunc(b.calls, func(c proto.Call) bool { return c.ID == id }) {
		b.results[id] = &proto.CallResult{ID: id, Outcome: proto.CallDenied, Code: proto.CodeStopped, Class: proto.ClassPublic, Text: "stopped: the call was withdrawn before it ran."}
	}
	if r := b.results[id]; r != nil {
		return r
	}
	return &proto.Unknown{ID: id, Never: true}
}

func (b *Broker) fate(id string) proto.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fates = append(b.fates, id)
	if r := b.results[id]; r != nil {
		return r
	}
	return &proto.Unknown{ID: id}
}
