package api

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/gen"
	"boxmaker/practice/internal/slots"
)

// A sample is a recorded answer of the real server.
type sample struct {
	status int
	header map[string]string
	body   string
}

func load(t *testing.T, name string) sample {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(b), "\n\n")
	first, rest, _ := strings.Cut(head, "\n")
	s := sample{header: make(map[string]string), body: body}
	if s.status, err = strconv.Atoi(strings.Fields(first)[1]); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(rest) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		s.header[k] = strings.TrimSpace(v)
	}
	return s
}

const (
	say   = `"messages":[{"role":"user","content":"say 3 words"}],`
	clock = `"messages":[{"role":"user","content":"what time is it?"}],"tools":[{"type":"function","function":{"name":"clock","parameters":{"type":"object","properties":{}}}}],`
	usual = `"stream":true,"stream_options":{"include_usage":true}`
	quiet = `"chat_template_kwargs":{"enable_thinking":false},`
)

// two says something and calls two tools.
func two(*chat.Request) gen.Reply {
	return gen.Reply{Reasoning: "r", Content: "c", Calls: []gen.Use{{Name: "a", Arguments: `{"x":1}`}, {Name: "b", Arguments: `{}`}}}
}

func long(int) string { return strings.Repeat("word ", 5000) }

// Each row: the sample, and a request that should be answered in its shape.
func TestShapes(t *testing.T) {
	tests := []struct {
		sample, method, path, body string
		change                     func(*Config)
		whole                      bool // the sample has its tool calls in one piece each
	}{
		{sample: "chat_stream_basic", body: `{` + quiet + say + usual + `}`},
		{sample: "chat_stream_reasoning_then_content", body: `{` + say + usual + `}`},
		{sample: "chat_stream_progress_timings", body: `{` + say + `"max_tokens":2,"return_progress":true,"timings_per_token":true,` + usual + `}`},
		{sample: "chat_stream_finish_length", body: `{` + say + `"max_tokens":2,` + usual + `}`},
		{sample: "chat_stream_no_include_usage", body: `{` + say + `"max_tokens":2,"stream":true}`},
		{sample: "context_end_during_generation", body: `{"messages":[{"role":"user","content":"think for 5000 words"}],` + usual + `}`},
		{sample: "chat_nostream_basic", body: `{` + quiet + say + `"id_slot":0}`},
		{sample: "canned_tool_call_auto", body: `{` + clock + usual + `}`, whole: true},
		{sample: "canned_two_calls_parallel_true", body: `{` + clock + usual + `}`, change: func(c *Config) { c.Brain = two }, whole: true},
		{sample: "canned_tool_call_nostream", body: `{` + clock + `"id_slot":0}`, change: func(c *Config) { c.Brain = two }},
		{sample: "tools_auto_fragments", body: `{` + quiet + clock + usual + `}`},
		{sample: "tools_required_thinking", body: `{"messages":[{"role":"user","content":"!fault error after=3"}],` + usual + `}`},
		{sample: "err_midstream_kv_full_0", body: `{"messages":[{"role":"user","content":"!fault kv-full after=3"}],` + usual + `}`},
		{sample: "err_context_overflow", body: `{"messages":[{"role":"user","content":"` + long(0) + `"}]}`},
		{sample: "err_context_overflow_stream", body: `{"messages":[{"role":"user","content":"` + long(0) + `"}],"return_progress":true,` + usual + `}`},
		{sample: "err_bad_role", body: `{"messages":[{"role":"robot","content":"x"}],` + usual + `}`},
		{sample: "err_no_messages", body: `{"stream":true}`},
		{sample: "err_404", path: "/v1/nope", body: `{}`},
		{sample: "loading_503_chat", body: `{` + say + `"max_tokens":1}`, change: func(c *Config) { c.Loading = time.Hour }},
		{sample: "apikey_missing_props", method: "GET", path: "/props", change: func(c *Config) { c.APIKey = "k" }},
		{sample: "GET_health", method: "GET", path: "/health", change: func(c *Config) { c.APIKey = "k" }},
		{sample: "GET_props", method: "GET", path: "/props"},
		{sample: "POST_props", path: "/props", body: `{}`},
		{sample: "GET_slots", method: "GET", path: "/slots"},
		{sample: "GET_v1_models", method: "GET", path: "/v1/models"},
		{sample: "GET_v1_models", method: "GET", path: "/models"},
		{sample: "POST_tokenize", path: "/tokenize", body: `{"content":"<|im_start|>user\nHello","with_pieces":true}`},
		{sample: "POST_detokenize", path: "/detokenize", body: `{"tokens":[1,2]}`},
		{sample: "POST_input_tokens", path: "/v1/chat/completions/input_tokens", body: `{` + say + `"x":1}`},
		{sample: "POST_apply_template", path: "/apply-template", body: `{` + say + `"x":1}`},
		{sample: "POST_slots_erase", path: "/slots/0?action=erase", body: `{}`},
		{sample: "reasoning_control_unknown_id", path: "/v1/chat/completions/control", body: `{"id":"chatcmpl-nope","action":"reasoning_end"}`},
	}
	for _, tc := range tests {
		t.Run(tc.sample+tc.path, func(t *testing.T) {
			want := load(t, tc.sample)
			b := newBox(t, func(c *Config) {
				if tc.change != nil {
					tc.change(c)
				}
			})
			method, path := tc.method, tc.path
			if method == "" {
				method = "POST"
			}
			if path == "" {
				path = "/v1/chat/completions"
			}
			got := b.do(t, method, path, tc.body)
			if got.status != want.status {
				t.Errorf("status %d, want %d: %s", got.status, want.status, got.body)
			}
			for k, v := range want.header {
				if k != "Transfer-Encoding" && k != "Connection" && got.header.Get(k) != v || !has(got.header, k) {
					t.Errorf("header %s is %q, want %q", k, got.header.Get(k), v)
				}
			}
			a, w := shapes(t, got.body), shapes(t, want.body)
			if tc.whole {
				a = slices.DeleteFunc(a, func(s string) bool { return strings.Contains(s, "[{index:int function:{arguments:text }") })
				a = slices.Compact(a)
			}
			if !slices.Equal(a, w) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(a, "\n"), strings.Join(w, "\n"))
			}
		})
	}
}

