package prompt

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMessageBytes(t *testing.T) {
	for _, tt := range []struct{ name, got, want string }{
		{"system", string(SystemMessage("a")), `{"role":"system","content":"a"}`},
		{"user", string(UserMessage("a\"\\/<>&\n\t\x00\u2028ä")), `{"role":"user","content":"a\"\\/<>&\n\t\u0000` + "\u2028" + `ä"}`},
		{"tool", string(ToolMessage("id", "a")), `{"role":"tool","tool_call_id":"id","content":"a"}`},
		{"assistant, text only", string(AssistantMessage("a", "", nil)), `{"role":"assistant","content":"a"}`},
		{"assistant, nothing", string(AssistantMessage("", "", nil)), `{"role":"assistant","content":""}`},
		{"assistant, thinking", string(AssistantMessage("a", "b\n", nil)), `{"role":"assistant","content":"a","reasoning_content":"b\n"}`},
		{
			"assistant, two calls", string(AssistantMessage("", "t", []Call{{"1", "clock", "{}"}, {"2", "find_tool", `{"query": "x"}`}})),
			`{"role":"assistant","content":"","reasoning_content":"t","tool_calls":[` +
				`{"id":"1","type":"function","function":{"name":"clock","arguments":"{}"}},` +
				`{"id":"2","type":"function","function":{"name":"find_tool","arguments":"{\"query\": \"x\"}"}}]}`,
		},
		{"not UTF-8", string(UserMessage("a\xff\xfeb")), `{"role":"user","content":"a` + "\ufffd\ufffd" + `b"}`},
	} {
		if tt.got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestCase_P09_MessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAssistant(t)
		got, err := ParseAssistant(AssistantMessage(a.Content, a.Reasoning, a.Calls))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, got); d != "" {
			t.Fatal(d)
		}
		text, id := rapid.String().Draw(t, "text"), rapid.String().Draw(t, "id")
		if got, err := ParseUser(UserMessage(text)); err != nil || got != text {
			t.Fatalf("user %q: %q, %v", text, got, err)
		}
		if gotID, got, err := ParseTool(ToolMessage(id, text)); err != nil || got != text || gotID != id {
			t.Fatalf("tool %q: %q, %v", text, got, err)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, raw string }{
		{"other role", `{"role":"system","content":""}`},
		{"no content", `{"role":"assistant"}`},
		{"null content", `{"role":"assistant","content":null}`},
		{"other order", `{"content":"","role":"assistant"}`},
		{"white space", `{"role":"assistant", "content":""}`},
		{"unknown member", `{"role":"assistant","content":"","x":1}`},
		{"member of another role", `{"role":"assistant","content":"","tool_call_id":"1"}`},
		{"empty reasoning", `{"role":"assistant","content":"","reasoning_content":""}`},
		{"empty calls", `{"role":"assistant","content":"","tool_calls":[]}`},
		{"other call type", `{"role":"assistant","content":"","tool_calls":[{"id":"","type":"x","function":{"name":"","arguments":""}}]}`},
		{"two values", `{"role":"assistant","content":""}{}`},
		{"other escape", `{"role":"assistant","content":"\u0041"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a, err := ParseAssistant([]byte(tt.raw)); err == nil {
				t.Errorf("accepted as %+v", a)
			}
			if s, err := ParseUser([]byte(tt.raw)); err == nil {
				t.Errorf("accepted as user %q", s)
			}
			if _, s, err := ParseTool([]byte(tt.raw)); err == nil {
				t.Errorf("accepted as tool %q", s)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(UserMessage("hello")))
	f.Add([]byte(ToolMessage("id", "text")))
	f.Add([]byte(AssistantMessage("a", "b", []Call{{"1", "clock", "{}"}})))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := ParseUser(raw); err == nil && string(UserMessage(s)) != string(raw) {
			t.Errorf("user %q", raw)
		}
		if id, s, err := ParseTool(raw); err == nil && string(ToolMessage(id, s)) != string(raw) {
			t.Errorf("tool %q", raw)
		}
		a, err := ParseAssistant(raw)
		if err == nil && string(AssistantMessage(a.Content, a.Reasoning, a.Calls)) != string(raw) {
			t.Errorf("assistant %q", raw)
		}
		// Whatever parses, or is made of any bytes at all, is a good message.
		p, err := New(baseline(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Append(UserMessage(string(raw))); err != nil {
			t.Errorf("user text %q: %v", raw, err)
		}
		if !json.Valid(p.Body()) || !utf8.Valid(p.Body()) {
			t.Errorf("user text %q gives %q", raw, p.Body())
		}
	})
}

func TestSamplingRefuses(t *testing.T) {
	good := Params{Temperature: "0.6", TopP: "0.95", TopK: 20, MaxTokens: 1, ThinkingCap: -1, OneCall: true}
	s, err := Sampling(good)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"cache_prompt":true,` +
		`"temperature":0.6,"top_p":0.95,"top_k":20,"max_tokens":1,"reasoning_budget_tokens":-1,"parallel_tool_calls":false}`
	if string(s) != want {
		t.Errorf("sampling %s", s)
	}
	for name, breakIt := range map[string]func(*Params){
		"comma":          func(p *Params) { p.Temperature = "0,6" },
		"no temperature": func(p *Params) { p.Temperature = "" },
		"leading zero":   func(p *Params) { p.TopP = "00.9" },
		"exponent":       func(p *Params) { p.TopP = "1e1" },
		"injection":      func(p *Params) { p.TopP = `1,"n":2` },
		"newline":        func(p *Params) { p.TopP = "1\n" },
		"top_k":          func(p *Params) { p.TopK = -1 },
		"max_tokens":     func(p *Params) { p.MaxTokens = 0 },
		"thinking cap":   func(p *Params) { p.ThinkingCap = -2 },
	} {
		p := good
		breakIt(&p)
		if s, err := Sampling(p); err == nil {
			t.Errorf("%s: accepted: %s", name, s)
		}
	}
}
