package api

import (
	"strconv"
	"strings"
	"time"
)

// The shapes of the answers, members in the order of the samples.

type chunk struct {
	Choices     []chunkChoice `json:"choices"`
	Created     int64         `json:"created"`
	ID          string        `json:"id"`
	Model       string        `json:"model"`
	Fingerprint string        `json:"system_fingerprint"`
	Object      string        `json:"object"`
	Usage       *usage        `json:"usage,omitzero"`
	Timings     *timings      `json:"timings,omitzero"`
	Progress    *progress     `json:"prompt_progress,omitzero"`
}

type chunkChoice struct {
	Finish *string `json:"finish_reason"`
	Index  int     `json:"index"`
	Delta  any     `json:"delta"`
}

type roleDelta struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
}

type reasoningDelta struct {
	Reasoning string `json:"reasoning_content"`
}

type contentDelta struct {
	Content string `json:"content"`
}

type callsDelta struct {
	Calls []callDelta `json:"tool_calls"`
}

type callDelta struct {
	Index    int           `json:"index"`
	ID       string        `json:"id,omitzero"`
	Type     string        `json:"type,omitzero"`
	Function functionDelta `json:"function"`
}

type functionDelta struct {
	Name      string `json:"name,omitzero"`
	Arguments string `json:"arguments"`
}

type noDelta struct{}

type completionBody struct {
	Choices     []bodyChoice `json:"choices"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Fingerprint string       `json:"system_fingerprint"`
	Object      string       `json:"object"`
	Usage       usage        `json:"usage"`
	ID          string       `json:"id"`
	Timings     timings      `json:"timings"`
}

type bodyChoice struct {
	Finish  string      `json:"finish_reason"`
	Index   int         `json:"index"`
	Message bodyMessage `json:"message"`
}

type bodyMessage struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning_content,omitzero"`
	Calls     []bodyCall `json:"tool_calls,omitzero"`
}

type bodyCall struct {
	Type     string       `json:"type"`
	Function bodyFunction `json:"function"`
	ID       string       `json:"id"`
}

type bodyFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type usage struct {
	Completion int          `json:"completion_tokens"`
	Prompt     int          `json:"prompt_tokens"`
	Total      int          `json:"total_tokens"`
	Details    usageDetails `json:"prompt_tokens_details"`
}

type usageDetails struct {
	Cached int `json:"cached_tokens"`
}

type timings struct {
	CacheN          int    `json:"cache_n"`
	PromptN         int    `json:"prompt_n"`
	PromptMS        number `json:"prompt_ms"`
	PromptEach      number `json:"prompt_per_token_ms"`
	PromptPerSec    number `json:"prompt_per_second"`
	PredictedN      int    `json:"predicted_n"`
	PredictedMS     number `json:"predicted_ms"`
	PredictedEach   number `json:"predicted_per_token_ms"`
	PredictedPerSec number `json:"predicted_per_second"`
}

type progress struct {
	Total     int   `json:"total"`
	Cache     int   `json:"cache"`
	Processed int   `json:"processed"`
	TimeMS    int64 `json:"time_ms"`
}

// number is a floating-point number as llama-server writes it: never without a
// decimal point.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	s := strconv.FormatFloat(float64(n), 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return []byte(s), nil
}

// millis is a time with the server's resolution of a microsecond; some time has
// always passed.
func millis(d time.Duration) number { return number(max(d.Microseconds(), 1)) / 1000 }

// makeTimings follows the samples: generation is timed from the first token, so
// that n tokens took n-1 steps.
func makeTimings(cached, processed, predicted int, prompt, generation time.Duration) timings {
	t := timings{CacheN: cached, PromptN: processed, PredictedN: predicted}
	if processed > 0 {
		t.PromptMS = millis(prompt)
		t.PromptEach = t.PromptMS / number(processed)
		t.PromptPerSec = 1000 / t.PromptMS * number(processed)
	}
	if predicted > 0 {
		t.PredictedMS = millis(generation)
	}
	if steps := predicted - 1; steps > 0 {
		t.PredictedEach = t.PredictedMS / number(steps)
		t.PredictedPerSec = 1000 / t.PredictedMS * number(steps)
	}
	return t
}

type wrapped struct {
	Error any `json:"error"`
}

// An error that a handler found, and one that stands before all handlers: the
// real server writes their members in different orders.
type handlerError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	NPrompt int    `json:"n_prompt_tokens,omitzero"`
	NCtx    int    `json:"n_ctx,omitzero"`
}

type gateError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    int    `json:"code"`
}
