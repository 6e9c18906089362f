package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const pastTime = "2026-01-02T14:02:00.000Z"

func (r *rig) follows(ms ...proto.Message) {
	for _, m := range ms {
		r.do(Followed{Run: r.others.run, Event: m})
	}
}

func began(record int64, origin, text string, s proto.Surface) *proto.Past {
	return &proto.Past{Record: record, Epoch: 1, Time: pastTime, Role: "user", Text: text, Origin: origin, Surface: s}
}

func row(record int64, role, text string) *proto.Past {
	return &proto.Past{Record: record, Epoch: 1, Time: pastTime, Role: role, Text: text}
}

// lines is what is finished, without what is empty.
func (r *rig) lines() []string {
	var out []string
	r.done = append(r.done, r.Frame().Done...)
	for _, l := range r.done {
		if l != "" && !strings.Contains(l, "tokens written") && l != "0 ms" {
			out = append(out, l)
		}
	}
	return out
}

func TestFollow(t *testing.T) {
	start := func(r *rig) { r.do(); r.Follow() }
	for _, c := range []struct {
		name string
		play func(*rig)
		want []string
	}{
		{"a turn from elsewhere", func(r *rig) {
			r.follows(began(1, "x", "hello?", proto.SurfaceAsk), &proto.Text{Text: "Yes."}, done(proto.TurnAnswered, "Yes."))
		}, []string{"from bxctl ask · 14:02", "> hello?", "Yes."}},
		{"from another chat and from Mattermost", func(r *rig) {
			r.follows(began(1, "x", "a", proto.SurfaceChat), done(proto.TurnAnswered, "A."), began(4, "y", "b", proto.SurfaceMattermost), done(proto.TurnAnswered, "B."))
		}, []string{"from another chat · 14:02", "> a", "A.", "from Mattermost · 14:02", "> b", "B."}},
		{"its own turn comes twice and is shown once", func(r *rig) {
			r.typed("hi\n")
			r.follows(began(1, "o1", "hi", proto.SurfaceChat), &proto.Text{Text: "Ho."})
			r.events(1, &proto.Accepted{Record: 1}, &proto.Text{Text: "Ho."}, done(proto.TurnAnswered, "Ho."))
			r.do(Ended{Job: 1})
			r.follows(done(proto.TurnAnswered, "Ho."), row(2, "assistant", "Ho."), row(3, "turn", "answered"))
		}, []string{"> hi", "Ho."}},
		{"a message that waits stands behind the one before it", func(r *rig) {
			r.typed("one\ntwo\n")
			r.events(1, &proto.Accepted{Record: 1})
			r.events(2, &proto.Accepted{Record: 3, Queued: 2}, &proto.Waiting{Reason: proto.WaitQueue, Ahead: 2})
			r.follows(began(1, "o1", "one", proto.SurfaceChat), done(proto.TurnAnswered, "One."))
			r.events(1, done(proto.TurnAnswered, "One."))
			r.do(Ended{Job: 1})
			r.follows(began(5, "x", "between", proto.SurfaceAsk), done(proto.TurnAnswered, "Between."), began(8, "o2", "two", proto.SurfaceChat))
			r.events(2, done(proto.TurnAnswered, "Two."))
			r.do(Ended{Job: 2})
		}, []string{"> one", "One.", "from bxctl ask · 14:02", "> between", "Between.", "> two", "Two."}},
		{"loopd goes while the chat is idle", func(r *rig) {
			r.do(ready(), FollowLost{r.others.run}, Health{Err: loop.NotRunning(nil)}, FollowBack{r.others.run}, ready())
			r.follows(began(5, "x", "missed", proto.SurfaceAsk), &proto.Past{Role: "assistant", Time: pastTime, Text: "I look.", Tool: "clock", Args: "{}", Call: "c/1/6/0"},
				&proto.Past{Role: "tool", Time: pastTime, Call: "c/1/6/0", Outcome: proto.CallOK, Class: proto.ClassPublic, Text: "noon"}, row(8, "assistant", "It is noon."), row(9, "turn", "answered"))
		}, []string{
			"Boxmaker · practice model: rules, not a language model · /help lists commands", "! loopd does not answer; what you send waits until it is back", "(loopd is back)",
			"from bxctl ask · 14:02", "> missed", "I look.", "✓ clock → ok · public · 4 B · 0 ms", "It is noon.",
		}},
		{"loopd goes in the middle of a turn from elsewhere", func(r *rig) {
			r.follows(began(5, "x", "go", proto.SurfaceAsk), &proto.Text{Text: "I look."}, &proto.ToolStarted{Call: "c/1/6/0", Tool: "clock", Args: "{}"},
				&proto.Result{Call: "c/1/6/0", Outcome: proto.CallOK, Class: proto.ClassPublic, Bytes: 4}, &proto.Text{Text: "It is"})
			r.do(FollowLost{r.others.run}, FollowBack{r.others.run})
			r.follows(&proto.Past{Role: "assistant", Time: pastTime, Text: "I look.", Tool: "clock", Args: "{}", Call: "c/1/6/0"},
				&proto.Past{Role: "tool", Time: pastTime, Call: "c/1/6/0", Outcome: proto.CallOK, Class: proto.ClassPublic, Text: "noon"}, &proto.Text{Text: "It is no"}, &proto.Text{Text: "on."}, done(proto.TurnAnswered, "It is noon."))
		}, []string{"from bxctl ask · 14:02", "> go", "I look.", "✓ clock → ok · public · 4 B · 0 ms", "! loopd is away; the message goes on as soon as it is back, nothing is lost", "(loopd is back; going on)", "It is noon."}},
		{"a turn from elsewhere that was stopped and missed", func(r *rig) {
			r.follows(began(5, "x", "go", proto.SurfaceAsk), row(6, "assistant", "No"), row(7, "turn", "stopped"))
		}, []string{"from bxctl ask · 14:02", "> go", "No", "(stopped)"}},
		{"a turn that ran already", func(r *rig) {
			r.do(Tail{Session: "chat-x", Items: []archive.Item{{Role: "user", Text: "old", Epoch: 2, Record: 4}, {Role: "turn", Epoch: 2, Record: 6}, {Role: "user", Text: "now", Epoch: 2, Record: 7}, {Role: "assistant", Text: "half", Epoch: 2, Record: 8}}})
			if d := cmp.Diff([]Effect{Follow{2, "chat-x", loop.Place{Epoch: 2, Record: 7}}}, r.effects); d != "" || !r.Busy() {
				r.say(d)
			}
			r.follows(&proto.Past{Role: "assistant", Time: pastTime, Text: "half", Tool: "clock", Args: "{}", Call: "c/2/8/0"},
				&proto.Result{Call: "c/2/8/0", Outcome: proto.CallOK, Class: proto.ClassPublic, Bytes: 4}, &proto.Text{Text: "whole"}, done(proto.TurnAnswered, "whole"))
		}, []string{"── session chat-x ──", "> old", "> now", "half", "✓ clock → ok · public · 4 B · 0 ms", "whole"}},
		{"what another session does is not shown", func(r *rig) {
			r.follows(began(1, "x", "long", proto.SurfaceAsk), &proto.Text{Text: "Much"})
			run := r.others.run
			r.typed("/new\n")
			r.do(Followed{Run: run, Event: &proto.Text{Text: " more."}}, Followed{Run: run, Event: done(proto.TurnAnswered, "Much more.")}, FollowLost{run}, FollowBack{run})
		}, []string{"from bxctl ask · 14:02", "> long", "Much", "(this turn goes on, and is not shown any more)", "── new session chat-20260102-ghijkl ──"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(80, false)
			start(r)
			c.play(r)
			if d := cmp.Diff(c.want, r.lines()); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			if r.Busy() {
				t.Error("something goes on")
			}
		})
	}
}

