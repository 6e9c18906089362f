package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/rights"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/durable"
	"boxmaker/internal/grant"
	"boxmaker/internal/tool"

	"github.com/spf13/cobra"
)

// newGrant is what the flags of grants new say.
type newGrant struct {
	draft           rights.Draft
	mode, untrusted string
	expires, name   string
	hosts           []string
	print           bool
}

func (a *app) grantsNew() *cobra.Command {
	var n newGrant
	c := &cobra.Command{
		Use: "new TOOL", Short: "write a new grant, with questions or with flags", Args: exactly(1),
		Long: `Writes a commented file for one tool into the folder of grants. On a terminal it asks,
each question with a default; with flags it asks nothing. The file is checked as
bxctl grants check does before it is written, what it means is said in words, and no
file is ever overwritten. It holds from the next call on.`,
		Example: "  bxctl grants new read_file\n  bxctl grants new read_file --read ~/notes --mode auto --mode-untrusted ask --expires 30d\n  bxctl grants new http_fetch --host api.example.com:443 --print",
	}
	f := c.Flags()
	f.StringVar(&n.mode, "mode", "ask", "auto, ask or deny")
	f.StringVar(&n.untrusted, "mode-untrusted", "", "the mode once the session has seen untrusted text")
	f.StringArrayVar(&n.draft.Read, "read", nil, "a file or folder that it may read (repeat for several)")
	f.StringArrayVar(&n.draft.Write, "write", nil, "a file or folder that it may change")
	f.StringArrayVar(&n.hosts, "host", nil, "a host that it may connect to, as host:port")
	f.StringArrayVar(&n.draft.Local, "local", nil, "one of these that may have a private address")
	f.StringVar(&n.expires, "expires", "", "a number of days (30d), or a date")
	f.StringVar(&n.draft.Reason, "reason", "", "what it is for")
	f.IntVar(&n.draft.CallsPerHour, "calls-per-hour", 0, "how many calls an hour")
	f.StringVar(&n.name, "name", "", "file name, such as 10-notes.toml")
	f.BoolVar(&n.print, "print", false, "print the file instead of writing it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if tool.Find(args[0]) == nil {
			return a.noTool(args[0])
		}
		n.draft.Tool = args[0]
		asks := c.Flags().NFlag() == 0 || c.Flags().NFlag() == 1 && (n.name != "" || n.print || a.home != "")
		if asks && term.IsTerminal(a.env.Stdin) {
			return a.guided(n)
		}
		if err := a.fromFlags(&n); err != nil {
			return err
		}
		return a.written(n, nil)
	}
	return c
}

// fromFlags completes the draft.
func (a *app) fromFlags(n *newGrant) error {
	d := &n.draft
	d.Mode, d.ModeUntrusted = grant.Mode(n.mode), grant.Mode(n.untrusted)
	for _, h := range n.hosts {
		d.Hosts = append(d.Hosts, rights.Host(h))
	}
	for i, h := range d.Local {
		d.Local[i] = rights.Host(h)
	}
	for _, list := range [][]string{d.Read, d.Write} {
		for i, p := range list {
			abs, err := filepath.Abs(p) // flags mean what they mean to a shell
			if err != nil {
				return err
			}
			list[i] = abs
		}
	}
	if n.expires != "" {
		t, err := rights.ParseExpiry(n.expires, a.env.Now())
		if err != nil {
			return usage(err, "see bxctl grants new --help")
		}
		d.Expires = t
	}
	return nil
}

// guided asks on the terminal.
func (a *app) guided(n newGrant) error {
	g := &rights.Guide{
		In: bufio.NewReader(a.env.Stdin), Out: a.env.Stdout, Own: grant.Own(a.layout),
		Home: a.getenv("HOME"), Work: a.layout.Workspace, Now: a.env.Now(),
	}
	d, err := g.Ask(n.draft.Tool)
	if errors.Is(err, rights.ErrAborted) {
		return &fault.Fault{What: "nothing was written"}
	}
	if err != nil {
		return err
	}
	n.draft = d
	return a.written(n, g)
}

// written checks the draft, says what it means, and writes it. g asks once more;
// nil if nobody is to be asked.
func (a *app) written(n newGrant, g *rights.Guide) error {
	name := n.name
	if name == "" {
		name = n.draft.Name()
	}
	if !strings.HasSuffix(name, ".toml") {
		name += ".toml"
	}
	if filepath.Base(name) != name || strings.HasPrefix(name, ".") {
		return usage(fmt.Errorf("--name %q is no file name", name), "a name such as 10-notes.toml; it is put into the folder of grants")
	}
	own, text := grant.Own(a.layout), n.draft.Text()
	made, problems := grant.Parse(name, []byte(text), own)
	if made != nil {
		problems = append(problems, rights.Places(made, own)...)
	}
	var errs []string
	for _, p := range problems {
		if !p.Warning {
			errs = append(errs, p.What+"; "+p.Do)
		}
	}
	if len(errs) > 0 {
		return &fault.Fault{Code: fault.Usage, What: "that would be no grant", Err: errors.New(strings.Join(errs, "\n")), Do: "see bxctl grants new --help, and docs/formats/grants.md for all keys", Key: "grant-file"}
	}
	for _, p := range problems {
		fmt.Fprintln(a.env.Stderr, a.err.Warn(term.Line("warning: "+p.What+"; "+p.Do)))
	}
	if n.print {
		_, err := fmt.Fprint(a.env.Stdout, term.Safe(text))
		return err
	}
	path := filepath.Join(a.layout.Grants, name)
	fmt.Fprintf(a.env.Stdout, "%s\n", a.out.Bold(term.Line(path)))
	for _, w := range rights.Words(made) {
		fmt.Fprintln(a.env.Stdout, "  "+term.Line(w))
	}
	if g != nil {
		if ok, err := g.Yes("Write it"); err != nil || !ok {
			return &fault.Fault{What: "nothing was written"}
		}
	}
	if err := a.writeGrant(name, text); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.env.Stdout, "It holds from the next call on. Remove the file to take it back.")
	return err
}

func (a *app) writeGrant(name, text string) error {
	failed := func(err error) error {
		return &fault.Fault{What: "the grant can't be written to " + a.layout.Grants, Err: err, Do: "run it as the user that owns that folder", Key: "grant-folder"}
	}
	if err := os.MkdirAll(a.layout.Grants, 0o700); err != nil {
		return failed(err)
	}
	root, err := os.OpenRoot(a.layout.Grants)
	if err != nil {
		return failed(err)
	}
	defer root.Close()
	mode := fs.FileMode(0o600)
	if st, err := root.Stat("."); err == nil && st.Mode()&fs.ModeSetgid != 0 {
		mode = 0o640 // as root: brokerd reads it by the group that the folder gives
	}
	err = durable.Create(root, name, []byte(text), mode)
	if errors.Is(err, fs.ErrExist) {
		return &fault.Fault{Code: fault.Usage, What: "there is a grant " + name + " already", Means: "it was left as it is", Do: "give another --name, or edit that file", Key: "grant-exists"}
	}
	if err != nil {
		return failed(err)
	}
	return nil
}
