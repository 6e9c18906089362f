package prompt

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Params are the constant members of a request. Decimals are strings, written
// as they stand, so that their bytes never depend on a formatter.
type Params struct {
	Temperature     string // "0.6"
	TopP            string // "0.95"
	TopK            int
	MaxTokens       int    // per completion, thinking included
	ThinkingCap     int    // tokens of reasoning per completion; -1: no cap, 0: none
	ThinkingMessage string // what the server writes when the cap is hit; may be empty
	PingSeconds     int    // how often a silent stream shows that it lives; 0: as the server is set
	OneCall         bool   // forbid several tool calls in one completion
}

// Sampling encodes p as an object in a fixed order.
//
// The member names are those that llama-server b11669 acts on. A wrong name is
// ignored without a word: reasoning_budget and thinking_budget are such names,
// reasoning_budget_tokens and reasoning_budget_message are right.
func Sampling(p Params) (jsontext.Value, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	b := []byte(`{"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"cache_prompt":true,"temperature":`)
	b = append(b, p.Temperature...)
	b = append(append(b, `,"top_p":`...), p.TopP...)
	b = strconv.AppendInt(append(b, `,"top_k":`...), int64(p.TopK), 10)
	b = strconv.AppendInt(append(b, `,"max_tokens":`...), int64(p.MaxTokens), 10)
	b = strconv.AppendInt(append(b, `,"reasoning_budget_tokens":`...), int64(p.ThinkingCap), 10)
	if p.ThinkingMessage != "" {
		b = quote(append(b, `,"reasoning_budget_message":`...), p.ThinkingMessage)
	}
	if p.PingSeconds > 0 {
		b = strconv.AppendInt(append(b, `,"sse_ping_interval":`...), int64(p.PingSeconds), 10)
	}
	if p.OneCall {
		b = append(b, `,"parallel_tool_calls":false`...)
	}
	return append(b, '}'), nil
}

func (p Params) validate() error {
	decimal := regexp.MustCompile(`^(0|[1-9][0-9]{0,3})(\.[0-9]{1,6})?$`)
	var errs []error
	if !decimal.MatchString(p.Temperature) {
		errs = append(errs, fmt.Errorf("prompt: temperature is not a decimal such as 0.6: %.20q", p.Temperature))
	}
	if !decimal.MatchString(p.TopP) {
		errs = append(errs, fmt.Errorf("prompt: top_p is not a decimal such as 0.95: %.20q", p.TopP))
	}
	if p.TopK < 0 {
		errs = append(errs, errors.New("prompt: top_k is negative"))
	}
	if p.MaxTokens < 1 {
		errs = append(errs, errors.New("prompt: max_tokens is less than 1"))
	}
	if p.ThinkingCap < -1 {
		errs = append(errs, errors.New("prompt: the thinking cap is less than -1"))
	}
	return errors.Join(errs...)
}
