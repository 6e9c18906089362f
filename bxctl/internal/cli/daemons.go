package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/mattermost"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/daemon"

	"github.com/spf13/cobra"
)

func (a *app) initialise() *cobra.Command {
	var practice, force, prompt, systemd bool
	var upstream, model, out string
	c := &cobra.Command{
		Use: "init", Short: "set Boxmaker up, or choose another model", Args: exactly(0),
		Long: `Writes commented configuration files and makes the folders. On an existing
installation only the model is changed, and only if one is named.

With --systemd it also writes units for systemd, which then runs the programs in the
place of bxctl up: one socket and one service a role, hardened, in the folder systemd
of the configuration, or in --out. Nothing is enabled: the commands for that are shown.`,
		Example: "  bxctl init\n  bxctl init --upstream http://192.168.1.5:8080\n  bxctl init --upstream unix:/run/llama.sock\n  bxctl init --model ~/models/qwen.gguf\n  bxctl init --systemd",
	}
	c.Flags().BoolVar(&practice, "practice", false, "use the practice model: rules, not a language model; it needs nothing")
	c.Flags().StringVar(&upstream, "upstream", "", "use the llama-server at `URL`: http://HOST:PORT or unix:/PATH")
	c.Flags().StringVar(&model, "model", "", "let bxctl up start llama-server with this GGUF `file`")
	c.Flags().BoolVar(&force, "force", false, "write all configuration files anew; the old ones are kept beside them")
	c.Flags().BoolVar(&prompt, "prompt", false, "write prompts/system.md, the system prompt, for you to edit")
	c.Flags().BoolVar(&systemd, "systemd", false, "write systemd units too, as an alternative to bxctl up")
	c.Flags().StringVar(&out, "out", "", "with --systemd: write the units into this `folder`")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := exclusive(c, "practice", "upstream", "model"); err != nil {
			return err
		}
		if c.Flags().Changed("out") && !systemd {
			return usage(errors.New("--out is for --systemd"), "give both, or neither")
		}
		j := setup.Job{Layout: a.layout, Force: force, Prompt: prompt, Now: a.env.Now()}
		switch {
		case c.Flags().Changed("upstream"):
			j.Choice = setup.Choice{Kind: setup.Upstream, Upstream: upstream}
		case c.Flags().Changed("model"):
			j.Choice = setup.Choice{Kind: setup.Llama, File: model}
		case practice:
			j.Choice = setup.Choice{Kind: setup.Practice}
		}
		r, err := j.Run()
		if err != nil {
			return err
		}
		if systemd {
			return a.writeUnits(out)
		}
		a.printReport(r)
		return nil
	}
	return c
}

func (a *app) printReport(r setup.Report) {
	w := a.env.Stdout
	switch {
	case r.Fresh:
		fmt.Fprintln(w, "Boxmaker is set up in "+a.layout.Home+".")
		fmt.Fprintln(w, "  configuration  "+a.layout.Config)
	case len(r.Changes) == 0 && len(r.Made) == 0:
		fmt.Fprintln(w, "Boxmaker is set up in "+a.layout.Home+" already; nothing was changed.")
	case len(r.Changes) == 0:
		fmt.Fprintln(w, "Added to Boxmaker in "+a.layout.Home+":")
	default:
		fmt.Fprintln(w, "Changed in "+a.layout.Config+":")
		for _, c := range r.Changes {
			fmt.Fprintln(w, "  "+c)
		}
	}
	for _, m := range r.Made {
		name, text, _ := strings.Cut(m, ": ")
		fmt.Fprintln(w, a.out.Fold(17, fmt.Sprintf("  %-14s %s", name, text)))
	}
	model := map[setup.Kind]string{
		setup.Practice: "the practice model: rules, not a language model",
		setup.Upstream: "llama-server at " + r.Target, setup.Llama: "llama-server with " + r.Target,
	}
	fmt.Fprintln(w, "  model          "+model[r.Kind])
	if pid, err := up.Holder(a.layout); err == nil && pid != 0 && len(r.Changes)+len(r.Made) > 0 {
		fmt.Fprintln(w, "Boxmaker runs; take the change over with: bxctl down; bxctl up --detach")
		return
	}
	fmt.Fprintln(w, "Next: bxctl up --detach, then bxctl chat.")
}

