// Package template renders a conversation with the practice model's one chat
// template, and writes a reply in the same form.
//
// It guarantees that a reply made of [Reasoning], [Call] and plain content, put
// behind the prompt that it answered, is what [Render] gives for the same
// messages one turn later, byte for byte. It is no Jinja engine: [Source] is
// for show, Render is the same thing in Go.
package template

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The control tokens of the template.
const (
	Start        = "<|im_start|>"
	End          = "<|im_end|>"
	EndOfText    = "<|endoftext|>"
	Think        = "<think>"
	ThinkEnd     = "</think>"
	ToolCall     = "<tool_call>"
	ToolCallEnd  = "</tool_call>"
	Response     = "<tool_response>"
	ResponseEnd  = "</tool_response>"
	blank        = " \t\r\n\v\f" // what the template trims
	noThinking   = Start + "assistant\n" + Think + "\n\n" + ThinkEnd + "\n\n"
	withThinking = Start + "assistant\n" + Think + "\n"
)

// Specials are the control tokens, each one token of the vocabulary.
func Specials() []string {
	return []string{Start, End, EndOfText, Think, ThinkEnd, ToolCall, ToolCallEnd, Response, ResponseEnd}
}

// ErrArguments reports a tool call whose arguments are no JSON at all.
var ErrArguments = errors.New("template: arguments are not valid JSON")

// A ToolUse is one call of an assistant message. Arguments is a JSON object;
// null counts as an empty one.
type ToolUse struct {
	Name      string
	Arguments jsontext.Value
}

// A Message is one message of a conversation, its content already one text.
type Message struct {
	Role      string
	Content   string
	Reasoning string
	Calls     []ToolUse
}

// An Input is what the template is given.
type Input struct {
	Messages     []Message
	Tools        []jsontext.Value // as they stand in the request
	Thinking     bool             // enable_thinking
	NoGeneration bool             // add_generation_prompt is false
}

// Render gives the prompt. A conversation that ends with an assistant message
// is continued: its text is the end of the prompt. Errors: [*Exception],
// [ErrArguments].
func Render(in Input) (string, error) {
	var b strings.Builder
	first := ""
	if len(in.Messages) > 0 && in.Messages[0].Role == "system" {
		first = in.Messages[0].Content
	}
	switch {
	case len(in.Tools) > 0:
		b.WriteString(Start + "system\n# Tools\n\nYou may call these functions:\n<tools>")
		for _, t := range in.Tools {
			b.WriteString("\n")
			writeJSON(&b, t)
		}
		b.WriteString("\n</tools>\n\nCall them like this:\n" + ToolCall + "\n<function=example>\n<parameter=first>\nvalue\n</parameter>\n</function>\n" + ToolCallEnd)
		if len(in.Messages) > 0 && in.Messages[0].Role == "system" {
			b.WriteString("\n\n" + first)
		}
		b.WriteString(End + "\n")
	case len(in.Messages) > 0 && in.Messages[0].Role == "system":
		b.WriteString(Start + "system\n" + first + End + "\n")
	}
	for i := range in.Messages {
		if err := renderMessage(&b, in.Messages, i); err != nil {
			return "", err
		}
	}
	if in.NoGeneration {
		return b.String(), nil
	}
	if n := len(in.Messages); n > 0 && in.Messages[n-1].Role == "assistant" {
		return strings.TrimSuffix(b.String(), End+"\n"), nil
	}
	if in.Thinking {
		b.WriteString(withThinking)
	} else {
		b.WriteString(noThinking)
	}
	return b.String(), nil
}

func renderMessage(b *strings.Builder, ms []Message, i int) error {
	m := ms[i]
	switch m.Role {
	case "system":
		if i > 0 {
			return raise("System message must be at the beginning.")
		}
	case "user":
		b.WriteString(Start + "user\n" + m.Content + End + "\n")
	case "assistant":
		b.WriteString(withThinking)
		content := strings.Trim(m.Content, blank)
		if r := strings.Trim(m.Reasoning, blank); r != "" {
			b.WriteString(r)
		}
		b.WriteString("\n" + ThinkEnd + "\n\n" + content)
		for j, c := range m.Calls {
			if j > 0 || content != "" {
				b.WriteString("\n")
			}
			text, err := Call(c)
			if err != nil {
				return err
			}
			b.WriteString(text)
		}
		b.WriteString(End + "\n")
	case "tool":
		if i == 0 || ms[i-1].Role != "tool" {
			b.WriteString(Start + "user")
		}
		b.WriteString("\n" + Response + "\n" + m.Content + "\n" + ResponseEnd)
		if i == len(ms)-1 || ms[i+1].Role != "tool" {
			b.WriteString(End + "\n")
		}
	default:
		return raise("Unexpected message role.")
	}
	return nil
}

// Reasoning is the generated text of a thought: what stands between "<think>\n"
// of the prompt and the content. An empty thought gives the empty block that
// the template writes for it.
func Reasoning(text string) string {
	return strings.Trim(text, blank) + "\n" + ThinkEnd + "\n\n"
}

// Content is text as the template would write it.
func Content(text string) string { return strings.Trim(text, blank) }

// Call is one tool call as the model writes it.
func Call(c ToolUse) (string, error) {
	var b strings.Builder
	b.WriteString(ToolCall + "\n<function=" + c.Name + ">\n")
	switch k := c.Arguments.Kind(); {
	case !c.Arguments.IsValid(jsontext.AllowDuplicateNames(true)):
		return "", ErrArguments
	case k == 'n':
		c.Arguments = jsontext.Value("{}")
	case k != '{':
		return "", raiseItems(k)
	}
	err := eachMember(c.Arguments, func(name string, value jsontext.Value) {
		b.WriteString("<parameter=" + name + ">\n")
		if value.Kind() == '"' {
			text, _ := jsontext.AppendUnquote(nil, value)
			b.Write(text)
		} else {
			writeJSON(&b, value)
		}
		b.WriteString("\n</parameter>\n")
	})
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrArguments, err)
	}
	b.WriteString("</function>\n" + ToolCallEnd)
	return b.String(), nil
}
