// Package brain decides what the practice model says. It is a table of rules,
// not a language model: it matches the newest message of the owner against
// patterns, makes real tool calls, reads their results, and explains Boxmaker.
//
// It guarantees that the same conversation always gets the same reply, that it
// calls only tools that the request declares (unless asked by name), that it
// does not try a refused call again, and that its first answer in a
// conversation says what it is. The exception is "answer with …", which gives
// back the owner's own words and nothing else.
package brain

import (
	"strings"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/gen"
	"boxmaker/practice/internal/template"
)

// Intro is what the first answer of a conversation begins with.
const Intro = "*I am Boxmaker's **practice model**: a small program with fixed rules, not a language model. " +
	"My tool calls are real; my understanding is not. Ask `help` for what I can do.*"

// mark is how an earlier introduction is recognised.
const mark = "**practice model**"

// A Brain is the compiled table. It never changes.
type Brain struct{ rules []rule }

// New compiles the table.
func New() *Brain { return &Brain{rules: rules()} }

// Reply gives the next assistant message of a conversation.
func (b *Brain) Reply(req *chat.Request) gen.Reply {
	t := newTurn(req)
	row, m := b.find(t.text)
	r := row.act(t, m)
	if r.Reasoning == "" {
		r.Reasoning = "Rule `" + row.name + "` fits this message. I can answer it without a tool."
	}
	r = obey(t, r)
	if !t.named && !row.exact && len(r.Calls) == 0 && r.Content != "" {
		r.Content = Intro + "\n\n" + r.Content
	}
	return r
}

// obey makes a reply fit tool_choice.
func obey(t *turn, r gen.Reply) gen.Reply {
	switch {
	case t.req.Choice == chat.None && len(r.Calls) > 0:
		r.Content = "I would call `" + r.Calls[0].Name + "` now, but this request does not allow tool calls."
		r.Calls = nil
	case t.req.Choice == chat.Required && len(r.Calls) == 0 && len(t.req.Tools) > 0:
		r.Reasoning += " A tool call is required here."
		r.Content, r.Calls = "", []gen.Use{t.forced()}
	}
	return r
}

// forced is the call that is made when one must be made: clock if there is one,
// for it changes nothing.
func (t *turn) forced() gen.Use {
	tool := t.req.Tools[0]
	if c, ok := t.tool("clock"); ok {
		tool = c
	}
	f := found{name: tool.Name}
	f.readSchema(tool.Parameters)
	return gen.Use{Name: tool.Name, Arguments: f.arguments(nil, "practice")}
}

// A turn is what matters of a conversation: the newest message of the owner and
// what was called since.
type turn struct {
	req   *chat.Request
	text  string
	steps []step
	named bool     // an earlier answer has said what this is
	asked []string // all messages of the owner, the newest last
}

// A step is one tool call of this turn and its result.
type step struct {
	use    template.ToolUse
	result string
	done   bool
}

func newTurn(req *chat.Request) *turn {
	t := &turn{req: req}
	for _, m := range req.Messages {
		switch m.Role {
		case "user":
			t.text, t.steps = withoutFault(strings.TrimSpace(m.Content)), nil
			t.asked = append(t.asked, t.text)
		case "assistant":
			t.named = t.named || strings.Contains(m.Content, mark)
			for _, c := range m.Calls {
				t.steps = append(t.steps, step{use: c})
			}
		case "tool":
			t.answered(m.Content)
		}
	}
	return t
}

// withoutFault takes off a first line that orders a fault: what is to go wrong
// is not what is asked.
func withoutFault(text string) string {
	line, rest, ok := strings.Cut(text, "\n")
	if ok && strings.HasPrefix(line, "!fault ") && strings.TrimSpace(rest) != "" {
		return strings.TrimSpace(rest)
	}
	return text
}

// answered gives a result to the oldest call that has none.
func (t *turn) answered(result string) {
	for i := range t.steps {
		if !t.steps[i].done {
			t.steps[i].result, t.steps[i].done = result, true
			return
		}
	}
}

func (t *turn) tool(name string) (chat.Tool, bool) {
	for _, tool := range t.req.Tools {
		if tool.Name == name {
			return tool, true
		}
	}
	return chat.Tool{}, false
}

// made are the steps of this turn that called a tool of this name.
func (t *turn) made(name string) []step {
	var out []step
	for _, s := range t.steps {
		if s.use.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// refused finds the last step whose result is a refusal.
func (t *turn) refused() (refusal, bool) {
	for i := len(t.steps) - 1; i >= 0; i-- {
		if r, ok := readRefusal(t.steps[i].result); ok {
			return r, true
		}
	}
	return refusal{}, false
}
