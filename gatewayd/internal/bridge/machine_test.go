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
