package measure

import (
	"context"
	"errors"
	"fmt"

	"boxmaker/bxctl/internal/measure/api"

	"github.com/go-json-experiment/json/jsontext"
)

// Tools is how tool calls come back.
type Tools struct {
	Trials   []Trial `json:"trials"`
	Complete bool    `json:"complete"`
}

// Trial is one request for one call.
type Trial struct {
	Tool   string `json:"tool"` // that was asked for
	Called string `json:"called,omitzero"`
	Parsed bool   `json:"parsed"` // a declared tool, arguments that are one JSON object
	Right  bool   `json:"right"`  // the tool that was asked for
	Exact  bool   `json:"exact"`  // and the very arguments
	Markup bool   `json:"markup"` // call markup in the text: a call that the server missed
	Finish string `json:"finish,omitzero"`
	Error  string `json:"error,omitzero"`
}

// tools asks for a call again and again. Each trial is a conversation of its own
// behind the same head. Interrupted, it goes on with the next trial.
func (r *run) tools() error {
	const step = "tool calls"
	if r.res.Tools == nil {
		r.forget(step)
		r.res.Tools = &Tools{}
	}
	all := targets()
	s := shape{max: 1024, think: 256, tools: schemas(all), extra: `"tool_choice":"required"`}
	for n := len(r.res.Tools.Trials); n < r.Trials; n++ {
		t := all[n%len(all)]
		r.Tell(fmt.Sprintf("%s: trial %d of %d, %s", step, n+1, r.Trials, t.name))
		body, err := r.req.body(s, []message{system(instruction), user(t.asks)})
		if err != nil {
			return err
		}
		c, err := r.chat(step, t.name, body, nil)
		var refused *api.Error
		if r.ctx.Err() != nil || err != nil && !errors.As(err, &refused) && !errors.Is(err, api.ErrCut) {
			return errors.Join(err, context.Cause(r.ctx))
		}
		r.res.Tools.Trials = append(r.res.Tools.Trials, judge(t, all, c, err))
		if err := r.save(); err != nil {
			return err
		}
	}
	r.res.Tools.Complete = true
	return nil
}

// judge looks at what came of a trial.
func judge(t target, all []target, c *api.Completion, err error) Trial {
	out := Trial{Tool: t.name, Finish: c.Finish, Markup: c.Markup()}
	if err != nil {
		out.Error = err.Error()
		return out
	}
	if len(c.Calls) == 0 {
		return out
	}
	first := c.Calls[0]
	out.Called, out.Parsed = first.Name, c.Finish == "tool_calls"
	for _, k := range c.Calls {
		out.Parsed = out.Parsed && declared(all, k.Name) && object(k.Arguments)
	}
	out.Right = out.Parsed && first.Name == t.name
	out.Exact = out.Right && sameJSON(first.Arguments, t.args)
	return out
}

func declared(all []target, name string) bool {
	for _, t := range all {
		if t.name == name {
			return true
		}
	}
	return false
}

func object(s string) bool {
	v := jsontext.Value(s)
	return v.IsValid() && v.Kind() == '{'
}

// sameJSON compares two texts without regard to the order of members.
func sameJSON(a, b string) bool {
	x, y := jsontext.Value(a).Clone(), jsontext.Value(b).Clone()
	return x.Canonicalize() == nil && y.Canonicalize() == nil && string(x) == string(y)
}

// counts sums the trials up.
func (t *Tools) counts() (parsed, right, exact, markup int) {
	for _, one := range t.Trials {
		for n, yes := range map[*int]bool{&parsed: one.Parsed, &right: one.Right, &exact: one.Exact, &markup: one.Markup} {
			if yes {
				*n++
			}
		}
	}
	return parsed, right, exact, markup
}
