package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"boxmaker/bxctl/internal/mattermost"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// chat reports whether a chat is set up: then gatewayd is a role.
func (x *exam) chat() bool {
	_, err := os.Lstat(filepath.Join(x.Layout.Config, setup.FileGateway))
	return err == nil
}

// chat: the owner's chat, as far as this machine knows. What its server says, bxctl
// mattermost check asks.
func chat(x *exam) {
	path := filepath.Join(x.Layout.Config, setup.FileGateway)
	if !x.chat() {
		x.skip(path, "no chat is set up; bxctl mattermost setup does it")
		return
	}
	g, err := setup.LoadGateway(x.Layout)
	if err != nil {
		text, key := mistake(path, err)
		x.add(Finding{Looked: path, Verdict: Fail, Detail: term.Line(text), Mend: "mend that line, or run bxctl mattermost setup", Runbook: first(key, "config-invalid")})
		return
	}
	before := len(x.findings)
	if g.Plain {
		x.add(Finding{Looked: path, Verdict: Warn, Runbook: "mattermost-url", Detail: "plain = true: token and messages may go over the network in the clear", Mend: "give the address with https:// and set plain = false, unless the way there is your own"})
	}
	x.token(g)
	if len(x.findings) == before {
		x.ok(path, "%s heard at %s, the token is kept, and its key elsewhere", people(len(g.Owners)), term.Line(g.URL))
	}
	x.gatewayd()
}

func people(n int) string {
	if n == 1 {
		return "1 account is"
	}
	return fmt.Sprintf("%d accounts are", n)
}

// token: it is there, private, and its key is not beside it.
func (x *exam) token(g setup.Gateway) {
	c := g.Secret(x.Layout, x.Root(), x.config().settings)
	store := filepath.Join(c.Dir, c.File)
	if filepath.Dir(c.Key.File) == c.Dir {
		x.bad(Warn, c.Key.File, "the key lies beside the store that it opens: who copies the folder has both", "move the key to "+x.Layout.Keys+", and name it as key under [secrets] in gatewayd.toml")
	}
	if _, err := os.Lstat(c.Key.File); errors.Is(err, fs.ErrNotExist) && x.running().pid == 0 && x.bySystemd() {
		x.skip(c.Key.File, "the key is not there; systemd may hold it as a credential")
		return
	}
	t, err := mattermost.Stored(c)
	switch {
	case err != nil:
		text, key := split(err)
		x.add(Finding{Looked: store, Verdict: Fail, Detail: term.Line(text), Mend: "run bxctl mattermost setup once it is mended", Runbook: first(key, "mattermost-token")})
	case t.Reveal() == "":
		x.add(Finding{Looked: store, Verdict: Fail, Runbook: "mattermost-token", Detail: "the bot's token is not there, so that gatewayd does not start", Mend: "bxctl mattermost setup keeps it"})
	}
}

// chatRows is gatewayd's own word, which brokerd has asked for; without a brokerd it is
// asked here.
func (x *exam) chatRows() ([]proto.Check, error) {
	if x.tools() {
		if s := x.broker(); s.err == nil {
			rows, _ := report.Chat(s.st)
			return rows, nil
		}
	}
	ctx, cancel := context.WithTimeout(x.ctx, 3*time.Second)
	defer cancel()
	st, err := mattermost.Status(ctx, x.Layout)
	if err != nil {
		return nil, err
	}
	return report.Rows(st), nil
}

// gatewayd: how it is.
func (x *exam) gatewayd() {
	rows, err := x.chatRows()
	if err != nil {
		if x.running().pid == 0 && !x.bySystemd() {
			x.skip("gatewayd", "Boxmaker does not run, so that it cannot be asked how it is")
			return
		}
		text, _ := split(err)
		x.add(Finding{Looked: "gatewayd", Verdict: Fail, Detail: term.Line(text), Mend: "bxctl logs gatewayd tells why; without it: bxctl down; bxctl up --detach", Runbook: "gatewayd-away"})
		return
	}
	said := 0
	for _, c := range rows {
		switch looked := "gatewayd: " + term.Line(c.Name); c.State {
		case "ok":
			said++
		case "failed":
			x.add(Finding{Looked: looked, Verdict: Fail, Detail: term.Line(c.Detail), Mend: "see the runbook, bxctl logs gatewayd, and bxctl mattermost check", Runbook: first(c.Runbook, "gatewayd-away")})
		case "pending":
			x.skip(looked, "%s", term.Line(c.Detail))
		}
	}
	switch {
	case len(rows) == 0:
		x.add(Finding{Looked: "gatewayd", Verdict: Fail, Detail: "brokerd runs without it: the chat was set up since it was started", Mend: "bxctl down; bxctl up --detach", Runbook: "gatewayd-away"})
	case said == len(rows):
		x.ok("gatewayd", "connected, and all of its %d rows are well", said)
	}
}
