package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/prompt"

	"github.com/go-json-experiment/json/jsontext"
)

// Checks that render and count, and generate nothing.

// baseline counts what stands in front of every session, with a message of one
// letter, which the template needs.
func (r *runner) baseline(ctx context.Context) result {
	body, err := r.body(r.cfg.Sampling, prompt.UserMessage("x"))
	if err != nil {
		return broke("a request", err, "this is a fault of Boxmaker")
	}
	n, err := r.count(ctx, body)
	if err != nil {
		return broke("a count of tokens", err, "start llama-server with --jinja; older builds lack what this needs")
	}
	r.report.Baseline = n
	if n > r.cfg.MaxBaseline {
		return failed(fmt.Sprintf("at most %d tokens of system prompt and tools", r.cfg.MaxBaseline), fmt.Sprint(n),
			"shorten the system prompt (prompt.system) or pin fewer tools")
	}
	return ok("%d of at most %d tokens", n, r.cfg.MaxBaseline)
}

// count asks for the tokens of a request; an older server has to render it first.
func (r *runner) count(ctx context.Context, body []byte) (int64, error) {
	n, err := r.client.InputTokens(ctx, body)
	var e *llama.Error
	if err == nil || !errors.As(err, &e) || e.Status != http.StatusNotFound {
		return n, err
	}
	text, err := r.client.ApplyTemplate(ctx, body)
	if err != nil {
		return 0, err
	}
	tokens, err := r.client.Tokenize(ctx, text)
	return int64(len(tokens)), err
}

// Texts that stand in the chain below and nowhere else.
const (
	textUser1   = "selftest-question-one"
	textThink1  = "selftest-thinking-one"
	textResult1 = "selftest-result-one"
	textAnswer1 = "selftest-answer-one"
	textUser2   = "selftest-question-two"
	textResult2 = "selftest-result-two"
	textThink2  = "selftest-thinking-two"
	textAnswer2 = "selftest-answer-two"
	textUser3   = "selftest-question-three"
)

// chain is a conversation of two turns with tool calls, then a third message:
// with and without thinking, with and without text beside a call, one call and
// two at once. ends tells after how many messages a request is sent.
func chain() (messages []jsontext.Value, ends []int) {
	call := func(id, args string) prompt.Call { return prompt.Call{ID: id, Name: "clock", Arguments: args} }
	messages = []jsontext.Value{
		prompt.UserMessage(textUser1),
		prompt.AssistantMessage("", textThink1+"\n", []prompt.Call{call("selftest1", `{}`)}),
		prompt.ToolMessage("selftest1", textResult1),
		prompt.AssistantMessage(textAnswer1, "", nil),
		prompt.UserMessage(textUser2),
		prompt.AssistantMessage("I look.\n", "", []prompt.Call{call("selftest2", `{"b":1,"a":"x"}`), call("selftest3", `{}`)}),
		prompt.ToolMessage("selftest2", textResult2),
		prompt.ToolMessage("selftest3", "none"),
		prompt.AssistantMessage(textAnswer2, textThink2+"\n", nil),
		prompt.UserMessage(textUser3),
	}
	return messages, []int{1, 3, 5, 8, 10}
}

// extension renders each request of the chain. Each rendering, less the
// generation prompt at its end, must be a strict prefix of the next one.
func (r *runner) extension(ctx context.Context) result {
	const todo = "serve the model with a template that renders every turn alike and keeps the thinking of earlier turns (--chat-template-file)"
	messages, ends := chain()
	var before string
	var texts []string
	for i, n := range ends {
		text, bare, err := r.render(ctx, messages[:n])
		if err != nil {
			return broke("a template that renders thinking, tool calls and results", err, todo)
		}
		if i > 0 && (!strings.HasPrefix(text, before) || len(text) <= len(before)) {
			return failed("a rendering that extends the one before", differs(before, text, n), todo)
		}
		before = bare
		texts = append(texts, text)
	}
	last := texts[len(texts)-1]
	for _, m := range []string{textUser1, textResult1, textAnswer1, textUser2, textResult2, textAnswer2, textUser3} {
		if !strings.Contains(last, m) {
			return failed("a template that renders every message", fmt.Sprintf("a rendering without %q", m), todo)
		}
	}
	if r := r.twoInARow(ctx); r.state != stateOK {
		return r
	}
	// Thinking that is never rendered is never cached either, which the check
	// "cache" tells for a model that thinks.
	if !strings.Contains(last, textThink1) {
		return ok("five renderings extend each other; the template renders no thinking")
	}
	return ok("five renderings extend each other, thinking included")
}

// render gives the prompt of a request, and the same without the generation prompt.
func (r *runner) render(ctx context.Context, messages []jsontext.Value) (text, bare string, err error) {
	full, err := r.body(r.cfg.Sampling, messages...)
	if err != nil {
		return "", "", err
	}
	if text, err = r.client.ApplyTemplate(ctx, full); err != nil {
		return "", "", err
	}
	s, err := r.with(member{"add_generation_prompt", "false"})
	if err != nil {
		return "", "", err
	}
	part, err := r.body(s, messages...)
	if err != nil {
		return "", "", err
	}
	if bare, err = r.client.ApplyTemplate(ctx, part); err != nil {
		return "", "", err
	}
	if !strings.HasPrefix(text, bare) {
		return "", "", errors.New("a rendering without the generation prompt that is no prefix of the one with it")
	}
	return text, bare, nil
}

// differs shows where two renderings part, without showing much of them.
func differs(before, text string, n int) string {
	at := 0
	for at < min(len(before), len(text)) && before[at] == text[at] {
		at++
	}
	if at == len(text) || at == len(before) {
		return fmt.Sprintf("that of %d messages adding nothing to the one before", n)
	}
	cut := func(s string) string { return s[at:min(len(s), at+24)] }
	return fmt.Sprintf("that of %d messages parting at byte %d of %d: %q became %q", n, at, len(before), cut(before), cut(text))
}

// twoInARow: a turn that was stopped leaves a message without an answer.
func (r *runner) twoInARow(ctx context.Context) result {
	const expected = "two messages of the owner in a row to render"
	const todo = "serve the model with a template that does not insist on an answer between them (--chat-template-file)"
	text, _, err := r.render(ctx, []jsontext.Value{prompt.UserMessage(textUser1), prompt.UserMessage(textUser2)})
	if err != nil {
		return broke(expected, err, todo)
	}
	one, two := strings.Index(text, textUser1), strings.Index(text, textUser2)
	if one < 0 || two < one {
		return failed(expected, "one of them missing", todo)
	}
	return ok("")
}
