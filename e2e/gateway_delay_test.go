package e2e

import (
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/chatstory"
	"boxmaker/internal/testkit"
	"boxmaker/internal/testkit/fakemost"
)

// TestGatewayDelays is about what takes its time: limits of silence, pauses. Each part
// begins something in an installation of its own, and then all are waited for.
func TestGatewayDelays(t *testing.T) {
	t.Parallel()
	parts := []struct {
		name  string
		begin func(*testing.T) (p *chatstory.Place, end func(*testing.T))
	}{
		{"silence", silence}, {"token revoked", tokenRevoked}, {"settings changed", settingsChanged}, {"set up anew", setUpAnew}, {"edits", fewEdits},
	}
	var places []*chatstory.Place
	var ends []func(*testing.T)
	for _, part := range parts {
		p, end := part.begin(t)
		places, ends = append(places, p), append(ends, end)
	}
	for i, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			places[i].At(t)
			ends[i](t)
			places[i].Down()
			places[i].NoToken()
		})
	}
}

// A request whose fate is open for as long as gatewayd waits, and a connection that
// has fallen silent meanwhile.
func silence(t *testing.T) (*chatstory.Place, func(*testing.T)) {
	town := chatstory.NewFakeTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	town.Fake.WaitConnected(town.Bot)
	town.Fake.Inject(fakemost.Fault{Kind: fakemost.HangAfter, Method: "POST", Path: "/posts", Times: 1})
	hangs := p.AskAs(town.Post, "", "answer with: it hung")
	p.WaitUntil("the request hangs", func() bool { return len(town.Fake.Requests("POST", "/posts")) > 0 })
	town.Fake.Silence()
	unheard := p.AskAs(town.Post, "", "answer with: nobody told")
	return p, func(*testing.T) {
		unheard.Says("nobody told")
		hangs.Says("it hung")
		p.Exact()
	}
}

// A token that is taken back under gatewayd ends nothing: the owner is told, and all
// is well again when it is good again.
func tokenRevoked(t *testing.T) (*chatstory.Place, func(*testing.T)) {
	town := chatstory.NewFakeTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	p.AskAs(town.Post, "", "answer with: before").Says("before")
	pid := p.PID("gatewayd")
	town.Fake.Revoke(town.Bot)
	during := p.AskAs(town.Post, "", "answer with: during")
	return p, func(t *testing.T) {
		row := p.WaitConnected("failed")
		checkKey(t, row.Detail+" (see runbook: "+row.Runbook+")", "mattermost-token")
		r := p.Bxctl("", "doctor")
		if r.Code == exitOK || !strings.Contains(r.Stdout+r.Stderr, "mattermost-token") {
			t.Errorf("bxctl doctor (exit %d) does not name mattermost-token:\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
		if strings.Contains(row.Detail+r.Stdout+r.Stderr, town.Bot.Token) {
			t.Error("the token is shown")
		}
		answered(t, p.Stack, "chat-1", "Hello.") // all else goes on
		town.Fake.Restore(town.Bot)
		during.Says("during")
		p.AskAs(town.Post, "", "answer with: after").Says("after")
		if p.PID("gatewayd") != pid {
			t.Error("gatewayd was started again")
		}
		p.Exact()
	}
}

// Settings that change are taken over: who is no owner any more is not heard.
func settingsChanged(t *testing.T) (*chatstory.Place, func(*testing.T)) {
	town := chatstory.NewFakeTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	p.AskAs(town.Post, "", "answer with: mine").Says("mine")
	other := town.Chat()
	other.Owners = []string{town.Stranger.ID}
	pid := p.PID("gatewayd")
	p.SetChat(other)
	late := town.Fake.Post(town.Owner, town.DM, "", "answer with: not mine any more")
	return p, func(t *testing.T) {
		p.WaitUntil("gatewayd is started again", func() bool { now := p.PID("gatewayd"); return now != 0 && now != pid })
		id, err := town.Stranger.Post(town.Foreign, "", "answer with: now I am")
		if err != nil {
			t.Fatal(err)
		}
		p.WaitUntil("the new owner is answered", func() bool {
			posts, err := town.Stranger.Thread(id)
			return err == nil && len(posts) == 2 && posts[1].Message == "now I am"
		})
		if turns := p.Turns(late.ID); len(turns) != 0 {
			t.Errorf("who is no owner any more was heard: %q", turns)
		}
	}
}

// A chat that was set up by the command works, and a new token that it is given later
// is taken over without a word to anybody else.
func setUpAnew(t *testing.T) (*chatstory.Place, func(*testing.T)) {
	town := chatstory.NewFakeTown(t)
	s := fresh(t)
	setup := []string{"mattermost", "setup", "--url", town.URL, "--owner", town.Me.Name, "--token-file", "-", "--yes"}
	s.Must(town.Bot.Token, setup...)
	s.Up()
	p := &chatstory.Place{Stack: s, Town: &town.Town, T: t}
	p.WaitHeard()
	m := p.AskAs(town.Post, "", "answer with: set up")
	m.Says("set up")
	old := town.Bot.Token
	s.Must(town.Fake.NewToken(town.Bot), setup...)
	late := p.AskAs(town.Post, m.Root, "answer with: set up anew")
	return p, func(t *testing.T) {
		late.Says("set up anew")
		p.WaitConnected("ok")
		if r := p.Bxctl("", "mattermost", "check"); r.Code != exitOK {
			t.Errorf("bxctl mattermost check (exit %d):\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
		p.SayTop(2) // the tests of the command
		p.Exact()
		town.Town.Bot.Token = town.Bot.Token // looked for in all files at the end
		if r := p.Bxctl("", "logs"); strings.Contains(r.Stdout, old) {
			t.Error("the former token is in a log")
		}
	}
}

// The post that says to wait is edited seldom, however much happens.
func fewEdits(t *testing.T) (*chatstory.Place, func(*testing.T)) {
	const lasts = 8 * time.Second
	s, llama := scripted(t)
	onMain(llama, func(_ int, _ []byte, a *testkit.Stream) {
		a.Head()
		for begun := time.Now(); time.Since(begun) < lasts; {
			select {
			case <-time.After(5 * time.Millisecond): // the subject of the test
			case <-a.Gone():
				return
			}
			if share := int(time.Since(begun) * 100 / lasts); share < 50 {
				a.Progress(5000, 0, share*100, share*80)
			} else {
				a.Reasoning("on and on ")
			}
		}
		a.Text("the end")
		a.Finish("stop")
		a.TrueUsage()
		a.Done()
	})
	town := chatstory.NewFakeTown(t)
	p := chatstory.Open(t, s, &town.Town, nil)
	m := p.AskAs(town.Post, "", "take your time")
	m.Waits("% of 5000 tokens")
	return p, func(t *testing.T) {
		out := m.Says("the end")
		// At most one each 2, 2.4, 2.9, ... seconds, and the answer itself.
		if _, n := town.Fake.Get(out.ID); n < 3 || n > 5 {
			t.Errorf("%d edits in a turn of %v, want 3 to 5", n, lasts)
		}
		if n := len(town.Fake.Requests("POST", "/users/me/typing")); n < 1 || n > 3 {
			t.Errorf("%d times it showed that it writes", n)
		}
		p.Exact()
	}
}
