package measure

import (
	"errors"
	"fmt"
	"strings"

	"boxmaker/bxctl/internal/measure/api"
)

// Render is what the chat template does with a history. No slot is touched.
type Render struct {
	Extends   bool   `json:"extends"`  // each request's text extends the one before
	Thinking  bool   `json:"thinking"` // earlier thinking stays in the text
	TwoInARow bool   `json:"two_in_a_row"`
	Parts     string `json:"parts,omitzero"` // where it did not extend
	Error     string `json:"error,omitzero"`
}

const (
	thoughtOne = "measured thought number one"
	thoughtTwo = "measured thought number two"
)

// chain is a conversation with thinking and calls; ends tells after how many of
// its messages a request is sent.
func chain() (all []message, ends []int) {
	say := func(text, thought string, calls ...call) message {
		return message{Role: "assistant", Content: &text, Reasoning: thought, Calls: calls}
	}
	one := call{ID: "measure1", Type: "function"}
	one.Function.Name, one.Function.Arguments = "add", `{"a":1,"b":2}`
	two := call{ID: "measure2", Type: "function"}
	two.Function.Name, two.Function.Arguments = "clock", `{}`
	return []message{
		system(instruction), user("one"), say("", thoughtOne, one), tool("measure1", "3"), say("It is 3.", ""),
		user("two"), say("I look.", "", two), tool("measure2", "noon"), say("Noon.", thoughtTwo), user("three"),
	}, []int{2, 4, 6, 8, 10}
}

// render compares the prompt texts of five requests of one conversation.
func (r *run) render() error {
	out := &Render{Extends: true}
	all, ends := chain()
	before := ""
	for i, n := range ends {
		full, err := r.text(all[:n], "")
		if err == nil {
			var bare string
			bare, err = r.text(all[:n], `"add_generation_prompt":false`)
			if i > 0 && err == nil && !strings.HasPrefix(full, before) {
				out.Extends, out.Parts = false, parts(before, full)
			}
			before = bare
			if n == len(all) {
				out.Thinking = strings.Contains(full, thoughtOne)
			}
		}
		var refused *api.Error
		if errors.As(err, &refused) {
			out.Extends, out.Error = false, refused.Error()
			break
		}
		if err != nil {
			return err
		}
	}
	text, err := r.text([]message{system(instruction), user("measured question one"), user("measured question two")}, "")
	out.TwoInARow = err == nil && strings.Contains(text, "measured question one") && strings.Contains(text, "measured question two")
	r.res.Render = out
	return r.ctx.Err()
}

func (r *run) text(messages []message, extra string) (string, error) {
	body, err := r.req.body(shape{max: 1, think: -1, tools: schemas(targets()), extra: extra}, messages)
	if err != nil {
		return "", err
	}
	return r.Server.Render(r.ctx, body)
}

// parts shows where two texts part, and a little of them.
func parts(a, b string) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	cut := func(s string) string { return s[i:min(len(s), i+24)] }
	return fmt.Sprintf("at byte %d of %d: %q became %q", i, len(a), cut(a), cut(b))
}

// Thinking is what the cap of thinking does.
type Thinking struct {
	Thinks  bool  `json:"thinks"`
	Cap     int   `json:"cap"`      // tokens
	Capped  int   `json:"capped"`   // tokens of thinking under the cap, its mark not counted
	Marked  bool  `json:"marked"`   // the mark stands at its end
	Free    int   `json:"free"`     // tokens of thinking without a cap
	Before  int64 `json:"before"`   // tokens in the window after the capped completion
	CacheN  int64 `json:"cache_n"`  // that the next turn reused
	Exact   bool  `json:"exact"`    // all of them
	Zero    bool  `json:"zero"`     // a cap of 0 gives no thinking
	ZeroHas int   `json:"zero_has"` // tokens of it that came all the same
}

const (
	capOf   = 8
	capRuns = 6 // tries until a cap was hit
)

const puzzle = "Think hard and long, step by step: how many ways are there to give change for one hundred with coins of 1, 5, 10, 25 and 50?"

// thinking asks with a small cap until it was hit, then with none, and with a cap
// of zero. Interrupted, it goes on with the next of these three parts; the first one
// is made in one go, since it looks at what the slot still has.
func (r *run) thinking() error {
	const step = "thinking"
	g := r.going()
	if g.Thinking == nil {
		r.forget(step)
		g.Thinking, g.Thoughts = &Thinking{Cap: capOf}, 0
	}
	r.forgetFailed(step)
	out := g.Thinking
	for _, part := range []func() error{
		func() error { return r.capped(step, out) },
		func() (err error) {
			out.Free, err = r.thoughts(step, "without a cap", shape{max: 768, think: -1})
			return err
		},
		func() (err error) {
			out.ZeroHas, err = r.thoughts(step, "a cap of zero", shape{max: 64, think: 0})
			return err
		},
	}[g.Thoughts:] {
		if err := part(); err != nil {
			return err
		}
		g.Thoughts++
		if err := r.save(); err != nil {
			return err
		}
	}
	out.Zero = out.ZeroHas <= 2
	out.Thinks = out.Capped+out.Free > 0 || out.Marked
	r.res.Thinking, g.Thinking, g.Thoughts = out, nil, 0
	return nil
}

// capped asks until the cap was hit, and looks whether the next turn finds it all.
func (r *run) capped(step string, out *Thinking) error {
	r.forget(step)
	*out = Thinking{Cap: capOf}
	var history []message
	for i := 0; i < capRuns && !out.Marked; i++ {
		history = []message{system(instruction)}
		c, err := r.turn(step, fmt.Sprintf("capped, try %d", i+1), &history, fmt.Sprintf("Task %d. %s", i+1, puzzle), shape{max: capOf + 160, think: capOf})
		if err != nil {
			return err
		}
		n, marked, err := r.thought(c)
		if err != nil {
			return err
		}
		out.Capped, out.Marked, out.Before = max(out.Capped, n), marked, c.Timings.Total()
	}
	next, err := r.turn(step, "the turn after", &history, "Thank you. Once more, please.", shape{max: 16, think: capOf})
	if err != nil {
		return err
	}
	out.CacheN = next.Timings.CacheN
	out.Exact = out.CacheN >= out.Before-1
	return nil
}

// thoughts is how many tokens the model thinks of the puzzle.
func (r *run) thoughts(step, what string, s shape) (int, error) {
	history := []message{system(instruction)}
	c, err := r.turn(step, what, &history, puzzle, s)
	if err != nil {
		return 0, err
	}
	n, _, err := r.thought(c)
	return n, err
}

// thought counts the tokens of a completion's thinking, without the mark.
func (r *run) thought(c *api.Completion) (tokens int, marked bool, err error) {
	text := strings.TrimSpace(c.Reasoning)
	text, marked = strings.CutSuffix(text, strings.TrimSpace(mark))
	if text = strings.TrimSpace(text); text == "" {
		return 0, marked, nil
	}
	n, err := r.Server.Tokenize(r.ctx, text)
	return n, marked, err
}
