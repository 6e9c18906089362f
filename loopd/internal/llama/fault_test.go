package llama

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// Every row is a stream, or an answer instead of one, and how the chat ends.
func TestFault_ServerAnswers(t *testing.T) {
	say := func(text string) func(s *testkit.Stream) {
		return func(s *testkit.Stream) { s.Answer(text) }
	}
	calls := func(finish string, f func(s *testkit.Stream)) func(s *testkit.Stream) {
		return func(s *testkit.Stream) {
			s.Role()
			f(s)
			s.Finish(finish)
			s.TrueUsage()
			s.Done()
		}
	}
	answer := func(status int, ctype, text string) func(s *testkit.Stream) {
		return func(s *testkit.Stream) { s.Fail(status, ctype, text) }
	}
	const plain = "application/json; charset=utf-8"
	tests := []struct {
		name  string
		serve func(s *testkit.Stream)
		why   proto.Why
		retry bool
		words string // in the message
	}{
		{"no fault", say("hello"), "", false, ""},
		// before the stream
		{"401", answer(401, plain, `{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`), proto.WhyUnauthorised, false, "Invalid API Key"},
		{"403 in HTML", answer(403, "text/html", "<h1>no</h1>"), proto.WhyUnauthorised, false, "Forbidden"},
		{"HTML with 200", answer(200, "text/html; charset=utf-8", "<html>It works!</html>"), proto.WhyBadData, false, "text/html"},
		{"HTML with 404", answer(404, "text/html", "<html>"), proto.WhyBadData, false, "text/html"},
		{"HTML with 502", answer(502, "text/html", "<html>"), proto.WhyServerError, true, "text/html"},
		{"404 of another server", answer(404, plain, `{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`), proto.WhyServerError, false, "File Not Found"},
		{"JSON instead of a stream", answer(200, plain, `{"choices":[]}`), proto.WhyBadData, false, "application/json"},
		{"no content type", answer(200, "", `data: {}`), proto.WhyBadData, false, "content type"},
		{"400 with words", answer(400, plain, `{"error":{"code":400,"message":"'messages' is required","type":"invalid_request_error"}}`), proto.WhyServerError, false, "'messages' is required"},
		{"an error that is a string", answer(500, plain, `{"error":"it broke"}`), proto.WhyServerError, true, "it broke"},
		{"a code that is a string", answer(400, plain, `{"error":{"code":"bad","message":"no","type":"x"}}`), proto.WhyServerError, false, "no"},
		{"an empty body", answer(500, plain, ``), proto.WhyServerError, true, "Internal Server Error"},
		{"429", answer(429, plain, `{"error":{"message":"slow down"}}`), proto.WhyServerError, true, "slow down"},
		// in the stream
		{"error event", func(s *testkit.Stream) { s.Role(); s.Text("a"); s.Error(500, "server_error", "it broke") }, proto.WhyServerError, true, "it broke"},
		{"error event without a code", func(s *testkit.Stream) { s.Role(); s.Data(`{"error":{"message":"it broke"}}`) }, proto.WhyServerError, true, "it broke"},
		{"overflow as an event", func(s *testkit.Stream) {
			s.Data(`{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}`)
		}, proto.WhyContextFull, false, "too long"},
		{"no end mark", func(s *testkit.Stream) { s.Role(); s.Text("a"); s.Finish("stop") }, proto.WhyCut, true, "ended"},
		{"connection cut", func(s *testkit.Stream) { s.Role(); s.Text("a"); s.Cut() }, proto.WhyCut, true, "ended"},
		{"connection cut before the head", func(s *testkit.Stream) { s.Cut() }, proto.WhyCut, true, "ended"},
		{"nothing but the end mark", func(s *testkit.Stream) { s.Done() }, proto.WhyCut, true, "without saying why"},
		{"invalid UTF-8", func(s *testkit.Stream) { s.Role(); s.Data("{\"choices\":[],\"x\":\"\xff\"}") }, proto.WhyBadData, false, "UTF-8"},
		{"half a surrogate", func(s *testkit.Stream) { s.Role(); s.Data(`{"choices":[],"x":"\ud83d"}`) }, proto.WhyBadData, false, "decode"},
		{"ten megabytes in one event", func(s *testkit.Stream) { s.Role(); s.Text(strings.Repeat("x", 10<<20)) }, proto.WhyBadData, false, "too large"},
		{"not JSON", func(s *testkit.Stream) { s.Data("<html>") }, proto.WhyBadData, false, "decode"},
		{"null", func(s *testkit.Stream) { s.Data("null") }, proto.WhyBadData, false, "decode"},
		{"an array", func(s *testkit.Stream) { s.Data("[]") }, proto.WhyBadData, false, "decode"},
		{"duplicate names", func(s *testkit.Stream) { s.Data(`{"id":"a","id":"b","choices":[]}`) }, proto.WhyBadData, false, "duplicate"},
		{"duplicate names in an unknown member", func(s *testkit.Stream) { s.Data(`{"choices":[],"new":{"a":1,"a":2}}`) }, proto.WhyBadData, false, "duplicate"},
		{"content of another type", func(s *testkit.Stream) { s.Data(`{"choices":[{"index":0,"delta":{"content":5}}]}`) }, proto.WhyBadData, false, "decode"},
		{"two choices", func(s *testkit.Stream) { s.Data(`{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{}}]}`) }, proto.WhyBadData, false, "several answers"},
		{"two ends", func(s *testkit.Stream) { s.Text("a"); s.Finish("stop"); s.Finish("stop"); s.Done() }, proto.WhyBadData, false, "two ends"},
		{"text after the end", func(s *testkit.Stream) { s.Text("a"); s.Finish("stop"); s.Text("b"); s.Done() }, proto.WhyBadData, false, "goes on"},
		{"unknown finish reason", func(s *testkit.Stream) { s.Text("a"); s.Finish("content_filter"); s.Done() }, proto.WhyBadData, false, "content_filter"},
		{"unknown members", func(s *testkit.Stream) {
			s.Data(`{"new":[1],"choices":[{"index":0,"logprobs":null,"delta":{"role":"assistant","content":"a","refusal":null,"new":{}}}]}`)
			s.Raw("event: new\nid: 7\n\n")
			s.Finish("stop")
			s.Done()
		}, "", false, ""},
		// how the answer ends
		{"empty", say(""), proto.WhyEmpty, true, "without an answer"},
		{"white space only", say(" \n\t"), proto.WhyEmpty, true, "without an answer"},
		{"thinking only", func(s *testkit.Stream) { s.Think("hm", "") }, proto.WhyEmpty, true, "without an answer"},
		{"length with content", calls("length", func(s *testkit.Stream) { s.Text("half a sent") }), "", false, ""},
		{"length in thinking", calls("length", func(s *testkit.Stream) { s.Reasoning("hm") }), proto.WhyLength, false, "before the model said"},
		{"length in a call", calls("length", func(s *testkit.Stream) { s.Text("I look."); s.Call(0, "a", "f", `{"x":`) }), proto.WhyLength, false, "middle of a tool call"},
		{"length after a call that looks whole", calls("length", func(s *testkit.Stream) { s.Call(0, "a", "f", `{}`) }), proto.WhyLength, false, "middle of a tool call"},
		// calls
		{"a call", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f", `{"x`, `":1}`) }), "", false, ""},
		{"a call that ends in stop", calls("stop", func(s *testkit.Stream) { s.Call(0, "a", "f", `{}`) }), "", false, ""},
		{"an unknown tool is not this package's business", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "no such tool", `{}`) }), "", false, ""},
		{"announced, not sent", calls("tool_calls", func(*testkit.Stream) {}), proto.WhyBadCall, true, "sent none"},
		{"same index, other id", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f", `{}`); s.Call(0, "b", "f", `{}`) }), proto.WhyBadCall, true, "share index 0"},
		{"same index, other name", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f", `{}`); s.Call(0, "a", "g", `{}`) }), proto.WhyBadCall, true, "share index 0"},
		{"same id, other index", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f", `{}`); s.Call(1, "a", "f", `{}`) }), proto.WhyBadCall, true, "same id"},
		{"index gap", calls("tool_calls", func(s *testkit.Stream) { s.Call(1, "a", "f", `{}`) }), proto.WhyBadCall, true, "call 1 came when call 0 was next"},
		{"negative index", calls("tool_calls", func(s *testkit.Stream) { s.Call(-1, "a", "f", `{}`) }), proto.WhyBadCall, true, "call -1"},
		{"no id", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "", "f", `{}`) }), proto.WhyBadCall, true, "no id"},
		{"no name", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "", `{}`) }), proto.WhyBadCall, true, "no name"},
		{"arguments before the call", calls("tool_calls", func(s *testkit.Stream) { s.CallPart(0, `{}`) }), proto.WhyBadCall, true, "no id"},
		{"not a function", calls("tool_calls", func(s *testkit.Stream) {
			s.Data(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"custom","function":{"name":"f","arguments":"{}"}}]}}]}`)
		}), proto.WhyBadCall, true, "not of a function"},
		{"no arguments", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f") }), proto.WhyBadCall, true, "not one JSON object"},
		{"half the arguments", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f", `{"x":`) }), proto.WhyBadCall, true, "not one JSON object"},
		{"two objects", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f", `{}{}`) }), proto.WhyBadCall, true, "not one JSON object"},
		{"an array for arguments", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f", `[]`) }), proto.WhyBadCall, true, "not one JSON object"},
		{"duplicate names in arguments", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f", `{"x":1,"x":2}`) }), proto.WhyBadCall, true, "not one JSON object"},
		{"the second call is bad", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", "f", `{}`); s.Call(1, "b", "f", `no`) }), proto.WhyBadCall, true, "call 1"},
		{"33 calls", calls("tool_calls", func(s *testkit.Stream) {
			for i := range 33 {
				s.Call(i, fmt.Sprint(i), "f", `{}`)
			}
		}), proto.WhyBadCall, true, "more than 32"},
		{"32 calls", calls("tool_calls", func(s *testkit.Stream) {
			for i := range 32 {
				s.Call(i, fmt.Sprint(i), "f", `{}`)
			}
		}), "", false, ""},
		{"over 1 MiB of arguments", calls("tool_calls", func(s *testkit.Stream) {
			s.Call(0, "a", "f", `{"x":"`)
			for range 3 {
				s.CallPart(0, strings.Repeat("x", 400<<10))
			}
		}), proto.WhyBadCall, true, "bytes of arguments"},
		{"a long name", calls("tool_calls", func(s *testkit.Stream) { s.Call(0, "a", strings.Repeat("f", 257), `{}`) }), proto.WhyBadCall, true, "over 256 bytes"},
		{"over 4 MiB of text", func(s *testkit.Stream) {
			s.Role()
			for range 9 {
				s.Text(strings.Repeat("x", 500<<10))
			}
		}, proto.WhyBadData, false, "bytes of text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := testkit.NewLlama(t)
			l.On(func(_ int, _ []byte, s *testkit.Stream) { tt.serve(s) })
			o := chatOnce(t, newClient(l, Limits{}))
			o.want(t, tt.why, tt.retry)
			if o.err != nil && !strings.Contains(o.err.Message, tt.words) {
				t.Errorf("message %q lacks %q", o.err.Message, tt.words)
			}
			if n := len(l.Bodies()); n != 1 {
				t.Errorf("%d requests for one chat", n)
			}
		})
	}
}

