package turn

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"

	"pgregory.net/rapid"
)

// script folds records and keeps count of their numbers.
type script struct {
	t interface{ Fatalf(string, ...any) }
	s State
	a Action
	n int64
}

func start(t *testing.T, rounds int) *script {
	t.Helper()
	c := &script{t: t, s: State{Session: "chat-a", Limits: Limits{Rounds: rounds}}}
	c.do(&proto.Baseline{Window: 1000})
	return c
}

func (c *script) do(recs ...proto.Record) *script {
	for _, r := range recs {
		s, a, err := Next(c.s, 1, c.n, r)
		if err != nil {
			c.t.Fatalf("record %d (%s): %v", c.n, r.Kind(), err)
		}
		c.s, c.a = s, a
		c.n++
	}
	return c
}

func user(origin string) proto.Record {
	return &proto.User{Origin: origin, Surface: proto.SurfaceChat, Message: prompt.UserMessage("hello")}
}

func says(text string) proto.Record {
	return &proto.Assistant{Message: prompt.AssistantMessage(text, "", nil)}
}

func asks(calls ...string) proto.Record {
	var cs []prompt.Call
	for i, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		cs = append(cs, prompt.Call{ID: fmt.Sprint("c", i), Name: name, Arguments: args})
	}
	return &proto.Assistant{Message: prompt.AssistantMessage("", "", cs)}
}

func result(p Pending) proto.Record {
	return &proto.Tool{Call: p.ID.String(), Outcome: proto.CallOK, Class: proto.ClassPublic, Message: prompt.ToolMessage(p.Call.ID, "x")}
}

func (c *script) run() *script {
	c.tHelper()
	switch a := c.a.(type) {
	case Run:
		return c.do(result(a.Pending))
	case Refuse:
		return c.do(result(a.Pending))
	default:
		c.t.Fatalf("want a call, have %T", c.a)
		return nil
	}
}

func (c *script) tHelper() {
	if t, ok := c.t.(*testing.T); ok {
		t.Helper()
	}
}

func (c *script) ends(want proto.TurnOutcome) {
	c.tHelper()
	e, ok := c.a.(End)
	if !ok {
		c.t.Fatalf("want the end, have %#v", c.a)
	}
	if e.Record.Outcome != want {
		c.t.Fatalf("outcome %s, want %s (%s)", e.Record.Outcome, want, e.Record.Text)
	}
	c.do(&e.Record)
	if _, ok := c.a.(Rest); !ok {
		c.t.Fatalf("after the end: %T", c.a)
	}
}

func TestAnswered(t *testing.T) {
	c := start(t, 5).do(user("o1"))
	if a, ok := c.a.(Infer); !ok || a.Again {
		t.Fatalf("%#v", c.a)
	}
	c.do(&proto.Completion{Finish: "stop", CacheN: 10, PromptN: 5, PredictedN: 3}, says("hi"))
	if c.s.Answer != "hi" || c.s.Expect != 15 || c.s.Context != 18 || c.s.Usage.Generated != 3 {
		t.Errorf("%+v", c.s)
	}
	c.ends(proto.TurnAnswered)
}

func TestCallsRunInOrder(t *testing.T) {
	c := start(t, 5).do(user("o1"), asks(`clock {}`, `find_tool {"query":"x"}`))
	r := c.a.(Run)
	if got := r.Pending.ID.String(); got != "chat-a/1/2/0" {
		t.Error(got)
	}
	c.run()
	if got := c.a.(Run).Pending.ID.String(); got != "chat-a/1/2/1" {
		t.Error(got)
	}
	c.run()
	if _, ok := c.a.(Infer); !ok {
		t.Fatalf("%T", c.a)
	}
	c.do(says("done")).ends(proto.TurnAnswered)
}

