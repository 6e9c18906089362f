// Package measure finds out what Boxmaker's inference contract rests on, against
// the owner's own server: how fast it is at which depth, whether the prompt cache
// hits, whether tool calls parse, what slots, thinking and waiting do.
//
// It uses one slot, the background one, and changes nothing else. What is measured
// is on disk after each step, and inside the long ones after each request, so that
// an interrupted run goes on where it was, as long as the server is the same. The
// steps whose rows rest on what the row before left in the slot (cache, slots, busy)
// are made in one go: nobody knows what used the slot in between. The figures are the server's own timings; the
// clock of this machine stands beside them. A verdict says what was seen on this
// run, not what will be: another program may take the slot at any time.
package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxmaker/bxctl/internal/loopdconf"
	"boxmaker/bxctl/internal/measure/api"

	"github.com/go-json-experiment/json/jsontext"
)

// Verdict of one point of the contract.
type Verdict string

// Verdicts. Unclear is for what could not be told here.
const (
	Kept    Verdict = "kept"
	Doubt   Verdict = "doubtful"
	Broken  Verdict = "broken"
	Unclear Verdict = "not told"
)

// Results are everything that was measured. A nil part was not reached yet.
type Results struct {
	Form     int       `json:"form"` // version of this structure
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended,omitzero"`
	Server   Server    `json:"server"`
	Render   *Render   `json:"render,omitzero"`
	Depth    *Depth    `json:"depth,omitzero"`
	Cache    *Cache    `json:"cache,omitzero"`
	Tools    *Tools    `json:"tools,omitzero"`
	Thinking *Thinking `json:"thinking,omitzero"`
	Slots    *Slots    `json:"slots,omitzero"`
	Busy     *Busy     `json:"busy,omitzero"`
	Baseline int64     `json:"baseline,omitzero"` // as loopd told it
	Going    *Going    `json:"going,omitzero"`    // what a long step has so far
	Raw      []Raw     `json:"raw"`
}

const form = 1

// Server is what the server tells of itself, and where it is.
type Server struct {
	At       string   `json:"at"`
	Build    string   `json:"build"`
	Model    string   `json:"model"`
	Path     string   `json:"path,omitzero"`
	Ftype    string   `json:"ftype,omitzero"`
	Params   int64    `json:"params,omitzero"`
	Size     int64    `json:"size,omitzero"`
	Window   int64    `json:"window"` // n_ctx of one slot
	Slots    int      `json:"slots"`
	Slot     int      `json:"slot"` // that was used
	Template string   `json:"template"`
	Drafts   bool     `json:"drafts"` // speculative decoding
	Args     []string `json:"args,omitempty"`
	Practice bool     `json:"practice,omitzero"`
}

// same reports whether figures of the one belong to the other.
func (s Server) same(o Server) bool {
	return s.At == o.At && s.Build == o.Build && s.Model == o.Model && s.Window == o.Window && s.Slots == o.Slots && s.Slot == o.Slot && s.Template == o.Template && s.Drafts == o.Drafts
}

// Raw is one request with the timings as they came.
type Raw struct {
	Step     string         `json:"step"`
	What     string         `json:"what"`
	Finish   string         `json:"finish,omitzero"`
	Timings  jsontext.Value `json:"timings,omitzero"`
	HeadMS   int64          `json:"head_ms"`  // until the headers
	FirstMS  int64          `json:"first_ms"` // until the first token
	WallMS   int64          `json:"wall_ms"`
	Progress int            `json:"progress"` // events of prompt processing
	Pings    int            `json:"pings"`
	Error    string         `json:"error,omitzero"`
}

