package measure

import (
	"errors"
	"fmt"
	"slices"

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

// growing is the conversation of the throughput, as far as it has come.
type growing struct {
	Done    Depth     `json:"done"`
	History []message `json:"history"`
	Have    int64     `json:"have"`   // tokens of it
	Filled  bool      `json:"filled"` // up to the depth that is next
}

// depth grows one conversation, and times a piece of prompt and of answer at each
// depth on the way. Interrupted, it goes on with the next request of the same
// conversation: what the slot has lost of it meanwhile is read again first, so that
// it is in no figure.
func (r *run) depth() error {
	const step = "throughput"
	g := r.going().Depth
	again := g != nil && g.Done.Deepest == r.Deepest && len(g.History) > 1
	if again {
		r.forgetFailed(step)
	} else {
		r.forget(step)
		g = &growing{Done: Depth{Deepest: r.Deepest}, History: []message{system(instruction)}}
		r.going().Depth = g
	}
	deepest := r.Deepest
	if room := r.res.Server.Window - probe - generate - spare; deepest > room {
		deepest = room
		g.Done.Bounded = fmt.Sprintf("the window of %d tokens bounds the depth to %d", r.res.Server.Window, room)
	}
	if deepest < 0 {
		return errors.New("the window is too small to measure anything")
	}
	per, err := r.density()
	if err != nil {
		return err
	}
	all := depths(deepest)
	for i := len(g.Done.Points); i < len(all); i++ {
		if err := r.fill(step, g, i, all[i], per, again); err != nil {
			return err
		}
		if err := r.probe(step, g, i, all[i], per); err != nil {
			return err
		}
		again = false
	}
	r.res.Depth, r.going().Depth = &g.Done, nil
	return nil
}

// fill grows the conversation up to a depth. again: the run was interrupted, and
// the slot may have lost it.
func (r *run) fill(step string, g *growing, i int, at int64, per int, again bool) error {
	what, n, salt := fmt.Sprintf("fill to %d", at), at-g.Have, uint64(1000+i)
	switch {
	case !g.Filled && n > probe/4:
		r.Tell(fmt.Sprintf("throughput: filling up to %d tokens", at))
	case again:
		r.Tell(fmt.Sprintf("throughput: reading again what the slot has lost of %d tokens", g.Have))
		what, n, salt = fmt.Sprintf("back to %d", at), 16, uint64(2000+i)
	default:
		return nil
	}
	c, err := r.turn(step, what, &g.History, prose(n, per, r.seed(salt)), shape{max: 1, think: -1})
	if err != nil {
		return err
	}
	g.Have, g.Filled = c.Timings.Total(), true
	return r.save()
}

// probe times a piece of prompt and of answer where the conversation is.
func (r *run) probe(step string, g *growing, i int, at int64, per int) error {
	r.Tell(fmt.Sprintf("throughput: timing at %d tokens", g.Have))
	text := prose(probe, per, r.seed(uint64(i+1)))
	c, err := r.turn(step, fmt.Sprintf("probe at %d", at), &g.History, text+"\nNow say 200 words.", shape{max: generate, think: -1, extra: `"ignore_eos":true`})
	if err != nil {
		return err
	}
	t := c.Timings
	g.Done.Points = append(g.Done.Points, Point{
		At: g.Have, PromptN: t.PromptN, Prompt: t.PromptRate, Predicted: t.PredictedN, Generate: t.PredictedRate,
		FirstMS: c.First.Milliseconds(), CacheN: t.CacheN, Lost: max(0, g.Have-1-t.CacheN),
	})
	g.Have, g.Filled = t.Total(), false
	return r.save()
}

// turn adds a message and its answer. Without an answer the history stays as it was.
func (r *run) turn(step, what string, history *[]message, text string, s shape) (*api.Completion, error) {
	asked := append(slices.Clip(*history), user(text))
	body, err := r.req.body(s, asked)
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
	*history = append(asked, answer(c)...)
	return c, nil
}