func TestFailedCompletions(t *testing.T) {
	for _, tc := range []struct {
		name  string
		recs  []proto.Record
		again bool
		want  proto.TurnOutcome
	}{
		{"retry helps", []proto.Record{&proto.Incomplete{Why: proto.WhyEmpty, Retry: true}, says("ok")}, false, proto.TurnAnswered},
		{"one retry is all", []proto.Record{&proto.Incomplete{Why: proto.WhyEmpty, Retry: true}, &proto.Incomplete{Why: proto.WhyEmpty, Retry: true}}, false, proto.TurnFailed},
		{"no retry where it cannot help", []proto.Record{&proto.Incomplete{Why: proto.WhyStalled}}, false, proto.TurnFailed},
		{"context full", []proto.Record{&proto.Incomplete{Why: proto.WhyContextFull, Retry: true}}, false, proto.TurnContextFull},
		{"length at the end of the window", []proto.Record{&proto.Completion{Finish: "length", PromptN: 990, PredictedN: 10}, says("half")}, false, proto.TurnContextFull},
		{"nothing but thinking up to the end of the window", []proto.Record{&proto.Completion{Finish: "length", PromptN: 990, PredictedN: 10}, &proto.Incomplete{Why: proto.WhyLength}}, false, proto.TurnContextFull},
		{"nothing but thinking up to the token limit", []proto.Record{&proto.Completion{Finish: "length", PromptN: 90, PredictedN: 10}, &proto.Incomplete{Why: proto.WhyLength}}, false, proto.TurnFailed},
		{"length at the token limit", []proto.Record{&proto.Completion{Finish: "length", PromptN: 90, PredictedN: 10}, says("half")}, false, proto.TurnAnswered},
		{"stopped while it ran", []proto.Record{&proto.StopAsked{}, &proto.Incomplete{Why: proto.WhyStopped, Text: "ha"}}, false, proto.TurnStopped},
		{"stopped before it brought anything", []proto.Record{&proto.StopAsked{}}, false, proto.TurnStopped},
		{"stopped as it was done", []proto.Record{&proto.StopAsked{}, says("whole")}, false, proto.TurnStopped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := start(t, 5).do(user("o1")).do(tc.recs...)
			c.ends(tc.want)
			if full := tc.want == proto.TurnContextFull; c.s.Full != full {
				t.Errorf("full is %v", c.s.Full)
			}
		})
	}
	// What the log says counts, also if today's rules would see it otherwise.
	c := start(t, 5).do(user("o1"), says("x"), &proto.TurnEnd{Origin: "o1", Outcome: proto.TurnContextFull})
	if !c.s.Full {
		t.Error("a turn that ended for want of room leaves room")
	}
	c = start(t, 5).do(user("o1"), &proto.Incomplete{Why: proto.WhyCut, Retry: true})
	if a, ok := c.a.(Infer); !ok || !a.Again {
		t.Errorf("%#v", c.a)
	}
}

// TestEachRequestHasItsOwnRetry: a fault before one request is no reason to give up
// the next at once.
func TestEachRequestHasItsOwnRetry(t *testing.T) {
	fault := &proto.Incomplete{Why: proto.WhyCut, Retry: true}
	c := start(t, 9).do(user("o1"))
	for i := range 3 {
		c.do(fault)
		if a, ok := c.a.(Infer); !ok || !a.Again {
			t.Fatalf("round %d: %#v", i, c.a)
		}
		c.do(asks(fmt.Sprintf(`a {"n":%d}`, i))).run()
		if a, ok := c.a.(Infer); !ok || a.Again {
			t.Fatalf("round %d: %#v", i, c.a)
		}
	}
}

func TestEveryReasonHasWordsForTheOwner(t *testing.T) {
	for _, w := range []proto.Why{
		proto.WhyStalled, proto.WhyCut, proto.WhyServerError, proto.WhyUnreachable, proto.WhyUnauthorised,
		proto.WhyBadData, proto.WhyEmpty, proto.WhyLength, proto.WhyMarkup, proto.WhyBadCall,
	} {
		if r := failed(&proto.Incomplete{Why: w}); r.Text == "The completion failed." || r.Runbook == "" {
			t.Errorf("%s has no text", w)
		}
	}
}

func TestStopDuringCalls(t *testing.T) {
	c := start(t, 5).do(user("o1"), asks(`a {}`, `b {}`, `c {}`)).run().do(&proto.StopAsked{})
	for range 2 {
		r, ok := c.a.(Refuse)
		if !ok || r.Code != proto.CodeStopped {
			t.Fatalf("%#v", c.a)
		}
		c.do(result(r.Pending))
	}
	c.ends(proto.TurnStopped)
}

