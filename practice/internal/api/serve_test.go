package api

import (
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/practice/internal/brain"
	"boxmaker/practice/internal/fault"
	"boxmaker/practice/internal/slots"
)

// waitFor polls the server's own state; it can only end early.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		if t.Context().Err() != nil {
			t.Fatal("never came: " + what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Pings come whenever nothing else did for so long, in prefill and between
// tokens, and not in the queue.
func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Context: t.Context(), Pool: slots.New(1, 65536), Brain: brain.New().Reply, Faults: new(fault.Box), Ping: 30 * time.Second, PromptTPS: batch / 100.0, GenTPS: 0.02})
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/chat/completions", strings.NewReader(`{`+quiet+`"messages":[{"role":"user","content":"answer with yes `+strings.Repeat("item ", 3000)+`"}],"max_tokens":2,"return_progress":true,`+usual+`}`)))
		var seen []string
		for line := range strings.Lines(w.Body.String()) {
			switch line = strings.TrimSpace(line); {
			case line == ":":
				seen = append(seen, "ping")
			case strings.Contains(line, "prompt_progress"):
				seen = append(seen, "progress")
			case strings.Contains(line, `"content":"`):
				seen = append(seen, "token")
			}
		}
		// 100 s for the first batch, about 50 s for the rest, 50 s for each token.
		want := "progress ping ping ping progress ping progress ping token ping token"
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		w = httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/chat/completions", strings.NewReader(`{`+quiet+say+`"max_tokens":1,"sse_ping_interval":0,`+usual+`}`)))
		if strings.Contains(w.Body.String(), "\n:\n") {
			t.Errorf("sse_ping_interval 0, and still\n%s", w.Body)
		}
	})
}

