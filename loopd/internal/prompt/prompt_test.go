package prompt

import (
	"encoding/json"
	"strings"
	"testing"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func baseline(t interface{ Fatal(...any) }) *proto.Baseline {
	s, err := Sampling(Params{Temperature: "0.6", TopP: "0.95", TopK: 20, MaxTokens: 8192, ThinkingCap: 4096, ThinkingMessage: "\nEnough.\n"})
	if err != nil {
		t.Fatal(err)
	}
	return &proto.Baseline{
		Model: "m", Slot: 2, Sampling: s, Tools: jsontext.Value(`[{"type":"function","function":{"name":"clock"}}]`),
		System: SystemMessage("You are a test."),
	}
}

func TestBodyOfANewEpoch(t *testing.T) {
	b := baseline(t)
	b.Carry = []jsontext.Value{UserMessage("kept")}
	p, err := New(b)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","id_slot":2,"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"cache_prompt":true,` +
		`"temperature":0.6,"top_p":0.95,"top_k":20,"max_tokens":8192,"reasoning_budget_tokens":4096,"reasoning_budget_message":"\nEnough.\n",` +
		`"tools":[{"type":"function","function":{"name":"clock"}}],` +
		`"messages":[{"role":"system","content":"You are a test."},{"role":"user","content":"kept"}]}`
	if got := string(p.Body()); got != want {
		t.Errorf("body\n%s\nwant\n%s", got, want)
	}
	if p.Size() != len(want) || p.Messages() != 2 {
		t.Errorf("size %d, messages %d", p.Size(), p.Messages())
	}
}

func TestBodyIsACopy(t *testing.T) {
	p, err := New(baseline(t))
	if err != nil {
		t.Fatal(err)
	}
	first := p.Body()
	want := string(first)
	clear(first)
	p.Grow(1 << 16)
	if got := string(p.Body()); got != want {
		t.Errorf("the prompt changed with a caller's buffer: %.80q", got)
	}
}

func TestGrowAllocatesOnce(t *testing.T) {
	p, err := New(baseline(t))
	if err != nil {
		t.Fatal(err)
	}
	msg := UserMessage(strings.Repeat("x", 1000))
	p.Grow(1000 * len(msg))
	c := cap(p.buf)
	for range 900 {
		if err := p.Append(msg); err != nil {
			t.Fatal(err)
		}
	}
	if cap(p.buf) != c {
		t.Errorf("capacity went from %d to %d", c, cap(p.buf))
	}
}

func TestNewRefuses(t *testing.T) {
	for name, breakIt := range map[string]func(*proto.Baseline){
		"sampling repeats messages": func(b *proto.Baseline) { b.Sampling = jsontext.Value(`{"messages":[]}`) },
		"sampling repeats tools":    func(b *proto.Baseline) { b.Sampling = jsontext.Value(`{"tools":[]}`) },
		"sampling repeats model":    func(b *proto.Baseline) { b.Sampling = jsontext.Value(`{"model":"x"}`) },
		"sampling with a space":     func(b *proto.Baseline) { b.Sampling = jsontext.Value(`{"a": 1}`) },
		"sampling cut":              func(b *proto.Baseline) { b.Sampling = jsontext.Value(`{"a":1`) },
		"tools close early":         func(b *proto.Baseline) { b.Tools = jsontext.Value(`[],"x":[]`) },
		"tools not an array":        func(b *proto.Baseline) { b.Tools = jsontext.Value(`{}`) },
		"tools with a space":        func(b *proto.Baseline) { b.Tools = jsontext.Value(`[ ]`) },
		"no system":                 func(b *proto.Baseline) { b.System = nil },
		"system with a space":       func(b *proto.Baseline) { b.System = jsontext.Value(`{"a": 1}`) },
		"carry not an object":       func(b *proto.Baseline) { b.Carry = []jsontext.Value{jsontext.Value(`[]`)} },
		"negative slot":             func(b *proto.Baseline) { b.Slot = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			b := baseline(t)
			breakIt(b)
			if p, err := New(b); err == nil {
				t.Errorf("accepted: %s", p.Body())
			}
		})
	}
}

func TestEmptySamplingIsAllowed(t *testing.T) {
	b := baseline(t)
	b.Sampling = jsontext.Value(`{}`)
	p, err := New(b)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(p.Body()) {
		t.Errorf("not JSON: %s", p.Body())
	}
}

func TestAppendRefuses(t *testing.T) {
	p, err := New(baseline(t))
	if err != nil {
		t.Fatal(err)
	}
	before := string(p.Body())
	for _, bad := range []string{
		``, `{`, `[]`, `{}]`, `{},{}`, `{"a":1,"a":2}`, `null`, ` {}`, "{}\n", `{"a": 1}`, `{"a":"\u0041"}`, `{"a":"\/"}`,
		"{\"a\":\"\xff\"}", `{"a":[1, 2]}`, `{"a":01}`, `{"a":"\ud800"}`,
	} {
		if err := p.Append([]byte(bad)); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
	if got := string(p.Body()); got != before {
		t.Errorf("a refused message changed the prompt: %s", got)
	}
}

func TestExtendsAndFirstDiff(t *testing.T) {
	for _, tt := range []struct {
		name, prev, next string
		extends          bool
		at               int
	}{
		{"one more message", `{"messages":[{"a":1}]}`, `{"messages":[{"a":1},{}]}`, true, -1},
		{"the first message", `{"messages":[]}`, `{"messages":[{}]}`, true, -1},
		{"the same", `{"messages":[{}]}`, `{"messages":[{}]}`, false, -1},
		{"shorter", `{"messages":[{},{}]}`, `{"messages":[{}]}`, false, 15},
		{"changed in front", `{"x":1,"messages":[]}`, `{"x":2,"messages":[{}]}`, false, 5},
		{"no tail", `{"messages":[`, `{"messages":[{}]}`, false, -1},
		{"empty", ``, ``, false, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Extends([]byte(tt.prev), []byte(tt.next)); got != tt.extends {
				t.Errorf("Extends = %v", got)
			}
			at, context := FirstDiff([]byte(tt.prev), []byte(tt.next))
			if at != tt.at || (context == "") != (at < 0) {
				t.Errorf("FirstDiff = %d %q, want %d", at, context, tt.at)
			}
		})
	}
}

// A failed cache test is of use only if it names the byte and shows both sides.
func TestCase_P01_FirstDiffShowsBothSides(t *testing.T) {
	prev := []byte(`{"system":"It is 10:04:59 on Monday","messages":[{}]}`)
	next := []byte(`{"system":"It is 10:05:00 on Monday","messages":[{},{}]}`)
	at, context := FirstDiff(prev, next)
	if at != strings.Index(string(prev), "4:59") || !strings.Contains(context, "10:04:59") || !strings.Contains(context, "10:05:00") {
		t.Errorf("FirstDiff = %d %s", at, context)
	}
}

func TestCase_P01_P11_OnlyGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := baseline(t)
		b.Model = rapid.String().Draw(t, "model")
		b.System = SystemMessage(rapid.String().Draw(t, "system"))
		for range rapid.IntRange(0, 3).Draw(t, "carry") {
			b.Carry = append(b.Carry, drawMessage(t))
		}
		p, err := New(b)
		if err != nil {
			t.Fatal(err)
		}
		prev := p.Body()
		for range rapid.IntRange(1, 12).Draw(t, "messages") {
			if err := p.Append(drawMessage(t)); err != nil {
				t.Fatal(err)
			}
			next := p.Body()
			if !Extends(prev, next) {
				_, context := FirstDiff(prev, next)
				t.Fatal(context)
			}
			if !json.Valid(next) {
				t.Fatalf("not JSON: %q", next)
			}
			if p.Size() != len(next) {
				t.Fatalf("size %d of %d", p.Size(), len(next))
			}
			prev = next
		}
	})
}

// The time, a changed config or a new note cannot reach the front: a prompt
// made again from the same baseline and messages has the same bytes.
func TestCase_P03_P05_ReplayGivesTheSameBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := baseline(t)
		p1, err1 := New(b)
		p2, err2 := New(b)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		p2.Grow(rapid.IntRange(0, 1000).Draw(t, "grow"))
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			m := drawMessage(t)
			if err := p1.Append(m); err != nil {
				t.Fatal(err)
			}
			if err := p2.Append(append([]byte{}, m...)); err != nil {
				t.Fatal(err)
			}
		}
		if at, context := FirstDiff(p1.Body(), p2.Body()); at >= 0 || p1.Size() != p2.Size() {
			t.Fatal(context)
		}
	})
}

func drawMessage(t *rapid.T) jsontext.Value {
	text := rapid.String()
	switch rapid.SampledFrom([]string{"user", "tool", "assistant"}).Draw(t, "role") {
	case "user":
		return UserMessage(text.Draw(t, "text"))
	case "tool":
		return ToolMessage(text.Draw(t, "id"), text.Draw(t, "text"))
	default:
		a := drawAssistant(t)
		return AssistantMessage(a.Content, a.Reasoning, a.Calls)
	}
}

func drawAssistant(t *rapid.T) Assistant {
	text := rapid.String()
	a := Assistant{Content: text.Draw(t, "content"), Reasoning: text.Draw(t, "reasoning")}
	for range rapid.IntRange(0, 3).Draw(t, "calls") {
		a.Calls = append(a.Calls, Call{ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Arguments: text.Draw(t, "arguments")})
	}
	return a
}

func BenchmarkAppend(b *testing.B) {
	msg := ToolMessage("1Ni2NCXD6EXlyMjlIUmgJ0J8i8jVuME8", strings.Repeat("A line of \"text\" that a tool wrote, näher.\n", 110))
	p, err := New(baseline(b))
	if err != nil {
		b.Fatal(err)
	}
	n := len(p.buf)
	b.SetBytes(int64(len(msg)))
	for b.Loop() {
		p.buf = p.buf[:n]
		if err := p.Append(msg); err != nil {
			b.Fatal(err)
		}
	}
}
