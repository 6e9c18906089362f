package ipc

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

// A counter is the connection of a Stream and counts what a Send costs.
type counter struct {
	writes, bytes int
	fail          error
}

func (c *counter) Write(p []byte) (int, error)      { c.writes++; c.bytes += len(p); return len(p), c.fail }
func (c *counter) SetWriteDeadline(time.Time) error { return nil }

func TestSendIsOneWrite(t *testing.T) {
	c := new(counter)
	s := &Stream{conn: c}
	m := &proto.Text{Text: " token"}
	if allocs := testing.AllocsPerRun(100, func() {
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
	}); allocs > 2 {
		t.Errorf("%v allocations for one event", allocs)
	}
	if c.writes != 101 || c.bytes != 101*(4+len(`{"type":"text","text":" token"}`)) {
		t.Errorf("%d writes, %d bytes for 101 events", c.writes, c.bytes)
	}
}

// TestSendRefuses: what cannot be a frame is not sent, and the stream stays usable.
func TestSendRefuses(t *testing.T) {
	c := new(counter)
	s := &Stream{conn: c}
	if err := s.Send(&proto.Text{Text: strings.Repeat("x", frame.MaxBytes)}); !errors.Is(err, frame.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if err := s.Send(&proto.Waiting{Reason: "mood"}); err == nil {
		t.Error("a message that is not valid was sent")
	}
	if err := s.Send(&proto.Text{Text: "\xff"}); err == nil {
		t.Error("invalid UTF-8 was sent")
	}
	if err := s.Send(&proto.Text{Text: "ok"}); err != nil || c.writes != 1 {
		t.Errorf("after that: %v, %d writes", err, c.writes)
	}
	c.fail = errors.New("broken")
	for range 2 {
		if err := s.Send(&proto.Text{}); !errors.Is(err, c.fail) || c.writes != 2 {
			t.Errorf("%v after %d writes", err, c.writes)
		}
	}
}

func TestContextEndsWithTheClient(t *testing.T) {
	for _, tc := range []struct {
		name  string
		leave func(c *net.UnixConn) error
		cause error
	}{
		{"closes", func(c *net.UnixConn) error { return c.Close() }, ErrGone},
		{"half-closes", func(c *net.UnixConn) error { return c.CloseWrite() }, ErrGone},
		{"sends a second request", func(c *net.UnixConn) error {
			_, err := c.Write(framed(t, encoded(t, &proto.GetStatus{})))
			return err
		}, ErrSecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := make(chan error, 2)
			path, _, _ := serve(t, &Server{Handle: func(ctx context.Context, _ proto.Message, s *Stream) {
				_ = s.Send(&proto.Accepted{})
				<-ctx.Done()
				got <- context.Cause(ctx)
				for err := error(nil); ; {
					if err = s.Send(&proto.Text{Text: "x"}); err != nil {
						got <- err
						return
					}
				}
			}})
			c := rawDial(t, path)
			if _, err := c.Write(framed(t, encoded(t, &proto.GetStatus{}))); err != nil {
				t.Fatal(err)
			}
			if _, err := frame.Read(c); err != nil {
				t.Fatal(err)
			}
			if err := tc.leave(c); err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != tc.cause {
				t.Errorf("cause %v", err)
			}
			if err := <-got; err == nil {
				t.Error("Send works for ever")
			}
		})
	}
}

func TestSecondRequestIsAnswered(t *testing.T) {
	path, _, _ := serve(t, &Server{Handle: func(ctx context.Context, _ proto.Message, _ *Stream) { <-ctx.Done() }})
	c := rawDial(t, path)
	two := framed(t, encoded(t, &proto.GetStatus{}))
	if _, err := c.Write(append(two, two...)); err != nil {
		t.Fatal(err)
	}
	if e := wantError(t, c, proto.ErrBadRequest); e.Text != "one request per connection" {
		t.Error(e.Text)
	}
}

// TestDeadClient: one that does not read cannot hold a handler.
func TestDeadClient(t *testing.T) {
	got := make(chan error, 2)
	path, _, _ := serve(t, &Server{WriteTimeout: 20 * time.Millisecond, Handle: func(ctx context.Context, _ proto.Message, s *Stream) {
		var err error
		for err == nil {
			err = s.Send(&proto.Text{Text: strings.Repeat("x", 10_000)})
		}
		got <- err
		<-ctx.Done()
		if again := s.Send(&proto.Text{}); again != err {
			t.Errorf("a second Send: %v", again)
		}
		got <- context.Cause(ctx)
	}})
	c := dial(t, path)
	if err := c.Send(&proto.GetStatus{}); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("send: %v", err)
	}
	if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cause: %v", err)
	}
}

// TestContextEndsDuringASend: it does not wait for a Send that is stuck.
func TestContextEndsDuringASend(t *testing.T) {
	started := make(chan bool)
	ended := make(chan error, 1)
	path, _, _ := serve(t, &Server{Handle: func(ctx context.Context, _ proto.Message, s *Stream) {
		s.mu.Lock() // as Send does
		defer s.mu.Unlock()
		started <- true
		select {
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		case <-time.After(time.Minute):
			ended <- nil
		}
	}})
	c := dial(t, path)
	if err := c.Send(&proto.GetStatus{}); err != nil {
		t.Fatal(err)
	}
	<-started
	c.Close()
	if err := <-ended; err != ErrGone {
		t.Errorf("cause %v", err)
	}
}

func BenchmarkSend(b *testing.B) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		b.Fatal(err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if conns[i], err = net.FileConn(f); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
	drained := make(chan bool)
	go func() { _, _ = io.Copy(io.Discard, conns[1]); close(drained) }()
	s := &Stream{conn: conns[0], timeout: DefaultTimeout}
	m := &proto.Text{Text: " token"}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Send(m); err != nil {
			b.Fatal(err)
		}
	}
	conns[0].Close()
	<-drained
}
