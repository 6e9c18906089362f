package bridge

import (
	"strings"
	"testing"
	"time"

	"boxmaker/internal/testkit/fakemost"
)

// A channel is archived during a turn, or the bot is taken out of it, and comes back
// later. What goes on elsewhere is not held up; the answer takes the place of the post
// that said to wait when the channel is back, in this life of the bot or in the next.
func TestAChannelThatIsClosed(t *testing.T) {
	for _, c := range []struct {
		name       string
		shut, open func(r *rig)
		text       string
	}{
		{"archived", func(r *rig) { r.Archive(r.town) }, func(r *rig) { r.Unarchive(r.owner, r.town) }, "hold this"},
		{"left", func(r *rig) { r.Leave(r.town, r.bot) }, func(r *rig) { r.Join(r.town, r.bot) }, "hold this"},
		{"archived, with an answer that is a file", func(r *rig) { r.Archive(r.town) }, func(r *rig) { r.Unarchive(r.owner, r.town) }, "hold long"},
	} {
		for _, again := range []string{"", ", and a new start while it is away", ", and no event of its return", ", and the turn ends later"} {
			t.Run(c.name+again, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.loop.reply = func(text string) string {
					if text == "hold long" {
						return strings.Repeat("word ", 12_000)
					}
					return "answer to " + text
				}
				r.cfg = func(b *BotConfig) { b.CatchUp = 300 * time.Millisecond }
				stop := r.start()
				p := r.Post(r.owner, r.town, "", "@boxmaker "+c.text)
				r.until("it waits", func() bool { return len(r.said(p.ID)) == 1 })
				c.shut(r)
				if !strings.HasSuffix(again, "later") {
					r.loop.release(c.text)
				}
				waits := func() bool { return strings.Contains(r.run.Checks()[2].Detail, "in a channel that is archived") }
				r.until("the status says so", waits)
				r.CutAll()
				other := r.ask("", "elsewhere")
				r.wants(other.ID, "answer to elsewhere")
				if strings.HasSuffix(again, "away") {
					_ = stop()
					r.start()
					r.until("the status says so again", waits)
				}
				if s := r.run.Checks()[0].State; s != "ok" {
					t.Errorf("it is %s", s)
				}
				r.loop.release(c.text)
				if strings.HasSuffix(again, "return") {
					r.Lose(2)
				}
				c.open(r)
				r.quiet()
				got := r.said(p.ID)
				want := 1
				if c.text == "hold long" {
					want = 2
				}
				if len(got) != want || strings.HasPrefix(got[0], "⏳") || !strings.HasPrefix(got[0], "answer to hold") && !strings.HasPrefix(got[0], "word ") {
					t.Errorf("%.200q", got)
				}
				if waits() {
					t.Error("the status still says that it waits")
				}
			})
		}
	}
}

// More messages than are worked on at a time wait for a channel: those elsewhere are
// answered, after a new start too.
func TestManyMessagesOfAClosedChannel(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	var held []fakemost.Post
	for range 12 { // of 8 that are worked on
		held = append(held, r.Post(r.owner, r.town, "", "@boxmaker hold this"))
	}
	r.until("they are heard", func() bool { return strings.HasPrefix(r.run.Checks()[2].Detail, "12 messages ") })
	r.Archive(r.town)
	r.loop.release("hold this")
	r.wants(r.ask("", "elsewhere").ID, "answer to elsewhere")
	_ = stop()
	r.start()
	r.wants(r.ask("", "again").ID, "answer to again")
	r.Unarchive(r.owner, r.town)
	for _, p := range held {
		r.wants(p.ID, "answer to hold this")
	}
	r.quiet()
}

// A channel that does not come back is waited for a month, and not asked about in vain.
func TestAChannelThatStaysClosed(t *testing.T) {
	s := newSingle(t)
	h := message("p")
	h.At = s.now.UnixMilli()
	s.takes(h)
	s.takes(Did{Do: s.do(), ID: "s1"})
	s.want(s.takes(done("hi")), "patch!")
	closed := Did{Do: s.do(), Fault: Refused, Closed: true}
	s.takes(closed)
	if _, ok := s.out[0].(Warn); !ok || s.m.Closed("") != 1 {
		t.Errorf("%+v", s.out)
	}
	s.takes(Opened{"another"})
	s.want(s.takes(Up{}), "")
	for range 5 { // it is said to be back, and is not
		s.want(s.takes(Opened{h.Channel}), "patch!")
		s.want(s.takes(closed), "warn")
	}
	s.now = s.now.Add(29 * 24 * time.Hour)
	s.want(s.takes(Tick{}), "")
	if s.q.Len() != 1 {
		t.Fatal("it was given up")
	}
	s.now = s.now.Add(2 * 24 * time.Hour)
	s.takes(Tick{})
	if s.q.Len() != 0 {
		t.Error("it is still waited for")
	}
}

// A list of channels that cannot be had just then does not make the refusal one for
// good: the answer still takes the place of the post that says to wait.
func TestAClosedChannelInDoubt(t *testing.T) {
	r := newRig(t)
	r.start()
	p := r.Post(r.owner, r.town, "", "@boxmaker hold this")
	r.until("it waits", func() bool { return len(r.said(p.ID)) == 1 })
	r.Inject(fakemost.Fault{Kind: fakemost.FailBefore, Method: "GET", Path: "/users/me/channels", Times: 2})
	r.Archive(r.town)
	r.loop.release("hold this")
	r.until("the status says so", func() bool { return strings.Contains(r.run.Checks()[2].Detail, "in a channel that is archived") })
	r.Unarchive(r.owner, r.town)
	r.wants(p.ID, "answer to hold this")
	r.quiet()
}
