package gateway

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A rig is a desk, a client, and a gatewayd that a test can stop and start.
type rig struct {
	t     *testing.T
	dir   string
	root  *os.Root
	desk  *approval.Desk
	rules Rules
	head  proto.AuditHead
	now   func() time.Time
	sums  int // checkpoints made
	got   chan proto.Message
	ends  chan string // approvals whose ask was closed by brokerd

	mu    sync.Mutex            // guards what follows
	known map[string]*proto.Ask // as gatewayd keeps it
	open  map[string]chan proto.Message
	notes func(proto.Message) proto.Message // nil: noted
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, dir: dir, root: root, rules: Rules{Approve: true, MaxTaint: proto.ClassPrivate}, now: time.Now,
		head: proto.AuditHead{N: 7, Hash: proto.NoHash}, got: make(chan proto.Message, 64), ends: make(chan string, 64),
		known: map[string]*proto.Ask{}, open: map[string]chan proto.Message{},
	}
	t.Cleanup(func() { root.Close(); os.RemoveAll(dir) })
	r.newDesk(nil)
	return r
}

func (r *rig) newDesk(ended map[string]proto.Answered) {
	r.t.Helper()
	d, bad, err := approval.Open(approval.Config{
		Root: r.root, Most: 64, Ended: ended,
		Clock: approval.Clock{Now: time.Now, Boot: func() (string, time.Duration) { return "boot", 0 }},
	})
	if err != nil || bad != nil {
		r.t.Fatal(err, bad)
	}
	r.desk = d
}

// run runs the client until the returned function is called.
func (r *rig) run() (stop func()) {
	c := New(Config{
		Socket: filepath.Join(r.dir, "g.sock"), Desk: r.desk, Rules: r.rules, State: r.root, Now: r.now,
		Rand: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
		Head: func() proto.AuditHead { return r.head },
		Checkpoint: func() (*proto.Head, error) {
			r.sums++
			return &proto.Head{Head: r.head, Checkpoint: "a signed note"}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(stop)
	return stop
}

// serve starts gatewayd; what it knows outlives its end.
func (r *rig) serve() (stop func()) {
	r.t.Helper()
	ln, err := ipc.Listen(filepath.Join(r.dir, "g.sock"))
	if err != nil {
		r.t.Fatal(err)
	}
	srv := &ipc.Server{Listener: ln, Requests: proto.GatewayRequests, MaxConns: 128, Handle: r.handle}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) handle(ctx context.Context, m proto.Message, s *ipc.Stream) {
	switch m := m.(type) {
	case *proto.Ask:
		answer := make(chan proto.Message, 4)
		r.mu.Lock()
		r.known[m.Approval], r.open[m.Approval] = m, answer
		r.mu.Unlock()
		_ = s.Send(&proto.Shown{Approval: m.Approval})
		r.got <- m
		select {
		case a := <-answer:
			_ = s.Send(a)
		case <-ctx.Done():
			r.ends <- m.Approval
		}
	case *proto.StillWaiting:
		stale := &proto.Stale{Approvals: []string{}}
		r.mu.Lock()
		for id := range r.known {
			if !contains(m.Approvals, id) {
				stale.Approvals = append(stale.Approvals, id)
			}
		}
		r.mu.Unlock()
		_ = s.Send(stale)
	case *proto.Retract:
		r.mu.Lock()
		delete(r.known, m.Approval)
		r.mu.Unlock()
		r.note(m, s)
	case *proto.Anchor:
		r.note(m, s)
	}
}

func (r *rig) note(m proto.Message, s *ipc.Stream) {
	r.mu.Lock()
	notes := r.notes
	r.mu.Unlock()
	answer := proto.Message(&proto.Noted{})
	if notes != nil {
		answer = notes(m)
	}
	_ = s.Send(answer)
	r.got <- m
}

func contains(all []string, s string) bool {
	for _, v := range all {
		if v == s {
			return true
		}
	}
	return false
}

// next waits for a request of a kind, and passes over anchors unless asked for.
func next[M proto.Message](r *rig) M {
	r.t.Helper()
	for {
		select {
		case m := <-r.got:
			if want, ok := m.(M); ok {
				return want
			}
			if _, ok := m.(*proto.Anchor); !ok {
				r.t.Fatalf("%#v", m)
			}
		case <-time.After(20 * time.Second):
			r.t.Fatal("nothing came")
		}
	}
}

func (r *rig) hold(call string) *approval.Held {
	r.t.Helper()
	return r.holdAs(call, "write_file", proto.ClassPrivate)
}

func (r *rig) holdAs(call, tool string, taint proto.Class) *approval.Held {
	r.t.Helper()
	now := time.Now()
	h, err := r.desk.Hold(proto.Approval{
		Approval: approval.NewID(), Asked: proto.Time(now), Expires: proto.Time(now.Add(time.Hour)),
		Call: call, Session: "s", Tool: tool, Fields: []proto.Field{{Name: "path", Value: "/w/a"}},
		Read: []string{}, Write: []string{"/w"}, Hosts: []string{}, Secrets: []string{"token"},
		Class: proto.ClassPrivate, Taint: taint, Grant: "10-write", Reason: "why", Diff: "+a\n",
	}, proto.Call{ID: call, Session: "s", Tool: tool, Args: `{}`}, "canonical of "+call, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// wait gives how an approval ends, and settles it as the driver does.
func (r *rig) wait(h *approval.Held) proto.Answered {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	end, err := r.desk.Wait(ctx, h.Approval.Approval)
	if err == nil {
		err = r.desk.Settled(end)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return end
}

// say answers in the chat.
func (r *rig) say(h *approval.Held, m *proto.ChatAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[h.Approval.Approval] <- m
}

func yes(h *approval.Held) *proto.ChatAnswer {
	return &proto.ChatAnswer{Approval: h.Approval.Approval, Digest: h.Approval.Digest, Verdict: proto.VerdictApproved, By: "kq3w9tn8ztdgzbuh1jr4xe7mfo"}
}
