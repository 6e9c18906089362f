package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/mattermost"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"

	"github.com/spf13/cobra"
)

func (a *app) mattermost() *cobra.Command {
	c := &cobra.Command{
		Use: "mattermost", Short: "talk to the agent in your own chat: setup, check", Args: cobra.ArbitraryArgs,
		Long: `Connects Boxmaker to a Mattermost server of yours: you write to a bot there, and it
answers you and nobody else. The program gatewayd does that, over outbound connections
only; it is started by bxctl up as soon as the setup has written its file.

docs/mattermost.md tells the whole way, from the bot's account to the first answer.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("there is no command %q", args[0]), "bxctl mattermost --help lists the commands")
			}
			return c.Help()
		},
	}
	c.AddCommand(a.mattermostSetup(), a.mattermostCheck())
	return c
}

func (a *app) mattermostSetup() *cobra.Command {
	var o chatFlags
	c := &cobra.Command{
		Use: "setup", Short: "look at the server, and write what gatewayd needs", Args: exactly(0),
		Long: `Asks for the address of the server, the bot's token (without echo), your user name and
channels, tries each of them there, posts you a message as the bot, and only then writes
config/gatewayd.toml and keeps the token, encrypted. If something is wrong, it says what,
and nothing is written. Enter keeps what is set already. What is there and differs is
shown, and replaced only if you say yes.

With all flags it asks nothing, for scripts: then --yes replaces what is there. The token
is read from standard input or from a file that only you can read. It is never an argument:
others could see it in the list of processes.`,
		Example: "  bxctl mattermost setup\n  pass show bot | bxctl mattermost setup --url https://chat.example.com --owner ann --token-file -",
	}
	f := c.Flags()
	f.StringVar(&o.url, "url", "", "address of the server: https://HOST")
	f.BoolVar(&o.plain, "plain", false, "allow http:// to another machine: everybody on the way can read token and messages")
	f.StringArrayVar(&o.owners, "owner", nil, "user `name` that is heard, and may approve (may be repeated; the first gets the message)")
	f.StringArrayVar(&o.channels, "channel", nil, "`name` or id of a channel where you may name the bot (may be repeated; none: direct messages only)")
	f.StringVar(&o.tokenFile, "token-file", "", "read the bot's token from this `file`; - for standard input")
	f.BoolVarP(&o.yes, "yes", "y", false, "replace what is there without asking")
	f.BoolVar(&o.asJSON, "json", false, "as JSON; asks nothing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := a.chatSetup(o)
		if err != nil {
			return err
		}
		s.given = c.Flags().Changed
		return s.report(s.run(c.Context()))
	}
	return c
}

func (a *app) mattermostCheck() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check", Short: "look whether what is set up still works", Args: exactly(0),
		Long: `Looks at the server with what config/gatewayd.toml says and the token that is kept:
address, certificate, token, accounts, channels. It writes nothing and posts nothing.`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := a.chatSetup(chatFlags{asJSON: asJSON})
		if err != nil {
			return err
		}
		return s.report(s.check(c.Context()))
	}
	return c
}

// chatFlags are the command line.
type chatFlags struct {
	url, tokenFile   string
	owners, channels []string
	plain, yes       bool
	asJSON           bool
}

// chatSetup is one run.
type chatSetup struct {
	a     *app
	o     chatFlags
	given func(flag string) bool
	talk  bool // the owner can be asked

	settings setup.Settings
	was      setup.Gateway
	wasErr   error // why was is empty
	stored   secret.Text
	token    secret.Text
	want     setup.Gateway // names in the place of ids, until they are known
	prober   mattermost.Prober
	rep      chatReport
}

// chatReport is what it comes to, and the form of --json.
type chatReport struct {
	OK       bool              `json:"ok"`
	URL      string            `json:"url,omitzero"`
	Version  string            `json:"version,omitzero"`
	Bot      proto.Named       `json:"bot,omitzero"`
	Owners   []proto.Named     `json:"owners"`
	Channels []proto.Named     `json:"channels"`
	Post     string            `json:"post,omitzero"`
	Steps    []proto.ProbeStep `json:"steps"`
	Changes  []string          `json:"changes"`
	Written  []string          `json:"written"`
	Error    string            `json:"error,omitzero"`
}

// chatSetup reads what is there.
func (a *app) chatSetup(o chatFlags) (*chatSetup, error) {
	s := &chatSetup{a: a, o: o, given: func(string) bool { return false }}
	s.rep = chatReport{Owners: []proto.Named{}, Channels: []proto.Named{}, Steps: []proto.ProbeStep{}, Changes: []string{}, Written: []string{}}
	s.talk = !o.asJSON && term.IsTerminal(a.env.Stdin)
	var err error
	if s.settings, _, err = setup.Load(a.layout); err != nil {
		return nil, &fault.Fault{Code: fault.Usage, What: "Boxmaker is not set up here", Err: err, Do: "bxctl init does that", Key: "not-set-up"}
	}
	path, err := self()
	if err != nil {
		return nil, err
	}
	s.prober = mattermost.Prober{Program: filepath.Join(filepath.Dir(path), "gatewayd"), Env: up.RoleEnv(a.layout, a.environ())}
	if s.root() {
		s.prober.UID = s.settings.UID("gatewayd")
	}
	if s.was, s.wasErr = setup.LoadGateway(a.layout); s.wasErr != nil {
		s.was = setup.DefaultGateway()
	}
	s.stored, err = mattermost.Stored(s.was.Secret(a.layout, s.root(), s.settings))
	return s, err
}

func (s *chatSetup) root() bool { return os.Geteuid() == 0 }

// say prints a line for people.
func (s *chatSetup) say(format string, args ...any) {
	if !s.o.asJSON {
		fmt.Fprintf(s.a.env.Stdout, format+"\n", args...)
	}
}

// show prints steps and adds them to the report. A later look makes earlier steps once
// more: those are shown already.
func (s *chatSetup) show(steps []proto.ProbeStep) {
	steps = slices.DeleteFunc(slices.Clone(steps), func(st proto.ProbeStep) bool { return slices.Contains(s.rep.Steps, st) })
	s.rep.Steps = append(s.rep.Steps, steps...)
	paint := map[string]func(string) string{"ok": s.a.out.Good, "warn": s.a.out.Warn, "failed": s.a.out.Bad}
	for _, st := range steps {
		f := paint[st.State]
		if f == nil || st.State == "failed" { // which is told as an error
			continue
		}
		s.say("%s", s.a.out.Fold(18, fmt.Sprintf("  %s%-9s %s", f(fmt.Sprintf("%-6s", st.State)), st.Name, term.Line(st.Detail))))
		if st.Do != "" {
			s.say("%s", s.a.out.Fold(18, fmt.Sprintf("  %-6s%-9s %s (see runbook: %s)", "", "", term.Line(st.Do), term.Line(st.Runbook))))
		}
	}
}

// keep takes over what a look found.
func (s *chatSetup) keep(m *proto.Probed) {
	s.rep.URL, s.rep.Version, s.rep.Bot, s.rep.Post = s.want.URL, m.Version, m.Bot, m.Post
	s.rep.Owners, s.rep.Channels = append([]proto.Named{}, m.Owners...), append([]proto.Named{}, m.Channels...)
}

// stepFault is the error of a step that failed.
func stepFault(st proto.ProbeStep) error {
	return &fault.Fault{What: st.Name + ": " + st.Detail, Means: "nothing was changed", Do: st.Do, Key: st.Runbook}
}

// report ends a run: in JSON the whole of it, and the error in any case.
func (s *chatSetup) report(err error) error {
	s.rep.OK = err == nil
	if s.o.asJSON {
		if err != nil {
			s.rep.Error = fault.Line(err)
		}
		if e := archive.WriteJSON(s.a.out, s.rep); e != nil {
			return e
		}
	}
	return interruptible(err)
}

// notSetUp is for check, which has nothing to look at.
func (s *chatSetup) notSetUp() error {
	if errors.Is(s.wasErr, fs.ErrNotExist) {
		return &fault.Fault{Code: fault.Usage, What: "no chat is set up", Do: "bxctl mattermost setup does that", Key: "mattermost-token"}
	}
	text, key, _ := strings.Cut(s.wasErr.Error(), " (see runbook: ")
	return &fault.Fault{Code: fault.Usage, What: "gatewayd.toml can't be used", Err: errors.New(text), Do: "mend that line, or run bxctl mattermost setup", Key: strings.TrimSuffix(key, ")")}
}
