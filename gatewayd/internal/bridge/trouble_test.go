package bridge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit/fakemost"
)

// one checks that each thread has its one answer and nothing else.
func (r *rig) one(posts ...fakemost.Post) {
	r.t.Helper()
	for _, p := range posts {
		want := "answer to " + p.Message
		r.until("an answer to "+p.Message, func() bool { return slices.Contains(r.said(p.ID), want) })
	}
	r.quiet()
	for _, p := range posts {
		if got := r.said(p.ID); len(got) != 1 {
			r.t.Errorf("%q", got)
		}
	}
}

// Each way for a request to go wrong, at each place of a message's way: in the end
// there is one answer.
func TestRequestsThatGoWrong(t *testing.T) {
	kinds := map[string]fakemost.Kind{
		"429": fakemost.Busy, "500": fakemost.FailBefore, "500 and done": fakemost.FailAfter, "cut": fakemost.CutBefore, "cut and done": fakemost.CutAfter,
		"no answer": fakemost.HangBefore, "no answer and done": fakemost.HangAfter, "502": fakemost.BadGateway, "half an answer": fakemost.Half,
	}
	places := map[string]fakemost.Fault{
		"first post": {Method: "POST", Path: "/posts"}, "last edit": {Method: "PUT", Path: "/posts"},
		"search": {Method: "GET", Path: "/posts"}, "second post": {Method: "POST", Path: "/posts", After: 1},
	}
	for what, kind := range kinds {
		for where, fault := range places {
			t.Run(what+" at the "+where, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.client.Timeout = 300 * time.Millisecond
				r.start()
				if where == "search" { // which follows a doubt alone
					r.Inject(fakemost.Fault{Kind: fakemost.CutAfter, Method: "POST", Path: "/posts", Times: 1})
				}
				fault.Kind, fault.Times = kind, 1
				r.Inject(fault)
				p := r.ask("", "hello")
				r.one(p)
				r.one(r.ask("", "and again"))
			})
		}
	}
}

// TestCaseP36: what was written while the connection was gone is answered, in order
// and once.
func TestCaseP36(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(r *rig)
	}{
		{"the server starts again", func(r *rig) { r.Forget() }},
		{"the connection ends", func(r *rig) { r.CutAll() }},
		{"half of it is gone", func(r *rig) { r.Silence() }},
		{"events are lost", func(r *rig) { r.Lose(3) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.cfg = func(b *BotConfig) { b.CatchUp = time.Second }
			r.start()
			first := r.ask("", "first")
			r.one(first)
			c.cut(r)
			for n := range 3 {
				r.ask(first.ID, fmt.Sprint("more ", n))
			}
			r.until("all are answered, in order", func() bool {
				return strings.Join(r.said(first.ID), "|") == "answer to first|answer to more 0|answer to more 1|answer to more 2"
			})
			r.quiet()
			if n := len(r.said(first.ID)); n != 4 {
				t.Errorf("%d posts", n)
			}
		})
	}
}

// TestCaseP34Events: events that come twice, and a history that tells it all again.
func TestCaseP34Events(t *testing.T) {
	r := newRig(t)
	r.Twice(true)
	stop := r.start()
	var posts []fakemost.Post
	for n := range 20 {
		posts = append(posts, r.ask("", fmt.Sprint("message ", n)))
	}
	r.one(posts...)
	r.Forget() // a fresh connection: the history is read
	posts = append(posts, r.ask("", "between"))
	r.one(posts...)
	_ = stop()
	for _, p := range posts {
		r.React(r.owner, p.ID, "+1") // the history lists it again
	}
	r.start()
	posts = append(posts, r.ask("", "last"))
	r.one(posts...)
}

// TestCaseP32Restarts: the bot ends at many places of a message's way.
func TestCaseP32Restarts(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	var posts []fakemost.Post
	for n := range 12 {
		p := r.ask("", fmt.Sprintf("hold %d", n))
		posts = append(posts, p)
		switch n % 4 {
		case 0: // at once
		case 1:
			r.until("it waits", func() bool { return len(r.said(p.ID)) == 1 })
		case 2:
			r.loop.release(p.Message)
		case 3:
			r.loop.release(p.Message)
			r.until("it is answered", func() bool { return slices.Contains(r.said(p.ID), "answer to "+p.Message) })
		}
		if err := stop(); err != nil && !strings.Contains(err.Error(), "canceled") {
			t.Fatal(err)
		}
		stop = r.start()
		r.loop.release(p.Message)
	}
	r.one(posts...)
}