func TestErrorIsSafeToShow(t *testing.T) {
	l := testkit.NewLlama(t)
	l.On(func(_ int, _ []byte, s *testkit.Stream) {
		s.Error(500, "server\x1b[31merror", "\n line\x1b]0;title\x07 one\r\n\tline two\u202e \x00end "+strings.Repeat("ä", 500))
	})
	o := chatOnce(t, newClient(l, Limits{}))
	o.want(t, proto.WhyServerError, true)
	want := "line]0;title one line two end " + strings.Repeat("ä", 270) + "…"
	if o.err.Message != want || o.err.Type != "server[31merror" {
		t.Errorf("message %q, type %q", o.err.Message, o.err.Type)
	}
	if text := o.err.Error(); !strings.HasSuffix(text, "(HTTP 500) (see runbook: server-error)") {
		t.Errorf("text %q", text)
	}
}

func TestCase_P28_ContextSizeFromTheFields(t *testing.T) {
	l := testkit.NewLlama(t)
	l.On(func(_ int, _ []byte, s *testkit.Stream) { s.Overflow(3620, 1024) })
	o := chatOnce(t, newClient(l, Limits{}))
	o.want(t, proto.WhyContextFull, false)
	if o.err.PromptTokens != 3620 || o.err.Context != 1024 || o.err.Status != 400 {
		t.Errorf("%+v", o.err)
	}
}

