package ipc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

// A buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// serve runs s on a socket of its own until the test ends, or stop is called,
// and checks that Serve ends without an error.
func serve(t *testing.T, s *Server) (path string, logged *buffer, stop func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run", "x.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	logged = new(buffer)
	s.Listener, s.Requests, s.Log = l, proto.LoopRequests, slog.New(slog.NewJSONHandler(logged, nil))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return path, logged, stop
}

// within gives a context that ends a test that would hang otherwise.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, path string) *Conn {
	t.Helper()
	c, err := Dial(within(t), path, proto.LoopEvents)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// rawDial connects without any of our client's manners.
func rawDial(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// wantError reads one event, which must be an Error of that code, and then the
// end of the stream.
func wantError(t *testing.T, r io.Reader, code proto.ErrCode) *proto.Error {
	t.Helper()
	body, err := frame.Read(r)
	if err != nil {
		t.Fatalf("no event: %v", err)
	}
	m, err := proto.LoopEvents.Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	e, ok := m.(*proto.Error)
	if !ok || e.Code != code || e.Runbook == "" {
		t.Fatalf("event %s", body)
	}
	if _, err := frame.Read(r); err == nil {
		t.Fatal("the stream goes on after an error")
	}
	return e
}

func framed(t *testing.T, body []byte) []byte {
	t.Helper()
	b, err := frame.Append(nil, body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func notCalled(t *testing.T) func(context.Context, proto.Message, *Stream) {
	return func(context.Context, proto.Message, *Stream) { t.Error("the handler was called") }
}
