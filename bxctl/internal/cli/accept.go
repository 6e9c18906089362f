package cli

import (
	"errors"
	"fmt"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/audit"
	"boxmaker/bxctl/internal/prompt"
	"boxmaker/bxctl/internal/term"

	"github.com/spf13/cobra"
)

func (a *app) auditAccept() *cobra.Command {
	var asJSON, yes bool
	c := &cobra.Command{
		Use: "accept", Short: "go on with a log that lost its end, or was put back", Args: exactly(0),
		Long: `brokerd does not start on a log that is shorter than it was, or another one: somebody
may have removed what happened. If you know why it is so, since you put it back from a
backup or moved the folder away, this lets brokerd start with the log as it is now, and
only so. What it lacks is put on record, and the heads that were kept so far are put
aside in anchors/. The heads in the session logs stay: bxctl audit verify goes on
telling of them.`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.RunE = func(*cobra.Command, []string) error {
		if !yes {
			if !term.IsTerminal(a.env.Stdin) || !a.out.Terminal {
				return usage(errors.New("there is no terminal to ask on"), "look at the log with bxctl audit verify, and add --yes")
			}
			ok, err := prompt.Yes(a.env.Stdin, a.env.Stdout, "Go on with the audit log as it is now?")
			if err != nil || !ok {
				return err
			}
		}
		got, err := audit.At(a.layout).Accept(a.env.Now())
		if err != nil {
			return err
		}
		if asJSON {
			return archive.WriteJSON(a.out, got)
		}
		fmt.Fprintf(a.env.Stdout, "brokerd goes on with a log of %s at its next start.\n", audit.Records(got.Head))
		if got.Aside != "" {
			fmt.Fprintf(a.env.Stdout, "The heads that were kept so far are in %s.\n", got.Aside)
		}
		return nil
	}
	return c
}
