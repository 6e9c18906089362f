package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/chatstory"
	"boxmaker/e2e/stack"
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
	t.Parallel()
	stack.Containers(t)
	seed := uint64(number(t, "BOXMAKER_SEED", int(time.Now().UnixNano()%1e9)))
	t.Logf("BOXMAKER_SEED=%d", seed)
	town := chatstory.NewFakeTown(t)
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
	post := func(text string) *chatstory.Message { return p.AskAs(town.Post, "", text) }
	var mends []func()
	for _, f := range all {
		f.After = random.IntN(2)
		mends = append(mends, town.Fake.Inject(f))
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
	town.Fake.Post(town.Owner, town.DM, call.Root, "approve "+card.Code)
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
	if _, content := town.Fake.File(file.FileIDs[0]); !strings.HasSuffix(string(content), " 15999 16000") || !strings.Contains(string(content), " 8000 8001 ") {
		t.Errorf("the file has %d bytes, and not the answer", len(content))
	}
	p.Exact()
	p.Down()
	p.NoToken()
}

// Posts that no event tells of are answered: while the server was away, after its
// restart, with events lost or doubled.
func TestGatewayFault_MissedEvents(t *testing.T) {
	t.Parallel()
	town := chatstory.NewFakeTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	post := func(root, text string) *chatstory.Message { return p.AskAs(town.Post, root, text) }
	first := post("", "answer with: at first")
	first.Says("at first")

	mend := town.Fake.Inject(fakemost.Fault{Kind: fakemost.CutBefore})
	town.Fake.CutAll()
	tries := len(town.Fake.Requests("GET", "/websocket"))
	var asked []*chatstory.Message
	for i := range 5 {
		asked = append(asked, post("", fmt.Sprintf("answer with: away %d", i)))
	}
	asked = append(asked, post(first.Root, "answer with: away 5"))
	p.WaitUntil("gatewayd tries in vain", func() bool { return len(town.Fake.Requests("GET", "/websocket")) > tries+1 })
	mend()
	for i, m := range asked {
		m.Says(fmt.Sprintf("away %d", i))
	}

	town.Fake.Forget()
	post("", "answer with: after a restart").Says("after a restart")

	town.Fake.WaitConnected(town.Bot)
	town.Fake.Lose(1)
	lost := post("", "answer with: lost")
	post("", "answer with: not lost").Says("not lost")
	lost.Says("lost")

	town.Fake.Twice(true)
	post("", "answer with: twice").Says("twice")
	post(first.Root, "answer with: again twice").Says("again twice")
	town.Fake.Twice(false)
	p.Exact()
	p.Down()
}
