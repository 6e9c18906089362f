package egress

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A fake egressd: it notes what it was asked, and answers with what on gives.
type fake struct {
	socket string
	gone   chan struct{} // closed when the connection of a door ends

	mu    sync.Mutex // guards asked
	asked []proto.Message
}

func start(t *testing.T, on func(m proto.Message) proto.Message) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "egress")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fake{socket: filepath.Join(dir, "e.sock"), gone: make(chan struct{})}
	l, err := ipc.Listen(f.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv := ipc.Server{Listener: l, Requests: proto.EgressRequests, Handle: func(ctx context.Context, m proto.Message, st *ipc.Stream) {
		f.mu.Lock()
		f.asked = append(f.asked, m)
		f.mu.Unlock()
		answer := on(m)
		if answer != nil {
			_ = st.Send(answer)
		}
		if _, ok := answer.(*proto.Door); ok || answer == nil {
			<-ctx.Done()
			close(f.gone)
		}
	}}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f
}

func way() Way {
	return Way{Call: "s/1/2/0", Hosts: []string{"a.example:443"}, Local: []string{"a.example:443", "nas:80"}, Bytes: 7, Until: time.Now().Add(time.Minute)}
}

func TestOpenAndClose(t *testing.T) {
	f := start(t, func(m proto.Message) proto.Message {
		switch m.(type) {
		case *proto.OpenDoor:
			return &proto.Door{Path: "egressd/doors/x.sock"}
		case *proto.CloseDoor:
			return &proto.EgressReport{Connections: []proto.EgressConn{{Host: "a.example:443", Verdict: proto.EgressPassed}}, More: 1}
		default:
			return &proto.EgressStatus{Version: "v", Confinement: []proto.Check{}}
		}
	})
	c := &Client{Socket: f.socket}
	ctx, cancel := context.WithCancel(t.Context())
	d, err := c.Open(ctx, way())
	if err != nil || d.Path != "egressd/doors/x.sock" {
		t.Fatalf("%+v %v", d, err)
	}
	cancel() // the call ends; the door waits for Close
	for range 2 {
		if r, err := d.Close(); err != nil || len(r.Connections) != 1 || r.More != 1 {
			t.Errorf("%+v %v", r, err)
		}
	}
	<-f.gone
	open := f.asked[0].(*proto.OpenDoor)
	if !slices.Equal(open.Allow, []string{"a.example:443", "nas:80"}) || !slices.Equal(open.Local, way().Local) || open.Bytes != 7 || len(f.asked) != 2 {
		t.Errorf("%+v of %d", open, len(f.asked))
	}
	if s, err := c.Status(t.Context()); err != nil || s.Version != "v" {
		t.Errorf("%+v %v", s, err)
	}
}

// Fail closed: whatever goes wrong, there is no door.
func TestOpenFails(t *testing.T) {
	no := &proto.Error{Code: proto.ErrNotReady, Text: "no", Runbook: "egressd-door"}
	for name, answer := range map[string]proto.Message{"refused": no, "another answer": &proto.EgressReport{Connections: []proto.EgressConn{}}} {
		f := start(t, func(proto.Message) proto.Message { return answer })
		var e *proto.Error
		if d, err := (&Client{Socket: f.socket}).Open(t.Context(), way()); d != nil || err == nil || errors.As(err, &e) != (answer == no) {
			t.Errorf("%s: %+v %v", name, d, err)
		}
	}
	if d, err := (&Client{Socket: "nowhere.sock"}).Open(t.Context(), way()); d != nil || err == nil {
		t.Errorf("nobody there: %+v %v", d, err)
	}
}

// A call that is stopped while egressd thinks gets no door, and egressd is told.
func TestOpenStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := start(t, func(proto.Message) proto.Message { cancel(); return nil })
	if d, err := (&Client{Socket: f.socket}).Open(ctx, way()); d != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v %v", d, err)
	}
	<-f.gone
}

// Without egressd there is no report, and the error says so.
func TestCloseFails(t *testing.T) {
	f := start(t, func(m proto.Message) proto.Message {
		if _, ok := m.(*proto.OpenDoor); ok {
			return &proto.Door{Path: "x"}
		}
		return &proto.Error{Code: proto.ErrBadRequest, Text: "no such door", Runbook: "egressd-door"}
	})
	d, err := (&Client{Socket: f.socket}).Open(t.Context(), way())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := d.Close(); err == nil || r.Connections == nil || len(r.Connections) != 0 {
		t.Errorf("%+v %v", r, err)
	}
	<-f.gone
}
