// Package chat reads the body of a chat request as llama-server b11669 does:
// unknown members are ignored, a wrong slot is no slot, and what is refused is
// refused with the same status, type and text.
//
// It guarantees that Decode never panics and that what it accepts can be
// rendered, apart from what the template itself refuses. Sampling members are
// read to be shown, and have no effect: the practice model does not sample.
package chat

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"boxmaker/practice/internal/template"
)

// AnySlot is the slot of a request that names none, or none that exists.
const AnySlot = -1

// An Error is an answer instead of a completion.
type Error struct {
	Status  int
	Message string
	Type    string // invalid_request_error, server_error, …
	NPrompt int    // of exceed_context_size_error, else 0
	NCtx    int
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Type, e.Message) }

// broken is what the real server says when its own parsing of a part fails.
func broken(format string, args ...any) *Error {
	return &Error{Status: 500, Type: "server_error", Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *Error {
	return &Error{Status: 400, Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

// A Tool is one declared function.
type Tool struct {
	Name        string
	Description string
	Parameters  jsontext.Value // JSON schema, may be empty
	Raw         jsontext.Value // the whole entry, for the template
}

// Choice says whether a tool call may or must be made.
type Choice string

// The choices. Another form than these words counts as auto.
const (
	Auto     Choice = "auto"
	Required Choice = "required"
	None     Choice = "none"
)

// A Request is what of a body matters here.
type Request struct {
	Messages   []template.Message
	Tools      []Tool
	Choice     Choice
	Parallel   bool // parallel_tool_calls, true unless told otherwise
	Thinking   bool // enable_thinking and reasoning_effort
	Generation bool // add_generation_prompt

	Stream          bool
	IncludeUsage    bool
	Progress        bool // return_progress
	TimingsPerToken bool
	Armed           bool // reasoning_control
	CachePrompt     bool
	Slot            int // AnySlot or 0 and more; it may not exist

	MaxTokens     int // -1: no limit
	Budget        int // reasoning_budget_tokens, -1: no limit
	BudgetMessage string
	Ping          int // sse_ping_interval in seconds, -1: the server's

	Sampling map[string]float64 // what was asked for, by the members' names
}

// Decode reads a body. The error is always an [*Error].
func Decode(body []byte) (*Request, error) {
	r, m, err := decode(body)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		boolean(m, "stream", &r.Stream), boolean(m, "return_progress", &r.Progress),
		boolean(m, "timings_per_token", &r.TimingsPerToken), boolean(m, "cache_prompt", &r.CachePrompt),
		number(m, "max_tokens", &r.MaxTokens), number(m, "max_completion_tokens", &r.MaxTokens), number(m, "n_predict", &r.MaxTokens),
		budget(m, "thinking_budget_tokens", &r.Budget), budget(m, "reasoning_budget_tokens", &r.Budget),
		number(m, "sse_ping_interval", &r.Ping), sampling(m, r.Sampling),
	)
	if o, oerr := Members(m["stream_options"]); oerr == nil && r.Stream {
		err = errors.Join(err, boolean(o, "include_usage", &r.IncludeUsage))
	}
	var first *Error
	if errors.As(err, &first) {
		return nil, first
	}
	// Of another type than theirs, these are ignored without a word.
	_ = boolean(m, "reasoning_control", &r.Armed)
	_ = boolean(m, "parallel_tool_calls", &r.Parallel)
	_ = str(m, "reasoning_budget_message", &r.BudgetMessage)
	if v := m["id_slot"]; v.Kind() == '0' {
		_ = number(m, "id_slot", &r.Slot)
	}
	return r, nil
}

// DecodePrompt reads as much of a body as a prompt is made of.
func DecodePrompt(body []byte) (*Request, error) {
	r, _, err := decode(body)
	return r, err
}

func decode(body []byte) (*Request, map[string]jsontext.Value, error) {
	m, err := Members(body)
	if err != nil {
		return nil, nil, err
	}
	r := &Request{Choice: Auto, Parallel: true, Thinking: true, Generation: true, CachePrompt: true, Slot: AnySlot, MaxTokens: -1, Budget: -1, Ping: -1, Sampling: make(map[string]float64)}
	raw, ok := m["messages"]
	if !ok {
		return nil, nil, invalid("'messages' is required")
	}
	if r.Messages, err = messages(raw); err != nil {
		return nil, nil, err
	}
	if r.Tools, err = tools(m["tools"]); err != nil {
		return nil, nil, err
	}
	if err = choice(m["tool_choice"], &r.Choice); err != nil {
		return nil, nil, err
	}
	if err = thinking(m, &r.Thinking); err != nil {
		return nil, nil, err
	}
	_ = boolean(m, "add_generation_prompt", &r.Generation) // of another type: ignored
	if _, ok := m["grammar"]; ok && len(r.Tools) > 0 {
		return nil, nil, invalid("Cannot use custom grammar constraints with tools.")
	}
	return r, m, nil
}

// sampling reads the members that are only shown (by /slots), never used.
func sampling(m map[string]jsontext.Value, to map[string]float64) error {
	for _, name := range []string{"temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "repeat_penalty", "presence_penalty", "frequency_penalty"} {
		v, ok := m[name]
		if !ok || v.Kind() == 'n' {
			continue
		}
		var f float64
		if v.Kind() != '0' || json.Unmarshal(v, &f) != nil {
			return typeError(name, "number", v)
		}
		to[name] = f
	}
	return nil
}

// Input is the request as the template wants it.
func (r *Request) Input() template.Input {
	in := template.Input{Messages: r.Messages, Thinking: r.Thinking, NoGeneration: !r.Generation}
	for _, t := range r.Tools {
		in.Tools = append(in.Tools, t.Raw)
	}
	return in
}
