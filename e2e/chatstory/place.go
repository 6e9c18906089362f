package chatstory

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// A Town is a Mattermost server with the people of the story.
type Town struct {
	URL   string // as gatewayd reaches it
	Plain bool
	// Me is the owner, who shares the direct channel DM with the bot, as the stranger
	// does Foreign. Owner, stranger and bot are in the channel Ops.
	Me, Stranger, Admin, Bot *Person
	DM, Ops, Foreign         string

	Hook func(text string) // the owner's own webhook posts into DM
}

// A Place is Boxmaker with an owner's chat in a town.
type Place struct {
	*stack.Stack
	*Town
	T *testing.T

	besieged bool // up may end at any moment, and is started again; set before all else

	mu   sync.Mutex
	want map[string]int // by thread: how many answers there must be in the end
	top  int            // answers that are threads of their own
}

// Start starts Boxmaker with its practice model in a town, and returns when it hears
// the owner. prepare, unless nil, changes files before the start.
func Start(t *testing.T, town *Town, prepare func(*stack.Stack)) *Place {
	t.Helper()
	s := stack.New(t)
	s.Must("", "init", "--practice")
	return Open(t, s, town, prepare)
}

// Open is Start for a home that has its model.
func Open(t *testing.T, s *stack.Stack, town *Town, prepare func(*stack.Stack)) *Place {
	t.Helper()
	p := &Place{Stack: s, Town: town, T: t, want: map[string]int{}}
	s.SetChat(town.Chat())
	if prepare != nil {
		prepare(s)
	}
	s.Up()
	p.WaitHeard()
	return p
}

// Chat is what is set up for a town.
func (t *Town) Chat() stack.Chat {
	return stack.Chat{URL: t.URL, Plain: t.Plain, Token: t.Bot.Token, Owners: []string{t.Me.ID}, Channels: []string{t.Ops}}
}

// WaitHeard returns when gatewayd has looked around for the first time: what is
// posted from then on is heard.
func (p *Place) WaitHeard() {
	p.T.Helper()
	p.WaitUntil("gatewayd has looked around", func() bool {
		b, err := os.ReadFile(filepath.Join(p.Layout.Gateway(), "queue.jsonl"))
		return err == nil && strings.Contains(string(b), `"kind":"first"`)
	})
}

// WaitConnected returns when the status says whether gatewayd is connected.
func (p *Place) WaitConnected(state string) proto.Check {
	p.T.Helper()
	var row proto.Check
	p.WaitUntil("the status says of the connection: "+state, func() bool {
		st, err := p.Broker()
		if err != nil {
			return false
		}
		for _, c := range st.Checks {
			if c.Name == "gateway: mattermost" {
				row = c
			}
		}
		return row.State == state
	})
	return row
}

// await is WaitUntil, also where up is killed, and shows the thread if it is in vain.
func (m *Message) await(what string, ok func() bool) {
	p := m.p
	p.T.Helper()
	for end := time.Now().Add(2 * stack.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
		select {
		case <-p.Ended():
			if !p.besieged {
				p.T.Fatalf("bxctl up has ended by itself before the message %s %s", m.ID, what)
			}
		default:
		}
	}
	p.T.Fatalf("waited in vain until the message %s %s:\n%s", m.ID, what, p.tell(m.Root))
}

// Must ends the test on an error.
func Must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A Message is one of the owner, and the answer to it the nth of its thread.
type Message struct {
	p        *Place
	ID, Root string
	n        int
}

// Ask posts as the owner in the direct channel: in a thread, or with an empty root
// as a thread of its own. There has to be one answer, and nobody else posts there
// until it has come.
func (p *Place) Ask(root, text string) *Message {
	p.T.Helper()
	return p.AskIn(p.DM, root, text)
}

// AskIn is Ask in a channel.
func (p *Place) AskIn(channel, root, text string) *Message {
	p.T.Helper()
	return p.AskAs(func(root, text string) (string, error) { return p.Me.Post(channel, root, text) }, root, text)
}