// TestOnlyTheCallInFrontMayHaveBegun: a driver that was restarted must not say of a
// call that it did not run if it may have, nor the other way round.
func TestOnlyTheCallInFrontMayHaveBegun(t *testing.T) {
	for _, tc := range []struct {
		name  string
		over  bool // the round is one too many
		calls []string
		run   int    // calls with a result before the stop
		want  []bool // of the calls that are left
	}{
		{"the first", false, []string{`a {}`, `b {}`}, 0, []bool{true, false}},
		{"the second", false, []string{`a {}`, `b {}`}, 1, []bool{true}},
		{"one that is refused as a repetition", false, []string{`a {}`, `a {}`, `a {}`, `b {}`}, 2, []bool{false, false}},
		{"one beyond the limit of rounds", true, []string{`a {}`, `b {}`}, 0, []bool{false, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := start(t, 1).do(user("o1"))
			if tc.over {
				c.do(asks(`x {}`)).run()
			}
			c.do(asks(tc.calls...))
			for range tc.run {
				c.run()
			}
			c.do(&proto.StopAsked{})
			for i, want := range tc.want {
				r, ok := c.a.(Refuse)
				if !ok || r.Begun != want {
					t.Errorf("call %d: %#v", i, c.a)
				}
				c.run()
			}
			c.ends(proto.TurnStopped)
		})
	}
}

// TestCase_P23_RunawayCallsAreStopped: the same call for ever ends the turn,
// whatever white space or key order it hides behind, and cycles count too.
func TestCase_P23_RunawayCallsAreStopped(t *testing.T) {
	for _, tc := range []struct {
		name  string
		calls []string
		want  int // calls that really run
	}{
		{"the same call", []string{`a {"x":1,"y":2}`}, 2},
		{"other white space and order", []string{`a {"x":1,"y":2}`, `a { "y":2, "x":1 }`}, 2},
		{"a cycle of two", []string{`a {}`, `b {}`}, 5},
		{"a cycle of three", []string{`a {}`, `b {}`, `c {}`}, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := start(t, 1000).do(user("o1"))
			ran := 0
			for i := 0; ; i++ {
				if i > 50 {
					t.Fatal("never stopped")
				}
				c.do(asks(tc.calls[i%len(tc.calls)]))
				if _, ok := c.a.(Run); ok {
					ran++
				}
				c.run()
				if _, ok := c.a.(End); ok {
					break
				}
			}
			c.ends(proto.TurnCapped)
			if ran != tc.want {
				t.Errorf("%d calls ran, want %d", ran, tc.want)
			}
		})
	}
	t.Run("work among the polls is no runaway", func(t *testing.T) {
		c := start(t, 1000).do(user("o1"))
		for i := range 20 {
			c.do(asks(`poll {}`, fmt.Sprintf(`work {"n":%d}`, i)))
			if _, ok := c.a.(Run); !ok {
				t.Fatalf("round %d: %#v", i, c.a)
			}
			c.run().run()
		}
	})
}

func TestRoundsAreLimited(t *testing.T) {
	c := start(t, 3).do(user("o1"))
	for i := range 3 {
		c.do(asks(fmt.Sprintf(`a {"n":%d}`, i))).run()
	}
	c.do(asks(`a {"n":9}`, `a {"n":10}`))
	for range 2 {
		if r, ok := c.a.(Refuse); !ok || r.Code != proto.CodeTurnLimit {
			t.Fatalf("%#v", c.a)
		}
		c.run()
	}
	c.ends(proto.TurnCapped)
	c.do(user("o2"), asks(`a {"n":9}`))
	if _, ok := c.a.(Run); !ok {
		t.Errorf("the next turn starts with old counters: %#v", c.a)
	}
}

