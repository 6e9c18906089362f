package ipc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/proto"
)

// echo streams as many events as Watch.After says, then a SessionDetail.
func echo(_ context.Context, req proto.Message, s *Stream) {
	w, ok := req.(*proto.Watch)
	if !ok {
		_ = s.Send(&proto.Error{Code: proto.ErrNoSession, Text: "no such session", Runbook: "no-session"})
		return
	}
	for i := range w.After {
		if err := s.Send(&proto.Text{Text: fmt.Sprint(i)}); err != nil {
			return
		}
	}
	_ = s.Send(&proto.Stopped{})
}

func TestRequestThenEvents(t *testing.T) {
	path, _, _ := serve(t, &Server{Handle: echo})
	var clients sync.WaitGroup
	for range 8 {
		c := dial(t, path)
		clients.Go(func() {
			if err := c.Send(&proto.Watch{Session: "s", After: 500}); err != nil {
				t.Error(err)
			}
			for i := range 501 {
				m, err := c.Recv()
				if text, ok := m.(*proto.Text); err != nil || i < 500 && (!ok || text.Text != fmt.Sprint(i)) {
					t.Errorf("event %d: %v, %v", i, m, err)
					return
				}
			}
			if m, err := c.Recv(); err != io.EOF {
				t.Errorf("at the end: %v, %v", m, err)
			}
		})
	}
	clients.Wait()
}

func TestAsk(t *testing.T) {
	path, _, _ := serve(t, &Server{Handle: echo})
	m, err := Ask(within(t), path, proto.LoopEvents, &proto.Watch{Session: "s"})
	if _, ok := m.(*proto.Stopped); err != nil || !ok {
		t.Errorf("%v, %v", m, err)
	}
	var e *proto.Error
	if _, err := Ask(within(t), path, proto.LoopEvents, &proto.GetStatus{}); !errors.As(err, &e) || e.Code != proto.ErrNoSession {
		t.Errorf("an Error event: %v", err)
	}
	if _, err := Ask(within(t), path, proto.BrokerEvents, &proto.Watch{Session: "s"}); !errors.Is(err, proto.ErrTag) {
		t.Errorf("an event of another union: %v", err)
	}
	if _, err := Ask(within(t), path, proto.LoopEvents, &proto.Stop{Session: "../x"}); !errors.Is(err, proto.ErrID) {
		t.Errorf("a request that is none: %v", err)
	}
	silent, _, _ := serve(t, &Server{Handle: func(context.Context, proto.Message, *Stream) {}})
	if _, err := Ask(within(t), silent, proto.LoopEvents, &proto.GetStatus{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("no answer: %v", err)
	}
}

// TestPeersAreChecked: a stranger is closed on, before anything is read.
func TestPeersAreChecked(t *testing.T) {
	uid := uint32(os.Geteuid())
	for _, tc := range []struct {
		name  string
		peers []uint32
		ok    bool
	}{
		{"no list means this user", nil, true},
		{"on the list", []uint32{uid + 1, uid}, true},
		{"not on the list", []uint32{uid + 1}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &Server{Peers: tc.peers, Handle: echo}
			if !tc.ok {
				s.Handle = notCalled(t)
			}
			path, logged, stop := serve(t, s)
			_, err := Ask(within(t), path, proto.LoopEvents, &proto.Watch{Session: "s"})
			if (err == nil) != tc.ok {
				t.Errorf("ask: %v", err)
			}
			stop()
			if strings.Contains(logged.String(), fmt.Sprintf("uid %d (pid %d) may not", uid, os.Getpid())) == tc.ok {
				t.Errorf("log: %s", logged)
			}
		})
	}
}

