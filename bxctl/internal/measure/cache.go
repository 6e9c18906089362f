package measure

import (
	"fmt"
	"slices"

	"boxmaker/bxctl/internal/measure/api"

	"github.com/go-json-experiment/json/jsontext"
)

// Cache is the table of what the prompt cache does.
type Cache struct {
	Rows []CacheRow `json:"rows"`
}

// CacheRow is one request of the table.
type CacheRow struct {
	What    string `json:"what"`
	Before  int64  `json:"before"` // tokens that the slot held
	CacheN  int64  `json:"cache_n"`
	PromptN int64  `json:"prompt_n"`
	GenN    int64  `json:"predicted_n"`
	Exact   bool   `json:"exact"`              // all that could be reused was
	Extends bool   `json:"extends"`            // the request extends the one before
	PromptM int64  `json:"prompt_ms,omitzero"` // time for what was processed
}

const (
	thinkSome = 48  // cap of thinking in the table
	saySome   = 160 // tokens of a completion
	slack     = 64  // tokens that the cache may lack: checkpoints of hybrid models
)

// table of the cache: three turns that extend each other, with tools and thinking,
// then what breaks the prefix. The order matters: each row starts from the slot
// as the one before left it.
func (r *run) cache() error {
	const step = "cache"
	r.forget(step)
	out := &Cache{}
	per, err := r.density()
	if err != nil {
		return err
	}
	s := shape{max: saySome, think: thinkSome, tools: schemas(targets())}
	history := []message{system(instruction + " " + prose(400, per, r.seed(99)))}
	last := int64(0)
	note := func(what string, extends bool, before int64, c *api.Completion) {
		t := c.Timings
		out.Rows = append(out.Rows, CacheRow{
			What: what, Before: before, CacheN: t.CacheN, PromptN: t.PromptN, GenN: t.PredictedN,
			Exact: extends && before > 0 && t.CacheN >= before-1, Extends: extends, PromptM: int64(t.PromptMS),
		})
	}
	texts := []string{
		"First question: which is larger, 9.11 or 9.9? " + prose(120, per, r.seed(5)),
		"Second question: say it once more, and use the tool clock. " + prose(120, per, r.seed(6)),
		"Third question: what did I ask first? " + prose(120, per, r.seed(7)),
	}
	var asked []message
	for i, text := range texts {
		c, err := r.turn(step, fmt.Sprintf("turn %d", i+1), &history, text, s)
		if err != nil {
			return err
		}
		note(fmt.Sprintf("turn %d", i+1), i > 0, last, c)
		last = c.Timings.Total()
		asked = slices.Clone(history[:len(history)-len(answer(c))])
	}
	for _, v := range []struct {
		what string
		make func() ([]message, []jsontext.Value)
	}{
		{"turn 3 sent again", func() ([]message, []jsontext.Value) { return asked, s.tools }},
		{"thinking dropped from the history", func() ([]message, []jsontext.Value) { return withoutThinking(asked), s.tools }},
		{"turn 3 sent again, to restore", func() ([]message, []jsontext.Value) { return asked, s.tools }},
		{"first message of the owner changed", func() ([]message, []jsontext.Value) { return changed(asked), s.tools }},
		{"a tool added", func() ([]message, []jsontext.Value) {
			return asked, append(slices.Clone(s.tools), schemas([]target{{"extra", "", "", `{"type":"object","properties":{}}`}})...)
		}},
	} {
		messages, tools := v.make()
		body, err := r.req.body(shape{max: 8, think: thinkSome, tools: tools}, messages)
		if err != nil {
			return err
		}
		c, err := r.chat(step, v.what, body, nil)
		if err != nil {
			return err
		}
		note(v.what, false, last, c)
		last = c.Timings.Total()
	}
	r.res.Cache = out
	return nil
}

func withoutThinking(in []message) []message {
	out := slices.Clone(in)
	for i := range out {
		out[i].Reasoning = ""
	}
	return out
}

func changed(in []message) []message {
	out := slices.Clone(in)
	for i := range out {
		if out[i].Role == "user" {
			text := "Changed. " + *out[i].Content
			out[i].Content = &text
			return out
		}
	}
	return out
}
