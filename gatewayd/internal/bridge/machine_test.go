package bridge

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"boxmaker/gatewayd/internal/queue"
	"boxmaker/internal/proto"
)

// A desk test machine: one message, and what is wanted because of it.
type single struct {
	t   *testing.T
	m   *Machine
	q   *queue.Queue
	now time.Time
	out []Effect
	n   int
}

func newSingle(t *testing.T) *single {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	must(t, err)
	q, _, err := queue.Open(root)
	must(t, err)
	t.Cleanup(func() { _ = q.Close(); _ = root.Close() })
	must(t, q.Put(&queue.First{At: 1}))
	s := &single{t: t, q: q, now: time.Unix(1_000_000_000, 0)}
	s.restart()
	return s
}

func (s *single) restart() {
	s.m = NewMachine(Config{Queue: s.q, Limit: 1000, Parts: 2, Open: 4, Key: func() string { s.n++; return fmt.Sprint("k", s.n) }})
}

// takes gives the machine an event, and the tags of what it wants.
func (s *single) takes(e Event) string {
	s.t.Helper()
	var err error
	s.out, err = s.m.Step(s.now, e)
	must(s.t, err)
	var names []string
	for _, f := range s.out {
		name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", f), "bridge."))
		if d, ok := f.(Do); ok {
			name = []string{"find", "create", "patch"}[d.Kind]
			if d.Final {
				name += "!"
			}
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (s *single) want(got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Fatalf("it wants %q, and should %q: %+v", got, want, s.out)
	}
}

// do gives the request that is wanted now.
func (s *single) do() Do {
	s.t.Helper()
	for _, f := range s.out {
		if d, ok := f.(Do); ok {
			return d
		}
	}
	s.t.Fatalf("no request in %+v", s.out)
	return Do{}
}

func message(post string) Heard {
	return Heard{queue.Heard{Post: post, Root: post, Channel: "c", At: 1000, Text: "hello"}}
}

func done(text string) Turn {
	return Turn{"p", &proto.Done{Outcome: proto.TurnAnswered, Answer: text}}
}

// wait moves the clock until something is wanted.
func (s *single) wait(most time.Duration) (string, time.Duration) {
	s.t.Helper()
	for d := time.Duration(0); d <= most; d += time.Second {
		if got := s.takes(Tick{}); got != "" {
			return got, d
		}
		s.now = s.now.Add(time.Second)
	}
	return "", most
}

func TestTheWayOfAMessage(t *testing.T) {
	s := newSingle(t)
	s.want(s.takes(message("p")), "submit create")
	first := s.do()
	if first.Final || first.Root != "p" || first.Key == "" || !strings.HasPrefix(first.Text, "⏳") {
		t.Errorf("%+v", first)
	}
	s.want(s.takes(message("p")), "") // once more
	s.want(s.takes(Turn{"p", &proto.Accepted{}}), "")
	s.want(s.takes(done("hi")), "") // the request is still under way
	s.want(s.takes(Did{Do: first, ID: "s1"}), "patch!")
	last := s.do()
	if last.ID != "s1" || last.Text != "hi" || last.Key != first.Key {
		t.Errorf("%+v", last)
	}
	s.want(s.takes(Did{Do: last, ID: "s1"}), "tell")
	s.want(s.takes(Told{"p", false}), "")
	got, after := s.wait(time.Minute)
	s.want(got, "tell")
	if after < time.Second {
		t.Errorf("after %s", after)
	}
	s.want(s.takes(Told{"p", true}), "")
	s.want(s.takes(message("p")), "")
	if s.q.Len() != 0 || len(s.m.tasks) != 0 || len(s.m.fresh) != 0 {
		t.Errorf("%d, %d, %d are left", s.q.Len(), len(s.m.tasks), len(s.m.fresh))
	}
}

// What a request can come to, and what is done then. Each begins with the post that
// says to wait.
func TestTheEndOfARequest(t *testing.T) {
	for _, c := range []struct {
		name  string
		did   Did
		after time.Duration
		want  string
	}{
		{"done", Did{ID: "s1"}, 0, ""},
		{"not done", Did{Fault: Away}, time.Second, "create"},
		{"not done, and a pause is wanted", Did{Fault: Away, After: 20 * time.Second}, 20 * time.Second, "create"},
		{"maybe done", Did{Fault: Unsure}, time.Second, "find"},
		{"refused", Did{Fault: Refused}, time.Second, "create"},
		{"refused, since the thread is gone", Did{Fault: Refused, Root: true}, 0, "stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSingle(t)
			s.want(s.takes(message("p")), "submit create")
			c.did.Do = s.do()
			got := s.takes(c.did)
			if c.after == 0 {
				s.want(got, c.want)
				return
			}
			s.want(got, "")
			got, after := s.wait(10 * time.Minute)
			s.want(got, c.want)
			if after != c.after {
				t.Errorf("after %s", after)
			}
		})
	}
}

// A post of unknown fate is looked for, and made again only if it is not there.
func TestUnknownFate(t *testing.T) {
	for _, id := range []string{"", "s7"} {
		s := newSingle(t)
		s.takes(message("p"))
		s.takes(Did{Do: s.do(), Fault: Unsure})
		got, _ := s.wait(time.Minute)
		s.want(got, "find")
		if got, want := s.takes(Did{Do: s.do(), ID: id}), map[string]string{"": "create", "s7": "patch"}[id]; got != want {
			t.Errorf("found %q: it wants %s", id, got)
		}
	}
}

// TestCaseP32: a message that was heard is answered after a restart at any place.
func TestCaseP32(t *testing.T) {
	s := newSingle(t)
	s.takes(message("p"))
	create := s.do()
	s.restart()
	s.want(s.takes(Tick{}), "submit find") // it may be there
	s.takes(Did{Do: s.do(), ID: ""})
	s.restart()
	s.want(s.takes(Tick{}), "submit find")
	s.takes(Did{Do: s.do(), ID: "s1"})
	s.takes(done("hi"))
	s.restart() // before the answer is posted
	s.want(s.takes(Tick{}), "patch!")
	if d := s.do(); d.ID != "s1" || d.Key != create.Key || d.Text != "hi" {
		t.Errorf("%+v", d)
	}
	s.restart() // the request may have been done
	s.want(s.takes(Tick{}), "patch!")
	s.takes(Did{Do: s.do(), ID: "s1"})
	s.restart()
	s.want(s.takes(Tick{}), "tell")
	s.takes(Told{"p", true})
	s.restart()
	s.want(s.takes(message("p")), "")
}

// Messages of one thread go to loopd in their order; those of others do not wait.
func TestOrderInAThread(t *testing.T) {
	s := newSingle(t)
	in := func(post, root string) Heard {
		h := message(post)
		h.Root = root
		return h
	}
	s.want(s.takes(in("p", "p")), "submit create")
	first := s.do()
	s.want(s.takes(in("q", "p")), "") // not before loopd has the first, and its post stands
	s.want(s.takes(in("r", "r")), "submit create")
	s.want(s.takes(Turn{"p", &proto.Accepted{}}), "submit")
	if f := s.out[0].(Submit); f.Post != "q" || f.Session != "mm-p" {
		t.Errorf("%+v", f)
	}
	s.want(s.takes(Did{Do: first, ID: "s1"}), "create")
	s.takes(Lost{Post: "p"})
	s.want(s.takes(Tick{}), "")
	got, _ := s.wait(time.Minute)
	if !strings.Contains(got, "submit") {
		t.Errorf("a turn that was lost is not followed again: %s", got)
	}
}

// More messages than are worked on wait in the queue; a command does not.
func TestMoreThanIsWorkedOn(t *testing.T) {
	s := newSingle(t)
	for n := range 4 {
		s.want(s.takes(message(fmt.Sprint("p", n))), "submit create")
	}
	s.want(s.takes(message("late")), "")
	h := message("stop")
	h.Command = "stop"
	s.want(s.takes(h), "command")
	c := s.out[0].(Command)
	if len(c.Sessions) != 5 || c.Sessions[0] != "mm-late" || c.Waiting != 5 {
		t.Errorf("%+v", c)
	}
	s.want(s.takes(Said{Post: "stop", Text: "Stopped."}), "create!")
	s.takes(Did{Do: s.do(), ID: "s9"})
	for _, f := range []Event{Turn{"p0", &proto.Accepted{}}, Turn{"p0", &proto.Done{Outcome: proto.TurnAnswered, Answer: "x"}}, Did{Do: Do{Kind: Create, Post: "p0", Key: "k1"}, ID: "s1"}} {
		s.takes(f)
	}
	s.want(s.takes(Did{Do: s.do(), ID: "s1"}), "tell")
	s.want(s.takes(Told{"p0", true}), "submit create")
}

// An edit of the post that says to wait is a row in the server's history: there are
// few, also over a restart.
func TestEditsAreFew(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := newSingle(t)
		s.takes(message("p"))
		s.takes(Did{Do: s.do(), ID: "s1"})
		edits, finds := 0, 0
		for sec := range 300 {
			s.now = s.now.Add(time.Second)
			if restarts && sec%25 == 24 {
				s.restart()
			}
			s.takes(Turn{"p", &proto.Prefill{Done: int64(sec), Total: 300}})
			for _, f := range s.out {
				d, ok := f.(Do)
				switch {
				case !ok:
					continue
				case d.Kind == Find:
					finds++
				case d.Kind != Patch:
					t.Fatalf("%+v", d)
				default:
					edits++
				}
				s.takes(Did{Do: d, ID: "s1"})
			}
		}
		if edits < 8 || edits > 30 {
			t.Errorf("%d edits in five minutes, with restarts: %v", edits, restarts)
		}
	}
}

