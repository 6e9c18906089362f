package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/brokerd/internal/driver"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/grant"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

func spec(t *testing.T, name, args string) policy.Spec {
	t.Helper()
	tl := tool.Find(name)
	c, err := tl.Decode(args)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Spec{Call: "s/1/2/0", Tool: tl, Args: c.Canonical, Userland: proto.UserlandNone}
}

func TestLaunch(t *testing.T) {
	s := spec(t, tool.NameHTTPFetch, `{"url":"https://api.example.com/x"}`)
	s.Read, s.Write, s.Hidden = []string{"/a", "/b"}, []string{"/b", "/b"}, []string{"/a/private"}
	s.Inject = []grant.Inject{{Name: "token", Host: "api.example.com:443", Header: "Authorization"}}
	s.Limits = proto.Limits{MS: 5000, Output: 1000, Memory: 64 << 20, PIDs: 9}
	l, err := Launch(s, "brokerd/doors/x.sock", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []proto.Mount{{Path: "/b", Write: true}, {Path: "/a"}}; !slices.Equal(l.Mounts, want) {
		t.Errorf("mounts %v", l.Mounts)
	}
	if !slices.Equal(l.Hide, s.Hidden) || l.Door != "brokerd/doors/x.sock" || l.Entry != "http_fetch" || l.Call != s.Call {
		t.Errorf("%+v", l)
	}
	if l.Limits != (proto.Limits{MS: 5000, Output: tool.MaxDocument(1000), Memory: 64 << 20, PIDs: 9}) {
		t.Errorf("limits %+v", l.Limits)
	}
	in, err := tool.DecodeInput([]byte(l.Input))
	if err != nil || in.Args != s.Args || in.Output != 1000 || in.MS != 5000 || !in.Proxy || in.Preview || !slices.Equal(in.Plain, []string{"api.example.com:443"}) {
		t.Errorf("%+v %v", in, err)
	}
	if _, err := proto.Encode(l); err != nil {
		t.Error(err)
	}
	s.Preview, s.Limits = true, proto.Limits{Output: 100 << 20}
	l, err = Launch(s, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err = tool.DecodeInput([]byte(l.Input))
	if err != nil || !in.Preview || in.Proxy || in.Output != tool.MaxOutput || l.Limits.Output != tool.MaxDocument(tool.MaxOutput) {
		t.Errorf("%+v %+v %v", in, l.Limits, err)
	}
}

func document(t *testing.T, out tool.Output) []byte {
	t.Helper()
	b, err := tool.EncodeOutput(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRan(t *testing.T) {
	good := tool.Output{Text: "three lines"}
	for _, tc := range []struct {
		name  string
		ended proto.Ended
		code  proto.Code
		text  string
	}{
		{"well", proto.Ended{Reason: proto.EndExit, Output: document(t, good)}, "", "three lines"},
		{"its own failure", proto.Ended{Reason: proto.EndExit, Output: document(t, tool.Output{Code: proto.CodeToolFailed, Text: "tool-failed: no such file."})}, proto.CodeToolFailed, "tool-failed: no such file."},
		{"no document", proto.Ended{Reason: proto.EndExit, Output: []byte("hello")}, proto.CodeToolFailed, "is no result"},
		{"nothing", proto.Ended{Reason: proto.EndExit, Output: []byte{}}, proto.CodeToolFailed, "is no result"},
		{"two documents", proto.Ended{Reason: proto.EndExit, Output: append(document(t, good), document(t, good)...)}, proto.CodeToolFailed, "is no result"},
		{"cut", proto.Ended{Reason: proto.EndExit, Output: document(t, good), Dropped: 1}, proto.CodeToolFailed, "more than a result"},
		{"a status", proto.Ended{Reason: proto.EndExit, Exit: 2, Output: document(t, good)}, proto.CodeToolFailed, "status 2"},
		{"another end", proto.Ended{Reason: proto.EndTimeout, Output: document(t, good)}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := ran(&tc.ended)
			if err != nil || r.Output.Code != tc.code || !strings.Contains(r.Output.Text, tc.text) || tc.text == "" && r.Output.Text != "" {
				t.Errorf("%+v %v", r, err)
			}
			if tc.code != "" && !strings.HasPrefix(r.Output.Text, string(tc.code)+": ") {
				t.Errorf("%q does not begin with its code", r.Output.Text)
			}
		})
	}
	if _, err := ran(&proto.Ended{Reason: "new"}); err == nil {
		t.Error("an unknown reason is taken")
	}
}

// runnerd is a small fake on a real socket.
func runnerd(t *testing.T, answer func(*proto.Launch, *ipc.Stream)) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "bxr")
	if err != nil {
		t.Fatal(err)
	}
	l, err := ipc.Listen(filepath.Join(dir, "r.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		srv := ipc.Server{Listener: l, Requests: proto.RunnerRequests, Handle: func(_ context.Context, m proto.Message, s *ipc.Stream) { answer(m.(*proto.Launch), s) }}
		ended <- srv.Serve(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended; os.RemoveAll(dir) })
	return &Client{Socket: filepath.Join(dir, "r.sock")}
}

func TestADecisionThatDeniesIsNotSent(t *testing.T) {
	sent := false
	c := runnerd(t, func(*proto.Launch, *ipc.Stream) { sent = true })
	_, err := c.Run(t.Context(), policy.Decision{}, "", nil)
	if !errors.Is(err, policy.ErrDenied) || sent {
		t.Errorf("%v, sent: %v", err, sent)
	}
}

// TestWhoStopsACallWaitsForItsEnd: nothing of it runs on after its result. A runnerd
// that does not end it is not waited for for ever.
func TestWhoStopsACallWaitsForItsEnd(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprint("hangs ", hangs), func(t *testing.T) {
			dir := t.TempDir()
			l, err := ipc.Listen(filepath.Join(dir, "r.sock"))
			if err != nil {
				t.Fatal(err)
			}
			begun, returned, killed := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
			serving, stop := context.WithCancel(t.Context())
			srv := ipc.Server{Listener: l, Requests: proto.RunnerRequests, Handle: func(ctx context.Context, _ proto.Message, _ *ipc.Stream) {
				close(begun)
				<-ctx.Done()
				if hangs {
					<-serving.Done()
				}
				select {
				case <-returned:
					killed <- false
				case <-time.After(100 * time.Millisecond): // time for a return that must not come
					killed <- true
				}
			}}
			served := make(chan error, 1)
			go func() { served <- srv.Serve(serving) }()
			launch, err := Launch(spec(t, tool.NameReadFile, `{"path":"/a/b"}`), "", nil)
			if err != nil {
				t.Fatal(err)
			}
			c := &Client{Socket: filepath.Join(dir, "r.sock")}
			if hangs {
				c.Grace = time.Millisecond
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("the owner said stop")
			go func() { <-begun; cancel(why) }()
			if _, err := c.send(ctx, launch); !errors.Is(err, why) {
				t.Error(err)
			}
			close(returned)
			stop()
			if waited := <-killed; waited == hangs {
				t.Errorf("it was waited for: %v", waited)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// What is known of a call when the runner does not answer as it should. send is
// Run without the decision, which only package policy can make.
func TestSend(t *testing.T) {
	var _ driver.Runner = &Client{}
	good := document(t, tool.Output{Text: "fine"})
	launch := func() *proto.Launch {
		l, err := Launch(spec(t, tool.NameReadFile, `{"path":"/a/b"}`), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, tc := range []struct {
		name   string
		answer func(*proto.Launch, *ipc.Stream)
		err    string
		notRun bool
	}{
		{"well", func(_ *proto.Launch, s *ipc.Stream) { s.Send(&proto.Ended{Reason: proto.EndExit, Output: good}) }, "", false},
		{"no answer", func(*proto.Launch, *ipc.Stream) {}, "did not say how the call ended", false},
		{"an error", func(_ *proto.Launch, s *ipc.Stream) { s.Send(&proto.Error{Code: proto.ErrNotReady, Text: "busy"}) }, "no-runtime: ", true},
		{"another message", func(_ *proto.Launch, s *ipc.Stream) { s.Send(&proto.RunnerStatus{}) }, "answered with status", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := runnerd(t, tc.answer).send(t.Context(), launch())
			if tc.err == "" && (err != nil || r.Output.Text != "fine") || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%+v %v", r, err)
			}
			if tc.notRun != (err != nil && strings.HasPrefix(err.Error(), "no-runtime: ")) {
				t.Errorf("not run: %v", err)
			}
		})
	}
	_, err := (&Client{Socket: filepath.Join(t.TempDir(), "none.sock")}).send(t.Context(), launch())
	if err == nil || !strings.HasPrefix(err.Error(), "no-runtime: nobody listens") {
		t.Errorf("nobody there: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	c := runnerd(t, func(*proto.Launch, *ipc.Stream) { stop() })
	if _, err := c.send(ctx, launch()); err == nil || strings.HasPrefix(err.Error(), "no-runtime: ") {
		t.Errorf("stopped: %v", err)
	}
}

// TestARunnerThatDoesNotRead: a call can be stopped while it is still being sent.
func TestARunnerThatDoesNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sock")
	l, err := ipc.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	launch, err := Launch(spec(t, tool.NameReadFile, `{"path":"/a/b"}`), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	launch.Input = strings.Repeat("x", 1<<20) // more than a socket takes
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 1))
			cancel()
			<-t.Context().Done()
		}
	}()
	if _, err := (&Client{Socket: path, Grace: time.Millisecond}).send(ctx, launch); err == nil {
		t.Error("it was sent to nobody")
	}
}
