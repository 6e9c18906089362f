package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/e2e/chatstory"
	"boxmaker/e2e/stack"
	"boxmaker/internal/testkit"
	"boxmaker/internal/testkit/fakemost"
	"boxmaker/internal/testkit/realmost"

	"github.com/coder/websocket"
)

// gateway measures what gatewayd adds to a chat: on the fake server, and on a real
// one where MATTERMOST_SERVER names it.
func gateway(t *testing.T) []row {
	rows := chatAdded(t, &chatstory.NewFakeTown(t).Town, "the fake server")
	if full() && os.Getenv("MATTERMOST_SERVER") != "" {
		var pool realmost.Pool
		defer pool.Close()
		rows = append(rows, chatAdded(t, chatstory.NewRealTown(t, pool.Get(t)), "a real server")...)
	} else {
		t.Log("nothing is measured on a real Mattermost server: at full size it is, where MATTERMOST_SERVER names one")
	}
	var edits []row
	var long sync.WaitGroup
	long.Go(func() { edits = editsOf(t) }) // it waits nearly all of the time
	rows = append(rows, outage(t)...)
	long.Wait()
	return append(rows, edits...)
}

// scripted is a home whose model is a script.
func scripted(t *testing.T, script func(a *testkit.Stream)) *stack.Stack {
	llama := testkit.NewLlama(t)
	for path, mode := range map[string]os.FileMode{filepath.Dir(llama.Socket): 0o711, llama.Socket: 0o666} { // inferproxy has a uid of its own
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	s := stack.New(t)
	s.Must("", "init", "--upstream", "unix:"+llama.Socket)
	llama.On(func(_ int, _ []byte, a *testkit.Stream) {
		if a.Request.Slot != 0 {
			a.Default()
			return
		}
		script(a)
	})
	return s
}

// chatAdded takes the time from a post to the one that says to wait, and from the last
// token to the answer, by the server's clock, which is this machine's. A bot that
// does nothing but post and edit is measured in the same way.
func chatAdded(t *testing.T, town *chatstory.Town, where string) []row {
	last := make(chan time.Time, 1)
	s := scripted(t, func(a *testkit.Stream) {
		a.Role()
		a.Text("The answer has some words,")
		time.Sleep(100 * time.Millisecond) // the post that says to wait is there by then
		last <- time.Now()
		a.Text(" and these are the last.")
		a.Finish("stop")
		a.TrueUsage()
		a.Done()
	})
	p := chatstory.Open(t, s, town, nil)
	bare := newBareBot(t, town)
	var first, firstBare, final, finalBare []time.Duration
	for range pick(101, 2) {
		m := p.Ask("", "a question")
		at := <-last
		answer := m.Says("these are the last.")
		first = append(first, since(t, town, m.ID, answer.CreateAt))
		final = append(final, clock(answer.EditAt).Sub(at))
		f, e := bare.turn(t)
		firstBare, finalBare = append(firstBare, f), append(finalBare, e)
	}
	p.WaitQuiet()
	a, b, c, d := median(first), median(firstBare), median(final), median(finalBare)
	rows := []row{
		{"gatewayd, from a post to the one that says to wait, added", ms(a - b), "<= 15 ms", a-b <= 15*time.Millisecond, where + ": " + ms(a) + ", a bare bot " + ms(b)},
		{"gatewayd, from the last token to the answer, added", ms(c - d), "<= 25 ms", c-d <= 25*time.Millisecond, where + ": " + ms(c) + ", a bare edit " + ms(d)},
	}
	mb, note := pss(t, p.PID("gatewayd"))
	rows = append(rows, row{"idle memory (PSS) of gatewayd", fmt.Sprintf("%.1f MB", mb), "<= 20 MB", mb <= 20, strings.TrimPrefix(note+"; "+where, "; ")})
	p.Exact()
	p.Down()
	return rows
}

// since is the time between two posts.
func since(t *testing.T, town *chatstory.Town, post string, at int64) time.Duration {
	return time.Duration(at-must[chatstory.Post](t)(town.Me.Get(post)).CreateAt) * time.Millisecond
}

// clock reads the server's clock, which cuts milliseconds off.
func clock(at int64) time.Time { return time.UnixMilli(at).Add(500 * time.Microsecond) }

// A bareBot answers each post at once, and edits its answer at once.
type bareBot struct {
	town *chatstory.Town
	bot  *chatstory.Person
	dm   string
	done chan [2]time.Duration
}

// newBareBot is the stranger, who does a bot's work in the direct channel with Me.
func newBareBot(t *testing.T, town *chatstory.Town) *bareBot {
	b := &bareBot{town: town, bot: town.Stranger, done: make(chan [2]time.Duration, 1)}
	var ch struct{ ID string }
	if err := town.Me.Call("POST", "/channels/direct", []string{town.Me.ID, b.bot.ID}, &ch); err != nil {
		t.Fatal(err)
	}
	b.dm = ch.ID
	ws, res, err := websocket.Dial(t.Context(), strings.Replace(town.URL, "http", "ws", 1)+"/api/v4/websocket", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + b.bot.Token}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(1 << 20)
	go func() {
		for {
			_, frame, err := ws.Read(t.Context())
			if err != nil {
				return
			}
			b.event(t, frame)
		}
	}()
	return b
}

func (b *bareBot) event(t *testing.T, frame []byte) {
	var e struct {
		Event string
		Data  struct{ Post string }
	}
	var p chatstory.Post
	if json.Unmarshal(frame, &e) != nil || e.Event != "posted" || json.Unmarshal([]byte(e.Data.Post), &p) != nil || p.UserID != b.town.Me.ID || p.Message != "bare" {
		return
	}
	id, err := b.bot.Post(b.dm, p.ID, "wait")
	begun := time.Now()
	if err == nil {
		err = b.bot.Edit(id, "the answer")
	}
	if err != nil {
		t.Error(err)
	}
	made, err := b.bot.Get(id)
	if err != nil {
		t.Error(err)
	}
	b.done <- [2]time.Duration{time.Duration(made.CreateAt-p.CreateAt) * time.Millisecond, clock(made.EditAt).Sub(begun)}
}

func (b *bareBot) turn(t *testing.T) (first, final time.Duration) {
	must[string](t)(b.town.Me.Post(b.dm, "", "bare"))
	d := <-b.done
	return d[0], d[1]
}

// outage has many messages written while the server cannot be reached.
func outage(t *testing.T) []row {
	n := pick(1000, 10)
	town := chatstory.NewFakeTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	p.Ask("", "answer with: before").Says("before")
	mend := town.Fake.Inject(fakemost.Fault{Kind: fakemost.CutBefore})
	town.Fake.CutAll()
	var asked []*chatstory.Message
	for i := range n {
		asked = append(asked, p.AskAs(town.Post, "", "answer with: number "+strconv.Itoa(i)))
	}
	mend()
	took := took(func() {
		for _, m := range asked {
			m.Answer()
		}
	})
	p.Exact() // each once
	mb := memory(t, p.PID("gatewayd"), "status", "VmHWM:")
	p.Down()
	return []row{{
		fmt.Sprintf("gatewayd, %d messages after an outage, each answered once: memory at most", n), fmt.Sprintf("%.1f MB", mb), "<= 40 MB", mb <= 40,
		fmt.Sprintf("the whole resident size; %.0f s", took.Seconds()),
	}}
}

// editsOf counts the edits of a post while a turn lasts in which something happens
// all the time.
func editsOf(t *testing.T) []row {
	lasts := time.Duration(pick(300, 3)) * time.Second
	s := scripted(t, func(a *testkit.Stream) {
		a.Head()
		for begun := time.Now(); time.Since(begun) < lasts; {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-a.Gone():
				return
			}
			if share := int(time.Since(begun) * 100 / lasts); share < 50 {
				a.Progress(50000, 0, share*1000, share*800)
			} else {
				a.Reasoning("on and on ")
			}
		}
		a.Answer("the end")
	})
	town := chatstory.NewFakeTown(t)
	p := chatstory.Open(t, s, &town.Town, nil)
	m := p.AskAs(town.Post, "", "take your time")
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
	}
	answer := m.Says("the end")
	_, edits := town.Fake.Get(answer.ID)
	p.Down()
	return []row{{fmt.Sprintf("gatewayd, edits of a post during a turn of %v", lasts), strconv.Itoa(edits), "<= 30", edits <= 30, "the answer itself is one of them"}}
}