// TestCaseP37: an edit or a post that the server does not take is followed by others
// that it does.
func TestCaseP37(t *testing.T) {
	long := strings.Repeat("Lorem ipsum dolor sit amet.\n\n", 300) // 8700 runes: a file here
	for _, c := range []struct {
		name   string
		answer string
		limit  int
		refuse func(Do) bool
		check  func(t *testing.T, posts []Do)
	}{
		{"the edit is refused", "short", 1000, func(d Do) bool { return d.Kind == Patch }, func(t *testing.T, posts []Do) {
			if len(posts) != 2 || posts[1].Text != "short" {
				t.Errorf("%+v", posts)
			}
		}},
		{"a server that takes less than it says", long, 9000, func(d Do) bool { return len([]rune(d.Text)) > 4000 }, func(t *testing.T, posts []Do) {
			all := ""
			for _, p := range posts {
				if !strings.HasPrefix(p.Text, "⏳") {
					all += p.Text
				}
			}
			if strings.Count(all, "Lorem") != 300 {
				t.Errorf("%d of 300 paragraphs", strings.Count(all, "Lorem"))
			}
		}},
		{"a server without files", long, 1000, func(d Do) bool { return d.File != "" }, func(t *testing.T, posts []Do) {
			all := ""
			for _, p := range posts[1:] {
				all += p.Text
			}
			if strings.Count(all, "Lorem") != 300 {
				t.Errorf("%d of 300 paragraphs", strings.Count(all, "Lorem"))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSingle(t)
			s.m.cfg.Limit = c.limit
			s.takes(message("p"))
			s.takes(Did{Do: s.do(), ID: "s0"})
			posts := []Do{{Text: "⏳"}}
			s.takes(done(c.answer))
			for range 100 {
				if strings.HasSuffix(fmt.Sprintf("%T", append(s.out, nil)[0]), "Tell") {
					break
				}
				d := s.do()
				did := Did{Do: d, ID: "s0"}
				switch {
				case c.refuse(d):
					did.Fault = Refused
				case d.Kind == Create:
					did.ID = fmt.Sprint("s", len(posts))
					posts = append(posts, d)
				case d.Kind == Patch:
					posts[0] = d
				}
				if s.takes(did) == "" {
					s.wait(2 * time.Minute)
				}
			}
			s.want(s.takes(Told{"p", true}), "")
			if s.q.Len() != 0 {
				t.Error("it is not done with")
			}
			c.check(t, posts)
		})
	}
}

// A channel that takes nothing any more does not hold a message for ever.
func TestAnswerThatIsRefusedForGood(t *testing.T) {
	s := newSingle(t)
	s.takes(message("p"))
	s.takes(done("hi"))
	s.takes(Did{Do: Do{Kind: Create, Post: "p", Key: "k1", Text: "x"}, Fault: Refused})
	began := s.now
	for s.q.Len() > 0 {
		if got, _ := s.wait(5 * time.Minute); got != "create!" {
			t.Fatalf("it wants %q", got)
		}
		s.takes(Did{Do: s.do(), Fault: Refused})
	}
	if took := s.now.Sub(began); took < 20*time.Minute || took > 2*time.Hour {
		t.Errorf("it is given up after %s", took)
	}
	if _, ok := s.out[0].(Warn); !ok {
		t.Errorf("%+v", s.out)
	}
}

// The first post of a thread is deleted: its turn ends, and nobody is told anything.
func TestADeletedThread(t *testing.T) {
	s := newSingle(t)
	s.takes(message("p"))
	create := s.do()
	s.want(s.takes(Gone{"q"}), "")
	s.want(s.takes(Gone{"p"}), "stop")
	s.want(s.takes(Did{Do: create, ID: "s1"}), "")
	s.want(s.takes(done("hi")), "")
	s.want(s.takes(message("p")), "")
	s.want(s.takes(Gone{"p"}), "")
}

func TestAnswers(t *testing.T) {
	m := &Machine{cfg: Config{Limit: 300, Parts: 2}}
	long := strings.Repeat("word ", 300)
	for _, c := range []struct {
		name  string
		done  proto.Done
		files bool
		want  []string // how each part begins
		file  string
	}{
		{"an answer", proto.Done{Outcome: proto.TurnAnswered, Answer: "hi"}, false, []string{"hi"}, ""},
		{"files", proto.Done{Outcome: proto.TurnAnswered, Answer: "hi"}, true, []string{"hi\n\n_Attached files are not read._"}, ""},
		{"stopped", proto.Done{Outcome: proto.TurnStopped, Text: "you stopped it"}, false, []string{"**Stopped.** you stopped it"}, ""},
		{"an error with its key", proto.Done{Outcome: proto.TurnFailed, Text: "no (see runbook: x)", Runbook: "x"}, false, []string{"**This did not work.** no (see runbook: x)"}, ""},
		{"capped with a part", proto.Done{Outcome: proto.TurnCapped, Answer: "half", Text: "too long"}, false, []string{"half\n\n**Ended early.** too long"}, ""},
		{"full", proto.Done{Outcome: proto.TurnContextFull, Text: "begin a new one"}, false, []string{"**The context is full.** begin"}, ""},
		{"two parts", proto.Done{Outcome: proto.TurnAnswered, Answer: long[:500]}, false, []string{"word", "word"}, ""},
		{"a file", proto.Done{Outcome: proto.TurnAnswered, Answer: long}, false, []string{"word", "_The whole answer:_"}, long},
		{"nobody is named", proto.Done{Outcome: proto.TurnAnswered, Answer: "@all look"}, false, []string{"@\u200ball look"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts := m.answer(&c.done, c.files)
			if len(parts) != len(c.want) {
				t.Fatalf("%+v", parts)
			}
			for n, p := range parts {
				if !strings.HasPrefix(p.Text, c.want[n]) || len([]rune(p.Text)) > 300 {
					t.Errorf("%q", p.Text)
				}
			}
			if parts[len(parts)-1].File != c.file {
				t.Errorf("file of %d bytes", len(parts[len(parts)-1].File))
			}
		})
	}
}

func TestViews(t *testing.T) {
	for _, c := range []struct {
		name string
		see  []proto.Message
		want string
	}{
		{"nothing yet", nil, "Working"},
		{"queued", []proto.Message{&proto.Accepted{Queued: 2}}, "Queued: 2 messages are before this one"},
		{"queued, told later", []proto.Message{&proto.Accepted{}, &proto.Waiting{Reason: proto.WaitQueue, Ahead: 1}}, "Queued: 1 message is"},
		{"the queue has moved", []proto.Message{&proto.Accepted{Queued: 1}, &proto.Prefill{Done: 10, Total: 40}}, "Reading, 25 % of 40 tokens"},
		{"thinking", []proto.Message{&proto.Thinking{Text: "x"}}, "Thinking"},
		{"a tool", []proto.Message{&proto.ToolStarted{Tool: "read_file"}}, "Using `read_file`"},
		{"two tools", []proto.Message{&proto.ToolStarted{Tool: "a"}, &proto.ToolStarted{Tool: "b"}}, "Using `b` · 2 calls"},
		{"a tool that is none", []proto.Message{&proto.ToolStarted{Tool: "@all `x`"}}, "Using a tool"},
		{"an approval", []proto.Message{&proto.Asked{}}, "Waiting for your approval"},
		{"a refused call", []proto.Message{&proto.Result{Outcome: proto.CallDenied, Code: proto.CodeDeniedByOwner}}, "Going on after a call that was not done (denied-by-owner)"},
		{"the model's server", []proto.Message{&proto.Waiting{Reason: proto.WaitModel}}, "Waiting for the model's server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v view
			for _, m := range c.see {
				v.see(m)
			}
			if got := v.text(0, false); !strings.HasPrefix(got, "⏳ _"+c.want) {
				t.Error(got)
			}
		})
	}
	v := view{doing: "Writing"}
	for since, want := range map[time.Duration]string{9 * time.Second: "⏳ _Writing_", 25 * time.Second: "⏳ _Writing · 20 s_", 150 * time.Second: "⏳ _Writing · 2 min_"} {
		if got := v.text(since, false); got != want {
			t.Errorf("%s: %s", since, got)
		}
	}
	if got := v.text(0, true); !strings.HasSuffix(got, "_Attached files are not read._") {
		t.Error(got)
	}
}

// A search that the server refuses says nothing of the post that is looked for.
func TestASearchThatIsRefused(t *testing.T) {
	s := newSingle(t)
	s.takes(message("p"))
	s.takes(Did{Do: s.do(), ID: "s1"})
	s.want(s.takes(done(strings.Repeat("word ", 1000))), "patch!")
	s.want(s.takes(Did{Do: s.do(), ID: "s1"}), "create!")
	if s.do().File == "" {
		t.Fatalf("%+v", s.do())
	}
	s.takes(Did{Do: s.do(), Fault: Unsure})
	for range 3 {
		got, _ := s.wait(time.Minute)
		s.want(got, "find!")
		s.takes(Did{Do: s.do(), Fault: Refused})
	}
	if i, _ := s.q.Get("p"); len(i.Parts) != 2 || i.Parts[1].File == "" {
		t.Errorf("%+v", i.Parts)
	}
}