func TestOrder(t *testing.T) {
	for _, tc := range []struct {
		name string
		recs []proto.Record
		bad  proto.Record
	}{
		{"answer without a question", nil, says("x")},
		{"two questions", []proto.Record{user("o1")}, user("o2")},
		{"result of no call", []proto.Record{user("o1")}, result(Pending{ID: proto.CallID{Session: "chat-a", Epoch: 1}})},
		{"result of another call", []proto.Record{user("o1"), asks(`a {}`)}, result(Pending{ID: proto.CallID{Session: "chat-a", Epoch: 1, Record: 9}})},
		{"end of no turn", nil, &proto.TurnEnd{Origin: "o1", Outcome: proto.TurnAnswered}},
		{"end of another turn", []proto.Record{user("o1"), says("x")}, &proto.TurnEnd{Origin: "o2", Outcome: proto.TurnAnswered}},
		{"stop of no turn", nil, &proto.StopAsked{}},
		{"baseline in a turn", []proto.Record{user("o1")}, &proto.Baseline{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := start(t, 5).do(tc.recs...)
			if _, _, err := Next(c.s, 1, c.n, tc.bad); !errors.Is(err, ErrOrder) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestAnyHistoryEnds: whatever the model and the server do, a driver that obeys
// comes to an end, every call has one result before the next request, and the
// fold of the log alone gives the same state at every point.
func TestAnyHistoryEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &script{t: t, s: State{Session: "chat-a", Limits: Limits{Rounds: 6}}}
		var log []proto.Record
		do := func(r proto.Record) { log = append(log, r); c.do(r) }
		do(&proto.Baseline{Window: 1000})
		do(user("o1"))
		open := 0
		for steps := 0; ; steps++ {
			if steps > 200 {
				t.Fatalf("no end in 200 steps")
			}
			if c.s.Phase != Resting && c.s.Phase != Ending && !c.s.Stopped && rapid.IntRange(0, 30).Draw(t, "stop") == 0 {
				do(&proto.StopAsked{})
			}
			switch a := c.a.(type) {
			case Infer:
				if open != 0 {
					t.Fatalf("a request with %d calls open", open)
				}
				switch rapid.IntRange(0, 9).Draw(t, "model") {
				case 0:
					do(says("done"))
				case 1:
					do(&proto.Incomplete{Why: proto.WhyCut, Retry: rapid.Bool().Draw(t, "retry")})
				default:
					calls := rapid.SliceOfN(rapid.SampledFrom([]string{`a {}`, `b {}`, `c {"n":1}`}), 1, 4).Draw(t, "calls")
					open = len(calls)
					do(asks(calls...))
				}
			case Run:
				open--
				do(result(a.Pending))
			case Refuse:
				open--
				do(result(a.Pending))
			case End:
				do(&a.Record)
				return
			default:
				t.Fatalf("%T in a turn", a)
			}
			again := &script{t: t, s: State{Session: "chat-a", Limits: Limits{Rounds: 6}}}
			again.do(log...)
			if fmt.Sprintf("%+v", again.s) != fmt.Sprintf("%+v", c.s) || fmt.Sprintf("%#v", again.a) != fmt.Sprintf("%#v", c.a) {
				t.Fatalf("replay differs:\n%+v\n%+v", again.s, c.s)
			}
		}
	})
}

// TestNextIsPure: the same state can be folded with different records, and neither
// changes what the other gives.
func TestNextIsPure(t *testing.T) {
	c := start(t, 100).do(user("o1"))
	for i := range 5 { // enough to leave spare room in the history
		c.do(asks(fmt.Sprintf(`a {"n":%d}`, i))).run()
	}
	before := c.s
	one, _, err1 := Next(before, 1, c.n, asks(`b {}`, `b {}`))
	_, _, err2 := Next(before, 1, c.n, asks(`c {}`, `c {}`))
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if got := fmt.Sprint(one.history[len(one.history)-2:]); strings.Contains(got, "c") {
		t.Errorf("the other record is in the history: %q", got)
	}
}

// TestWhatTheOwnerReadsOfACappedTurn: one sentence that says what happened, once.
func TestWhatTheOwnerReadsOfACappedTurn(t *testing.T) {
	c := start(t, 1).do(user("o1"), asks(`a {}`)).run().do(asks(`b {}`)).run()
	if got := c.a.(End).Record.Text; got != "The turn was ended: the limit of 1 rounds of tool calls in one turn is reached." {
		t.Error(got)
	}
	c = start(t, 100).do(user("o1"))
	for range 4 {
		c.do(asks(`a {}`)).run()
	}
	if got := c.a.(End).Record.Text; got != "The turn was ended: the same calls came again and again." {
		t.Error(got)
	}
}
