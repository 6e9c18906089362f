package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/chatstory"
	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
	"boxmaker/internal/testkit/fakemost"
)

// wrongs are the ways in which a request of any kind goes wrong here. After some
// of them what was asked for is done all the same.
func wrongs() []fakemost.Kind {
	return []fakemost.Kind{
		fakemost.Busy, fakemost.FailBefore, fakemost.FailAfter, fakemost.CutBefore, fakemost.CutAfter,
		fakemost.BadGateway, fakemost.Garbage, fakemost.Half,
	}
}

// Whatever goes wrong with single requests, each message has one answer, each call
// one card, and a long answer is whole.
func TestGatewayFault_Requests(t *testing.T) {
	stack.Containers(t)
	seed := uint64(number(t, "BOXMAKER_SEED", int(time.Now().UnixNano()%1e9)))
	t.Logf("BOXMAKER_SEED=%d", seed)
	town := newTown(t)
	p := chatstory.Start(t, &town.Town, func(s *stack.Stack) {
		s.Set("loopd.toml", "sampling", "max_tokens", 60000)
		s.Set("bxctl.toml", "practice", "context", 131072)
	})
	p.WaitTools()
	var all []fakemost.Fault
	for _, k := range wrongs() {
		for _, at := range []fakemost.Fault{{Method: "POST", Path: "/posts"}, {Method: "PUT", Path: "/posts"}, {Method: "GET", Path: "/channels/"}} {
			at.Kind, at.Times = k, 1
			all = append(all, at)
		}
	}
	for _, at := range []fakemost.Fault{{Method: "POST", Path: "/files"}, {Method: "POST", Path: "/reactions"}} { // each by one task alone, whose pauses add up
		at.Kind, at.Times = fakemost.FailAfter, 1
		all = append(all, at)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	post := func(text string) *chatstory.Message { return p.AskAs(town.Posts(town.DM), "", text) }
	var mends []func()
	for _, f := range all {
		f.After = random.IntN(2)
		mends = append(mends, town.fake.Inject(f))
	}
	var asked []*chatstory.Message
	for i := range 16 {
		asked = append(asked, post(fmt.Sprintf("answer with: number %d", i)))
	}
	call, long := post("run uname -s"), post("count to 16000")
	for i, m := range asked {
		m.Says(fmt.Sprintf("number %d", i))
	}
	card := p.Card(call.Root)
	town.fake.Post(town.owner, town.DM, call.Root, "approve "+card.Code)
	call.Says("Linux")
	head := long.Says("all of it is in the file")
	var file chatstory.Post
	p.WaitUntil("the file is there", func() bool {
		posts, err := p.Me.Thread(long.Root)
		file = posts[len(posts)-1]
		return err == nil && len(file.FileIDs) == 1 && file.ID != head.ID
	})
	long.More(1)
	for _, mend := range mends { // what was not met
		mend()
	}
	if _, content := town.fake.File(file.FileIDs[0]); !strings.HasSuffix(string(content), " 15999 16000") || !strings.Contains(string(content), " 8000 8001 ") {
		t.Errorf("the file has %d bytes, and not the answer", len(content))
	}
	p.Exact()
	p.Down()
	p.NoToken()
}

// Posts that no event tells of are answered: while the server was away, after its
// restart, with events lost or doubled.
func TestGatewayFault_MissedEvents(t *testing.T) {
	town := newTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	post := func(root, text string) *chatstory.Message { return p.AskAs(town.Posts(town.DM), root, text) }
	first := post("", "answer with: at first")
	first.Says("at first")

	mend := town.fake.Inject(fakemost.Fault{Kind: fakemost.CutBefore})
	town.fake.CutAll()
	tries := len(town.fake.Requests("GET", "/websocket"))
	var asked []*chatstory.Message
	for i := range 5 {
		asked = append(asked, post("", fmt.Sprintf("answer with: away %d", i)))
	}
	asked = append(asked, post(first.Root, "answer with: away 5"))
	p.WaitUntil("gatewayd tries in vain", func() bool { return len(town.fake.Requests("GET", "/websocket")) > tries+1 })
	mend()
	for i, m := range asked {
		m.Says(fmt.Sprintf("away %d", i))
	}

	town.fake.Forget()
	post("", "answer with: after a restart").Says("after a restart")

	town.fake.WaitConnected(town.bot)
	town.fake.Lose(1)
	lost := post("", "answer with: lost")
	post("", "answer with: not lost").Says("not lost")
	lost.Says("lost")

	town.fake.Twice(true)
	post("", "answer with: twice").Says("twice")
	post(first.Root, "answer with: again twice").Says("again twice")
	town.fake.Twice(false)
	p.Exact()
	p.Down()
}

// A request whose fate is open for as long as gatewayd waits, and a connection that
// has fallen silent meanwhile.
func TestGatewayFault_Silence(t *testing.T) {
	t.Parallel()
	town := newTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	post := func(text string) *chatstory.Message { return p.AskAs(town.Posts(town.DM), "", text) }
	town.fake.WaitConnected(town.bot)
	town.fake.Inject(fakemost.Fault{Kind: fakemost.HangAfter, Method: "POST", Path: "/posts", Times: 1})
	hangs := post("answer with: it hung")
	p.WaitUntil("the request hangs", func() bool { return len(town.fake.Requests("POST", "/posts")) > 0 })
	town.fake.Silence()
	unheard := post("answer with: nobody told")
	unheard.Says("nobody told")
	hangs.Says("it hung")
	p.Exact()
	p.Down()
}

// A token that is taken back under gatewayd ends nothing: the owner is told, and all
// is well again when it is good again.
func TestGatewayFault_TokenRevoked(t *testing.T) {
	t.Parallel()
	town := newTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	post := func(text string) *chatstory.Message { return p.AskAs(town.Posts(town.DM), "", text) }
	post("answer with: before").Says("before")
	pid := p.PID("gatewayd")
	town.fake.Revoke(town.bot)
	during := post("answer with: during")
	row := p.WaitConnected("failed")
	if row.Runbook != "mattermost-token" || strings.Contains(row.Detail, town.Bot.Token) {
		t.Errorf("the status says %+v", row)
	}
	checkKey(t, row.Detail+" (see runbook: "+row.Runbook+")", "mattermost-token")
	if r := p.Bxctl("", "doctor"); r.Code == exitOK || !strings.Contains(r.Stdout+r.Stderr, "mattermost-token") {
		t.Errorf("bxctl doctor (exit %d) does not name mattermost-token:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	answered(t, p.Stack, "chat-1", "Hello.") // all else goes on
	town.fake.Restore(town.bot)
	during.Says("during")
	post("answer with: after").Says("after")
	if p.PID("gatewayd") != pid {
		t.Error("gatewayd was started again")
	}
	p.Exact()
	p.Down()
	p.NoToken()
}

// The post that says to wait is edited seldom, however much happens.
func TestGatewayEdits(t *testing.T) {
	t.Parallel()
	const lasts = 8 * time.Second
	s, llama := scripted(t)
	onMain(llama, func(_ int, _ []byte, a *testkit.Stream) {
		a.Head()
		n := 0
		for begun := time.Now(); time.Since(begun) < lasts; n++ {
			select {
			case <-time.After(5 * time.Millisecond): // the subject of the test
			case <-a.Gone():
				return
			}
			switch share := time.Since(begun) * 100 / lasts; {
			case share < 50:
				a.Progress(5000, 0, int(share)*100, int(share)*80)
			case n%2 == 0:
				a.Reasoning("on and on ")
			default:
				a.Reasoning("and so on ")
			}
		}
		a.Text("the end")
		a.Finish("stop")
		a.TrueUsage()
		a.Done()
	})
	town := newTown(t)
	p := chatstory.Open(t, s, &town.Town, nil)
	m := p.AskAs(town.Posts(town.DM), "", "take your time")
	m.Waits("% of 5000 tokens")
	m.Waits("Thinking")
	out := m.Says("the end")
	// At most one each 2, 2.4, 2.9, ... seconds, and the answer itself.
	if _, n := town.fake.Get(out.ID); n < 3 || n > 5 {
		t.Errorf("%d edits in a turn of %v, want 3 to 5", n, lasts)
	}
	if n := len(town.fake.Requests("POST", "/users/me/typing")); n < 1 || n > 3 {
		t.Errorf("%d times it showed that it writes", n)
	}
	p.Exact()
	p.Down()
}

// Settings that change are taken over: who is no owner any more is not heard.
func TestGatewayReload(t *testing.T) {
	t.Parallel()
	town := newTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	p.AskAs(town.Posts(town.DM), "", "answer with: mine").Says("mine")
	other := town.Chat()
	other.Owners = []string{town.Stranger.ID}
	p.SetChat(other)
	epochs := func() int { p.WaitReady(); all, err := p.Epochs(); _ = err; return len(all) }
	pid, before := p.PID("gatewayd"), epochs()
	town.fake.Post(town.owner, town.DM, "", "answer with: not mine any more")
	p.WaitUntil("gatewayd is started again", func() bool { now := p.PID("gatewayd"); return now != 0 && now != pid })
	id, err := town.Stranger.Post(town.Foreign, "", "answer with: now I am")
	if err != nil {
		t.Fatal(err)
	}
	p.WaitUntil("the new owner is answered", func() bool {
		posts, err := town.Stranger.Thread(id)
		return err == nil && len(posts) == 2 && posts[1].Message == "now I am"
	})
	if n := epochs(); n != before+1 {
		t.Errorf("%d sessions, want %d", n, before+1)
	}
	for _, l := range stack.AuditOf[*proto.AuditApproval](p.Audit()) {
		t.Errorf("nobody asked for %+v", l)
	}
	p.Down()
}
