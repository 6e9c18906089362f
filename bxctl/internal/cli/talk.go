package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/talk"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"github.com/spf13/cobra"
)

func (a *app) ask() *cobra.Command {
	var session string
	var asJSON, fresh bool
	c := &cobra.Command{
		Use: "ask [TEXT…]", Short: "ask one thing and print the answer", Args: cobra.ArbitraryArgs,
		Long: `Sends the text of the arguments, or of standard input, or both (arguments, a blank
line, the input), and prints the answer on standard output and nothing else there.
Each call is a new session, unless --session names one.

Control characters that an answer may hold are shown as stand-ins; --json has them
as JSON escapes. If loopd goes away during the turn, the turn is joined again; the
message is neither lost nor answered twice.`,
		Example: "  bxctl ask what can you do\n  git diff | bxctl ask 'explain this change'\n  bxctl ask --session chat-20260102-abcdef 'and then?'",
	}
	c.Flags().StringVar(&session, "session", "", "go on with the session `ID`")
	c.Flags().BoolVar(&fresh, "new", false, "a new session (the default)")
	c.Flags().BoolVar(&asJSON, "json", false, "print each event as one line of JSON")
	c.RunE = func(c *cobra.Command, words []string) error {
		if err := exclusive(c, "session", "new"); err != nil {
			return err
		}
		id, err := a.sessionID(c, session)
		if err != nil {
			return err
		}
		text, err := a.message(words)
		if err != nil {
			return err
		}
		err = a.askOnce(c.Context(), &proto.Submit{Session: id, Origin: loop.NewOrigin(), Text: text, Surface: proto.SurfaceAsk}, asJSON)
		if a.out.Terminal && a.err.Terminal && session == "" && err == nil {
			fmt.Fprintln(a.env.Stderr, a.err.Dim("(go on with: bxctl ask --session "+id+" …)"))
		}
		return err
	}
	return c
}

// message reads what is to be sent, and tells the owner what it waits for.
func (a *app) message(words []string) (string, error) {
	stdin := a.input()
	switch {
	case stdin != nil && a.err.Terminal:
		hint := time.AfterFunc(2*time.Second, func() { fmt.Fprintln(a.env.Stderr, "bxctl: reading standard input to its end…") })
		defer hint.Stop()
	case stdin == nil && len(words) == 0 && term.IsTerminal(a.env.Stdin):
		fmt.Fprintln(a.env.Stderr, "Type your message; end it with Ctrl-D on a line of its own.")
		stdin = a.env.Stdin
	}
	return talk.Message(words, stdin)
}

func (a *app) sessionID(c *cobra.Command, given string) (string, error) {
	if !c.Flags().Changed("session") {
		return loop.NewSession(a.env.Now()), nil
	}
	return given, archive.CheckID(given)
}

func (a *app) askOnce(ctx context.Context, m *proto.Submit, asJSON bool) error {
	interrupts, stop := interrupts()
	defer stop()
	return interruptible(talk.Ask{Client: a.client(), Out: a.out, Err: a.err, JSON: asJSON, Interrupts: interrupts, Now: a.env.Now}.Run(ctx, m))
}

func interrupts() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt)
	return ch, func() { signal.Stop(ch) }
}

// chatPiped sends all of standard input as one message.
func (a *app) chatPiped(ctx context.Context, id string) error {
	text, err := talk.Message(nil, a.env.Stdin)
	if err != nil {
		return err
	}
	if a.err.Terminal {
		if st, err := a.client().Status(ctx); err == nil && st.Server.Practice {
			fmt.Fprintln(a.env.Stderr, a.err.Dim("("+report.Model(st.Server)+")"))
		}
	}
	return a.askOnce(ctx, &proto.Submit{Session: id, Origin: loop.NewOrigin(), Text: text, Surface: proto.SurfaceChat}, false)
}

// lines reads lines until the end. The goroutine can't be woken from its read
// of a terminal, so it ends with the program.
func lines(r io.Reader) <-chan string {
	ch := make(chan string)
	go func() {
		defer close(ch)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				ch <- strings.ToValidUTF8(line, "\uFFFD")
			}
			if err != nil {
				return
			}
		}
	}()
	return ch
}

func (a *app) sessions() *cobra.Command {
	c := &cobra.Command{Use: "sessions", Short: "list, show, search, resume and export sessions; their figures", Args: cobra.ArbitraryArgs, RunE: func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(fmt.Errorf("there is no command %q", args[0]), "bxctl sessions --help lists the commands")
		}
		return c.Help()
	}}
	c.AddCommand(a.sessionsList(), a.sessionsShow(), a.sessionsResume(), a.sessionsExport(), a.sessionsSearch(), a.sessionsStats())
	return c
}

func (a *app) sessionsList() *cobra.Command {
	var asJSON bool
	var prefix string
	var limit int
	c := &cobra.Command{Use: "list", Short: "list sessions, newest first", Args: exactly(0)}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().StringVar(&prefix, "prefix", "", "only sessions whose id begins with this")
	c.Flags().IntVar(&limit, "limit", 50, "how many")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if prefix != "" {
			if err := archive.CheckID(prefix); err != nil {
				return err
			}
		}
		if limit < 1 {
			return usage(errors.New("--limit must be 1 or more"), "")
		}
		list, err := a.source(c.Context()).Sessions(c.Context(), prefix, limit)
		if err != nil {
			return err
		}
		if asJSON {
			return archive.WriteJSON(a.out, list)
		}
		return archive.Table(a.out, list, a.env.Now())
	}
	return c
}

// export gives what reads one session: the files, which hold everything, or
// loopd where they belong to somebody else.
func (a *app) export() archive.Export {
	e := archive.Export{Source: archive.Files{Dir: a.layout.Sessions}, Screen: a.out, Now: a.env.Now()}
	if d, err := os.Open(a.layout.Sessions); errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		e.Source = a.client()
	} else if err == nil {
		_ = d.Close()
	}
	return e
}

func (a *app) sessionsShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "show ID", Short: "show a session", Args: exactly(1)}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := archive.CheckID(args[0]); err != nil {
			return err
		}
		if asJSON {
			return a.export().JSON(c.Context(), args[0])
		}
		return a.export().Show(c.Context(), args[0])
	}
	return c
}

func (a *app) sessionsExport() *cobra.Command {
	var format string
	c := &cobra.Command{Use: "export ID", Short: "print a whole session as a document", Args: exactly(1)}
	c.Flags().StringVar(&format, "format", "md", "the `form`: md or json")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := archive.CheckID(args[0]); err != nil {
			return err
		}
		switch format {
		case "md":
			return a.export().Markdown(c.Context(), args[0])
		case "json":
			return a.export().JSON(c.Context(), args[0])
		default:
			return usage(fmt.Errorf("--format is %q", format), "it must be md or json")
		}
	}
	return c
}
