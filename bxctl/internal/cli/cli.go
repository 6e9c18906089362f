// Package cli is bxctl's command line: flags and arguments in, exit codes out.
//
// It guarantees that every error leaves as a fault with one of the documented
// exit codes, and that standard output holds the answer of a command and
// nothing else. What the commands do is in the packages beside it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/config"
	"boxmaker/internal/daemon"

	"github.com/spf13/cobra"
)

// Env is what a run of bxctl has of the world.
type Env struct {
	Args    []string // without the program's name
	Environ []string
	Stdin   *os.File
	Stdout  *os.File
	Stderr  *os.File
	Now     func() time.Time
}

const long = `bxctl runs and uses Boxmaker, a personal assistant on your own machine.

First steps:
  bxctl init                                  the practice model: no GPU, no download
  bxctl init --upstream http://HOST:PORT      a llama-server that runs already
  bxctl up --detach                           start
  bxctl chat                                  talk
  echo "a question" | bxctl ask               one answer on standard output

Exit codes: 0 done; 1 failed; 2 wrong usage or configuration, nothing was tried;
3 Boxmaker is not running; 4 the turn ended without an answer.

BOXMAKER_HOME (or --home) puts all files into one folder. Without it they lie in
/var/lib/boxmaker for root, else in the XDG folders. NO_COLOR turns colours off.`

// app is one run.
type app struct {
	env    Env
	home   string // --home
	out    term.Screen
	err    term.Screen
	layout config.Layout
}

// Main runs the command line and gives the exit code.
func Main(ctx context.Context, env Env) int {
	a := &app{env: env}
	a.out, a.err = term.Open(env.Stdout, a.getenv), term.Open(env.Stderr, a.getenv)
	root := a.root()
	root.SetArgs(env.Args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		a.tell(err)
	}
	return fault.Code(err)
}

// tell prints an error, folded where a terminal is narrow.
func (a *app) tell(err error) {
	for line := range strings.Lines(fault.Text(err)) {
		line = strings.TrimSuffix(line, "\n")
		fmt.Fprintln(a.env.Stderr, a.err.Fold(len(line)-len(strings.TrimLeft(line, " "))+2, line))
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "bxctl", Short: "run and use Boxmaker", Long: long, Version: daemon.Version,
		SilenceErrors: true, SilenceUsage: true, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("there is no command %q", args[0]), "bxctl --help lists the commands")
			}
			return c.Help()
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("bxctl {{.Version}}\n")
	root.SetOut(a.env.Stdout)
	root.SetErr(a.env.Stderr)
	root.SetIn(strings.NewReader(""))
	root.PersistentFlags().StringVar(&a.home, "home", "", "folder that holds everything (instead of BOXMAKER_HOME)")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(err, "see "+c.CommandPath()+" --help")
	})
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) (err error) {
		if a.layout, err = config.Locate(a.getenv); err != nil {
			err = &fault.Fault{Code: fault.Usage, What: "it is not known where Boxmaker's files are", Err: err, Do: "name the folder with --home", Key: "home-not-known"}
		}
		return err
	}
	root.AddCommand(a.initialise(), a.up(), a.down(), a.status(), a.ask(), a.chat(), a.sessions(), a.doctor(), a.measure(), a.version(), a.logs(), a.audit(), a.grants(), a.mattermost())
	root.AddCommand(a.oversight()...)
	a.extras(root)
	return root
}

func usage(err error, do string) error {
	return &fault.Fault{Code: fault.Usage, What: "wrong usage", Err: err, Do: do, Key: "bxctl-usage"}
}

// exactly checks the number of arguments.
func exactly(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(fmt.Errorf("%s takes %s, not %d", c.CommandPath(), arguments(n), len(args)), "see "+c.CommandPath()+" --help")
		}
		return nil
	}
}

func arguments(n int) string {
	switch n {
	case 0:
		return "no arguments"
	case 1:
		return "one argument"
	default:
		return fmt.Sprintf("%d arguments", n)
	}
}

// exclusive refuses two flags of which only one can be meant.
func exclusive(c *cobra.Command, names ...string) error {
	set := ""
	for _, n := range names {
		switch {
		case !c.Flags().Changed(n):
		case set != "":
			return usage(fmt.Errorf("--%s and --%s exclude each other", set, n), "give one of them")
		default:
			set = n
		}
	}
	return nil
}

func (a *app) getenv(name string) string {
	if name == "BOXMAKER_HOME" && a.home != "" {
		return a.home
	}
	for i := len(a.env.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(a.env.Environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// environ is the environment for another bxctl of the same home.
func (a *app) environ() []string {
	out := []string{}
	for _, kv := range a.env.Environ {
		if !strings.HasPrefix(kv, "BOXMAKER_HOME=") {
			out = append(out, kv)
		}
	}
	if a.getenv("BOXMAKER_HOME") != "" {
		out = append(out, "BOXMAKER_HOME="+a.layout.Home)
	}
	return out
}

// self is the path of the running program, without symbolic links: the other
// programs lie beside it.
func self() (string, error) {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", &fault.Fault{What: "bxctl can't find its own program file", Err: err, Means: "the other programs lie beside it", Key: "program-missing"}
	}
	return path, nil
}

func (a *app) client() loop.Client {
	return loop.Client{Path: a.layout.Socket("loopd", "bxctl", "loop"), Gone: func() bool {
		pid, err := up.Holder(a.layout)
		return err == nil && pid == 0
	}}
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print the version", Args: exactly(0), RunE: func(*cobra.Command, []string) error {
		_, err := fmt.Fprintln(a.env.Stdout, "bxctl "+daemon.Version)
		return err
	}}
}

// input gives standard input if there is something on it that is meant for
// us: a pipe or a file. nil if not.
func (a *app) input() io.Reader {
	st, err := a.env.Stdin.Stat()
	if err != nil || !st.Mode().IsRegular() && st.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return nil
	}
	return a.env.Stdin
}

// interruptible tells context errors of an interrupt apart.
func interruptible(err error) error {
	if errors.Is(err, context.Canceled) {
		return &fault.Fault{What: "interrupted"}
	}
	return err
}
