package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/talk"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/tui"

	"github.com/spf13/cobra"
)

func (a *app) chat() *cobra.Command {
	var session string
	var plain, resume bool
	c := &cobra.Command{
		Use: "chat", Short: "talk", Args: exactly(0),
		Long: `Talks, on a terminal with streaming Markdown, progress, and commands that begin
with / (/help lists them). What is finished stays in the terminal's own scrollback.

--plain talks in plain lines; so does a terminal that can't move its cursor
(TERM=dumb). With a pipe or a file on standard input, all of it is one message, and
the answer is printed on standard output.`,
		Example: "  bxctl chat\n  bxctl chat --resume\n  bxctl chat --session chat-20260102-abcdef",
	}
	c.Flags().StringVar(&session, "session", "", "go on with the session `ID`")
	c.Flags().BoolVar(&resume, "resume", false, "go on with the newest session")
	c.Flags().BoolVar(&plain, "plain", false, "plain lines")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := exclusive(c, "session", "resume"); err != nil {
			return err
		}
		id, err := a.sessionID(c, session)
		if err != nil {
			return err
		}
		if !term.IsTerminal(a.env.Stdin) {
			return a.chatPiped(c.Context(), id)
		}
		return a.converse(c.Context(), session, plain, resume)
	}
	return c
}

// converse talks on a terminal.
func (a *app) converse(ctx context.Context, session string, plain, resume bool) (err error) {
	if !plain && a.out.InPlace() {
		return a.chatTerminal(ctx, session, resume)
	}
	if resume {
		if session, err = a.newest(ctx); err != nil {
			return err
		}
	}
	return a.chatPlain(ctx, session)
}

func (a *app) sessionsResume() *cobra.Command {
	var plain bool
	c := &cobra.Command{Use: "resume [ID]", Short: "go on with a session; without an ID, the newest one", Args: cobra.ArbitraryArgs}
	c.Flags().BoolVar(&plain, "plain", false, "plain lines")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage(fmt.Errorf("%s takes one argument at most, not %d", c.CommandPath(), len(args)), "see "+c.CommandPath()+" --help")
		}
		if !term.IsTerminal(a.env.Stdin) {
			return usage(errors.New("there is no terminal to talk on"), "with a pipe, use bxctl ask --session ID")
		}
		if len(args) == 0 {
			return a.converse(c.Context(), "", plain, true)
		}
		if err := archive.CheckID(args[0]); err != nil {
			return err
		}
		return a.converse(c.Context(), args[0], plain, false)
	}
	return c
}

// newest gives the session that changed last; empty if there is none.
func (a *app) newest(ctx context.Context) (string, error) {
	list, err := a.client().Sessions(ctx, "", 1)
	if err != nil || len(list.Sessions) == 0 {
		return "", err
	}
	return list.Sessions[0].Session, nil
}

func (a *app) chatPlain(ctx context.Context, session string) error {
	interrupts, stop := interrupts()
	defer stop()
	return talk.Chat{
		Client: a.client(), Owner: a.owner(), Screen: a.out, Lines: lines(a.env.Stdin), Interrupts: interrupts,
		Now: a.env.Now, Session: session, Sessions: a.layout.Sessions,
	}.Run(ctx)
}

func (a *app) chatTerminal(ctx context.Context, session string, resume bool) error {
	return tui.Run(ctx, tui.Config{
		Client: a.client(), Owner: a.owner(), In: a.env.Stdin, Out: a.env.Stdout, Screen: a.out, Environ: a.env.Environ, Now: a.env.Now,
		Session: session, Latest: resume, Dir: a.layout.Sessions, Files: a.readsFiles(),
		History: filepath.Join(a.layout.Home, "chat-history"),
	})
}

// readsFiles reports whether the session logs can be read here, and not only
// through loopd.
func (a *app) readsFiles() bool {
	d, err := os.Open(a.layout.Sessions)
	if err == nil {
		err = d.Close()
	}
	return err == nil || !errors.Is(err, os.ErrPermission) && !errors.Is(err, os.ErrNotExist)
}