// AskAs is Ask by another way to post, for a server whose requests fail.
func (p *Place) AskAs(post func(root, text string) (string, error), root, text string) *Message {
	p.T.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	id := Must[string](p.T)(post(root, text))
	m := &Message{p: p, ID: id, Root: root}
	if root == "" {
		m.Root = id
	}
	if p.want == nil {
		p.want = map[string]int{}
	}
	m.n = p.want[m.Root]
	p.want[m.Root]++
	return m
}

// More says that the answer to a message has more posts than one.
func (m *Message) More(n int) { m.p.mu.Lock(); defer m.p.mu.Unlock(); m.p.want[m.Root] += n }

// Elsewhere says that the answer to a message is a thread of its own.
func (m *Message) Elsewhere() {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.want[m.Root]--
	m.p.top++
}

// SayTop says that the bot has opened n threads by itself.
func (p *Place) SayTop(n int) { p.mu.Lock(); defer p.mu.Unlock(); p.top += n }

// Silent posts as the owner what needs no answer.
func (p *Place) Silent(root, text string) string {
	p.T.Helper()
	return Must[string](p.T)(p.Me.Post(p.DM, root, text))
}

const (
	waits = "⏳"
	seal  = "🔏"
)

// said are the bot's posts among others, its cards left out.
func (p *Place) said(all []Post) []Post {
	return slices.DeleteFunc(slices.Clone(all), func(o Post) bool {
		return o.UserID != p.Bot.ID || strings.HasPrefix(o.Message, seal)
	})
}

// Shown gives the post that answers a message as it is now, if it is there.
func (m *Message) Shown() (Post, bool) {
	m.p.T.Helper()
	all := m.p.said(Must[[]Post](m.p.T)(m.p.Me.Thread(m.Root)))
	if len(all) > 0 && all[0].ID == m.Root { // a thread that the bot opened
		all = all[1:]
	}
	if len(all) <= m.n {
		return Post{}, false
	}
	return all[m.n], true
}

// Answer waits for the answer.
func (m *Message) Answer() Post {
	m.p.T.Helper()
	var out Post
	m.await("is answered", func() bool {
		var ok bool
		out, ok = m.Shown()
		return ok && !strings.HasPrefix(out.Message, waits)
	})
	return out
}

// Says waits for the answer, which must have all these words.
func (m *Message) Says(words ...string) Post {
	m.p.T.Helper()
	out := m.Answer()
	for _, w := range words {
		if !strings.Contains(out.Message, w) {
			m.p.T.Errorf("%q is not in the answer:\n%s", w, out.Message)
		}
	}
	return out
}

// Waits waits until the post that says to wait has these words.
func (m *Message) Waits(words string) Post {
	m.p.T.Helper()
	var out Post
	m.await("waits: "+words, func() bool {
		out, _ = m.Shown()
		return strings.HasPrefix(out.Message, waits) && strings.Contains(out.Message, words)
	})
	return out
}

// A Card is an approval as the owner sees it.
type Card struct {
	Post
	Code string
}

var codeIn = regexp.MustCompile("code `([A-Z0-9]{6})`")

// Card waits for a card in a thread that has no answer yet.
func (p *Place) Card(root string) Card {
	p.T.Helper()
	var out Card
	p.WaitUntil("a card is in the thread "+root, func() bool {
		for _, o := range Must[[]Post](p.T)(p.Me.Thread(root)) {
			if m := codeIn.FindStringSubmatch(o.Message); o.UserID == p.Bot.ID && m != nil && strings.Contains(o.Message, "wants your approval") {
				out = Card{o, m[1]}
				return true
			}
		}
		return false
	})
	return out
}

// Ends waits until a card tells how the approval ended.
func (p *Place) Ends(c Card, words string) {
	p.T.Helper()
	p.WaitUntil("the card says: "+words, func() bool {
		return strings.Contains(Must[Post](p.T)(p.Me.Get(c.ID)).Message, words)
	})
}