func (a *app) up() *cobra.Command {
	var detach, plain, quiet bool
	var model, passphrase string
	var keyFD int
	var wait time.Duration
	c := &cobra.Command{
		Use: "up", Short: "run all programs of Boxmaker", Args: exactly(0),
		Long: `Runs every role as a process of its own and starts it again if it ends, later each
time; five ends of a role within a minute stop everything, and so does one that refuses
to start, which has to be mended first. With --detach that is exit code 1, as is a
brokerd that does not answer; a machine on which no tool can run is told in a line. Stays in the foreground
until Ctrl-C, SIGTERM or bxctl down, unless --detach is given.

If the key of the secrets is encrypted with a passphrase (bxctl secret passphrase), it
asks for that once, on the terminal, before it starts anything; --detach asks first and
then leaves. Without a terminal, --passphrase-file names a file that only you can read.
brokerd gets the opened key over a descriptor, also when it is started again.

In a terminal it shows the state of all roles and the last lines of their logs; with a
pipe, --plain, NO_COLOR or TERM=dumb it prints lines. All of them are in bxctl logs.
For systemd instead of bxctl up, see bxctl init --systemd.`,
	}
	c.Flags().BoolVar(&plain, "plain", false, "print lines, in a terminal too")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing but the reason of a failure")
	c.Flags().BoolVarP(&detach, "detach", "d", false, "run in the background; return when Boxmaker is ready")
	c.Flags().StringVar(&model, "model", "", "this time, start llama-server with this GGUF `file`")
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "read the passphrase of the secrets' key from the first line of this `file`")
	c.Flags().IntVar(&keyFD, "key-fd", 0, "")
	_ = c.Flags().MarkHidden("key-fd") // of --detach to the up that it starts
	c.Flags().DurationVar(&wait, "wait", 3*time.Minute, "with --detach: how long to wait until it is ready")
	c.RunE = func(c *cobra.Command, _ []string) error {
		path, err := self()
		if err != nil {
			return err
		}
		o := up.Options{Layout: a.layout, Model: model, Self: path, Environ: a.environ(), Version: daemon.Version, Out: a.err, Now: a.env.Now, Plain: plain || !a.out.Terminal, Quiet: quiet}
		o.Passphrase, o.Retry = passphraseFile(passphrase), false
		if passphrase == "" {
			o.Passphrase, o.Retry = askPassphrase, true
		}
		if keyFD > 2 {
			syscall.CloseOnExec(keyFD) // brokerd alone gets it
			o.Key = os.NewFile(uintptr(keyFD), "key")
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		if detach {
			o.Out = a.out
			return up.Detach(ctx, o, wait)
		}
		context.AfterFunc(ctx, stop) // a second signal ends up at once, and the kernel ends the roles
		return up.Run(ctx, o)
	}
	return c
}

func (a *app) down() *cobra.Command {
	return &cobra.Command{Use: "down", Short: "stop what bxctl up runs", Args: exactly(0), RunE: func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		line, err := up.Down(ctx, a.layout, a.env.Now())
		if err != nil {
			return interruptible(err)
		}
		_, err = fmt.Fprintln(a.env.Stdout, line)
		return err
	}}
}

func (a *app) status() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "status", Short: "show what runs, and how well", Args: exactly(0)}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		full, err := a.collect(c.Context())
		if full.Up == nil && full.Loopd == nil && !asJSON {
			return err
		}
		if asJSON {
			if e := archive.WriteJSON(a.out, full); e != nil {
				return e
			}
		} else if _, e := fmt.Fprint(a.env.Stdout, full.Text(a.out, a.env.Now())); e != nil {
			return e
		}
		return err
	}
	return c
}

// collect asks up's files and loopd. The error is why loopd did not answer.
func (a *app) collect(ctx context.Context) (report.Full, error) {
	full := report.Full{Home: a.layout.Home}
	var last string
	var err error
	if full.Up, last, err = up.Inspect(a.layout); err != nil {
		return full, err
	}
	if full.Up == nil && up.RunBySystemd(a.layout) {
		full.Systemd = up.Systemctl() + " status 'boxmaker-*'"
	}
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	asked := make(chan struct{})
	go func() { // both at once: each has others to ask
		defer close(asked)
		full.Loopd, err = a.client().Status(short)
	}()
	a.authority(short, &full)
	a.chatState(short, &full)
	<-asked
	switch {
	case err == nil:
		return full, nil
	case errors.Is(err, context.DeadlineExceeded):
		err = &fault.Fault{What: "loopd does not answer", Means: "it is starting, or hangs", Do: "see bxctl logs loopd", Key: "loopd-silent"}
	case full.Up == nil && fault.Code(err) == fault.NotRunning && last != "":
		err = &fault.Fault{
			Code: fault.NotRunning, What: "Boxmaker is not running here", Means: "the last bxctl up ended because " + last,
			Do: "mend that, then start it with: bxctl up --detach", Key: "not-running",
		}
	case full.Up != nil && fault.Code(err) == fault.NotRunning:
		err = &fault.Fault{What: "bxctl up runs, and loopd does not", Do: "see bxctl logs loopd", Key: "loopd-silent"}
	}
	full.Error = fault.Line(err)
	return full, err
}

// authority asks brokerd, where one should run.
func (a *app) authority(ctx context.Context, full *report.Full) {
	_, err := os.Lstat(owner.At(a.layout).Path)
	runs := err == nil
	if full.Up != nil {
		runs = slices.ContainsFunc(full.Up.Roles, func(r report.Role) bool { return r.Name == "brokerd" })
	}
	st, err := owner.At(a.layout).Status(ctx)
	switch {
	case err == nil:
		full.Broker = st
	case runs && errors.Is(err, context.DeadlineExceeded):
		full.BrokerError = "brokerd does not answer; see bxctl logs brokerd"
	case runs:
		full.BrokerError = fault.Line(err)
	}
}

// chatState asks gatewayd, where one should run and brokerd has not told of it.
func (a *app) chatState(ctx context.Context, full *report.Full) {
	_, err := os.Lstat(mattermost.Socket(a.layout))
	runs := err == nil
	if full.Up != nil {
		runs = slices.ContainsFunc(full.Up.Roles, func(r report.Role) bool { return r.Name == "gatewayd" })
	}
	if !runs || full.Broker != nil {
		return
	}
	st, err := mattermost.Status(ctx, a.layout)
	switch {
	case err == nil:
		full.Chat = st
	case errors.Is(err, context.DeadlineExceeded):
		full.ChatError = "gatewayd does not answer; see bxctl logs gatewayd"
	default:
		full.ChatError = fault.Line(err)
	}
}

// source gives what lists sessions: loopd knows which are open; the files do
// when it is down.
func (a *app) source(ctx context.Context) archive.Source {
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := a.client().Status(short); err != nil {
		return archive.Files{Dir: a.layout.Sessions}
	}
	return a.client()
}
