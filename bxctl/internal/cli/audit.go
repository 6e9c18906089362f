package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/audit"
	"boxmaker/bxctl/internal/logs"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/internal/proto"

	"github.com/spf13/cobra"
)

func (a *app) audit() *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "what was asked, decided and done, on record",
		Long: `brokerd writes one record for each decision on a tool call, for each answer to an
approval, and for each outcome, before it acts on it. Each record holds the hash of the
one before, so that a change shows. All of these commands read the files themselves
and work when nothing runs, except anchor.`,
		Example: "  bxctl audit show\n  bxctl audit show 17\n  bxctl audit tail -f\n  bxctl audit verify",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("there is no command %q", "audit "+args[0]), "bxctl audit --help lists the commands")
			}
			return c.Help()
		},
	}
	c.AddCommand(a.auditShow("show", "50"), a.auditShow("tail", "10"), a.auditVerify(), a.auditExport(), a.auditAnchor(), a.auditAccept())
	return c
}

// verdicts are the words that a record can be chosen by.
const verdicts = "allow, ask, deny, approved, denied, expired, withdrawn, ok, failed, unknown, halted, resumed, limited"

func kinds() string {
	all := proto.AuditKinds()
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// wanted are the flags that choose records.
type wanted struct{ session, tool, call, verdict, kind, since, until, last string }

func (w *wanted) flags(c *cobra.Command, last string) {
	c.Flags().StringVar(&w.session, "session", "", "only of the session with this `id`")
	c.Flags().StringVar(&w.tool, "tool", "", "only of the tool with this `name`")
	c.Flags().StringVar(&w.call, "call", "", "only of the call with this `id`")
	c.Flags().StringVar(&w.verdict, "verdict", "", "only with this `word`: "+verdicts)
	c.Flags().StringVar(&w.kind, "kind", "", "only of this `kind`: "+kinds())
	c.Flags().StringVar(&w.since, "since", "", "only since then: how long ago (15m, 2h, 3d), or a `time`")
	c.Flags().StringVar(&w.until, "until", "", "only before this `time`")
	c.Flags().StringVarP(&w.last, "lines", "n", last, "how many records: a `number`, or all")
}

func (w *wanted) query(c *cobra.Command, now time.Time) (audit.Query, error) {
	q := audit.Query{Session: w.session, Tool: w.tool, Call: w.call, Verdict: w.verdict, Kind: w.kind, Number: -1}
	var err error
	if q.Last, err = lastLines(w.last); err != nil {
		return q, usage(err, "see "+c.CommandPath()+" --help")
	}
	for _, one := range []struct{ flag, word, known string }{{"kind", w.kind, kinds()}, {"verdict", w.verdict, verdicts}} {
		if one.word != "" && !slices.Contains(strings.Split(one.known, ", "), one.word) {
			return q, usage(fmt.Errorf("--%s is %q", one.flag, one.word), "it must be one of "+one.known)
		}
	}
	for _, one := range []struct {
		text string
		into *time.Time
	}{{w.since, &q.Since}, {w.until, &q.Until}} {
		if one.text == "" {
			continue
		}
		if *one.into, err = logs.ParseSince(one.text, now); err != nil {
			return q, usage(err, "")
		}
	}
	if (w.since != "" || w.call != "") && !c.Flags().Changed("lines") {
		q.Last = audit.All
	}
	return q, nil
}

func (a *app) auditShow(name, last string) *cobra.Command {
	var w wanted
	var asJSON, long, follow bool
	c := &cobra.Command{
		Use: "show [RECORD|CALL]", Short: "show records",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(errors.New("bxctl audit show takes at most one record or call"), "see bxctl audit show --help")
			}
			return nil
		},
		Long: `Shows the newest records, a line each: when, its number, what was decided or how it
ended, tool, session, arguments or result. With the number of a record, or the id of a
call, it shows those with everything that is on record.`,
		Example: "  bxctl audit show\n  bxctl audit show --session chat-1 --verdict deny\n  bxctl audit show --since 2d --tool http_fetch\n  bxctl audit show 17\n  bxctl audit show chat-1/1/3/0",
	}
	if name == "tail" {
		c.Use, c.Short, c.Args, c.Example = "tail", "show the newest records, and those to come", exactly(0), "  bxctl audit tail -f\n  bxctl audit tail -n 100 --tool shell"
		c.Long = "Shows the newest records, a line each, like bxctl audit show; with -f it goes on."
		c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until Ctrl-C")
	}
	w.flags(c, last)
	c.Flags().BoolVar(&asJSON, "json", false, "one line of JSON each, as in the log")
	c.Flags().BoolVar(&long, "long", false, "everything that is on record")
	c.RunE = func(c *cobra.Command, args []string) error {
		q, err := w.query(c, a.env.Now())
		if err != nil {
			return err
		}
		if len(args) == 1 {
			long = true
			if q, err = one(args[0]); err != nil {
				return err
			}
		}
		return a.showAudit(c.Context(), q, follow, func(e audit.Entry) string {
			switch {
			case asJSON:
				return jsonLine(e)
			case long:
				return e.Long(a.out, a.env.Now())
			default:
				return e.Human(a.out, a.env.Now())
			}
		})
	}
	return c
}