// React reacts as a person.
func (p *Place) React(who *Person, post, emoji string) {
	p.T.Helper()
	if err := who.React(post, emoji); err != nil {
		p.T.Fatal(err)
	}
}

// Session is the session of a thread.
func Session(root string) string { return "mm-" + root }

// Exact wants every message of the owner to have as many answers as it must, whole,
// and each to have begun one turn at most; and all logs to verify. Boxmaker runs.
func (p *Place) Exact() {
	t := p.T
	t.Helper()
	p.WaitQuiet()
	p.WaitUntil("gatewayd has nothing to do", p.Idle)
	tops := 0
	threads := map[string]int{}
	all := Must[[]Post](t)(p.Me.Channel(p.DM))
	all = append(all, Must[[]Post](t)(p.Me.Channel(p.Ops))...)
	for _, o := range p.said(all) {
		switch {
		case strings.HasPrefix(o.Message, waits):
			t.Errorf("this was left to stand: %q", o.Message)
		case strings.TrimSpace(o.Message) == "":
			t.Errorf("an empty answer in the thread %s", o.RootID)
		}
		if o.RootID == "" {
			tops++
			continue
		}
		threads[o.RootID]++
	}
	if tops != p.top {
		t.Errorf("%d answers are threads of their own, want %d", tops, p.top)
	}
	for root, want := range p.want {
		if threads[root] != want {
			t.Errorf("%d answers in the thread %s, want %d:\n%s", threads[root], root, want, p.tell(root))
		}
		delete(threads, root)
	}
	for root, n := range threads {
		t.Errorf("%d answers in a thread where nobody asked:\n%s", n, p.tell(root))
	}
	p.turns()
	p.Must("", "audit", "verify")
}

// Idle reports whether gatewayd's queue is empty, by its log.
func (p *Place) Idle() bool {
	b, err := os.ReadFile(filepath.Join(p.Layout.Gateway(), "queue.jsonl"))
	if err != nil {
		return false
	}
	open := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		var r struct{ Kind, Post string }
		line, _, _ = strings.Cut(line, "\t")
		if json.Unmarshal([]byte(line), &r) != nil {
			return false // being written
		}
		switch r.Kind {
		case "heard":
			open[r.Post] = true
		case "done":
			delete(open, r.Post)
		}
	}
	return len(open) == 0
}

// tell writes a thread down for a message of a test.
func (p *Place) tell(root string) string {
	var b strings.Builder
	posts, err := p.Me.Thread(root)
	if err != nil {
		return err.Error()
	}
	for _, o := range posts {
		who := "?"
		for name, person := range map[string]*Person{"owner": p.Me, "bot": p.Bot, "stranger": p.Stranger, "admin": p.Admin} {
			if person != nil && person.ID == o.UserID {
				who = name
			}
		}
		text := o.Message
		if r := []rune(text); len(r) > 200 {
			text = string(r[:200]) + "…"
		}
		b.WriteString("  " + who + " " + o.ID + ": " + strings.ReplaceAll(text, "\n", " / ") + "\n")
	}
	return b.String()
}

// turns wants no message to have begun two turns.
func (p *Place) turns() {
	p.T.Helper()
	epochs := Must[[]stack.Epoch](p.T)(p.Epochs())
	seen := map[string]int{}
	for _, e := range epochs {
		for _, l := range e.Lines {
			if u, ok := l.Record.(*proto.User); ok {
				if seen[u.Origin]++; seen[u.Origin] > 1 {
					p.T.Errorf("the message %s has begun %d turns", u.Origin, seen[u.Origin])
				}
			}
		}
	}
}

// Turns gives the texts of a thread's turns, from its session's log.
func (p *Place) Turns(root string) []string {
	p.T.Helper()
	p.WaitQuiet()
	var out []string
	for _, e := range Must[[]stack.Epoch](p.T)(p.Epochs()) {
		if e.Session != Session(root) {
			continue
		}
		for _, l := range e.Lines {
			if u, ok := l.Record.(*proto.User); ok {
				out = append(out, string(u.Message))
			}
		}
	}
	return out
}
