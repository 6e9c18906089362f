package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"boxmaker/bxctl/internal/approval"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/prompt"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"github.com/spf13/cobra"
)

func (a *app) owner() owner.Client { return owner.At(a.layout) }

// oversight lists the commands of the owner's side of brokerd.
func (a *app) oversight() []*cobra.Command {
	return []*cobra.Command{a.approvals(), a.answer(proto.VerdictApproved), a.answer(proto.VerdictDenied), a.tools(), a.halt(), a.resume(), a.secrets()}
}

func (a *app) approvals() *cobra.Command {
	var follow, asJSON bool
	c := &cobra.Command{
		Use: "approvals", Short: "show the calls that wait for your approval", Args: exactly(0),
		Long: `Shows each call that waits, in full: what the tool would get, what it could read and
write, and under which grant. What stands behind the mark ┆ was written by the model
or stands in a file; nothing in it can be a line of Boxmaker.

--follow goes on with those to come, and tells how each ends.`,
		Example: "  bxctl approvals\n  bxctl approvals --follow",
	}
	c.Flags().BoolVar(&follow, "follow", false, "go on with those to come")
	c.Flags().BoolVar(&asJSON, "json", false, "as lines of JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if follow {
			return interruptible(a.owner().Follow(c.Context(), nil, func(m proto.Message) { a.followed(m, asJSON) }))
		}
		all, err := a.owner().Approvals(c.Context())
		if err != nil {
			return err
		}
		for i := range all {
			a.followed(&all[i], asJSON)
		}
		if len(all) == 0 && !asJSON {
			fmt.Fprintln(a.env.Stderr, "nothing waits for your approval")
		}
		return nil
	}
	return c
}

// followed shows one approval, or how it ended.
func (a *app) followed(m proto.Message, asJSON bool) {
	if asJSON {
		a.printJSON(m)
		return
	}
	switch m := m.(type) {
	case *proto.Approval:
		a.printApproval(m, "bxctl approve "+m.Code+" · bxctl deny "+m.Code)
	case *proto.Retracted:
		fmt.Fprintln(a.env.Stdout, "("+term.Line(m.Approval)+": "+owner.Ending(m.Verdict, m.By, m.Channel)+")")
	}
}

func (a *app) printApproval(m *proto.Approval, hint string) {
	for _, l := range approval.Lines(m, approval.Options{Width: a.out.Width(), Screen: a.out, Now: a.env.Now(), Hint: hint}) {
		fmt.Fprintln(a.env.Stdout, l)
	}
}

// printJSON prints a message as one line, safe for a terminal.
func (a *app) printJSON(m proto.Message) {
	b, err := proto.Encode(m)
	if err != nil { // it came out of Decode, which accepts only what encodes
		return
	}
	a.env.Stdout.Write(append(bytes.Clone(term.JSON(b)), '\n')) //nolint:errcheck // a reader that left ends the program by SIGPIPE
}

func (a *app) answer(v proto.Verdict) *cobra.Command {
	var yes, asJSON bool
	verb, does := "approve", "let a call run that waits for your approval"
	if v == proto.VerdictDenied {
		verb, does = "deny", "refuse a call that waits for your approval"
	}
	c := &cobra.Command{
		Use: verb + " CODE|ID", Short: does, Args: exactly(1),
		Long: `Shows the call in full, and answers it. An answer holds for exactly the call that was
shown, once. If somebody answered before, that answer holds, and is told; the exit code
is 1 if it was another one.`,
		Example: "  bxctl " + verb + " KTNHRT",
	}
	about := "do not ask once more"
	if v == proto.VerdictDenied {
		about = "as with approve; a refusal asks nothing anyway"
	}
	c.Flags().BoolVar(&yes, "yes", false, about)
	c.Flags().BoolVar(&asJSON, "json", false, "print the outcome as JSON, and not the call")
	c.RunE = func(c *cobra.Command, args []string) error {
		if v == proto.VerdictApproved && asJSON && !yes {
			return usage(errors.New("--json shows no call that you could approve"), "look at it with bxctl approvals, and add --yes")
		}
		m, err := a.owner().Find(c.Context(), args[0])
		if err != nil {
			return err
		}
		if !asJSON {
			a.printApproval(m, "")
		}
		if v == proto.VerdictApproved && !yes {
			if err := a.sure(m); err != nil {
				return err
			}
		}
		return a.give(c.Context(), m, v, asJSON)
	}
	return c
}