// Options say what to measure.
type Options struct {
	Server   *api.Server
	Settings loopdconf.Settings
	State    string   // file that keeps the results
	Fresh    bool     // begin anew
	Deepest  int64    // tokens; 0 means 32,768. The window bounds it too.
	Trials   int      // of tool calls; 0 means 20
	Flags    []string // of the server, where the caller knows them and it does not tell
	Version  string
	Now      func() time.Time
	Tell     func(string) // progress, a line each; may be nil
	Note     func(string) // what the owner has to see after it happened, too; nil: Tell
	// Consent is asked before something is evicted, with what that is. An error
	// of it ends the run before anything was sent to a slot.
	Consent func(what string) error
	// Baseline of loopd in tokens and who uses the slot now; both may be nil.
	Baseline func(context.Context) int64
	User     func(context.Context) string
}

// run is one measurement under way.
type run struct {
	Options
	ctx context.Context
	res *Results
	req request
}

type step struct {
	name string
	done func(*Results) bool
	do   func(*run) error
}

func steps() []step {
	return []step{
		{"rendering", func(r *Results) bool { return r.Render != nil }, (*run).render},
		{"slots", func(r *Results) bool { return r.Slots != nil }, (*run).slots},
		{"cache", func(r *Results) bool { return r.Cache != nil }, (*run).cache},
		{"tool calls", func(r *Results) bool { return r.Tools != nil && r.Tools.Complete }, (*run).tools},
		{"thinking", func(r *Results) bool { return r.Thinking != nil }, (*run).thinking},
		{"busy slot", func(r *Results) bool { return r.Busy != nil }, (*run).busy},
		{"throughput", func(r *Results) bool { return r.Depth != nil }, (*run).depth},
	}
}

// Run measures. When ctx ends it returns its cause; what was finished by then is
// on disk, and the next Run goes on behind it.
func Run(ctx context.Context, o Options) (*Results, error) {
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	if o.Note == nil {
		o.Note = o.Tell
	}
	if o.Deepest == 0 {
		o.Deepest = 32768
	}
	if o.Trials == 0 {
		o.Trials = 20
	}
	r := &run{Options: o, ctx: ctx}
	srv, err := r.look()
	if err != nil {
		return nil, err
	}
	if err := r.resume(srv); err != nil {
		return nil, err
	}
	r.req = request{Model: srv.Model, Slot: srv.Slot, Sampling: o.Settings.Sampling}
	if r.done() {
		return r.res, nil
	}
	if err := r.ask(srv); err != nil {
		return r.res, err
	}
	if o.Baseline != nil {
		r.res.Baseline = o.Baseline(ctx)
	}
	for i, s := range steps() {
		if s.done(r.res) {
			r.Tell(fmt.Sprintf("%d/%d %s: measured before", i+1, len(steps()), s.name))
			continue
		}
		r.Tell(fmt.Sprintf("%d/%d %s", i+1, len(steps()), s.name))
		if err := s.do(r); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return r.res, errors.Join(fmt.Errorf("%s: %w", s.name, err), r.save())
		}
		if err := r.save(); err != nil {
			return r.res, err
		}
	}
	r.res.Ended, r.res.Going = o.Now().UTC(), nil
	return r.res, r.save()
}

func (r *run) done() bool {
	for _, s := range steps() {
		if !s.done(r.res) {
			return false
		}
	}
	return !r.res.Ended.IsZero()
}