// Requests hold room as long as they are read or answered, by their length; one
// that does not fit is refused before it is read, and leaves no trace.
func TestRoom(t *testing.T) {
	started, release := make(chan bool), make(chan bool)
	path, _, _ := serve(t, &Server{Room: 500_000, Handle: func(_ context.Context, _ proto.Message, s *Stream) {
		started <- true
		<-release
		_ = s.Send(&proto.Stopped{})
	}})
	large := &proto.Submit{Session: "s", Origin: "o", Text: strings.Repeat("x", 200_000), Surface: proto.SurfaceAsk}
	small := &proto.GetStatus{}
	for range 3 { // lengths of what never comes take no room
		if _, err := rawDial(t, path).Write([]byte{0, 3, 0, 0, '{'}); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, path)
	if err := c.Send(large); err != nil {
		t.Fatal(err)
	}
	<-started
	for range 50 {
		var e *proto.Error
		if _, err := Ask(within(t), path, proto.LoopEvents, large); !errors.As(err, &e) || e.Code != proto.ErrNotReady {
			t.Fatalf("without room: %v", err)
		}
	}
	other := dial(t, path)
	if err := other.Send(small); err != nil {
		t.Fatal(err)
	}
	<-started
	close(release)
	for _, c := range []*Conn{c, other} {
		if _, err := c.Recv(); err != nil {
			t.Error(err)
		}
		if _, err := c.Recv(); err != io.EOF {
			t.Error(err)
		}
	}
	go func() { <-started }()
	if _, err := Ask(within(t), path, proto.LoopEvents, large); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestConnectionCap(t *testing.T) {
	started, release := make(chan bool), make(chan bool)
	path, _, _ := serve(t, &Server{MaxConns: 2, Handle: func(_ context.Context, _ proto.Message, s *Stream) {
		started <- true
		<-release
		_ = s.Send(&proto.Stopped{})
	}})
	held := []*Conn{dial(t, path), dial(t, path)}
	for _, c := range held {
		if err := c.Send(&proto.GetStatus{}); err != nil {
			t.Fatal(err)
		}
		<-started
	}
	// A client that only reads, and one that asks first.
	wantError(t, rawDial(t, path), proto.ErrNotReady)
	for range 50 { // whether the server closes before or after the request comes
		var e *proto.Error
		if _, err := Ask(within(t), path, proto.LoopEvents, &proto.GetStatus{}); !errors.As(err, &e) || e.Code != proto.ErrNotReady {
			t.Fatalf("over the cap: %v", err)
		}
	}
	close(release)
	for _, c := range held {
		if _, err := c.Recv(); err != nil {
			t.Error(err)
		}
		if _, err := c.Recv(); err != io.EOF {
			t.Error(err)
		}
	}
	// The places are free again, at the latest when both have been given back.
	go func() { <-started }()
	for {
		m, err := Ask(within(t), path, proto.LoopEvents, &proto.GetStatus{})
		var e *proto.Error
		if err == nil {
			if _, ok := m.(*proto.Stopped); !ok {
				t.Errorf("%v", m)
			}
			return
		}
		if !errors.As(err, &e) || e.Code != proto.ErrNotReady {
			t.Fatal(err)
		}
	}
}

func TestBadRequests(t *testing.T) {
	status := encoded(t, &proto.GetStatus{})
	for _, tc := range []struct {
		name string
		send []byte
	}{
		{"empty frame", []byte{0, 0, 0, 0}},
		{"length over the cap", []byte{0, 64, 0, 1}},
		{"length of 4 GiB", []byte{255, 255, 255, 255}},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"no JSON", framed(t, []byte("hello"))},
		{"unknown type", framed(t, []byte(`{"type":"shutdown"}`))},
		{"an event", framed(t, encoded(t, &proto.Stopped{}))},
		{"white space", framed(t, []byte(`{"type": "status"}`))},
		{"unknown member", framed(t, []byte(`{"type":"status","verbose":true}`))},
		{"a session id with dots", framed(t, []byte(`{"type":"stop","session":"../x"}`))},
		{"behind the document", framed(t, append(status, '\n'))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, logged, stop := serve(t, &Server{Handle: notCalled(t)})
			c := rawDial(t, path)
			if _, err := c.Write(tc.send); err != nil {
				t.Fatal(err)
			}
			wantError(t, c, proto.ErrBadRequest)
			stop()
			if s := logged.String(); !strings.Contains(s, "bad request") || strings.Contains(s, "verbose") || strings.Contains(s, "hello") {
				t.Errorf("log: %s", s)
			}
		})
	}
}

// TestSilentClient: one that connects and sends no whole request is told so.
func TestSilentClient(t *testing.T) {
	for _, sent := range []string{"", "\x00\x00", "\x00\x00\x00\x11{\"type\""} {
		path, _, _ := serve(t, &Server{Handle: notCalled(t), RequestTimeout: 10 * time.Millisecond})
		c := rawDial(t, path)
		if _, err := c.Write([]byte(sent)); err != nil {
			t.Fatal(err)
		}
		if e := wantError(t, c, proto.ErrBadRequest); !strings.Contains(e.Text, "in time") {
			t.Errorf("%q: %s", sent, e.Text)
		}
	}
}