// TestFollowWithoutATail: where a session can't be read it is still followed, and
// its past is not told as news.
func TestFollowWithoutATail(t *testing.T) {
	for _, c := range []struct {
		name string
		msg  NoTail
		want int64
	}{
		{"none before", NoTail{Text: "(there is no earlier session)"}, 0},
		{"a new one with a name", NoTail{Err: archive.NoSession("chat-x")}, 0},
		{"unreadable", NoTail{Err: loop.NotRunning(nil)}, loop.BehindAll},
	} {
		r := newRig(80, false)
		r.do(c.msg)
		if d := cmp.Diff([]Effect{Follow{1, "chat-20260102-abcdef", loop.Place{Record: c.want}}}, r.effects); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// server is a loopd with one session: what it sends each of two streams.
type server struct {
	n      int64
	past   []*proto.Past // what a new watch is told
	turn   []proto.Message
	own    map[int][]any // by job, not yet delivered
	follow []any
}

func (s *server) begin(origin, text string, job int) {
	s.n++
	p := began(s.n, origin, text, proto.SurfaceAsk)
	s.past, s.turn = append(s.past, p), nil
	s.follow = append(s.follow, p)
	s.send(job, &proto.Text{Text: "Answer "})
	s.send(job, &proto.Text{Text: "to " + text + "."})
}

func (s *server) send(job int, m proto.Message) {
	s.turn = append(s.turn, m)
	s.follow = append(s.follow, m)
	if job > 0 {
		s.own[job] = append(s.own[job], Events{Job: job, Events: []proto.Message{m}})
	}
}

func (s *server) end(origin, text string, job int) {
	s.send(job, done(proto.TurnAnswered, "Answer to "+text+"."))
	s.n += 2
	s.past = append(s.past, row(s.n-1, "assistant", "Answer to "+text+"."), &proto.Past{Record: s.n, Epoch: 1, Time: pastTime, Role: "turn", Text: "answered", Origin: origin})
	s.turn = nil
	if job > 0 {
		s.own[job] = append(s.own[job], Ended{Job: job})
	}
}

// lose cuts the watch, and joins again behind the last message it told of.
func (s *server) lose(after int64) {
	s.follow = []any{FollowLost{1}, FollowBack{1}}
	last := int64(0)
	for _, p := range s.past {
		if p.Role == "user" {
			last = p.Record
		}
	}
	for _, p := range s.past {
		if p.Record > after && (len(s.turn) == 0 || p.Record <= last) {
			s.follow = append(s.follow, p)
		}
	}
	for _, m := range s.turn {
		s.follow = append(s.follow, m)
	}
}

// TestEachTurnOnceInOrder: however the chat's own streams and the session's
// interleave, and wherever the latter breaks, each message and each answer
// stands there once, and a turn in one piece.
func TestEachTurnOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(80, false)
		r.Follow()
		s := &server{own: map[int][]any{}}
		told := int64(0) // last message that the watch told of
		deliver := func() bool {
			var from []int
			for job, q := range s.own {
				if len(q) > 0 {
					from = append(from, job)
				}
			}
			if len(s.follow) > 0 {
				from = append(from, 0)
			}
			if len(from) == 0 {
				return false
			}
			slices.Sort(from)
			job := rapid.SampledFrom(from).Draw(t, "stream")
			if job > 0 {
				r.do(s.own[job][0])
				s.own[job] = s.own[job][1:]
				return true
			}
			e := s.follow[0]
			s.follow = s.follow[1:]
			if m, ok := e.(proto.Message); ok {
				if p, ok := e.(*proto.Past); ok && p.Role == "user" {
					told = p.Record
				}
				r.follows(m)
			} else {
				r.do(e)
			}
			return true
		}
		some := func() {
			for range rapid.IntRange(0, 4).Draw(t, "delivered") {
				deliver()
			}
			if rapid.IntRange(0, 4).Draw(t, "lost") == 0 {
				s.lose(told)
			}
		}
		type message struct {
			text, origin string
			job          int
		}
		var all, queue []message
		for i := range rapid.IntRange(1, 6).Draw(t, "turns") {
			m := message{text: fmt.Sprintf("m%d", i), origin: fmt.Sprintf("x%d", i)}
			if rapid.Bool().Draw(t, "own") {
				m.job = r.nextJob
				r.typed(m.text + "\n")
				m.origin = fmt.Sprintf("o%d", r.origins)
				s.own[m.job] = append(s.own[m.job], Events{Job: m.job, Events: []proto.Message{&proto.Accepted{Record: 1, Queued: len(queue)}}})
			}
			queue, all = append(queue, m), append(all, m)
			some()
			for len(queue) > 0 && rapid.Bool().Draw(t, "turn") {
				s.begin(queue[0].origin, queue[0].text, queue[0].job)
				some()
				s.end(queue[0].origin, queue[0].text, queue[0].job)
				some()
				queue = queue[1:]
			}
		}
		for _, m := range queue {
			s.begin(m.origin, m.text, m.job)
			some()
			s.end(m.origin, m.text, m.job)
		}
		for deliver() {
		}
		got := strings.Join(r.lines(), "\n") + "\n"
		for _, m := range all {
			if n := strings.Count(got, "> "+m.text+"\n"); n != 1 {
				t.Fatalf("%s is shown %d times:\n%s", m.text, n, got)
			}
			if n := strings.Count(got, "Answer to "+m.text+".\n"); n != 1 {
				t.Fatalf("the answer to %s is shown %d times:\n%s", m.text, n, got)
			}
		}
		if r.Busy() && !r.away {
			t.Fatalf("something goes on:\n%s", got)
		}
	})
}