// loopd goes away, in the middle too. The message waits, and says so.
func TestLoopdGoesAway(t *testing.T) {
	r := newRig(t)
	r.start()
	p := r.ask("", "hold this")
	r.until("it waits", func() bool { return len(r.said(p.ID)) == 1 })
	r.loop.goodbye(true)
	status := r.ask("", "status")
	r.wants(status.ID, "The agent is away, so that I cannot ask it. Messages are kept until it is back.")
	second := r.ask("", "another")
	r.until("it says so", func() bool { return len(r.said(second.ID)) == 1 && strings.Contains(r.said(second.ID)[0], "away") })
	r.loop.goodbye(false)
	r.loop.release("hold this")
	r.one(p, second)
}

func TestLoopdRefuses(t *testing.T) {
	r := newRig(t)
	r.loop.refuse = &proto.Error{Code: proto.ErrMessageLarge, Text: "the message is too large for @all", Runbook: "message-too-large"}
	r.start()
	p := r.ask("", "hello")
	if got := r.answered(p.ID); len(got) != 1 || !strings.HasPrefix(got[0], "**This did not work.** the message is too large") || !strings.HasSuffix(got[0], "(see runbook: message-too-large)") || strings.Contains(got[0], "@all") {
		t.Errorf("%q", got)
	}
	r.quiet()
}

// A token that counts no more ends nothing. It says so, and goes on when it counts
// again; what was written meanwhile is answered.
func TestATokenThatIsRevoked(t *testing.T) {
	for _, c := range []struct {
		name       string
		harm, heal func(r *rig)
	}{
		{"revoked", func(r *rig) { r.Revoke(r.bot) }, func(r *rig) { r.Restore(r.bot) }},
		{"disabled", func(r *rig) { r.Disable(r.bot) }, func(r *rig) { r.Enable(r.bot) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.start()
			p := r.ask("", "hold this")
			r.until("it waits", func() bool { return len(r.said(p.ID)) == 1 })
			c.harm(r)
			r.until("it says so", func() bool {
				c := r.run.Checks()[0]
				return c.State == "failed" && c.Runbook == "mattermost-token"
			})
			if _, known := r.run.Self(); known {
				t.Error("it knows who it is on a server that does not let it in")
			}
			r.loop.release("hold this")
			second := r.ask("", "meanwhile")
			c.heal(r)
			r.one(p, second)
			if s := r.run.Checks()[0].State; s != "ok" {
				t.Errorf("it is %s", s)
			}
		})
	}
}

// The server's clock is of another hour, before and after the bot looked first.
func TestClockSkew(t *testing.T) {
	r := newRig(t)
	r.Skew(3 * time.Hour)
	stop := r.start()
	first := r.ask("", "first")
	r.one(first)
	r.Skew(26 * time.Hour)
	r.Inject(fakemost.Fault{Kind: fakemost.CutAfter, Method: "POST", Path: "/posts", Times: 1})
	second := r.ask("", "second")
	r.one(first, second)
	_ = stop()
	third := r.ask("", "third")
	r.start()
	r.one(first, second, third)
}

// Servers of other versions.
func TestOtherVersions(t *testing.T) {
	for name, act := range map[string]func(r *rig){
		"older": func(r *rig) { r.Age("9.5.0") }, "newer": func(r *rig) { r.Renew("13.0.0") },
		"with short posts": func(r *rig) { r.SetPostSize(4000) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			act(r)
			stop := r.start()
			first := r.ask("", "first")
			r.one(first)
			r.CutAll()
			second := r.ask("", "second")
			r.one(first, second)
			_ = stop()
			third := r.ask("", "third")
			r.start()
			r.one(first, second, third)
		})
	}
}

// What was there before the bot first looked is not answered.
func TestThePastIsThePast(t *testing.T) {
	r := newRig(t)
	old := r.ask("", "long ago")
	r.start()
	p := r.ask("", "now")
	r.one(p)
	if got := r.said(old.ID); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// TestManyMessages: as after an outage.
func TestManyMessages(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	r.one(r.ask("", "before"))
	_ = stop()
	var posts []fakemost.Post
	for n := range 150 {
		posts = append(posts, r.ask("", fmt.Sprint("message ", n)))
	}
	r.start()
	r.one(posts...)
}

// A channel that cannot be read holds no other up.
func TestAChannelThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	towns := []string{r.town}
	for n := range 6 {
		towns = append(towns, r.Channel("O", fmt.Sprint("town-", n), r.owner, r.bot))
	}
	r.cfg = func(b *BotConfig) { b.Rules.Channels = towns }
	stop := r.start()
	r.one(r.ask("", "before"))
	_ = stop()
	for _, town := range towns {
		r.Post(r.owner, town, "", "@boxmaker hello")
		r.Inject(fakemost.Fault{Kind: fakemost.Echo, Method: "GET", Path: "/channels/" + town + "/posts"})
	}
	p := r.ask("", "meanwhile")
	r.start()
	r.one(p)
}
