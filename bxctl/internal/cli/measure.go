package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loopdconf"
	"boxmaker/bxctl/internal/measure"
	"boxmaker/bxctl/internal/measure/api"
	"boxmaker/bxctl/internal/prompt"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/daemon"

	"github.com/spf13/cobra"
)

func (a *app) measure() *cobra.Command {
	var asJSON, fresh, yes bool
	var depth int64
	var trials int
	c := &cobra.Command{
		Use: "measure", Short: "measure what your inference server does", Args: exactly(0),
		Long: `Measures what Boxmaker's inference contract rests on: throughput by depth, what the
prompt cache does in three turns, how many tool calls parse, slots, thinking, and
a busy slot. Only the background slot is used. An interrupted run goes on where it
was. The report is written to the home, in Markdown, with a block for loopd.toml.

Exit codes: 0 every point that could be told is kept; 5 some are doubtful; 6 some
are broken.`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print all figures as JSON")
	c.Flags().BoolVar(&fresh, "fresh", false, "begin anew instead of going on with an interrupted run")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "evict what another program has on the slot without asking")
	c.Flags().Int64Var(&depth, "depth", 32768, "deepest point of the throughput, in `tokens`; the window bounds it")
	c.Flags().IntVar(&trials, "trials", 20, "`number` of tool calls to ask for")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if depth < 0 || trials < 1 || trials > 1000 {
			return usage(errors.New("--depth must not be negative, --trials must be from 1 to 1000"), "see bxctl measure --help")
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		o, err := a.measurement(fresh, yes)
		if err != nil {
			return err
		}
		o.Deepest, o.Trials = max(depth, 1), trials // 1 is depth 0 alone
		res, err := measure.Run(ctx, o)
		fmt.Fprint(a.env.Stderr, a.err.Erase())
		if err != nil {
			return a.measureFailed(ctx, o, res, err)
		}
		return a.measured(o, res, asJSON)
	}
	return c
}

// measurement prepares a run from the configuration.
func (a *app) measurement(fresh, yes bool) (measure.Options, error) {
	invalid := func(err error) error {
		return &fault.Fault{Code: fault.Usage, What: "the configuration can't be used", Err: err, Do: "mend it; bxctl doctor names every mistake", Key: "config-invalid"}
	}
	s, p, err := setup.Load(a.layout)
	if err != nil {
		return measure.Options{}, invalid(err)
	}
	conf, err := loopdconf.Load(a.layout)
	if err != nil {
		return measure.Options{}, invalid(err)
	}
	at, err := api.Address(a.layout, s, p)
	if err != nil {
		return measure.Options{}, err
	}
	var flags []string
	if s.Model.Kind == setup.Llama {
		flags = up.LlamaFlags(s.Model, at.Path)
	}
	return measure.Options{
		Flags:  flags,
		Server: api.New(at), Settings: conf, State: filepath.Join(a.layout.Home, "measure", "state.json"), Fresh: fresh, Version: daemon.Version,
		Now: a.env.Now, Tell: a.steps(), Note: a.note, Consent: func(what string) error { return a.consent(what, yes) },
		Baseline: func(ctx context.Context) int64 {
			if st, err := a.client().Status(ctx); err == nil {
				return st.Baseline
			}
			return 0
		},
		User: func(ctx context.Context) string {
			if st, err := a.client().Status(ctx); err == nil {
				for _, slot := range st.Slots {
					if slot.ID == conf.Slots.Background {
						return slot.Session
					}
				}
			}
			return ""
		},
	}, nil
}

// steps shows progress: in place on a terminal, else each new step as a line.
func (a *app) steps() func(string) {
	if show := a.progress(); show != nil {
		return show
	}
	return func(s string) {
		if head, _, _ := strings.Cut(s, "/"); head != s && len(head) < 3 {
			fmt.Fprintln(a.env.Stderr, term.Line(s))
		}
	}
}

// note writes a line that stays.
func (a *app) note(s string) { fmt.Fprintln(a.env.Stderr, a.err.Erase()+term.Line(s)) }

func (a *app) consent(what string, yes bool) error {
	if yes {
		a.note(what)
		return nil
	}
	fmt.Fprint(a.env.Stderr, a.err.Erase())
	refused := &fault.Fault{Code: fault.Usage, What: what, Do: "measure later, or agree with: bxctl measure --yes", Key: "measure-evicts"}
	if !term.IsTerminal(a.env.Stdin) || !a.err.Terminal {
		return refused
	}
	if ok, err := prompt.Yes(a.env.Stdin, a.env.Stderr, term.Line(what)+". Go on?"); err != nil || !ok {
		return refused
	}
	return nil
}

// measureFailed explains the end of a run that was not finished.
func (a *app) measureFailed(ctx context.Context, o measure.Options, res *measure.Results, err error) error {
	var f *fault.Fault
	switch {
	case errors.As(err, &f):
		return f
	case ctx.Err() != nil:
		return &fault.Fault{What: "interrupted", Means: "what was measured so far is kept", Do: "go on with: bxctl measure", Key: "measure-unfinished"}
	case res == nil:
		return &fault.Fault{
			What: "the inference server at " + o.Server.At().String() + " can't be measured", Err: err,
			Do: "start it (bxctl up --detach starts the practice model or your own), or see bxctl doctor", Key: "measure-server",
		}
	default:
		return &fault.Fault{What: "the measurement broke off", Err: err, Means: "what was measured so far is kept", Do: "look at the server's log, then go on with: bxctl measure", Key: "measure-unfinished"}
	}
}

// measured writes the report and prints what matters of it.
func (a *app) measured(o measure.Options, res *measure.Results, asJSON bool) error {
	most := o.Settings.Sampling.MaxTokens
	name := filepath.Join(filepath.Dir(o.State), "report-"+res.Started.UTC().Format("20060102T150405Z")+".md")
	if err := measure.Write(name, []byte(res.Markdown(most))); err != nil {
		return &fault.Fault{What: "the report can't be written", Err: err, Key: "home-unwritable"}
	}
	points := res.Judge(most)
	var err error
	if asJSON {
		err = archive.WriteJSON(a.out, struct {
			*measure.Results
			Points []measure.Contract `json:"contract"`
			Expect string             `json:"expect"`
			Report string             `json:"report"`
		}{res, points, res.Expect(), name})
	} else {
		_, err = fmt.Fprint(a.env.Stdout, res.Text(a.out, points)+"\nThe whole report: "+name+"\n")
	}
	if err != nil {
		return err
	}
	code := map[measure.Verdict]int{measure.Doubt: 5, measure.Broken: 6}[measure.Worst(points)]
	if code == 0 {
		return nil
	}
	return &fault.Fault{Code: code, What: fmt.Sprintf("points of the contract are %s", measure.Worst(points)), Do: "see what to do in the table", Key: "measure-contract"}
}