func TestReasoningEnd(t *testing.T) {
	for _, armed := range []bool{true, false} {
		b := newBox(t, func(c *Config) { c.GenTPS = 500 })
		body := `{"messages":[{"role":"user","content":"think for 3000 words"}],"max_tokens":400,`
		if armed {
			body += `"reasoning_control":true,`
		}
		l := b.open(t, t.Context(), body+usual+`}`)
		line, err := l.until("reasoning_content")
		if err != nil {
			t.Fatal(err)
		}
		id := line[strings.Index(line, "chatcmpl-"):][:len("chatcmpl-")+32]
		order := `{"id":"` + id + `","action":"reasoning_end"}`
		a := b.do(t, "POST", "/v1/chat/completions/control", order)
		want := "{\"success\":true}"
		if !armed {
			want = `{"success":false,"message":"reasoning control not enabled for this completion"}`
		}
		if a.body != want {
			t.Errorf("armed %v: %d %s", armed, a.status, a.body)
		}
		_, err = l.until(`"content":"`)
		if (err == nil) != armed {
			t.Errorf("armed %v: an answer after the thought: %v", armed, err)
		}
		for l.Scan() { // to the end
		}
		if a := b.do(t, "POST", "/v1/chat/completions/control", order); a.body != `{"success":false,"message":"no active completion for this id"}` {
			t.Errorf("afterwards: %s", a.body)
		}
	}
	b := newBox(t)
	for body, want := range map[string]string{`{"action":"reasoning_end"}`: "missing completion id", `{"id":"chatcmpl-x"}`: "unknown control action", `{"id":"x","action":"explode"}`: "unknown control action"} {
		if a := b.do(t, "POST", "/v1/chat/completions/control", body); a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

func TestLimits(t *testing.T) {
	b := newBox(t)
	tests := []struct {
		name, body string
		ok         func(said) bool
	}{
		{"max_tokens", `{` + quiet + `"messages":[{"role":"user","content":"say 500 words"}],"max_tokens":20,` + usual + `}`, func(s said) bool { return s.finish == "length" && s.usage.Completion == 20 }},
		{"max_tokens 0 is one", `{"max_tokens":0,` + say + usual + `}`, func(s said) bool { return s.finish == "length" && s.usage.Completion == 1 }},
		{"context full", `{"messages":[{"role":"user","content":"say 9999 words"}],` + usual + `}`, func(s said) bool { return s.finish == "length" && s.usage.Total == 4096 }},
		{"thinking cap", `{"messages":[{"role":"user","content":"think for 500 words"}],"reasoning_budget_tokens":7,` + usual + `}`, func(s said) bool {
			return s.finish == "stop" && len(b.api.tokens.Encode(strings.TrimSpace(s.reasoning))) == 7 && s.content != ""
		}},
		{"thinking cap with a message", `{"messages":[{"role":"user","content":"think for 500 words"}],"reasoning_budget_tokens":7,"reasoning_budget_message":"\nEnough.\n",` + usual + `}`, func(s said) bool {
			return strings.HasSuffix(s.reasoning, "\nEnough.\n") && s.content != ""
		}},
		{"no thinking", `{` + quiet + say + usual + `}`, func(s said) bool { return s.reasoning == "" && s.content != "" }},
		{"required", `{` + say + `"tool_choice":"required","tools":[{"type":"function","function":{"name":"f"}}],` + usual + `}`, func(s said) bool {
			return s.finish == "tool_calls" && len(s.calls) == 1 && s.calls[0].Name == "f" && s.calls[0].Arguments == "{}"
		}},
		{"none", `{"tool_choice":"none",` + clock + usual + `}`, func(s said) bool { return s.finish == "stop" && len(s.calls) == 0 && s.content != "" }},
		{"one call at a time", `{"messages":[{"role":"user","content":"call clock and list my notes in parallel"}],"parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"clock"}},{"type":"function","function":{"name":"list_files"}}],` + usual + `}`, func(s said) bool { return len(s.calls) == 1 }},
		{"two calls at a time", `{"messages":[{"role":"user","content":"call clock and list my notes in parallel"}],"tools":[{"type":"function","function":{"name":"clock"}},{"type":"function","function":{"name":"list_files"}}],` + usual + `}`, func(s said) bool { return len(s.calls) == 2 && s.calls[1].Name == "list_files" }},
		{"unknown slot and model", `{"id_slot":99,"model":"nope",` + say + usual + `}`, func(s said) bool { return s.done }},
		{"logit_bias and response_format", `{"logit_bias":[[1,100]],"response_format":{"type":"json_object"},` + say + usual + `}`, func(s said) bool { return s.done }},
		{"no messages at all", `{"messages":[],` + usual + `}`, func(s said) bool { return s.done && s.content != "" }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := b.chat(t, tc.body)
			if s := read(t, a.body); a.status != 200 || !tc.ok(s) {
				t.Errorf("%d: finish %q, usage %+v, reasoning %q, content %q, calls %v", a.status, s.finish, s.usage, s.reasoning, s.content, s.calls)
			}
		})
	}
	if a := b.chat(t, `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"So the"}]}`); !strings.Contains(a.body, `"content":"So the`) {
		t.Errorf("prefill: %s", a.body)
	}
}

func TestKeyAndLoading(t *testing.T) {
	b := newBox(t, func(c *Config) { c.APIKey = "k" })
	for _, header := range []string{"Authorization: Bearer k", "X-Api-Key: k", "Authorization: Bearer no", ""} {
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/props", nil)
		if name, value, ok := strings.Cut(header, ": "); ok {
			req.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		b.api.ServeHTTP(w, req)
		if want := map[bool]int{true: 200, false: 401}[strings.HasSuffix(header, " k")]; w.Code != want {
			t.Errorf("%q: %d", header, w.Code)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Context: t.Context(), Pool: slots.New(1, 4096), Faults: new(fault.Box), Loading: time.Minute})
		for _, want := range []int{503, 200} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/health", nil))
			if w.Code != want {
				t.Errorf("health is %d, want %d", w.Code, want)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestRecord(t *testing.T) {
	r, err := NewRecorder(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b := newBox(t, func(c *Config) { c.Record = r })
	for _, body := range []string{`{"max_tokens":1,"id_slot":2,"messages":[{"role":"user","content":"a\nb é"}]}`, `{`, "\xff"} {
		b.chat(t, body)
	}
	want := `{"n":1,"slot":2,"body":"{\"max_tokens\":1,\"id_slot\":2,\"messages\":[{\"role\":\"user\",\"content\":\"a\\nb é\"}]}"}` + "\n" +
		`{"n":2,"slot":-1,"body":"{"}` + "\n" + `{"n":3,"slot":-1,"raw":"/w=="}` + "\n"
	if got := b.do(t, "GET", "/practice/log", "").body; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if a := newBox(t).do(t, "GET", "/practice/log", ""); a.status != 404 {
		t.Errorf("without -record: %d", a.status)
	}
}

func TestErase(t *testing.T) {
	b := newBox(t)
	read(t, b.chat(t, `{"id_slot":1,`+say+usual+`}`).body)
	held := b.api.Pool.Held(1)
	if a := b.do(t, "POST", "/slots/1?action=erase", "{}"); held == 0 || !strings.HasPrefix(a.body, `{"id_slot":1,"n_erased":`) || b.api.Pool.Held(1) != 0 {
		t.Errorf("held %d, %s, left %d", held, a.body, b.api.Pool.Held(1))
	}
	if a := b.do(t, "POST", "/slots/9?action=erase", "{}"); a.body != `{"id_slot":9,"n_erased":0}` {
		t.Errorf("unknown: %s", a.body)
	}
	for _, path := range []string{"/slots/x?action=erase", "/slots/0?action=save", "/slots/0"} {
		if a := b.do(t, "POST", path, "{}"); a.status != 501 || !strings.Contains(a.body, `"type":"not_supported_error"`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// No request makes a route fall over, and every answer is JSON or a stream.
func FuzzServe(f *testing.F) {
	paths := []string{"/v1/chat/completions", "/apply-template", "/tokenize", "/detokenize", "/v1/chat/completions/input_tokens", "/v1/chat/completions/control", "/practice/fault"}
	f.Add(0, []byte(`{"max_tokens":3,`+say+usual+`}`))
	f.Add(2, []byte(`{"content":"a<think>\n","with_pieces":true}`))
	f.Add(3, []byte(`{"tokens":[1,2,99999999]}`))
	f.Add(6, []byte(`{"kind":"clear"}`))
	s := New(Config{Context: f.Context(), Pool: slots.New(2, 512), Brain: brain.New().Reply, Faults: new(fault.Box), FaultRoute: true})
	f.Fuzz(func(t *testing.T, path int, body []byte) {
		s.Faults.Put(fault.Fault{Kind: fault.Clear})
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), "POST", paths[uint(path)%uint(len(paths))], strings.NewReader(string(body)))
		if strings.Contains(string(body), "!fault") || strings.Contains(string(body), `\u0021`) {
			return // stalls and broken connections are meant to be
		}
		s.ServeHTTP(w, req)
		out, _ := io.ReadAll(w.Result().Body)
		if w.Code != 200 && w.Code != 400 && w.Code != 500 {
			t.Errorf("%d %s", w.Code, out)
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			shape(t, string(out))
		}
	})
}
