package llama

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/sse"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxEvent caps one event of a stream, in bytes.
const maxEvent = 1 << 20

// chunk is one event of a chat stream. A member that is null or absent has its
// zero value; unknown members are allowed, duplicate names are not.
type chunk struct {
	ID       string    `json:"id"`
	Model    string    `json:"model"`
	Choices  []choice  `json:"choices"`
	Usage    *usage    `json:"usage"`
	Timings  *timings  `json:"timings"`
	Progress *progress `json:"prompt_progress"`
	Error    *apiError `json:"error"`
}

type choice struct {
	Index  int    `json:"index"`
	Finish string `json:"finish_reason"`
	Delta  delta  `json:"delta"`
}

type delta struct {
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning_content"`
	Calls     []callPart `json:"tool_calls"`
}

type callPart struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	Details    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type progress struct {
	Total     int64 `json:"total"`
	Cache     int64 `json:"cache"`
	Processed int64 `json:"processed"`
	MS        int64 `json:"time_ms"`
}

type timings struct {
	CacheN      int64   `json:"cache_n"`
	PromptN     int64   `json:"prompt_n"`
	PromptMS    float64 `json:"prompt_ms"`
	PredictedN  int64   `json:"predicted_n"`
	PredictedMS float64 `json:"predicted_ms"`
}

// decode reads one event, reusing what c has allocated.
func (c *chunk) decode(data []byte) error {
	*c = chunk{Choices: c.Choices[:0]}
	if jsontext.Value(data).Kind() != '{' {
		return errors.New("not a JSON object")
	}
	return json.Unmarshal(data, c)
}

func (t *timings) timings() Timings {
	return Timings{
		CacheN: tokens(t.CacheN), PromptN: tokens(t.PromptN), PredictedN: tokens(t.PredictedN),
		PromptUS: microseconds(t.PromptMS), PredictedUS: microseconds(t.PredictedMS),
	}
}

// tokens keeps a count within what can be added up.
func tokens(n int64) int64 { return min(max(n, 0), 1<<40) }

// microseconds converts milliseconds, kept within 0 and a year.
func microseconds(ms float64) int64 {
	const year = float64(365 * 24 * time.Hour / time.Microsecond)
	return int64(min(max(ms*1000, 0), year))
}

// Chat sends body, a whole request with "stream":true, and reads the answer to
// its end. on is called for each sign of the server's work and may be nil.
//
// If the answer is not a usable message the error is an [*Error], and the
// completion holds what had come until then: text and thinking for the record,
// never to be sent or run. Cancelling ctx closes the connection at once, which
// is how llama-server is told to stop.
func (c *Client) Chat(ctx context.Context, body []byte, on func(Event)) (Completion, error) {
	if on == nil {
		on = func(Event) {}
	}
	x, err := c.open(ctx, request{method: http.MethodPost, target: "/v1/chat/completions", body: body, first: c.limits.FirstByte}, on)
	if err != nil {
		return Completion{}, err
	}
	defer x.close()
	a := &assembler{on: on, sent: x.sent, filter: filter{markers: markers()}}
	if err = x.expect("text/event-stream"); err == nil {
		err = x.stream(a)
	}
	if err == nil {
		return a.completion(), nil
	}
	if ctx.Err() != nil {
		err = stopped(ctx)
	}
	return a.completion(), err
}

// stream reads events up to the end mark.
func (x *exchange) stream(a *assembler) *Error {
	r := sse.NewReader(x.resp.Body, maxEvent)
	var c chunk
	for {
		ev, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return a.judge()
		case errors.Is(err, sse.ErrTooLarge), errors.Is(err, sse.ErrEncoding), errors.Is(err, sse.ErrForm):
			return fail(proto.WhyBadData, "the stream is not what llama-server sends: %v", err)
		case err != nil:
			return x.broken(err)
		case ev.Comment:
			a.on(Alive{})
			continue
		}
		if err := c.decode(ev.Data); err != nil {
			return fail(proto.WhyBadData, "an event of the stream does not decode: %v", err)
		}
		if err := a.take(&c); err != nil {
			return err
		}
	}
}
