// Package gen turns a reply into the tokens that a model would have generated
// for it, each with what a client sees of it.
//
// It guarantees that the text of all tokens is the reply in the template's own
// form (see package template), so that the next request renders it back to the
// same tokens, and that the tokens of a part are the part's own: a cut anywhere
// leaves a true prefix.
package gen

import (
	"fmt"
	"strings"

	"boxmaker/practice/internal/template"
	"boxmaker/practice/internal/tokenizer"
)

// A Reply is what the brain wants to say.
type Reply struct {
	Reasoning string
	Content   string
	Calls     []Use
}

// A Use is one tool call. Arguments is JSON text as the client gets it; it need
// not be valid (a failure switch breaks it), and then it stands in the
// generated text as it is.
type Use struct {
	Name      string
	Arguments string
}

// A Delta is what one token adds to the message, at most one of the three.
type Delta struct {
	Reasoning string
	Content   string
	Call      *CallDelta
}

// A CallDelta is a piece of a tool call. The first of a call has its Name.
type CallDelta struct {
	Index     int
	Name      string
	Arguments string
}

// A Step is one generated token.
type Step struct {
	Token tokenizer.Token
	Delta *Delta // nil: nothing to see
	Think bool   // part of the reasoning, where it can still be ended
}

// Options say how the prompt was made and what is allowed.
type Options struct {
	Thinking bool
	Budget   int    // tokens of reasoning, -1: no limit
	Message  string // what ends a reasoning that was cut by the budget
}

// Steps makes the tokens of a reply, the end-of-turn token last.
func Steps(z *tokenizer.Tokenizer, r Reply, o Options) []Step {
	g := &generator{z: z}
	if o.Thinking {
		g.think(r.Reasoning, o)
	}
	g.answer(r)
	return g.steps
}

// CanEnd reports whether the reasoning can be ended after the steps taken, the
// next step being next: inside the thought, and not at a blank, which the
// template would not render back.
func CanEnd(z *tokenizer.Tokenizer, taken []Step, next Step) bool {
	if !next.Think {
		return false
	}
	if len(taken) == 0 {
		return true
	}
	last := z.Piece(taken[len(taken)-1].Token)
	return template.Content(last) != "" && !strings.ContainsAny(last[len(last)-1:], " \t\r\n\v\f")
}

// EndReasoning is the rest of a reply whose reasoning is ended now, where
// [CanEnd] says that it can be.
func EndReasoning(z *tokenizer.Tokenizer, taken []Step, r Reply) []Step {
	g := &generator{z: z}
	if len(taken) > 0 {
		g.visible("\n", reasoning, false)
	} else {
		g.hidden("\n")
	}
	g.hidden(template.ThinkEnd + "\n\n")
	g.answer(r)
	return g.steps
}

type generator struct {
	z     *tokenizer.Tokenizer
	steps []Step
}

func reasoning(piece string) *Delta { return &Delta{Reasoning: piece} }
func content(piece string) *Delta   { return &Delta{Content: piece} }

func (g *generator) think(text string, o Options) {
	text = template.Content(text)
	if tokens := g.z.Encode(text); o.Budget >= 0 && len(tokens) > o.Budget {
		text = template.Content(g.z.Decode(tokens[:o.Budget]) + o.Message)
	}
	if text == "" {
		g.hidden(template.Reasoning(""))
		return
	}
	g.visible(text+"\n", reasoning, true)
	g.hidden(template.ThinkEnd + "\n\n")
}

func (g *generator) answer(r Reply) {
	text := template.Content(r.Content)
	g.visible(text, content, false)
	for i, c := range r.Calls {
		if i > 0 || text != "" {
			g.hidden("\n")
		}
		g.call(i, c)
	}
	g.hidden(template.End)
}

func (g *generator) visible(text string, delta func(string) *Delta, think bool) {
	for _, t := range g.z.Encode(text) {
		g.steps = append(g.steps, Step{Token: t, Delta: delta(g.z.Piece(t)), Think: think})
	}
}

func (g *generator) hidden(text string) {
	for _, t := range g.z.Encode(text) {
		g.steps = append(g.steps, Step{Token: t})
	}
}

// call spreads the JSON text of the arguments over the tokens of the call as
// the template writes it.
func (g *generator) call(index int, c Use) {
	text, err := template.Call(template.ToolUse{Name: c.Name, Arguments: []byte(c.Arguments)})
	if err != nil {
		text = fmt.Sprintf("%s\n<function=%s>\n%s\n</function>\n%s", template.ToolCall, c.Name, c.Arguments, template.ToolCallEnd)
	}
	tokens := g.z.Encode(text)
	pieces := fragments(g.z, c.Arguments)
	done := 0
	for i, t := range tokens {
		due := len(pieces) * (i + 1) / len(tokens)
		s := Step{Token: t}
		if due > done {
			s.Delta = &Delta{Call: &CallDelta{Index: index, Arguments: strings.Join(pieces[done:due], "")}}
			if done == 0 {
				s.Delta.Call.Name = c.Name
			}
			done = due
		}
		g.steps = append(g.steps, s)
	}
}

func fragments(z *tokenizer.Tokenizer, args string) []string {
	var out []string
	head, rest := args, ""
	if strings.HasPrefix(args, "{") {
		head, rest = args[:1], args[1:] // as in sample tools_auto_fragments
	}
	out = append(out, head)
	for _, t := range z.EncodePlain(rest) {
		out = append(out, z.Piece(t))
	}
	return out
}