func TestCase_P20_ParseErrorIsWorthOneMoreTry(t *testing.T) {
	l := testkit.NewLlama(t)
	l.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.Fail(500, "application/json; charset=utf-8", `{"error":{"code":500,"message":"Failed to parse input at pos 12","type":"server_error"}}`)
			return
		}
		s.Answer("fine")
	})
	c := newClient(l, Limits{})
	o := chatOnce(t, c)
	o.want(t, proto.WhyServerError, true)
	again := chatOnce(t, c)
	again.want(t, "", false)
	if b := l.Bodies(); len(b) != 2 || string(b[0]) != string(b[1]) {
		t.Errorf("%d requests", len(b))
	}
}

func TestCase_P10_ColdCacheIsNoError(t *testing.T) {
	l := testkit.NewLlama(t)
	l.On(func(n int, _ []byte, s *testkit.Stream) {
		s.Text("fine")
		s.Finish("stop")
		s.Usage(0, 12146, 5)
		s.Done()
	})
	o := chatOnce(t, newClient(l, Limits{}))
	o.want(t, "", false)
	if o.got.Timings.CacheN != 0 || o.got.Timings.PromptN != 12146 || o.got.Timings.PromptUS != 12146500 || len(l.Bodies()) != 1 {
		t.Errorf("%+v, %d requests", o.got.Timings, len(l.Bodies()))
	}
}

