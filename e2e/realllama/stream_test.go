package realllama

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// A stream is what was read of an event stream. It takes bytes as they come.
type stream struct {
	Status    int
	Reasoning string
	Content   string
	Calls     []string // name and arguments
	Finish    string
	Error     string
	Done      bool
	Timings   *timings
	Usage     *struct {
		Prompt int `json:"prompt_tokens"`
	}
	raw []byte // an unfinished line
}

type timings struct {
	Cache     int `json:"cache_n"`
	Prompt    int `json:"prompt_n"`
	Predicted int `json:"predicted_n"`
}

// next is cache_n of a request that strictly extends this one and whose history
// renders to the same tokens.
func (t timings) next() int { return t.Cache + t.Prompt + t.Predicted - 1 }

// Write takes a piece of the stream.
func (s *stream) Write(b []byte) (int, error) {
	s.raw = append(s.raw, b...)
	for {
		line, rest, ok := bytes.Cut(s.raw, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		s.raw = rest
		if data, ok := strings.CutPrefix(strings.TrimRight(string(line), "\r"), "data: "); ok {
			if err := s.event(data); err != nil {
				return 0, err
			}
		}
	}
}

func (s *stream) event(data string) error {
	if data == "[DONE]" {
		s.Done = true
		return nil
	}
	var e struct {
		Choices []struct {
			Finish string `json:"finish_reason"`
			Delta  struct {
				Reasoning string `json:"reasoning_content"`
				Content   string `json:"content"`
				Calls     []struct {
					Index    int `json:"index"`
					Function struct {
						Name string `json:"name"`
						Args string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"delta"`
		} `json:"choices"`
		Timings *timings `json:"timings"`
		Usage   *struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("event %q: %w", data, err)
	}
	if e.Error != nil {
		s.Error = e.Error.Message
	}
	if e.Timings != nil {
		s.Timings = e.Timings
	}
	if e.Usage != nil {
		s.Usage = e.Usage
	}
	for _, c := range e.Choices {
		s.Reasoning += c.Delta.Reasoning
		s.Content += c.Delta.Content
		for _, p := range c.Delta.Calls {
			for p.Index >= len(s.Calls) {
				s.Calls = append(s.Calls, "")
			}
			s.Calls[p.Index] += p.Function.Name + p.Function.Args
		}
		if c.Finish != "" {
			s.Finish = c.Finish
		}
	}
	return nil
}
