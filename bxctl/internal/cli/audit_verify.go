package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/audit"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"github.com/spf13/cobra"
)

func (a *app) auditVerify() *cobra.Command {
	var asJSON bool
	var kept []string
	c := &cobra.Command{
		Use: "verify", Short: "check that no record was changed or is gone", Args: exactly(0),
		Long: `Reads the whole log: checksums, numbers, and the hash of the record before in each.
Then it compares every head of the log that was kept elsewhere: in anchors/ by
bxctl audit anchor, and in the session logs, which have one with each result. Only they
show that the end was cut off or the log written anew. Exit code 1 if anything does not
fit. Without this program: docs/formats/verify_audit.py.

Who can write here can change those heads too. So give it one that you kept elsewhere:
--anchor with what an earlier verify printed after "head", or a file that holds a
message with a head, as it was posted in your chat or printed by bxctl audit anchor.`,
		Example: "  bxctl audit verify\n  bxctl audit verify --anchor 4711:9f86d081884c7d65…\n  bxctl audit verify --anchor messages.txt\n  wl-paste | bxctl audit verify --anchor -",
	}
	c.Flags().StringArrayVar(&kept, "anchor", nil, "a `head` that you kept: N:HASH, a file, or - for standard input; may be given again")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		given, err := a.keptHeads(kept)
		if err != nil {
			return err
		}
		v, err := audit.At(a.layout).Verify(c.Context(), given...)
		if err != nil {
			return err
		}
		if asJSON {
			if err := archive.WriteJSON(a.out, v); err != nil {
				return err
			}
			return v.Err()
		}
		return v.Print(a.out, a.env.Now())
	}
	return c
}

// keptHeads reads the values of --anchor.
func (a *app) keptHeads(values []string) (all []audit.Given, err error) {
	for _, value := range values {
		from, text := "the head that you gave", value
		switch n, hash, ok := strings.Cut(value, ":"); {
		case value == "-":
			from = "standard input"
			text, err = limited(a.env.Stdin)
		case !ok || len(hash) != len(proto.NoHash) || strings.Trim(n, "0123456789") != "":
			from = term.Line(value)
			var f *os.File
			if f, err = os.Open(value); err == nil {
				text, err = limited(f)
				err = errors.Join(err, f.Close())
			}
		}
		if err != nil {
			return nil, &fault.Fault{Code: fault.Usage, What: "the head to compare can't be read", Err: err, Do: "give N:HASH, or a file with a checkpoint as it was posted or printed", Key: "audit-given"}
		}
		given, err := audit.At(a.layout).Given(from, text)
		if err != nil {
			return nil, err
		}
		all = append(all, given...)
	}
	return all, nil
}

// limited reads a text that a person keeps; one of many years is much smaller.
func limited(r io.Reader) (string, error) {
	const most = 16 << 20
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("it is longer than %s", term.Bytes(most))
	}
	return string(b), err
}