func TestFault_ConnectionRefused(t *testing.T) {
	dir, err := os.MkdirTemp("", "bm")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "x.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = ln.Close() // the file stays: connecting is refused
	for name, socket := range map[string]string{"refused": path, "absent": filepath.Join(dir, "none.sock")} {
		o := chatOnce(t, New(Config{Socket: socket, Limits: Limits{Reach: 250 * time.Millisecond}}))
		o.want(t, proto.WhyUnreachable, false)
		if o.count(Unreachable{}) == 0 || o.count(Queued{}) != 0 || !strings.Contains(o.err.Message, "tried for 250ms") {
			t.Errorf("%s: %+v, events %v", name, o.err, o.events)
		}
	}
}

func TestSocketPathOverTheLimitOfAnAddress(t *testing.T) {
	l := testkit.NewLlama(t)
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(l.Socket, filepath.Join(deep, "s.sock")); err != nil {
		t.Fatal(err)
	}
	o := chatOnce(t, New(Config{Socket: filepath.Join(deep, "s.sock")}))
	o.want(t, "", false)
	o = chatOnce(t, New(Config{Socket: filepath.Join(deep, "none", "s.sock"), Limits: Limits{Reach: time.Millisecond}}))
	o.want(t, proto.WhyUnreachable, false)
}

// The server comes back after a while: the chat waits for it.
func TestUnreachableForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.NewMemoryLlama(t)
		start := time.Now()
		c := New(Config{Dial: func(ctx context.Context) (net.Conn, error) {
			if time.Since(start) < 20*time.Second {
				return nil, errors.New("connection refused")
			}
			return l.Dial(ctx)
		}})
		o := chatOnce(t, c)
		o.want(t, "", false)
		if n := o.count(Unreachable{}); n < 5 || n > 20 || o.count(Queued{}) != 1 {
			t.Errorf("events %v", o.events)
		}
	})
}

func TestInferproxyCannotReachTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.NewMemoryLlama(t)
		l.Handle("/v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Boxmaker", "upstream-unreachable")
			w.WriteHeader(http.StatusBadGateway)
		})
		start := time.Now()
		o := chatOnce(t, newClient(l, Limits{}))
		o.want(t, proto.WhyUnreachable, false)
		if took := time.Since(start); took != 30*time.Second || o.count(Unreachable{}) == 0 || o.err.Status != 502 {
			t.Errorf("took %v: %+v", took, o.err)
		}
	})
}

func TestFault_503ForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.NewMemoryLlama(t)
		l.Loading(-1)
		start := time.Now()
		o := chatOnce(t, newClient(l, Limits{}))
		o.want(t, proto.WhyUnreachable, false)
		if took := time.Since(start); took != 3*time.Minute || o.err.Status != 503 || o.err.Message != "Loading model; tried for 3m0s" {
			t.Errorf("took %v: %+v", took, o.err)
		}
		if n := o.count(Loading{}); n < 90 || n > 110 {
			t.Errorf("%d events of loading", n)
		}
	})
}

func TestLoadingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.NewMemoryLlama(t)
		l.Loading(10)
		o := chatOnce(t, newClient(l, Limits{}))
		o.want(t, "", false)
		if o.count(Loading{}) != 10 || len(l.Bodies()) != 1 {
			t.Errorf("events %v, %d requests", o.events, len(l.Bodies()))
		}
	})
}

// A server that answers before it has read the request, and closes.
func TestRefusalBeforeTheRequestIsRead(t *testing.T) {
	dir, err := os.MkdirTemp("", "bm")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ln, err := net.Listen("unix", filepath.Join(dir, "s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Read(make([]byte, 1))
		_, _ = conn.Write([]byte("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"))
		_ = conn.Close()
	}()
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 4<<20) + `"}]}`
	_, err = New(Config{Socket: ln.Addr().String()}).Chat(t.Context(), []byte(long), nil)
	var e *Error
	if !errors.As(err, &e) || e.Why != proto.WhyUnauthorised {
		t.Errorf("error %v", err)
	}
	_ = ln.Close()
	<-done
}

func TestNotHTTP(t *testing.T) {
	tests := map[string]struct {
		answer string
		why    proto.Why
	}{
		"another protocol": {"SSH-2.0-OpenSSH_9.9\r\n", proto.WhyBadData},
		"nothing":          {"", proto.WhyCut},
		"half a head":      {"HTTP/1.1 200 OK\r\nContent-", proto.WhyCut},
		"an endless head":  {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: b\r\n", 20000), proto.WhyBadData},
		"a bad chunk":      {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", proto.WhyBadData},
		"half a chunk":     {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nff\r\ndata:", proto.WhyCut},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New(Config{Dial: func(context.Context) (net.Conn, error) { return &canned{r: strings.NewReader(tt.answer)}, nil }})
			o := chatOnce(t, c)
			o.want(t, tt.why, tt.why == proto.WhyCut)
		})
	}
}