// TestClientGoesBeforeItAsks: no error, no log line, no handler.
func TestClientGoesBeforeItAsks(t *testing.T) {
	path, logged, stop := serve(t, &Server{Handle: notCalled(t)})
	for range 10 {
		rawDial(t, path).Close()
	}
	if _, err := Dial(within(t), path, proto.LoopEvents); err != nil {
		t.Fatal(err)
	}
	stop()
	if logged.String() != "" {
		t.Errorf("log: %s", logged)
	}
}

// A watched listener tells when Accept has failed.
type watchedListener struct {
	net.Listener
	failed chan bool
}

func (l *watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		close(l.failed)
	}
	return c, err
}

// TestServeWaits: Serve ends the handlers' context and returns after they have.
func TestServeWaits(t *testing.T) {
	path := t.TempDir() + "/x.sock"
	ul, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l := &watchedListener{ul, make(chan bool)}
	started, release := make(chan bool), make(chan bool)
	s := &Server{Listener: l, Requests: proto.LoopRequests, RequestTimeout: time.Hour, Handle: func(ctx context.Context, _ proto.Message, s *Stream) {
		started <- true
		<-ctx.Done()
		<-release
		if err := s.Send(&proto.Stopped{}); err != nil { // a last word is still possible
			t.Error(err)
		}
	}}
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	conns := []*Conn{dial(t, path), dial(t, path), dial(t, path)}
	idle := dial(t, path) // sends nothing: must not hold Serve up either
	for _, c := range conns {
		if err := c.Send(&proto.GetStatus{}); err != nil {
			t.Fatal(err)
		}
		<-started
	}
	cancel()
	<-l.failed
	for range 1000 { // time enough for a Serve that does not wait
		runtime.Gosched()
	}
	select {
	case err := <-done:
		t.Errorf("Serve did not wait: %v", err)
		return
	default:
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, c := range conns {
		if _, err := c.Recv(); err != nil {
			t.Error(err)
		}
	}
	if _, err := idle.Recv(); err == nil {
		t.Error("the idle client is still connected")
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket file is still there: %v", err)
	}
}

// TestPanicIsNotSwallowed: the program dies with the trace.
func TestPanicIsNotSwallowed(t *testing.T) {
	if os.Getenv("BOXMAKER_TEST_PANIC") != "" {
		path, _, _ := serve(t, &Server{Handle: func(context.Context, proto.Message, *Stream) { panic("deliberate") }})
		_, err := Ask(within(t), path, proto.LoopEvents, &proto.GetStatus{})
		t.Logf("survived: %v", err)
		select {} // the panic must end this
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "BOXMAKER_TEST_PANIC=1", "TMPDIR="+t.TempDir()) // which it cannot remove
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "panic: deliberate") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A moody listener fails first.
type moody struct {
	net.Listener
	errs []error
}

func (m *moody) Accept() (net.Conn, error) {
	if len(m.errs) > 0 {
		err := m.errs[0]
		m.errs = m.errs[1:]
		return nil, err
	}
	return m.Listener.Accept()
}

func TestAcceptFails(t *testing.T) {
	l, err := Listen(t.TempDir() + "/x.sock")
	if err != nil {
		t.Fatal(err)
	}
	errHard := errors.New("hard")
	s := &Server{Listener: &moody{l, []error{syscall.EMFILE, syscall.ECONNABORTED, errHard}}, Requests: proto.LoopRequests, Handle: echo}
	if err := s.Serve(within(t)); !errors.Is(err, errHard) {
		t.Errorf("serve: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is not closed: %v", err)
	}
}

// TestLogIsJSON keeps an eye on what the server logs.
func TestLogIsJSON(t *testing.T) {
	path, logged, stop := serve(t, &Server{Handle: notCalled(t)})
	c := rawDial(t, path)
	if _, err := c.Write(framed(t, []byte(`{"type":"submit","text":"my secret"}`))); err != nil {
		t.Fatal(err)
	}
	wantError(t, c, proto.ErrBadRequest)
	stop()
	var line map[string]any
	if err := json.Unmarshal([]byte(logged.String()), &line); err != nil || line["uid"] != float64(os.Geteuid()) || line["pid"] != float64(os.Getpid()) {
		t.Errorf("%v: %s", err, logged)
	}
	if strings.Contains(logged.String(), "secret") {
		t.Errorf("log: %s", logged)
	}
}
