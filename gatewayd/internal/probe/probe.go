// Package probe looks at a chat's server for the owner who sets it up: address,
// certificate, token, accounts, channels, a message.
//
// It guarantees that the token goes to a server only after that has shown itself as a
// Mattermost server, over a connection that is trusted; that nothing is changed there
// but the direct channel of bot and owner, and one message if it is asked for; and
// that no word of an answer holds the token. It stops at the first step that fails.
// It writes nothing on this machine, and what it finds holds for now only.
package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

// tested is the major version of the servers that Boxmaker was tried with.
const tested = "11"

// soon is how long before its end a certificate is worth a word.
const soon = 14 * 24 * time.Hour

// greeting is the message to the owner.
const greeting = "This is Boxmaker's bot. It is being set up on your machine, and this message shows that it reaches you. " +
	"It hears you alone, here and in channels that you listed; it answers as soon as Boxmaker was started anew. `help` shows what it understands."

// Config are the parts of a probe that tests replace.
type Config struct {
	HTTP    *http.Client // nil for one of our own
	Now     func() time.Time
	Timeout time.Duration // of one request
}

// A look is one run.
type look struct {
	cfg   Config
	ask   *proto.Probe
	token secret.Text
	out   *proto.Probed

	c  *mattermost.Client
	me mattermost.User
}

// errStop ends a run whose last step failed.
var errStop = errors.New("probe: a step failed")

// Run makes as many steps as the question gives what they need.
func Run(ctx context.Context, cfg Config, ask *proto.Probe, token secret.Text) *proto.Probed {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 15 * time.Second
	}
	l := &look{cfg: cfg, ask: ask, token: token, out: &proto.Probed{}}
	steps := []func(context.Context) error{l.server}
	if token.Reveal() != "" {
		steps = append(steps, l.bot)
		if len(ask.Owners) > 0 {
			steps = append(steps, l.owners, l.channels, l.direct)
		}
	}
	for _, step := range steps {
		if step(ctx) != nil {
			break
		}
	}
	return l.out
}

func (l *look) ok(name, format string, args ...any) {
	l.out.Steps = append(l.out.Steps, proto.ProbeStep{Name: name, State: "ok", Detail: fmt.Sprintf(format, args...)})
}

func (l *look) warn(name, key, detail, do string) {
	l.out.Steps = append(l.out.Steps, proto.ProbeStep{Name: name, State: "warn", Detail: detail, Do: do, Runbook: key})
}

func (l *look) fail(name string, p problem) error {
	l.out.Steps = append(l.out.Steps, proto.ProbeStep{Name: name, State: "failed", Detail: p.what, Do: p.do, Runbook: p.key})
	return errStop
}

// server: who answers at the address, without the token.
func (l *look) server(ctx context.Context) error {
	g, err := mattermost.Hello(ctx, mattermost.Config{URL: l.ask.URL, Plain: l.ask.Plain, HTTP: l.cfg.HTTP, Timeout: l.cfg.Timeout})
	if err != nil {
		return l.fail("server", explain(l.ask.URL, err))
	}
	switch left := g.Expires.Sub(l.cfg.Now()); {
	case g.Expires.IsZero() && l.ask.Plain:
		l.warn("server", "mattermost-url", "a Mattermost server, without TLS: token and messages go in the clear", "use https:// unless the way there is your own")
	case g.Expires.IsZero():
		l.ok("server", "a Mattermost server on this machine, without TLS")
	case left < soon:
		l.warn("server", "mattermost-certificate", fmt.Sprintf("a Mattermost server; its certificate ends on %s", g.Expires.UTC().Format(time.DateOnly)), "have it renewed: without it the bot does not connect")
	default:
		l.ok("server", "a Mattermost server; its certificate is good until %s", g.Expires.UTC().Format(time.DateOnly))
	}
	return nil
}

// bot: the token is a bot's.
func (l *look) bot(ctx context.Context) error {
	c, err := mattermost.New(mattermost.Config{URL: l.ask.URL, Plain: l.ask.Plain, Token: l.token, HTTP: l.cfg.HTTP, Timeout: l.cfg.Timeout})
	if err != nil { // the address is good, as we know
		return l.fail("token", problem{"mattermost-token", err.Error(), "copy it anew, as the server showed it when the bot was made"})
	}
	l.c = c
	if l.me, err = c.Me(ctx); err != nil {
		return l.fail("token", explain(l.ask.URL, err))
	}
	if !l.me.Bot {
		return l.fail("token", problem{"mattermost-token", "the token is of @" + l.me.Name + ", a person's account, not a bot's", "make a bot account (Integrations, Bot Accounts) and use the token of that: a program with a person's account speaks as the person, and could not be told from them"})
	}
	cfg, err := c.Config(ctx)
	if err != nil {
		return l.fail("token", explain(l.ask.URL, err))
	}
	l.out.Bot, l.out.Version = proto.Named{ID: l.me.ID, Name: l.me.Name}, cfg.Version
	if major, _, _ := strings.Cut(cfg.Version, "."); major != tested {
		l.warn("server", "mattermost-version", fmt.Sprintf("the server is version %q; Boxmaker was tried with %s.x", cfg.Version, tested), "nothing, if what follows goes well; else read its release notes")
	} else {
		l.ok("server", "version %s", cfg.Version)
	}
	if slices.Contains(strings.Fields(l.me.Roles), "system_admin") {
		l.warn("token", "mattermost-token", "the bot @"+l.me.Name+" is a system administrator: whoever has its token has the server", "give it the role of a member (Integrations, Bot Accounts)")
	} else {
		l.ok("token", "the bot is @%s", l.me.Name)
	}
	return nil
}

