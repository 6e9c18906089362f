package llama

import (
	"strings"
	"time"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxCalls = 32
	maxArgs  = 1 << 20 // bytes of all arguments of one completion
	maxName  = 256     // bytes of a call's name or id
	maxText  = 4 << 20 // bytes of content, and of reasoning
)

// assembler puts a completion together from its chunks.
type assembler struct {
	on     func(Event)
	sent   time.Time
	filter filter

	id, model          string
	content, reasoning strings.Builder
	calls              []*building
	args               int // bytes of all arguments so far
	finish             string
	first              time.Duration
	timings            Timings
	usage              Usage
	complete           bool
}

// building is a call whose arguments still come.
type building struct {
	id, name string
	args     []byte
}

// completion is what there is so far.
func (a *assembler) completion() Completion {
	c := Completion{
		ID: a.id, Model: a.model, Content: a.content.String(), Reasoning: a.reasoning.String(),
		Finish: a.finish, Complete: a.complete, Timings: a.timings, Usage: a.usage, First: a.first,
	}
	for _, b := range a.calls {
		c.Calls = append(c.Calls, Call{ID: b.id, Name: b.name, Arguments: string(b.args)})
	}
	return c
}

// take adds one chunk. After an error the rest of the stream is of no use.
func (a *assembler) take(c *chunk) *Error {
	if c.Error != nil {
		return classify(c.Error.status(), *c.Error)
	}
	if a.id == "" {
		a.id, a.model = c.ID, c.Model
	}
	if t := c.Timings; t != nil {
		a.timings = t.timings()
	}
	if u := c.Usage; u != nil {
		a.usage = Usage{Prompt: max(u.Prompt, 0), Completion: max(u.Completion, 0), Total: max(u.Total, 0), Cached: max(u.Details.Cached, 0)}
	}
	if p := c.Progress; p != nil {
		a.on(Progress{Total: max(p.Total, 0), Cache: max(p.Cache, 0), Processed: max(p.Processed, 0), MS: max(p.MS, 0)})
	}
	if len(c.Choices) == 0 {
		return nil
	}
	choice := &c.Choices[0]
	if len(c.Choices) > 1 || choice.Index != 0 {
		return fail(proto.WhyBadData, "the server gave several answers to one request")
	}
	if err := a.delta(&choice.Delta); err != nil {
		return err
	}
	if choice.Finish != "" {
		if a.finish != "" {
			return fail(proto.WhyBadData, "the answer has two ends")
		}
		a.finish = choice.Finish
	}
	return nil
}

func (a *assembler) delta(d *delta) *Error {
	if d.Content == "" && d.Reasoning == "" && len(d.Calls) == 0 {
		return nil
	}
	if a.finish != "" {
		return fail(proto.WhyBadData, "the answer goes on after its end")
	}
	if a.first == 0 {
		a.first = time.Since(a.sent)
	}
	if a.content.Len()+len(d.Content) > maxText || a.reasoning.Len()+len(d.Reasoning) > maxText {
		return fail(proto.WhyBadData, "the answer has more than %d bytes of text", maxText)
	}
	if d.Reasoning != "" {
		a.reasoning.WriteString(d.Reasoning)
		a.on(Reasoning{Text: d.Reasoning})
	}
	if d.Content != "" {
		a.content.WriteString(d.Content)
		if show := a.filter.add(d.Content); show != "" {
			a.on(Text{Text: show})
		}
	}
	for i := range d.Calls {
		if err := a.callPart(&d.Calls[i]); err != nil {
			return err
		}
	}
	return nil
}

// callPart adds a fragment. The first one of a call brings its id and name, all
// of them bring its index, and the indexes count up from 0 (seen on b11669).
func (a *assembler) callPart(p *callPart) *Error {
	f := &p.Function
	switch {
	case p.Index < 0 || p.Index > len(a.calls):
		return fail(proto.WhyBadCall, "call %d came when call %d was next", p.Index, len(a.calls))
	case p.Index >= maxCalls:
		return fail(proto.WhyBadCall, "more than %d calls in one answer", maxCalls)
	case len(f.Name) > maxName || len(p.ID) > maxName:
		return fail(proto.WhyBadCall, "call %d has a name or id of over %d bytes", p.Index, maxName)
	case p.Type != "" && p.Type != "function":
		return fail(proto.WhyBadCall, "call %d is not of a function", p.Index)
	}
	if p.Index == len(a.calls) {
		if err := a.newCall(p); err != nil {
			return err
		}
	}
	b := a.calls[p.Index]
	if p.ID != "" && p.ID != b.id || f.Name != "" && f.Name != b.name {
		return fail(proto.WhyBadCall, "two calls share index %d", p.Index)
	}
	if a.args += len(f.Arguments); a.args > maxArgs {
		return fail(proto.WhyBadCall, "more than %d bytes of arguments in one answer", maxArgs)
	}
	b.args = append(b.args, f.Arguments...)
	a.on(CallPart{Index: p.Index, Name: b.name, Bytes: len(f.Arguments)})
	return nil
}

func (a *assembler) newCall(p *callPart) *Error {
	if p.ID == "" || p.Function.Name == "" {
		return fail(proto.WhyBadCall, "call %d has no id or no name", p.Index)
	}
	for _, other := range a.calls {
		if other.id == p.ID {
			return fail(proto.WhyBadCall, "two calls have the same id")
		}
	}
	a.calls = append(a.calls, &building{id: p.ID, name: p.Function.Name})
	return nil
}

// judge decides, at the end mark, whether the parts make a usable message.
func (a *assembler) judge() *Error {
	a.complete = true
	if rest := a.filter.rest(); rest != "" {
		a.on(Text{Text: rest})
	}
	said := strings.TrimSpace(a.content.String()) != ""
	switch {
	case a.filter.hit:
		return fail(proto.WhyMarkup, "the model wrote a tool call that the server did not understand")
	case a.finish == "length" && len(a.calls) > 0:
		return fail(proto.WhyLength, "the token limit came in the middle of a tool call")
	case a.finish == "length" && !said:
		return fail(proto.WhyLength, "the token limit came before the model said anything")
	case a.finish == "length":
		return nil
	case a.finish == "":
		return fail(proto.WhyCut, "the stream ended without saying why the model stopped")
	case a.finish != "stop" && a.finish != "tool_calls":
		return fail(proto.WhyBadData, "unknown finish reason %.40q", a.finish)
	case len(a.calls) > 0:
		return a.judgeCalls()
	case a.finish == "tool_calls":
		return fail(proto.WhyBadCall, "the server announced a tool call and sent none")
	case !said:
		return fail(proto.WhyEmpty, "the model ended its turn without an answer")
	default:
		return nil
	}
}

func (a *assembler) judgeCalls() *Error {
	for i, b := range a.calls {
		// Valid by RFC 7493: no duplicate names, no invalid UTF-8.
		if v := jsontext.Value(b.args); !v.IsValid() || v.Kind() != '{' {
			return fail(proto.WhyBadCall, "the arguments of call %d are not one JSON object", i)
		}
	}
	return nil
}
