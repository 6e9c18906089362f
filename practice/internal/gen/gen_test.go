package gen

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"boxmaker/practice/internal/template"
	"boxmaker/practice/internal/tokenizer"
)

// message is what a client puts together from the deltas.
func message(steps []Step) template.Message {
	m := template.Message{Role: "assistant"}
	for _, s := range steps {
		if s.Delta == nil {
			continue
		}
		m.Reasoning += s.Delta.Reasoning
		m.Content += s.Delta.Content
		if c := s.Delta.Call; c != nil {
			if c.Name != "" {
				m.Calls = append(m.Calls, template.ToolUse{Name: c.Name})
			}
			u := &m.Calls[c.Index]
			u.Arguments = append(u.Arguments, c.Arguments...)
		}
	}
	return m
}

func said(z *tokenizer.Tokenizer, steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(z.Piece(s.Token))
	}
	return b.String()
}

func TestSteps(t *testing.T) {
	z := tokenizer.New(template.Specials())
	call := Use{"read_file", `{"path":"notes.txt","limit":7}`}
	xml := "<tool_call>\n<function=read_file>\n<parameter=path>\nnotes.txt\n</parameter>\n<parameter=limit>\n7\n</parameter>\n</function>\n</tool_call>"
	tests := []struct {
		name   string
		reply  Reply
		o      Options
		said   string
		reason string
	}{
		{"thought and answer", Reply{Reasoning: "All done.", Content: "Hello."}, Options{true, -1, ""}, "All done.\n</think>\n\nHello.<|im_end|>", "All done.\n"},
		{"thinking off", Reply{Reasoning: "All done.", Content: "Hello."}, Options{false, -1, ""}, "Hello.<|im_end|>", ""},
		{"no thought", Reply{Content: "Hello."}, Options{true, -1, ""}, "\n</think>\n\nHello.<|im_end|>", ""},
		{"call", Reply{Reasoning: "Read.", Calls: []Use{call}}, Options{true, -1, ""}, "Read.\n</think>\n\n" + xml + "<|im_end|>", "Read.\n"},
		{"text and two calls", Reply{Content: "Look.", Calls: []Use{call, call}}, Options{false, -1, ""}, "Look.\n" + xml + "\n" + xml + "<|im_end|>", ""},
		{"budget", Reply{Reasoning: "one two three four", Content: "x"}, Options{true, 2, ""}, "one two\n</think>\n\nx<|im_end|>", "one two\n"},
		{"budget with a message", Reply{Reasoning: "one two three four", Content: "x"}, Options{true, 2, "\nEnough.\n"}, "one two\nEnough.\n</think>\n\nx<|im_end|>", "one two\nEnough.\n"},
		{"budget of nothing", Reply{Reasoning: "one", Content: "x"}, Options{true, 0, ""}, "\n</think>\n\nx<|im_end|>", ""},
		{"budget not reached", Reply{Reasoning: "one", Content: "x"}, Options{true, 5, "\nEnough.\n"}, "one\n</think>\n\nx<|im_end|>", "one\n"},
		{"broken arguments", Reply{Calls: []Use{{"f", `{"a": `}}}, Options{false, -1, ""}, "<tool_call>\n<function=f>\n{\"a\": \n</function>\n</tool_call><|im_end|>", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			steps := Steps(z, tc.reply, tc.o)
			if got := said(z, steps); got != tc.said {
				t.Errorf("said %q, want %q", got, tc.said)
			}
			m := message(steps)
			if m.Reasoning != tc.reason || m.Content != tc.reply.Content || len(m.Calls) != len(tc.reply.Calls) {
				t.Errorf("message %+v", m)
			}
			for i, c := range m.Calls {
				if string(c.Arguments) != tc.reply.Calls[i].Arguments || c.Name != tc.reply.Calls[i].Name {
					t.Errorf("call %d is %s %s", i, c.Name, c.Arguments)
				}
			}
		})
	}
}

func words() *rapid.Generator[string] {
	return rapid.StringMatching(`( ?[a-z.,é<|"{}]{1,9}|\n|  ){0,12}`)
}

// Whatever the brain says, the next prompt begins with the tokens of this
// prompt and of everything that was generated.
func TestRendersBackToTheSameTokens(t *testing.T) {
	z := tokenizer.New(template.Specials())
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Thinking: rapid.Bool().Draw(t, "thinking"), Budget: rapid.IntRange(-1, 6).Draw(t, "budget"), Message: rapid.SampledFrom([]string{"", "\nEnough.\n", "stop"}).Draw(t, "message")}
		r := Reply{Reasoning: words().Draw(t, "reasoning"), Content: words().Draw(t, "content")}
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			v, _ := jsontext.AppendQuote(nil, words().Draw(t, "value"))
			r.Calls = append(r.Calls, Use{"call_tool", `{"name":"x","arguments":{"text":` + string(v) + `},"plain":` + string(v) + `}`})
		}
		in := template.Input{Thinking: o.Thinking, Messages: []template.Message{{Role: "user", Content: "go"}}}
		prompt, err := template.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		steps := Steps(z, r, o)
		if cut := rapid.IntRange(0, 40).Draw(t, "end the thought after"); cut < len(steps) && CanEnd(z, steps[:cut], steps[cut]) {
			steps = append(steps[:cut:cut], EndReasoning(z, steps[:cut], r)...)
		}
		in.Messages = append(in.Messages, message(steps), template.Message{Role: "user", Content: "on"})
		next, err := template.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		tokens := z.Encode(prompt)
		for _, s := range steps {
			tokens = append(tokens, s.Token)
		}
		for i, n := range z.Encode(next) {
			if i == len(tokens) {
				return
			}
			if n != tokens[i] {
				t.Fatalf("token %d is %q, was %q\nnext prompt %q\ngenerated %q", i, z.Piece(n), z.Piece(tokens[i]), next, said(z, steps))
			}
		}
		t.Fatal("the next prompt is shorter")
	})
}
