package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/mattermost"
	"boxmaker/bxctl/internal/prompt"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

// check looks at what is set up.
func (s *chatSetup) check(ctx context.Context) error {
	if s.wasErr != nil {
		return s.notSetUp()
	}
	if s.stored.Reveal() == "" {
		return &fault.Fault{Code: fault.Usage, What: "there is no token of the bot", Do: "bxctl mattermost setup keeps one", Key: "mattermost-token"}
	}
	s.want, s.token = s.was, s.stored
	return s.look(ctx, &proto.Probe{URL: s.want.URL, Plain: s.want.Plain, Owners: s.want.Owners, Channels: s.want.Channels}, s.token)
}

// look makes a probe, shows its steps, and gives the error of the one that failed.
func (s *chatSetup) look(ctx context.Context, ask *proto.Probe, token secret.Text) error {
	m, err := s.prober.Ask(ctx, ask, token)
	if err != nil {
		return err
	}
	s.keep(m)
	s.show(m.Steps)
	if st, failed := m.Failed(); failed {
		return &stepError{st}
	}
	return nil
}

// stepError is a step that failed, which in a dialogue is asked for again.
type stepError struct{ proto.ProbeStep }

func (e *stepError) Error() string { return stepFault(e.ProbeStep).Error() }

// Unwrap gives it as a fault.
func (e *stepError) Unwrap() error { return stepFault(e.ProbeStep) }

// run is the setup: questions, looks, and then the writing.
func (s *chatSetup) run(ctx context.Context) error {
	var err error
	whole := s.o.url != "" && len(s.o.owners) > 0 && s.o.tokenFile != "" // nothing is left to ask
	if s.talk && !whole {
		err = s.dialogue(ctx)
	} else {
		err = s.script(ctx)
	}
	if err != nil {
		return err
	}
	s.want.Owners, s.want.Channels = ids(s.rep.Owners), ids(s.rep.Channels)
	change, err := s.change()
	if err != nil {
		return err
	}
	if err := s.greet(ctx); err != nil {
		return err
	}
	return s.write(change)
}

// greet posts the message, once it is clear that all will be written.
func (s *chatSetup) greet(ctx context.Context) error {
	ask := s.probe()
	ask.Greet = true
	m, err := s.prober.Ask(ctx, ask, s.token)
	if err != nil {
		return err
	}
	s.rep.Post = m.Post
	if last := m.Steps[len(m.Steps)-1]; last.State == "failed" {
		s.show([]proto.ProbeStep{last})
		return &stepError{last}
	} else if last.Name == "message" {
		s.show([]proto.ProbeStep{last})
	}
	return nil
}

func ids(named []proto.Named) []string {
	out := []string{}
	for _, n := range named {
		out = append(out, n.ID)
	}
	return out
}

// script takes everything from flags and from what is set already.
func (s *chatSetup) script(ctx context.Context) error {
	s.fromFlags()
	var missing []string
	if s.want.URL == "" {
		missing = append(missing, "--url")
	}
	if len(s.want.Owners) == 0 {
		missing = append(missing, "--owner")
	}
	if s.o.tokenFile == "" && s.stored.Reveal() == "" {
		missing = append(missing, "--token-file")
	}
	if len(missing) > 0 {
		return usage(fmt.Errorf("%s must be given where nobody can be asked", strings.Join(missing, ", ")), "run it in a terminal, or see bxctl mattermost setup --help")
	}
	if err := s.readToken(); err != nil {
		return err
	}
	return s.look(ctx, s.probe(), s.token)
}

// probe asks for all steps but the message.
func (s *chatSetup) probe() *proto.Probe {
	return &proto.Probe{URL: s.want.URL, Plain: s.want.Plain, Owners: s.want.Owners, Channels: s.want.Channels}
}

// change says what is to be written, and has the owner's word where something would be
// replaced.
func (s *chatSetup) change() (setup.GatewayChange, error) {
	c, err := setup.ChangeGateway(s.a.layout, s.want)
	if err != nil {
		return c, err
	}
	had, token := s.stored.Reveal() != "", s.newToken()
	s.rep.Changes = append(s.rep.Changes, c.Changes...)
	switch {
	case token && had:
		s.rep.Changes = append(s.rep.Changes, "the bot's token: another one")
	case token:
		s.rep.Changes = append(s.rep.Changes, "the bot's token: kept")
	}
	return c, s.consent(c.Old && len(c.Changes) > 0 || token && had)
}

func (s *chatSetup) newToken() bool { return s.token.Reveal() != s.stored.Reveal() }

// write changes the files.
func (s *chatSetup) write(change setup.GatewayChange) error {
	if len(s.rep.Changes) == 0 {
		s.say("\nAll of it is set up so already; nothing was changed.")
		return nil
	}
	store := s.want.Secret(s.a.layout, s.root(), s.settings)
	if s.newToken() {
		if err := mattermost.Keep(store, s.token); err != nil {
			return err
		}
		s.rep.Written = append(s.rep.Written, filepath.Join(store.Dir, store.File))
	}
	kept, err := setup.WriteGateway(s.a.layout, change, s.a.env.Now()) // for a new token as well: it is what a running gatewayd looks at
	if err != nil {
		return err
	}
	s.rep.Written = append(s.rep.Written, filepath.Join(s.a.layout.Config, setup.FileGateway))
	s.next(kept, change.Old)
	return nil
}

// consent shows what would be replaced and asks.
func (s *chatSetup) consent(replaced bool) error {
	if !replaced || s.o.yes {
		return nil
	}
	no := &fault.Fault{
		Code: fault.Usage, What: "a chat is set up already, and differs", Means: strings.Join(s.rep.Changes, "\n") + "\nnothing was changed",
		Do: "say --yes to have it replaced", Key: "mattermost-exists",
	}
	if !s.talk {
		return no
	}
	s.say("\nWhat is there will change:")
	for _, c := range s.rep.Changes {
		s.say("  %s", term.Line(c))
	}
	yes, err := prompt.Yes(s.a.env.Stdin, s.a.env.Stderr, "Replace it?")
	if err != nil || !yes {
		no.Code, no.What, no.Means, no.Do = fault.Failed, "it was left as it is", "nothing was changed", "run it again when you want to"
		return no
	}
	return nil
}

// next says what was done, and what to do.
func (s *chatSetup) next(kept string, there bool) {
	s.say("\nWritten:")
	for _, w := range s.rep.Written {
		s.say("  %s", w)
	}
	if kept != "" {
		s.say("  the former file is %s", kept)
	}
	pid, err := up.Holder(s.a.layout)
	switch {
	case err == nil && pid != 0 && there:
		s.say("Boxmaker runs; gatewayd takes it over by itself.")
	case err == nil && pid != 0:
		s.say("Boxmaker runs; start the chat with: bxctl down; bxctl up --detach")
	case up.RunBySystemd(s.a.layout) && there:
		s.say("systemd runs Boxmaker; gatewayd takes it over by itself.")
	case up.RunBySystemd(s.a.layout):
		s.say("systemd runs Boxmaker; write its units once more, with one for gatewayd: bxctl init --systemd")
	default:
		s.say("Next: bxctl up --detach, then write to @%s.", term.Line(s.rep.Bot.Name))
	}
}
