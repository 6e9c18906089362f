package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"

	"pgregory.net/rapid"
)

// TestRestartInTheMiddleOfAnAnswer: the turn goes on by itself with the same
// bytes, and the client that asks again gets its answer.
func TestRestartInTheMiddleOfAnAnswer(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.Role()
			s.Text("half")
			s.Hang()
			return
		}
		s.Answer("whole")
	})
	s := r.submit("chat-a", "o1", "go")
	r.until(s, is[*proto.Text])
	r.kill()
	if got := kinds(r.records("chat-a")); got != "baseline user" {
		t.Fatal(got)
	}
	r.start()
	if d, _ := r.done(r.submit("chat-a", "o1", "go")); d.Answer != "whole" {
		t.Errorf("%+v", d)
	}
	b := r.llm.Bodies()
	if len(b) != 2 || !bytes.Equal(b[0], b[1]) {
		t.Errorf("%d requests", len(b))
	}
}

// TestRestartInTheMiddleOfACall: the call is never sent again; its fate is
// asked, and what brokerd knows is what the model reads.
func TestRestartInTheMiddleOfACall(t *testing.T) {
	for _, tc := range []struct {
		name string
		kept bool
		want string
	}{
		{"it ran", true, "the result"},
		{"nobody knows", false, "unknown-fate: it is not known whether this call ran"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t).start()
			r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
				if n == 0 {
					s.CallTool("id1", "call_tool", callTool("write_file", `{}`))
					return
				}
				s.Answer("ok")
			})
			begun, gate := make(chan struct{}), make(chan struct{})
			defer close(gate)
			r.broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
				close(begun)
				<-gate
				return nil
			})
			r.submit("chat-a", "o1", "go")
			<-begun
			r.kill()
			if tc.kept {
				r.broker.Keep(&proto.CallResult{ID: "chat-a/1/3/0", Outcome: proto.CallOK, Class: proto.ClassPrivate, Text: "the result"})
			}
			r.start()
			r.done(r.submit("chat-a", "o1", "go"))
			if calls, fates := r.broker.Calls(), r.broker.Fates(); len(calls) != 1 || len(fates) != 1 {
				t.Errorf("%d calls, fates of %v", len(calls), fates)
			}
			if !bytes.Contains(toolMessage(t, r), []byte(tc.want)) {
				t.Errorf("%s", toolMessage(t, r))
			}
			r.grows(r.llm.Bodies())
		})
	}
}

// TestAResultIsConfirmedInTheEnd: brokerd is told that it may forget a result, also
// if it was away when the result was logged, or loopd ended right then.
func TestAResultIsConfirmedInTheEnd(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			r := newRig(t)
			link := filepath.Join(t.TempDir(), "b.sock")
			there := r.broker.Socket
			r.broker.Socket = link
			if err := os.Symlink(there, link); err != nil {
				t.Fatal(err)
			}
			r.start()
			r.broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
				_ = os.Remove(link)
				return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPublic}
			})
			r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
				switch n {
				case 0:
					s.CallTool("id", "call_tool", callTool("t", "{}"))
				case 1:
					s.Role()
					s.Text("so")
					s.Hang()
				default:
					s.Answer("ok")
				}
			})
			r.until(r.submit("chat-a", "o1", "go"), is[*proto.Text])
			if restart {
				r.kill()
			}
			if err := os.Symlink(there, link); err != nil {
				t.Fatal(err)
			}
			if restart {
				r.start()
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if ids, err := r.broker.AwaitConfirm(ctx, 1); err != nil || ids[0] != "chat-a/1/3/0" {
				t.Error(ids, err)
			}
		})
	}
}

