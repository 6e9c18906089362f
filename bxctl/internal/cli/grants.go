package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/reach"
	"boxmaker/bxctl/internal/rights"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func (a *app) grants() *cobra.Command {
	c := &cobra.Command{
		Use: "grants", Short: "what the assistant may do: list, check, explain, new", Args: cobra.ArbitraryArgs,
		Long: `A grant is a file that says which tool may do what, and whether you are asked. Without
one the answer to every call is no. The files are yours: write them with an editor, or
with bxctl grants new, and remove one to take its right away at once.

These commands read the files, so that they work when nothing runs.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("there is no command %q", "grants "+args[0]), "see bxctl grants --help")
			}
			return c.Help()
		},
	}
	c.AddCommand(a.grantsList(), a.grantsCheck(), a.grantsExplain(), a.grantsNew())
	return c
}

// grantSet reads the folder of grants. One that is not there holds none.
func (a *app) grantSet() (grant.Set, error) {
	set, err := grant.Open(a.layout.Grants, grant.Own(a.layout)...).Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return set, &fault.Fault{What: "there is no folder of grants", Err: errors.New(a.layout.Grants), Means: "nothing is granted", Do: "bxctl init makes it, with examples; bxctl grants new TOOL makes a first file", Key: "grant-folder"}
	case err != nil:
		return set, &fault.Fault{What: "the grants can't be read", Err: err, Key: "grant-folder"}
	}
	for _, p := range a.unread() {
		if p.Warning {
			set.Warnings = append(set.Warnings, p)
			continue
		}
		set.Broken = append(slices.DeleteFunc(set.Broken, func(o grant.Problem) bool { return o.File == p.File }), p)
		set.Grants = slices.DeleteFunc(set.Grants, func(g *grant.Grant) bool { return g.ID == p.File })
	}
	return set, nil
}

// unread names what brokerd does not read. Root reads what brokerd may not.
func (a *app) unread() []grant.Problem {
	s, _, err := setup.Load(a.layout)
	if os.Geteuid() != 0 || err != nil {
		return rights.Unread(a.layout.Grants, 0, nil)
	}
	uid := s.UID("brokerd")
	return rights.Unread(a.layout.Grants, uid, func(path string) error { return reach.MayUse(path, uid, unix.R_OK) })
}

// findings gives what there is to say about the files in the folder.
func (a *app) findings(set grant.Set) (out []rights.Finding) {
	own := grant.Own(a.layout)
	all := set.Problems(a.env.Now())
	for _, g := range set.Grants {
		if !g.Expired(a.env.Now()) {
			all = append(all, rights.Places(g, own)...)
		}
	}
	slices.SortStableFunc(all, func(a, b grant.Problem) int { return strings.Compare(a.File, b.File) })
	for _, p := range all {
		out = append(out, rights.Finding{Path: filepath.Join(a.layout.Grants, p.File), Problem: p})
	}
	return out
}

func (a *app) printFindings(all []rights.Finding) {
	for _, f := range all {
		line := term.Line(f.Line())
		if f.Warning {
			line = a.err.Warn(line)
		} else {
			line = a.err.Bad(line)
		}
		fmt.Fprintln(a.env.Stderr, line)
	}
}

func (a *app) grantsList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "list the grants", Args: exactly(0),
		Long: `Lists the grants in the order in which they are looked at: tool, mode (before and after
the session has seen untrusted text, if they differ), when it expires, and what it is
about. Files with a fault are named after that, with the line and how to mend it.`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON, with all that each file says")
	c.RunE = func(*cobra.Command, []string) error {
		set, err := a.grantSet()
		if err != nil {
			return err
		}
		found := a.findings(set)
		if asJSON {
			return a.dump(rights.ListOf(set.Grants, found, a.env.Now()))
		}
		if len(set.Grants) == 0 {
			fmt.Fprintln(a.env.Stderr, "nothing is granted in "+term.Line(a.layout.Grants)+"; bxctl grants new TOOL makes a first file")
		} else {
			for _, l := range rights.Table(set.Grants, a.env.Now(), a.out, a.tableWidth()) {
				fmt.Fprintln(a.env.Stdout, l)
			}
		}
		a.printFindings(found)
		return nil
	}
	return c
}

// tableWidth is that of the terminal; a file or a pipe gets whole lines.
func (a *app) tableWidth() int {
	if a.out.Terminal {
		return a.out.Width()
	}
	return 1 << 20
}

func (a *app) grantsCheck() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check [FILE…]", Short: "look for mistakes in grants", Args: cobra.ArbitraryArgs,
		Long: `Checks all grants, or the files that are named, which need not be in the folder of
grants. Each mistake is named with file, line and how to mend it. A file with a mistake
grants nothing; a warning takes nothing away.

Exit codes: 0 there is no mistake (there may be warnings), 1 there is one.`,
		Example: "  bxctl grants check\n  bxctl grants check ~/draft.toml",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.RunE = func(_ *cobra.Command, args []string) error {
		found, files, err := a.checked(args)
		if err != nil {
			return err
		}
		broken := map[string]bool{}
		for _, f := range found {
			if !f.Warning {
				broken[f.Path] = true
			}
		}
		if asJSON {
			if err := a.dump(rights.ProblemsOf(found)); err != nil {
				return err
			}
		} else {
			a.printFindings(found)
			if len(broken) == 0 {
				fmt.Fprintf(a.env.Stdout, "%d grants, each of them understood\n", files)
			}
		}
		if len(broken) > 0 {
			return &fault.Fault{What: fmt.Sprintf("%d of %d files grant nothing", len(broken), files), Do: "mend what is named above", Key: "grant-file"}
		}
		return nil
	}
	return c
}

func (a *app) checked(args []string) (found []rights.Finding, files int, err error) {
	if len(args) == 0 {
		set, err := a.grantSet()
		broken := map[string]bool{}
		for _, p := range set.Broken {
			broken[p.File] = true
		}
		return a.findings(set), len(set.Grants) + len(broken), err
	}
	for _, path := range args {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && !strings.ContainsRune(path, '/') {
			path = filepath.Join(a.layout.Grants, path) // as list names it
		}
		_, more, err := rights.File(path, grant.Own(a.layout))
		if err != nil {
			return nil, 0, &fault.Fault{Code: fault.Usage, What: "the file can't be read", Err: err, Do: "name a file with a grant in it", Key: "grant-file"}
		}
		found = append(found, more...)
	}
	return found, len(args), nil
}

func (a *app) grantsExplain() *cobra.Command {
	var session, taint string
	var untrusted, asJSON bool
	c := &cobra.Command{
		Use: "explain TOOL ARGS", Short: "say which grant would decide on a call, and why",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(errors.New("bxctl grants explain takes a tool and its arguments"), "see bxctl grants explain --help")
			}
			return nil
		},
		Long: `Says what would become of a call, without running anything: which grant decides, what
every other grant for the tool makes of it, and what the model would read of a denial.
ARGS is JSON, or in short the path, URL or command line. The calls per hour are not
counted.

The call is judged as one of a session that has seen nothing yet; --taint and
--untrusted make it one that has, and --session takes what that session has really
seen, for which Boxmaker has to run.`,
		Example: "  bxctl grants explain read_file /home/me/notes/a.txt\n  bxctl grants explain http_fetch '{\"url\":\"https://example.org/\",\"method\":\"POST\"}' --untrusted\n  bxctl grants explain shell 'ls -l' --session chat-20270102-1",
	}
	c.Flags().StringVar(&session, "session", "", "as a call of this `session`")
	c.Flags().StringVar(&taint, "taint", "private", "the highest `class` the session has seen: public, private or secret")
	c.Flags().BoolVar(&untrusted, "untrusted", false, "the session has seen untrusted text")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := errors.Join(exclusive(c, "session", "taint"), exclusive(c, "session", "untrusted")); err != nil {
			return err
		}
		if tool.Find(args[0]) == nil {
			return a.noTool(args[0])
		}
		if proto.Class(taint).Validate() != nil {
			return usage(fmt.Errorf("--taint %q is no class", taint), "it is public, private or secret")
		}
		call := rights.Arguments(args[0], strings.Join(args[1:], " "))
		e, err := a.explained(c, session, args[0], call, proto.Class(taint), untrusted)
		if err != nil {
			return err
		}
		if asJSON {
			return a.dump(e)
		}
		for _, l := range rights.Explained(e, a.out) {
			fmt.Fprintln(a.env.Stdout, l)
		}
		return nil
	}
	return c
}

func (a *app) explained(c *cobra.Command, session, name, args string, taint proto.Class, untrusted bool) (rights.Explanation, error) {
	if session != "" {
		if err := proto.CheckSession(session); err != nil {
			return rights.Explanation{}, usage(err, "bxctl sessions list shows the sessions")
		}
		said, err := a.owner().Explain(c.Context(), session, name, args)
		if err != nil {
			return rights.Explanation{}, err
		}
		return rights.Said(said), nil
	}
	set, err := a.grantSet()
	if err != nil {
		return rights.Explanation{}, err
	}
	a.printFindings(slices.DeleteFunc(a.findings(set), func(f rights.Finding) bool { return f.Warning }))
	return rights.Explain(set, name, args, taint, untrusted, a.env.Now())
}

func (a *app) noTool(name string) error {
	return usage(fmt.Errorf("there is no tool %q", name), "the tools are "+strings.Join(toolNames(), ", "))
}

func toolNames() (names []string) {
	for _, t := range tool.All() {
		names = append(names, t.Name)
	}
	return names
}

// dump prints a value as one line of JSON that is safe for a terminal.
func (a *app) dump(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = a.env.Stdout.Write(append(term.JSON(b), '\n'))
	return err
}
