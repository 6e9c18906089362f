package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrCut reports a stream that ended without its end mark.
var ErrCut = errors.New("the stream ended before its end mark")

// Timings are the server's own figures of one completion. Times are in
// milliseconds, rates in tokens per second. The server's rate of generation leaves
// the first token out: it comes with the prompt.
type Timings struct {
	CacheN        int64   `json:"cache_n"`
	PromptN       int64   `json:"prompt_n"`
	PromptMS      float64 `json:"prompt_ms"`
	PromptRate    float64 `json:"prompt_per_second"`
	PredictedN    int64   `json:"predicted_n"`
	PredictedMS   float64 `json:"predicted_ms"`
	PredictedRate float64 `json:"predicted_per_second"`
}

// Total is the number of tokens in the window after the completion.
func (t Timings) Total() int64 { return t.CacheN + t.PromptN + t.PredictedN }

// Progress is one event of prompt processing.
type Progress struct {
	Total     int64   `json:"total"`
	Cache     int64   `json:"cache"`
	Processed int64   `json:"processed"`
	MS        float64 `json:"time_ms"`
}

// Call is one tool call as the model made it.
type Call struct {
	ID, Name, Arguments string
}

// A Completion is what came of one request.
type Completion struct {
	ID        string
	Content   string
	Reasoning string
	Calls     []Call
	Finish    string // stop, length, tool_calls
	Timings   Timings
	Raw       jsontext.Value // timings as the server sent them
	Progress  []Progress
	Pings     int           // comment lines: the server lives and waits
	Head      time.Duration // until the answer's headers
	First     time.Duration // until the first token
	Wall      time.Duration // until the end
}

// An Update is what a caller may look at while a completion runs.
type Update struct {
	Progress *Progress
	Tokens   int // pieces of text so far
}

type chunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Finish string `json:"finish_reason"`
		Delta  struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
			Calls     []struct {
				Index    int    `json:"index"`
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Timings  jsontext.Value `json:"timings"`
	Progress *Progress      `json:"prompt_progress"`
	Error    jsontext.Value `json:"error"`
}

// Chat sends a request with "stream":true and reads the answer to its end. on is
// called as it comes; an error of it ends the stream (the server then stops).
// On an error the completion holds what had come by then.
func (s *Server) Chat(ctx context.Context, body []byte, on func(Update) error) (*Completion, error) {
	began := time.Now()
	c := &Completion{}
	r, err := s.open(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return c, err
	}
	defer r.Close()
	c.Head = time.Since(began)
	err = c.read(r, began, on)
	c.Wall = time.Since(began)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return c, err
}

// read takes the events of one stream.
func (c *Completion) read(r io.Reader, began time.Time, on func(Update) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxEvent)
	pieces := 0
	for in.Scan() {
		line := in.Bytes()
		switch {
		case len(line) == 0:
			continue
		case line[0] == ':':
			c.Pings++
			continue
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue // another field of the event stream
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			return nil
		}
		u, err := c.event(data)
		if err != nil {
			return err
		}
		if u.Tokens > 0 {
			if pieces == 0 {
				c.First = time.Since(began)
			}
			pieces++
		}
		u.Tokens = pieces
		if on != nil {
			if err := on(u); err != nil {
				return err
			}
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	return ErrCut
}

// event adds one event. Tokens of the update is 1 if it brought text.
func (c *Completion) event(data []byte) (u Update, err error) {
	var k chunk
	if err := json.Unmarshal(data, &k); err != nil {
		return u, fmt.Errorf("an event is not what llama-server sends: %w", err)
	}
	if len(k.Error) > 0 {
		return u, errorOf(0, data)
	}
	if k.ID != "" {
		c.ID = k.ID
	}
	if k.Progress != nil {
		c.Progress = append(c.Progress, *k.Progress)
		u.Progress = k.Progress
	}
	if len(k.Timings) > 0 {
		if err := json.Unmarshal(k.Timings, &c.Timings); err != nil {
			return u, fmt.Errorf("the timings are not what llama-server sends: %w", err)
		}
		c.Raw = k.Timings.Clone()
	}
	for _, ch := range k.Choices {
		if ch.Finish != "" {
			c.Finish = ch.Finish
		}
		c.Content += ch.Delta.Content
		c.Reasoning += ch.Delta.Reasoning
		if ch.Delta.Content+ch.Delta.Reasoning != "" || len(ch.Delta.Calls) > 0 {
			u.Tokens = 1
		}
		for _, d := range ch.Delta.Calls {
			switch {
			case d.Index < 0 || d.Index > len(c.Calls) || d.Index > 63:
				return u, fmt.Errorf("an event has a part of call %d after %d calls", d.Index, len(c.Calls))
			case d.Index == len(c.Calls):
				c.Calls = append(c.Calls, Call{})
			}
			call := &c.Calls[d.Index]
			if d.ID != "" {
				call.ID = d.ID
			}
			call.Name += d.Function.Name
			call.Arguments += d.Function.Arguments
		}
	}
	return u, nil
}

// Markup reports whether tool-call markup stands in the answer's text, where it
// is a call that the server did not see.
func (c *Completion) Markup() bool {
	for _, m := range []string{"<tool_call", "</tool_call", "<function=", "<|tool_call", "[TOOL_CALLS]"} {
		if strings.Contains(c.Content, m) {
			return true
		}
	}
	return false
}
