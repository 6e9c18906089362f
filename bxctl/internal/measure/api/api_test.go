package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"

	"github.com/google/go-cmp/cmp"
)

// Streams of a real llama-server (b11669).
func TestRecordedStreams(t *testing.T) {
	for _, c := range []struct {
		file, finish, content string
		calls                 []string
		timings               Timings
		progress, pings       int
		err                   string
	}{
		{file: "chat_stream_progress_timings", finish: "length", timings: Timings{18, 9405, 21041.216, 446.9798703649066, 6, 7.96, 628.1407035175879}, progress: 8},
		{file: "tools_required_cut", finish: "length", timings: Timings{367, 4, 1.906, 2098.6358866736623, 14, 22.25, 584.2696629213483}},
		{file: "err_midstream_kv_full_0", err: "Context size has been exceeded."},
		{file: "canned_two_calls_parallel_true", finish: "tool_calls", calls: []string{"*", "*"}},
		{file: "sse_ping_during_prompt_with_progress", pings: 4, progress: -1},
	} {
		t.Run(c.file, func(t *testing.T) {
			b, err := os.ReadFile("testdata/" + c.file + ".sse")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*Completion{parse(t, b, false, c.err), parse(t, b, true, c.err)} {
				if c.finish != "" && r.Finish != c.finish || c.timings != (Timings{}) && r.Timings != c.timings {
					t.Errorf("finish %q, timings %+v", r.Finish, r.Timings)
				}
				if len(r.Calls) != len(c.calls) || c.progress >= 0 && len(r.Progress) != c.progress || r.Pings != c.pings {
					t.Errorf("calls %v, progress %d, pings %d", r.Calls, len(r.Progress), r.Pings)
				}
				for _, k := range r.Calls {
					if k.ID == "" || k.Name == "" || !strings.HasPrefix(k.Arguments, "{") || !strings.HasSuffix(k.Arguments, "}") {
						t.Errorf("call %+v", k)
					}
				}
			}
		})
	}
}

func parse(t *testing.T, b []byte, slowly bool, want string) *Completion {
	t.Helper()
	c := &Completion{}
	var err error
	if slowly {
		err = c.read(iotest.OneByteReader(bytes.NewReader(b)), time.Now(), nil)
	} else {
		err = c.read(bytes.NewReader(b), time.Now(), nil)
	}
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	return c
}

func TestBadStreams(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"cut", "data: {\"choices\":[]}\n\n", "before its end mark"},
		{"empty", "", "before its end mark"},
		{"html", "data: <html>\n\n", "not what llama-server sends"},
		{"two of a key", `data: {"id":"a","id":"b"}` + "\n\n", "not what llama-server sends"},
		{"call out of order", `data: {"choices":[{"delta":{"tool_calls":[{"index":3}]}}]}` + "\n\n", "part of call 3 after 0 calls"},
		{"call of a negative number", `data: {"choices":[{"delta":{"tool_calls":[{"index":-1}]}}]}` + "\n\n", "part of call -1"},
		{"timings that are none", `data: {"timings":"soon"}` + "\n\n", "not what llama-server sends"},
		{"a line without end", "data: " + strings.Repeat("x", maxEvent+1), "token too long"},
	} {
		if err := new(Completion).read(strings.NewReader(c.in), time.Now(), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Whatever comes: no panic, and success only with the end mark.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"tools_required_stream_fragments_seed1", "canned_two_calls_parallel_true", "err_midstream_kv_full_0"} {
		b, err := os.ReadFile("testdata/" + name + ".sse")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(":\n\ndata:[DONE]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &Completion{}
		if err := c.read(bytes.NewReader(b), time.Now(), nil); err == nil && !bytes.Contains(b, []byte("[DONE]")) {
			t.Fatal("success without an end mark")
		}
		c.Markup()
	})
}

// serve answers every request with what the test says, on a socket whose path is
// longer than a socket address.
func serve(t *testing.T, handle http.HandlerFunc) *Server {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ln, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/s.sock", d.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: handle}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return New(setup.Address{Path: filepath.Join(dir, "s.sock")})
}

func TestErrors(t *testing.T) {
	status, body := 0, ""
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); fmt.Fprint(w, body) })
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, "the server answered 503: Loading model"},
		{401, `{"error":{"message":"Invalid API Key"}}`, "answered 401: Invalid API Key"},
		{404, "no such page", "answered 404: no such page"},
		{302, "", "answered 302"},
		{200, "<html>", "not what llama-server gives"},
		{200, `{"build_info":1}`, "not what llama-server gives"},
	} {
		status, body = c.status, c.body
		if _, err := s.Props(t.Context(), ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %s: %v", c.status, c.body, err)
		}
	}
	status, body = 400, `{"error":{"message":"too long","type":"exceed_context_size_error","n_ctx":1024}}`
	_, err := s.Chat(t.Context(), []byte(`{}`), nil)
	var e *Error
	if !errors.As(err, &e) || e.Window != 1024 || e.Type != "exceed_context_size_error" {
		t.Errorf("%v", err)
	}
}

func TestOneConnectionPerRequest(t *testing.T) {
	remotes := make(chan string, 10)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !r.Close {
			remotes <- "kept"
		}
		fmt.Fprint(w, `{"status":"ok"}`)
	})
	for range 3 {
		if err := s.Health(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(remotes) != 0 {
		t.Error("a connection was kept alive")
	}
}

// An error of the caller ends a stream, and so does its context.
func TestChatEnds(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"a"}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	enough := errors.New("enough")
	c, err := s.Chat(t.Context(), []byte(`{}`), func(Update) error { return enough })
	if !errors.Is(err, enough) || c.Content != "a" {
		t.Errorf("%v, %+v", err, c)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err = s.Chat(ctx, []byte(`{}`), func(Update) error { cancel(enough); return nil }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
}

func TestAddress(t *testing.T) {
	l := config.Layout{Run: "/r"}
	set := setup.DefaultSettings()
	for _, c := range []struct {
		kind setup.Kind
		want string
	}{{setup.Practice, "unix:/r/practice/inferproxy/llama.sock"}, {setup.Llama, "unix:/r/llama/inferproxy/llama.sock"}, {setup.Upstream, "tcp:[::1]:9"}} {
		set.Model.Kind = c.kind
		at, err := Address(l, set, setup.Proxy{Upstream: "http://[::1]:9"})
		if err != nil || at.String() != c.want {
			t.Errorf("%s: %v, %v", c.kind, at, err)
		}
	}
	set.Model.Kind = "x"
	if _, err := Address(l, set, setup.Proxy{}); err == nil {
		t.Error("accepted")
	}
}

func TestHash(t *testing.T) {
	got := []string{Props{Template: "abc"}.Hash(), Props{}.Hash()}
	if d := cmp.Diff([]string{"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", ""}, got); d != "" {
		t.Error(d)
	}
}
