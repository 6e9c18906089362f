package bridge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit/fakemost"
)

// missing waits for a row of the status, or for its end.
func (r *rig) missing(name string, is bool) proto.Check {
	r.t.Helper()
	var row proto.Check
	r.until("a row on "+name, func() bool {
		n := slices.IndexFunc(r.run.Checks(), func(c proto.Check) bool { return c.Name == name })
		if n >= 0 {
			row = r.run.Checks()[n]
		}
		return n >= 0 == is
	})
	return row
}

// direct gives the direct channel with a user; "" if there is none.
func (r *rig) direct(u *fakemost.User) string {
	for _, req := range r.Requests("POST", "/channels/direct") {
		if strings.Contains(req.Body, u.ID) {
			return r.Direct(u, r.bot)
		}
	}
	return ""
}

// An owner who was added to the settings by hand: the direct channel is opened, no word
// is posted there, and what is written there is answered.
func TestAnOwnerAddedByHand(t *testing.T) {
	r := newRig(t)
	second := r.AddUser("second")
	r.cfg = func(b *BotConfig) { b.Rules.Owners = []string{r.owner.ID, second.ID} }
	r.start()
	var dm string
	r.until("the direct channel is opened", func() bool { dm = r.direct(second); return dm != "" })
	first := r.ask("", "hello")
	r.wants(first.ID, "answer to hello")
	if got := r.Posts(dm); len(got) != 0 {
		t.Errorf("unasked: %+v", got)
	}
	p := r.Post(second, dm, "", "me too")
	r.until("an answer there", func() bool {
		all := r.Posts(dm)
		return len(all) == 2 && all[1].RootID == p.ID && all[1].Message == "answer to me too"
	})
	r.quiet()
	r.missing("owners", false)
}

// An owner with whom the server lets the bot have no direct channel, or who does not
// exist, is told of, and holds no other up. When it lets it, all is well by itself.
func TestAnOwnerWhoCannotBeReached(t *testing.T) {
	r := newRig(t)
	second := r.AddUser("second")
	mend := r.Inject(fakemost.Fault{Kind: fakemost.Echo, Method: "POST", Path: "/channels/direct", After: 1})
	r.cfg = func(b *BotConfig) {
		b.Rules.Owners, b.CatchUp = []string{r.owner.ID, second.ID}, 100*time.Millisecond
	}
	r.start()
	c := r.missing("owners", true)
	if c.State != "failed" || c.Runbook != "mattermost-direct" || !strings.Contains(c.Detail, second.ID) || strings.Contains(c.Detail, r.bot.Token) {
		t.Errorf("%+v", c)
	}
	r.wants(r.ask("", "hello").ID, "answer to hello")
	mend()
	r.missing("owners", false)
	if r.direct(second) == "" {
		t.Error("no direct channel")
	}
}

// A channel in the settings that the bot is not in is told of.
func TestAChannelWithoutTheBot(t *testing.T) {
	r := newRig(t)
	r.cfg = func(b *BotConfig) { b.CatchUp = 100 * time.Millisecond }
	r.Leave(r.town, r.bot)
	r.start()
	if c := r.missing("channels", true); c.State != "failed" || c.Runbook != "mattermost-channel" || !strings.Contains(c.Detail, r.town) {
		t.Errorf("%+v", c)
	}
	r.Join(r.town, r.bot)
	r.missing("channels", false)
	p := r.Post(r.owner, r.town, "", "@boxmaker hello")
	r.until("it is heard there", func() bool { return slices.Equal(r.said(p.ID), []string{"answer to hello"}) })
}
