package measure

import (
	"errors"
	"fmt"

	"boxmaker/bxctl/internal/measure/api"
)

// Depth is how fast the server is, by tokens that stand before.
type Depth struct {
	Points  []Point `json:"points"`
	Deepest int64   `json:"deepest"` // that was asked for
	Bounded string  `json:"bounded,omitzero"`
}

// Point is one measurement at one depth.
type Point struct {
	At        int64   `json:"at"`         // tokens in the window before
	PromptN   int64   `json:"prompt_n"`   // processed here
	Prompt    float64 `json:"prompt_tps"` // tokens per second
	Predicted int64   `json:"predicted_n"`
	Generate  float64 `json:"generate_tps"`
	FirstMS   int64   `json:"first_ms"`
	CacheN    int64   `json:"cache_n"`
	Lost      int64   `json:"lost"` // tokens that were there and were read again
}

const (
	probe    = 1024 // tokens of prompt that are timed at each depth
	generate = 64   // tokens that are generated there
	spare    = 256  // tokens that stay free at the end of the window
)

// depths to look at: 0 and powers of two up to the deepest.
func depths(deepest int64) []int64 {
	out := []int64{0}
	for d := int64(4096); d < deepest; d *= 2 {
		out = append(out, d)
	}
	if deepest > 2*probe {
		out = append(out, deepest)
	}
	return out
}

// depth grows one conversation, and times a piece of prompt and of answer at each
// depth on the way.
func (r *run) depth() error {
	const step = "throughput"
	r.forget(step)
	d := &Depth{Deepest: r.Deepest}
	deepest := r.Deepest
	if room := r.res.Server.Window - probe - generate - spare; deepest > room {
		deepest = room
		d.Bounded = fmt.Sprintf("the window of %d tokens bounds the depth to %d", r.res.Server.Window, room)
	}
	if deepest < 0 {
		return errors.New("the window is too small to measure anything")
	}
	per, err := r.density()
	if err != nil {
		return err
	}
	history := []message{system(instruction)}
	have := int64(0)
	for i, at := range depths(deepest) {
		if fill := at - have; fill > probe/4 {
			r.Tell(fmt.Sprintf("throughput: filling up to %d tokens", at))
			c, err := r.turn(step, fmt.Sprintf("fill to %d", at), &history, prose(fill, per, r.seed(uint64(1000+i))), shape{max: 1, think: -1})
			if err != nil {
				return err
			}
			have = c.Timings.Total()
		}
		r.Tell(fmt.Sprintf("throughput: timing at %d tokens", have))
		text := prose(probe, per, r.seed(uint64(i+1)))
		c, err := r.turn(step, fmt.Sprintf("probe at %d", at), &history, text+"\nNow say 200 words.", shape{max: generate, think: -1, extra: `"ignore_eos":true`})
		if err != nil {
			return err
		}
		t := c.Timings
		d.Points = append(d.Points, Point{
			At: have, PromptN: t.PromptN, Prompt: t.PromptRate, Predicted: t.PredictedN, Generate: t.PredictedRate,
			FirstMS: c.First.Milliseconds(), CacheN: t.CacheN, Lost: max(0, have-1-t.CacheN),
		})
		have = t.Total()
	}
	r.res.Depth = d
	return nil
}

// turn adds a message, gets the answer and adds it too.
func (r *run) turn(step, what string, history *[]message, text string, s shape) (*api.Completion, error) {
	*history = append(*history, user(text))
	body, err := r.req.body(s, *history)
	if err != nil {
		return nil, err
	}
	c, err := r.chat(step, what, body, func(u api.Update) error {
		if p := u.Progress; p != nil && p.Total > 0 {
			r.Tell(fmt.Sprintf("%s: %s, %d%% of %d tokens", step, what, p.Processed*100/p.Total, p.Total))
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	*history = append(*history, answer(c)...)
	return c, nil
}
