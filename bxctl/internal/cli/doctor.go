package cli

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/doctor"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/daemon"

	"github.com/spf13/cobra"
)

func (a *app) doctor() *cobra.Command {
	var asJSON, fix bool
	c := &cobra.Command{
		Use: "doctor", Short: "find what is wrong, and how to mend it", Args: exactly(0),
		Long: `Looks at everything that can be wrong with an installation: configuration, rights
and owners of files, programs and their versions, sockets, the inference server,
confinement, the kernel, disks, the clock, and every line of every session log.
Nothing is changed without --fix, and with it only what can't lose anything.

Exit codes: 0 nothing is wrong; 5 warnings; 6 failures.`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVar(&fix, "fix", false, "mend what can be mended safely, then look again")
	c.RunE = func(c *cobra.Command, _ []string) error {
		path, err := self()
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		o := doctor.Options{Layout: a.layout, Self: path, Version: daemon.Version, Getenv: a.getenv, Now: a.env.Now, Fix: fix, Tell: a.progress()}
		r, err := doctor.Run(ctx, o)
		fmt.Fprint(a.env.Stderr, a.err.Erase())
		if err != nil {
			return interruptible(err)
		}
		if asJSON {
			err = archive.WriteJSON(a.out, r)
		} else {
			_, err = fmt.Fprint(a.env.Stdout, r.Text(a.out))
		}
		if err != nil {
			return err
		}
		return r.Err()
	}
	return c
}

// progress shows a line that the next one replaces, on a terminal only.
func (a *app) progress() func(string) {
	if !a.err.InPlace() {
		return nil
	}
	return func(s string) {
		fmt.Fprint(a.env.Stderr, a.err.Erase()+a.err.Dim(term.Clip(term.Line(s), a.err.Width()-1)))
	}
}