// owners: each is a person's account that is in use.
func (l *look) owners(ctx context.Context) error {
	for _, given := range l.ask.Owners {
		u, err := l.account(ctx, given)
		if err != nil {
			return l.fail("owner", ofOwner(given, explain(l.ask.URL, err), err))
		}
		switch {
		case u.ID == l.me.ID:
			return l.fail("owner", problem{"mattermost-owner", "@" + u.Name + " is the bot itself", "name your own account, with which you will write to it"})
		case u.Bot:
			return l.fail("owner", problem{"mattermost-owner", "@" + u.Name + " is a bot", "name your own account: a bot is no owner, since whoever has its token could answer for you"})
		case u.DeleteAt != 0:
			return l.fail("owner", problem{"mattermost-owner", "the account @" + u.Name + " is deactivated", "name an account that is in use, or have it activated"})
		case slices.ContainsFunc(l.out.Owners, func(o proto.Named) bool { return o.ID == u.ID }):
			return l.fail("owner", problem{"mattermost-owner", "@" + u.Name + " is named twice", "name each account once"})
		}
		l.out.Owners = append(l.out.Owners, proto.Named{ID: u.ID, Name: u.Name})
		l.ok("owner", "@%s is %s", u.Name, u.ID)
	}
	return nil
}

// account finds an account by its id, or else by its name.
func (l *look) account(ctx context.Context, given string) (mattermost.User, error) {
	if mattermost.ValidID(given) {
		u, err := l.c.User(ctx, given)
		var no *mattermost.Refused
		if !errors.As(err, &no) || no.Token() {
			return u, err
		}
	}
	return l.c.UserByName(ctx, given)
}

// channels: each is there, with the bot in it.
func (l *look) channels(ctx context.Context) error {
	if len(l.ask.Channels) == 0 {
		return nil
	}
	all, err := l.c.Channels(ctx)
	if err != nil {
		return l.fail("channel", explain(l.ask.URL, err))
	}
	for _, given := range l.ask.Channels {
		name := strings.ToLower(strings.TrimPrefix(given, "~"))
		var found []mattermost.Channel
		for _, ch := range all {
			if ch.ID == name || ch.Name == name {
				found = append(found, ch)
			}
		}
		if len(found) == 0 && mattermost.ValidID(name) { // an archived one is in no list
			if ch, err := l.c.Channel(ctx, name); err == nil && ch.DeleteAt != 0 {
				found = append(found, ch)
			}
		}
		no := func(what, do string) error { return l.fail("channel", problem{"mattermost-channel", what, do}) }
		switch {
		case len(found) == 0:
			return no(fmt.Sprintf("the bot is in no channel %q", given), "invite it there first (/invite @"+l.me.Name+"), and give the channel by its id or by its name in the address of the page")
		case len(found) > 1:
			return no(fmt.Sprintf("the bot is in %d channels that are called %q, of different teams", len(found), given), "give the channel by its id (channel info shows it)")
		case found[0].Type != mattermost.Public && found[0].Type != mattermost.Private:
			return no(fmt.Sprintf("%q is a conversation of a few people, not a channel", given), "leave it out: direct messages of yours are heard anyway, those of groups never")
		case found[0].DeleteAt != 0:
			return no(fmt.Sprintf("the channel %q is archived", given), "leave it out, or have it restored")
		case slices.ContainsFunc(l.out.Channels, func(n proto.Named) bool { return n.ID == found[0].ID }):
			return no(fmt.Sprintf("the channel %q is named twice", given), "name each channel once")
		}
		l.out.Channels = append(l.out.Channels, proto.Named{ID: found[0].ID, Name: found[0].Name})
		l.ok("channel", "~%s is %s; everybody in it can read what you ask there, and the answers", found[0].Name, found[0].ID)
	}
	return nil
}

// direct: bot and owner have a channel, and a message arrives there.
func (l *look) direct(ctx context.Context) error {
	owner := l.out.Owners[0]
	ch, err := l.c.Direct(ctx, l.me.ID, owner.ID)
	if err == nil && ch.Type != mattermost.Direct {
		err = &mattermost.Failed{Status: http.StatusOK, Text: "a channel that is not a direct one"}
	}
	if err != nil {
		return l.fail("direct", ofPlace(owner.Name, explain(l.ask.URL, err), err))
	}
	l.ok("direct", "the direct channel with @%s is open", owner.Name)
	if !l.ask.Greet {
		return nil
	}
	d := mattermost.Draft{Channel: ch.ID, Message: greeting, Key: rand.Text(), Pending: rand.Text()}
	p, err := l.c.Create(ctx, d)
	var unsure *mattermost.Unsure
	if errors.As(err, &unsure) {
		if there, yes, ferr := l.c.Find(ctx, l.me.ID, d, max(ch.LastPostAt, 1)-1); ferr == nil && yes {
			p, err = there, nil
		}
	}
	if err != nil {
		return l.fail("message", ofPlace(owner.Name, explain(l.ask.URL, err), err))
	}
	l.out.Post = p.ID
	l.ok("message", "a message to @%s was posted; have a look", owner.Name)
	return nil
}