// has reports whether a header came. net/http takes these two off a response.
func has(h map[string][]string, k string) bool {
	_, ok := h[k]
	return ok || k == "Transfer-Encoding" || k == "Connection"
}

// The slot that is at work is shown in the real server's shape.
func TestShapeOfBusySlots(t *testing.T) {
	b := newBox(t, func(c *Config) { c.GenTPS = 1 })
	l := b.open(t, t.Context(), `{"messages":[{"role":"user","content":"think for 500 words"}],"id_slot":0,"temperature":0.6,"top_p":0.95,"top_k":20,"max_tokens":77,`+usual+`}`)
	if _, err := l.until("role"); err != nil {
		t.Fatal(err)
	}
	got, want := b.do(t, "GET", "/slots", ""), load(t, "GET_slots_busy")
	a := shapes(t, got.body)
	w := shapes(t, want.body)
	if !slices.Equal(a, w) {
		t.Errorf("got\n%s\nwant\n%s", a, w)
	}
	for _, want := range []string{`"temperature":0.6000000238418579,`, `"top_p":0.949999988079071,`, `"top_k":20,`, `"max_tokens":77,"n_predict":77,`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("no %s in %s", want, got.body)
		}
	}
}

// What the self-test reads of /props.
func TestProps(t *testing.T) {
	b := newBox(t, func(c *Config) { c.Pool = slots.New(2, 1024) })
	body := b.do(t, "GET", "/props", "").body
	for _, want := range []string{`"build_info":"practice-1"`, `"model_alias":"practice"`, `"total_slots":2`, `"n_ctx":1024`, `"speculative.types":"none"`, `"is_sleeping":false`, `"chat_template":"{%- if tools %}`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if !jsontext.Value(body).IsValid() {
		t.Error("not valid JSON")
	}
}