// sure asks once more on a terminal. Anything but a yes is an error: the call was
// not answered.
func (a *app) sure(m *proto.Approval) error {
	if !term.IsTerminal(a.env.Stdin) || !a.out.Terminal {
		return usage(errors.New("there is no terminal to ask on"), "look at the call with bxctl approvals, and add --yes")
	}
	ok, err := prompt.Yes(a.env.Stdin, a.env.Stdout, "Approve this call?")
	if err == nil && !ok {
		err = &fault.Fault{What: "the call was not answered, and still waits", Do: "refuse it with: bxctl deny " + term.Line(m.Code), Key: "approval-waits"}
	}
	return err
}

func (a *app) give(ctx context.Context, m *proto.Approval, v proto.Verdict, asJSON bool) error {
	got, err := a.owner().Answer(ctx, m, v, owner.ChannelCLI)
	if err != nil {
		return err
	}
	switch {
	case asJSON:
		a.printJSON(got)
	case got.First:
		fmt.Fprintln(a.env.Stdout, term.Line(m.Code)+" is "+string(v))
	}
	if got.Verdict != v {
		return &fault.Fault{What: "the answer came too late: " + owner.Ending(got.Verdict, got.By, got.Channel), Means: "the first answer holds", Key: "approval-gone"}
	}
	if !got.First && !asJSON {
		fmt.Fprintln(a.env.Stdout, "("+owner.Ending(got.Verdict, got.By, got.Channel)+" before)")
	}
	return nil
}

func (a *app) tools() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "tools", Short: "list the tools, and what is granted of each", Args: exactly(0),
		Long: `Lists every tool with the grants for it that have not expired. A tool without a grant
does not exist for the model. bxctl grants explain tells what a grant makes of a call.`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON, with the schemas")
	c.RunE = func(c *cobra.Command, _ []string) error {
		rows, err := a.owner().Tools(c.Context())
		if err != nil {
			return err
		}
		if asJSON {
			a.printJSON(&proto.ToolTable{Tools: rows})
			return nil
		}
		for _, t := range rows {
			name := fmt.Sprintf("%-13s ", term.Line(t.Name))
			granted := "no grant"
			if len(t.Grants) > 0 {
				granted = strings.Join(t.Grants, ", ")
			}
			fmt.Fprintln(a.env.Stdout, a.out.Bold(name)+term.Clip(term.Line(granted), a.out.Width()-15))
			fmt.Fprintln(a.env.Stdout, a.out.Dim("  "+term.Clip(term.Line(t.Line), a.out.Width()-3)))
		}
		return nil
	}
	return c
}

func (a *app) halt() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "halt [REASON…]", Short: "deny everything and kill what runs, until resume", Args: cobra.ArbitraryArgs,
		Long: `Makes brokerd deny every call at once, ends what waits for an approval, and kills the
tools that run. It is on record, with the reason, and holds over restarts until
bxctl resume. Talking goes on.`,
		Example: "  bxctl halt it deletes the wrong files",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print brokerd's state as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		st, err := a.owner().Halt(c.Context(), strings.ToValidUTF8(strings.Join(args, " "), "\uFFFD"))
		if err != nil {
			return err
		}
		if asJSON {
			a.printJSON(st)
			return nil
		}
		s := "everything is halted"
		if st.HaltReason != "" {
			s += ": " + term.Line(st.HaltReason)
		}
		_, err = fmt.Fprintln(a.env.Stdout, a.out.Warn(s)+"; bxctl resume ends it")
		return err
	}
	return c
}

func (a *app) resume() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "resume", Short: "end a halt", Args: exactly(0), Long: "Ends a halt: calls are decided by the grants again. What was killed or refused stays so."}
	c.Flags().BoolVar(&asJSON, "json", false, "print brokerd's state as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		before, err := a.owner().Status(c.Context())
		if err != nil {
			return err
		}
		st, err := a.owner().Resume(c.Context())
		if err != nil {
			return err
		}
		if asJSON {
			a.printJSON(st)
			return nil
		}
		s := "calls are decided by the grants again"
		if !before.Halted {
			s = "nothing was halted"
		}
		_, err = fmt.Fprintln(a.env.Stdout, s)
		return err
	}
	return c
}

// waiting offers codes for completion.
func (a *app) waiting(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || !a.located() {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := a.owner().Approvals(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for i := range all {
		out = append(out, cobra.CompletionWithDesc(all[i].Code, approval.Line(&all[i], approval.Options{Width: 60})))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
