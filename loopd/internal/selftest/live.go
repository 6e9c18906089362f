package selftest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/prompt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Checks that make the model work: three requests, all with the same head, so
// that only the first one is processed in full.

const (
	capTokens  = 4   // thinking cap of the test
	capSlack   = 12  // tokens: where the server may notice late
	sayTokens  = 48  // for what comes after the thinking
	callTokens = 768 // for a tool call, thinking included
	cacheSlack = 64  // tokens that the cache may lack: checkpoints of hybrid models
)

// chat sends a request and accepts any answer that came to its end: whether it
// is a good one is not the point of most checks.
func (r *runner) chat(ctx context.Context, s jsontext.Value, messages ...jsontext.Value) (llama.Completion, error) {
	body, err := r.body(s, messages...)
	if err != nil {
		return llama.Completion{}, err
	}
	got, err := r.client.Chat(ctx, body, func(ev llama.Event) {
		r.look(ctx, ev)
		if r.cfg.Wait != nil {
			r.cfg.Wait(ev)
		}
	})
	if err != nil && got.Complete {
		var e *llama.Error
		if errors.As(err, &e) {
			return got, nil
		}
	}
	return got, err
}

// look asks for the slot's state while the server works on a request: only then
// does it tell how it samples.
func (r *runner) look(ctx context.Context, ev llama.Event) {
	switch ev.(type) {
	case llama.Progress, llama.Reasoning, llama.Text:
	default:
		return
	}
	if r.live != nil || r.asked >= 4 {
		return
	}
	r.asked++
	slots, err := r.client.Slots(ctx)
	if err != nil {
		r.liveErr = err
		return
	}
	for _, s := range slots {
		if s.ID == r.cfg.Background && s.Sampling != nil {
			r.live = s.Sampling
		}
	}
}

// toolCall: a call is required and must come back as one. Another answer gets a
// second chance, as in a turn.
func (r *runner) toolCall(ctx context.Context) result {
	const expected = "a call of a declared tool"
	const todo = "start llama-server with --jinja and a template that the server can parse the calls of"
	declared, err := toolNames(r.cfg.Tools)
	switch {
	case err != nil:
		return broke(expected, err, "this is a fault of Boxmaker")
	case len(declared) == 0:
		return skipped("no tools are declared")
	}
	s, err := r.with(member{"max_tokens", strconv.Itoa(callTokens)}, member{"reasoning_budget_tokens", strconv.Itoa(capTokens)},
		member{"tool_choice", `"required"`})
	if err != nil {
		return broke(expected, err, "this is a fault of Boxmaker")
	}
	body, err := r.body(s, prompt.UserMessage("What time is it? Use the tool "+declared[0]+" with no arguments."))
	if err != nil {
		return broke(expected, err, "this is a fault of Boxmaker")
	}
	var got llama.Completion
	for range 2 {
		got, err = r.client.Chat(ctx, body, func(ev llama.Event) { r.look(ctx, ev) })
		if err == nil && len(got.Calls) > 0 || ctx.Err() != nil {
			break
		}
	}
	switch {
	case err != nil:
		return broke(expected, err, todo)
	case len(got.Calls) == 0:
		return failed(expected, "an answer without a call", todo)
	}
	for _, call := range got.Calls {
		for _, name := range declared {
			if call.Name == name {
				return ok("%s, with arguments that parse", name)
			}
		}
	}
	return failed(expected, fmt.Sprintf("a call of %.40q", got.Calls[0].Name), todo)
}