// one reads the argument of show.
func one(word string) (audit.Query, error) {
	q := audit.Query{Number: -1, Last: audit.All}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil && n >= 0 {
		q.Number = n
		return q, nil
	}
	if _, err := proto.ParseCallID(word); err != nil {
		return q, usage(fmt.Errorf("%q is neither the number of a record nor the id of a call", word), "bxctl audit show lists both")
	}
	q.Call = word
	return q, nil
}

func jsonLine(e audit.Entry) string {
	var b strings.Builder
	_ = audit.NewWriter("jsonl", &b, time.UTC).Write(e) // a Builder takes everything
	return strings.TrimSuffix(b.String(), "\n")
}

func (a *app) showAudit(ctx context.Context, q audit.Query, follow bool, text func(audit.Entry) string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var poll <-chan time.Time
	if follow {
		t := time.NewTicker(followPeriod)
		defer t.Stop()
		poll = t.C
	}
	shown := 0
	one := "" // what was named, and not only looked for
	switch {
	case q.Last != audit.All || follow:
	case q.Number >= 0:
		one = strconv.FormatInt(q.Number, 10)
	case q.Call != "":
		one = "of " + q.Call
	}
	var broken error // standard output
	err := audit.At(a.layout).Each(ctx, q, poll, func(e audit.Entry) error {
		shown++
		_, broken = fmt.Fprintln(a.env.Stdout, text(e))
		return broken
	})
	switch {
	case errors.Is(broken, syscall.EPIPE):
		return nil // head and less have seen enough
	case err != nil:
		return interruptible(err)
	case shown == 0 && one != "":
		return usage(fmt.Errorf("there is no record %s", one), "bxctl audit show lists the newest")
	case shown == 0 && !follow:
		fmt.Fprintln(a.env.Stderr, a.err.Dim("(no such records)"))
	}
	return nil
}

func (a *app) auditExport() *cobra.Command {
	var w wanted
	var format string
	c := &cobra.Command{
		Use: "export", Short: "print records as JSON lines, CSV or Markdown", Args: exactly(0),
		Long: `Prints all records, or those that the flags choose, to standard output. jsonl has them
as they are in the log, without the checksum of the line; csv and md are for people.
To keep a log that still can be verified, copy the folder audit/ itself.`,
		Example: "  bxctl audit export --format csv --since 30d > month.csv\n  bxctl audit export --session chat-1 --format md",
	}
	w.flags(c, "all")
	c.Flags().StringVar(&format, "format", "jsonl", "the `form`: jsonl, csv or md")
	_ = c.RegisterFlagCompletionFunc("format", fixed(audit.Forms()...)) // twice is its only error
	c.RunE = func(c *cobra.Command, _ []string) error {
		q, err := w.query(c, a.env.Now())
		if err != nil {
			return err
		}
		out := audit.NewWriter(format, a.env.Stdout, a.env.Now().Location())
		if out == nil {
			return usage(fmt.Errorf("--format is %q", format), "it must be jsonl, csv or md")
		}
		err = audit.At(a.layout).Each(c.Context(), q, nil, out.Write)
		if closing := out.Close(); err == nil {
			err = closing
		}
		if errors.Is(err, syscall.EPIPE) {
			return nil
		}
		return interruptible(err)
	}
	return c
}

func (a *app) auditAnchor() *cobra.Command {
	var asJSON, show, newKey bool
	c := &cobra.Command{
		Use: "anchor", Short: "keep the head of the log where brokerd can't change it", Args: exactly(0),
		Long: `Asks brokerd for the head of the log, signed, and keeps it in anchors/: from then on
bxctl audit verify notices if the log is cut off before it or written anew. The key that
brokerd signs with is noted the first time; another one is refused later.
--print prints the checkpoint too, to be kept anywhere else: on paper, in a message.`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVar(&show, "print", false, "print the signed checkpoint")
	c.Flags().BoolVar(&newKey, "new-key", false, "trust the key that brokerd has now, beside the old ones")
	c.RunE = func(c *cobra.Command, _ []string) error {
		added, err := audit.At(a.layout).Anchor(c.Context(), owner.At(a.layout), a.env.Now(), newKey)
		switch {
		case err != nil:
			return err
		case asJSON:
			return archive.WriteJSON(a.out, added)
		case show:
			_, err = io.WriteString(a.env.Stdout, added.Checkpoint)
			return err
		case added.New:
			_, err = fmt.Fprintf(a.env.Stdout, "Kept: the log has %s.\n", audit.Records(added.Head))
		default:
			_, err = fmt.Fprintf(a.env.Stdout, "The log has %s, and that is kept already.\n", audit.Records(added.Head))
		}
		return err
	}
	return c
}