func TestQueueSurvivesARestart(t *testing.T) {
	r := newRig(t).start()
	var hang atomic.Bool
	hang.Store(true)
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if hang.Load() {
			s.Hang()
			return
		}
		s.Answer(fmt.Sprint("answer ", n))
	})
	r.submit("chat-a", "o1", "one")
	r.submit("chat-a", "o2", "two")
	r.kill()
	hang.Store(false)
	r.start() // nobody asks: both go on by themselves
	d, _ := r.done(r.submit("chat-a", "o2", "two"))
	if d.Outcome != proto.TurnAnswered {
		t.Errorf("%+v", d)
	}
	turns := map[string]int{}
	for _, rec := range r.records("chat-a") {
		if e, ok := rec.(*proto.TurnEnd); ok {
			turns[e.Origin]++
		}
	}
	if turns["o1"] != 1 || turns["o2"] != 1 {
		t.Errorf("%v", turns)
	}
}

// TestRunawayCountersSurviveARestart: a restart is no way to get a call run more often.
func TestRunawayCountersSurviveARestart(t *testing.T) {
	r := newRig(t).start()
	arrived := make(chan int, 100)
	stall := 2 // the request at which the process is killed
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		arrived <- n
		if n == stall {
			s.Hang()
			return
		}
		s.CallTool(fmt.Sprint("id", n), "call_tool", callTool("poke", `{"x":1}`))
	})
	r.submit("chat-a", "o1", "go")
	for n := range arrived {
		if n == stall {
			break
		}
	}
	r.kill()
	r.start()
	d, _ := r.done(r.submit("chat-a", "o1", "go"))
	if d.Outcome != proto.TurnCapped || len(r.broker.Calls()) != 2 {
		t.Errorf("%+v, %d calls ran", d, len(r.broker.Calls()))
	}
}

// TestAlwaysExtends: over random conversations with tools, failures, stops and
// restarts, every request strictly extends the one before it or is the same
// again, and every origin has one turn.
func TestAlwaysExtends(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		rapidScript(rt, r)
	})
}

func rapidScript(rt *rapid.T, r *rig) {
	plan := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 12).Draw(rt, "plan")
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		step := 9
		if n < len(plan) {
			step = plan[n]
		}
		switch step {
		case 0, 1:
			s.CallTool(fmt.Sprint("id", n), "clock", "{}")
		case 2:
			s.CallTool(fmt.Sprint("id", n), "call_tool", callTool("t", fmt.Sprintf(`{"n":%d}`, n)))
		case 3:
			s.CallTool(fmt.Sprint("id", n), "nonsense", `{"a":`)
		case 4:
			s.Role()
			s.Text("cut")
			s.Cut()
		case 5:
			s.Fail(500, "application/json", `{"error":{"code":500,"message":"Failed to parse input","type":"server_error"}}`)
		default:
			s.Answer(fmt.Sprintf("answer %d \u2603 <b>", n))
		}
	})
	r.start()
	defer r.kill()
	turns := rapid.IntRange(1, 4).Draw(rt, "turns")
	for i := range turns {
		s := r.submit("chat-a", fmt.Sprint("o", i), "message")
		switch rapid.IntRange(0, 3).Draw(rt, "fate") {
		case 0:
			_, _ = r.agent.Stop(r.t.Context(), "chat-a")
		case 1:
			r.kill()
			r.start()
			s = r.submit("chat-a", fmt.Sprint("o", i), "message")
		}
		r.done(s)
	}
	// A request that was dropped at once may reach the server late, so they are put
	// in the order in which they must have been made.
	bodies := r.llm.Bodies()
	slices.SortStableFunc(bodies, func(a, b []byte) int { return len(a) - len(b) })
	r.grows(bodies)
	ends := map[string]int{}
	for _, rec := range r.records("chat-a") {
		if e, ok := rec.(*proto.TurnEnd); ok {
			ends[e.Origin]++
		}
	}
	for i := range turns {
		if ends[fmt.Sprint("o", i)] != 1 {
			rt.Fatalf("origin %d has %d turns", i, ends[fmt.Sprint("o", i)])
		}
	}
}