func toolNames(tools jsontext.Value) ([]string, error) {
	var list []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(tools, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, t := range list {
		names = append(names, t.Function.Name)
	}
	return names, nil
}

// sampling compares what the server said of a running request with what the
// request asked for: a member that the server does not know is ignored silently.
func (r *runner) sampling(ctx context.Context) result {
	if r.live == nil {
		if _, err := r.turnOne(ctx); err != nil {
			return broke("a completion", err, advice(err))
		}
	}
	switch {
	case r.live == nil && r.liveErr != nil:
		return skipped("the server does not show its slots: %s", message(r.liveErr))
	case r.live == nil:
		return skipped("no request could be seen at work: they were done too soon")
	}
	near := func(want *float64, got float64) bool { return want == nil || math.Abs(*want-got) < 1e-4 }
	w := r.wants
	found := fmt.Sprintf("temperature %.4g, top_p %.4g, top_k %d", r.live.Temperature, r.live.TopP, r.live.TopK)
	if !near(w.Temperature, r.live.Temperature) || !near(w.TopP, r.live.TopP) || w.TopK != nil && *w.TopK != r.live.TopK {
		return failed("the sampling that was asked for", found, "look whether something between Boxmaker and llama-server changes requests")
	}
	return ok("%s", found)
}

// turnOne makes the request that three checks look at: little thinking, a short
// answer.
func (r *runner) turnOne(ctx context.Context) (*llama.Completion, error) {
	if r.first != nil {
		return r.first, nil
	}
	s, err := r.short(ctx)
	if err != nil {
		return nil, err
	}
	user := prompt.UserMessage("Think about it step by step: which is larger, 9.11 or 9.9? Then answer in one sentence.")
	got, err := r.chat(ctx, s, user)
	if err != nil {
		return nil, err
	}
	r.first = &got
	r.history = append(r.history, user)
	r.history = append(r.history, answer(got)...)
	return r.first, nil
}

// short is the sampling of a little thinking and a short answer. Both turns of
// the test use it, so that the second request extends the first, as in a session.
func (r *runner) short(ctx context.Context) (jsontext.Value, error) {
	limit := capTokens + sayTokens
	if r.wants.Message != "" {
		n, err := r.client.Tokenize(ctx, r.wants.Message)
		if err != nil {
			return nil, err
		}
		limit += len(n)
	}
	return r.with(member{"max_tokens", strconv.Itoa(limit)}, member{"reasoning_budget_tokens", strconv.Itoa(capTokens)})
}

// answer is a completion as the messages that a session would go on with.
func answer(got llama.Completion) []jsontext.Value {
	var calls []prompt.Call
	var out []jsontext.Value
	for _, c := range got.Calls {
		if v := jsontext.Value(c.Arguments); !v.IsValid() {
			continue // cut off by the token limit
		}
		calls = append(calls, prompt.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		out = append(out, prompt.ToolMessage(c.ID, "none"))
	}
	return append([]jsontext.Value{prompt.AssistantMessage(got.Content, got.Reasoning, calls)}, out...)
}

// thinkingCap: the thinking must end within the cap, or with the message that
// the server writes when it is hit. A wrong name of the member is ignored
// silently, so only the effect counts.
func (r *runner) thinkingCap(ctx context.Context) result {
	const todo = "use a llama-server that knows reasoning_budget_tokens (b11669 does), with --jinja and --reasoning-format auto"
	expected := fmt.Sprintf("thinking that ends at its cap of %d tokens", capTokens)
	got, err := r.turnOne(ctx)
	if err != nil {
		return broke(expected, err, advice(err))
	}
	if strings.TrimSpace(got.Reasoning) == "" {
		if strings.Contains(got.Content, "<think>") {
			return failed("thinking apart from the answer", "thinking inside of it", todo)
		}
		return ok("no thinking: the model does none that the server tells of")
	}
	r.report.Thinks = true
	thought := strings.TrimSpace(got.Reasoning)
	if mark := strings.TrimSpace(r.wants.Message); mark != "" {
		if head, _, hit := strings.Cut(thought, mark); hit {
			thought = head
		}
	}
	n, err := r.client.Tokenize(ctx, thought)
	if err != nil {
		return broke(expected, err, advice(err))
	}
	if len(n) > capTokens+capSlack {
		return failed(expected, fmt.Sprintf("%d tokens of it", len(n)), todo)
	}
	return ok("thinking ended after %d tokens; the cap of the test was %d", len(n), capTokens)
}

// cache: a second turn must find the first one in the slot. Another program may
// have taken the slot in between, so a miss gets one more turn.
func (r *runner) cache(ctx context.Context) result {
	const expected = "a second turn that finds the first one in the cache"
	todo := "start llama-server with -np (a unified cache clears idle slots), without --no-cache-prompt, and with context checkpoints for a hybrid model; this build is " + r.props.Build
	first, err := r.turnOne(ctx)
	if err != nil {
		return broke(expected, err, advice(err))
	}
	had := first.Timings.CacheN + first.Timings.PromptN
	if had == 0 {
		return failed(expected, "a server that gives no timings", todo)
	}
	var found string
	for range 2 {
		s, err := r.short(ctx)
		if err != nil {
			return broke(expected, err, advice(err))
		}
		r.history = append(r.history, prompt.UserMessage("Thank you. Say it once more."))
		got, err := r.chat(ctx, s, r.history...)
		if err != nil {
			return broke(expected, err, advice(err))
		}
		t := got.Timings
		if t.CacheN >= max(had-cacheSlack, had/2) {
			return ok("%d of %d tokens reused", t.CacheN, t.CacheN+t.PromptN)
		}
		found = fmt.Sprintf("%d of the %d tokens that were there", t.CacheN, had)
		r.history = append(r.history, answer(got)...)
		had = t.CacheN + t.PromptN
	}
	return failed(expected, found, todo)
}