// look asks the server what it is. It touches no slot.
func (r *run) look() (Server, error) {
	ctx, cancel := context.WithTimeout(r.ctx, 15*time.Second)
	defer cancel()
	s := Server{At: r.Server.At().String(), Slot: r.Settings.Slots.Background}
	if err := r.Server.Health(ctx); err != nil {
		return s, fmt.Errorf("the server is not ready: %w", err)
	}
	list, err := r.Server.Models(ctx)
	if err != nil {
		return s, err
	}
	if s.Model = r.Settings.Upstream.Model; s.Model == "" && len(list) > 0 {
		s.Model = list[0].ID
	}
	for _, m := range list {
		if m.ID == s.Model || len(list) == 1 {
			s.Params, s.Size, s.Args = m.Meta.Params, m.Meta.Size, m.Status.Args
		}
	}
	if err := unloaded(list, s.Model); err != nil {
		return s, err
	}
	p, err := r.Server.Props(ctx, s.Model)
	if err != nil {
		return s, fmt.Errorf("the properties of %q: %w", s.Model, err)
	}
	if p.Build == "" || p.Slots == 0 {
		return s, errors.New("it is no llama-server: its /props has no build and no slots")
	}
	s.Build, s.Path, s.Ftype, s.Window, s.Slots, s.Template = p.Build, p.Model, p.Ftype, p.Settings.Window, p.Slots, p.Hash()
	if len(s.Args) == 0 {
		s.Args = r.Flags
	}
	s.Practice = len(p.Build) >= 8 && p.Build[:8] == "practice"
	if s.Slot >= s.Slots {
		return s, fmt.Errorf("slots.background is %d, and the server has %d slots: it would use any slot, without a word", s.Slot, s.Slots)
	}
	all, err := r.Server.Slots(ctx, s.Model)
	if err == nil {
		for _, one := range all {
			s.Drafts = s.Drafts || one.Drafts
		}
	}
	return s, nil
}

// unloaded refuses a router that would have to load the model: that may unload
// another one, with all that its slots hold, which is the owner's to decide.
func unloaded(list []api.Model, name string) error {
	var loaded []string
	state := ""
	for _, m := range list {
		if m.Status.Value == "loaded" {
			loaded = append(loaded, m.ID)
		}
		if m.ID == name || slices.Contains(m.Aliases, name) {
			state = m.Status.Value
		}
	}
	if state == "" || state == "loaded" { // "": no router
		return nil
	}
	others := "no model is loaded now"
	if len(loaded) > 0 {
		others = "loaded now: " + strings.Join(loaded, ", ") + ", which may be unloaded for it, with what its slots hold"
	}
	return fmt.Errorf("the server is a router, and its model %q is %s: a request would load it (%s); load it yourself first, then measure", name, state, others)
}

// ask tells what will be evicted, and asks where somebody uses it.
func (r *run) ask(s Server) error {
	what := ""
	all, err := r.Server.Slots(r.ctx, s.Model)
	if err == nil {
		for _, one := range all {
			switch {
			case one.ID != s.Slot:
			case one.Busy:
				what = fmt.Sprintf("slot %d works on a request of another program now", s.Slot)
			case one.Tokens > 0:
				r.Note(fmt.Sprintf("slot %d holds %d tokens of an earlier request, which will be evicted", s.Slot, one.Tokens))
			}
		}
	}
	if r.User != nil {
		if user := r.User(r.ctx); user != "" {
			what = fmt.Sprintf("slot %d is used by the session %s", s.Slot, user)
		}
	}
	if what == "" || r.Consent == nil {
		return nil
	}
	return r.Consent(what + "; what it has cached will be evicted and read again later")
}

// chat sends a request and keeps its raw figures.
func (r *run) chat(step, what string, body []byte, on func(api.Update) error) (*api.Completion, error) {
	c, err := r.Server.Chat(r.ctx, body, on)
	row := Raw{
		Step: step, What: what, Finish: c.Finish, Timings: c.Raw, HeadMS: c.Head.Milliseconds(), FirstMS: c.First.Milliseconds(),
		WallMS: c.Wall.Milliseconds(), Progress: len(c.Progress), Pings: c.Pings,
	}
	if err != nil {
		row.Error = err.Error()
	}
	if err == nil || r.ctx.Err() == nil {
		r.res.Raw = append(r.res.Raw, row)
	}
	return c, err
}

// forget takes the raw rows of a step away that begins anew.
func (r *run) forget(step string) {
	r.res.Raw = slices.DeleteFunc(r.res.Raw, func(row Raw) bool { return row.Step == step })
}

// forgetFailed takes those away that a step tries again when it goes on.
func (r *run) forgetFailed(step string) {
	r.res.Raw = slices.DeleteFunc(r.res.Raw, func(row Raw) bool { return row.Step == step && row.Error != "" })
}
