package template

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const readFile = `{"type":"function","function":{"name":"read_file","description":"Read a file","parameters":{"type":"object","properties":{"path":{"type":"string","maxLength":12},"limit":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}}}`

func TestRender(t *testing.T) {
	tests := []struct {
		name string
		in   Input
		want string
	}{
		{
			name: "sample POST_apply_template",
			in:   Input{Thinking: true, Messages: []Message{{Role: "system", Content: "Test agent."}, {Role: "user", Content: "Hi"}}},
			want: "<|im_start|>system\nTest agent.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n",
		},
		{
			name: "sample POST_apply_template_nothink",
			in:   Input{Messages: []Message{{Role: "system", Content: "Test agent."}, {Role: "user", Content: "Hi"}}},
			want: "<|im_start|>system\nTest agent.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
		},
		{
			name: "sample apply_template_tools",
			in:   Input{Thinking: true, Tools: []jsontext.Value{jsontext.Value(readFile)}, Messages: []Message{{Role: "system", Content: "Test agent."}, {Role: "user", Content: "Hi"}}},
			want: "<|im_start|>system\n# Tools\n\nYou may call these functions:\n<tools>\n" +
				`{"type": "function", "function": {"name": "read_file", "description": "Read a file", "parameters": {"type": "object", "properties": {"path": {"type": "string", "maxLength": 12}, "limit": {"type": "integer", "minimum": 1}}, "required": ["path"], "additionalProperties": false}}}` +
				"\n</tools>\n\nCall them like this:\n<tool_call>\n<function=example>\n<parameter=first>\nvalue\n</parameter>\n</function>\n</tool_call>\n\nTest agent.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n",
		},
		{
			name: "tools without a system message",
			in:   Input{Tools: []jsontext.Value{jsontext.Value(`{}`)}, Messages: []Message{{Role: "user", Content: "Hi"}}},
			want: "<|im_start|>system\n# Tools\n\nYou may call these functions:\n<tools>\n{}\n</tools>\n\nCall them like this:\n<tool_call>\n<function=example>\n<parameter=first>\nvalue\n</parameter>\n</function>\n</tool_call><|im_end|>\n<|im_start|>user\nHi<|im_end|>\n" + noThinking,
		},
		{name: "no messages", in: Input{Thinking: true}, want: withThinking},
		{
			name: "tool results share a turn",
			in: Input{Thinking: true, Messages: []Message{
				{Role: "user", Content: "x"},
				{Role: "assistant", Reasoning: "two\n", Content: "Both.\n", Calls: []ToolUse{{"a", jsontext.Value(`{"p":"q\nr","n":[1,{"k":null}]}`)}, {"b", jsontext.Value(`{}`)}}},
				{Role: "tool", Content: "one"},
				{Role: "tool", Content: "two"},
			}},
			want: "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\ntwo\n</think>\n\nBoth.\n<tool_call>\n<function=a>\n<parameter=p>\nq\nr\n</parameter>\n<parameter=n>\n[1, {\"k\": null}]\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=b>\n</function>\n</tool_call><|im_end|>\n" +
				"<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n" + withThinking,
		},
		{
			name: "an assistant message at the end is continued",
			in:   Input{Thinking: true, Messages: []Message{{Role: "user", Content: "x"}, {Role: "assistant", Content: "So the"}}},
			want: "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nSo the",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Render(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got\n%q\nwant\n%q", got, tc.want)
			}
		})
	}
}

// A reply in the template's form, behind its prompt, is what the next request
// renders.
func TestReplyRendersBack(t *testing.T) {
	use := ToolUse{"call_tool", jsontext.Value(`{"name":"x","arguments":{"a":1,"b":"c d"}}`)}
	for _, thinking := range []bool{true, false} {
		for _, content := range []string{"", "Some text.", "  padded\n\n"} {
			in := Input{Thinking: thinking, Messages: []Message{{Role: "user", Content: "go"}}}
			prompt, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			m := Message{Role: "assistant", Content: content, Calls: []ToolUse{use}}
			reply := ""
			if thinking {
				m.Reasoning = "  a thought\n"
				reply = Reasoning(m.Reasoning)
			}
			reply += Content(content)
			if Content(content) != "" {
				reply += "\n"
			}
			call, err := Call(use)
			if err != nil {
				t.Fatal(err)
			}
			in.Messages = append(in.Messages, m, Message{Role: "user", Content: "on"})
			next, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(next, prompt+reply+call+End+"\n") {
				t.Errorf("thinking %v, content %q: the next prompt\n%q\ndoes not extend\n%q", thinking, content, next, prompt+reply+call)
			}
		}
	}
}

func TestRenderErrors(t *testing.T) {
	_, err := Render(Input{Messages: []Message{{Role: "robot", Content: "x"}}})
	var e *Exception
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an exception", err)
	}
	if !strings.HasPrefix(e.Error(), "\n------------\nWhile executing CallExpression at line ") || !strings.HasSuffix(e.Error(), "^\nError: Jinja Exception: Unexpected message role.") {
		t.Errorf("got %q", e.Error())
	}
	lines := strings.Split(e.Error(), "\n")
	excerpt, caret := []rune(lines[3]), len(lines[4])-1
	if excerpt[caret] != '(' {
		t.Errorf("the caret points at %q of %q", excerpt[caret], lines[3])
	}
	_, err = Render(Input{Messages: []Message{{Role: "user", Content: "x"}, {Role: "system", Content: "y"}}})
	if !errors.As(err, &e) || e.Reason != "System message must be at the beginning." {
		t.Errorf("got %v", err)
	}
	arguments := func(args string) error {
		_, err := Render(Input{Messages: []Message{{Role: "user"}, {Role: "assistant", Calls: []ToolUse{{"f", jsontext.Value(args)}}}, {Role: "tool"}}})
		return err
	}
	for _, args := range []string{"", `{"a"`, `{} {}`} {
		if err := arguments(args); !errors.Is(err, ErrArguments) {
			t.Errorf("arguments %q: got %v", args, err)
		}
	}
	for args, kind := range map[string]string{"5": "Integer", `[1]`: "Array", `"x"`: "String"} {
		// the whole text, as seen from the real server with this template
		want := "\n------------\nWhile executing FilterExpression at line 30, column 48 in source:\n... name, value in call.function.arguments | items %}↵{{- '<parameter=' + name + '>...\n" +
			"                                           ^\nError: Unknown (built-in) filter 'items' for type " + kind
		if err := arguments(args); err == nil || err.Error() != want {
			t.Errorf("arguments %s: got %v", args, err)
		}
	}
	if err := arguments("null"); err != nil {
		t.Error(err)
	}
}
