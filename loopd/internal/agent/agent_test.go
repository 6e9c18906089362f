package agent

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
	"boxmaker/loopd/internal/prompt"
)

func TestAnswer(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(_ int, _ []byte, s *testkit.Stream) {
		s.Role()
		s.Progress(100, 0, 100, 3)
		s.Reasoning("hm")
		s.Text("Hel")
		s.Text("lo")
		s.Finish("stop")
		s.Usage(0, 100, 3)
		s.Done()
	})
	d, all := r.done(r.submit("chat-a", "o1", "hi"))
	if d.Answer != "Hello" || d.Usage.Prompt != 100 || d.Usage.Generated != 3 || d.Usage.Window != r.window {
		t.Errorf("%+v", d)
	}
	if a, ok := all[0].(*proto.Accepted); !ok || a.Record != 1 {
		t.Errorf("first event %#v", all[0])
	}
	if !has(all, is[*proto.Prefill]) || !has(all, is[*proto.Thinking]) {
		t.Error(names(all))
	}
	if got := kinds(r.records("chat-a")); got != "baseline user completion assistant turn" {
		t.Error(got)
	}
}

func TestToolCallGoesThroughTheBroker(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.CallTool("id1", "call_tool", callTool("read_file", `{"path":"/x"}`))
			return
		}
		s.Answer("read")
	})
	d, all := r.done(r.submit("chat-a", "o1", "read x"))
	if d.Answer != "read" {
		t.Errorf("%+v", d)
	}
	calls := r.broker.Calls()
	if len(calls) != 1 || calls[0].Tool != "read_file" || calls[0].Args != `{"path":"/x"}` || calls[0].ID != "chat-a/1/3/0" {
		t.Errorf("%+v", calls)
	}
	var shown *proto.ToolStarted
	for _, m := range all {
		if s, ok := m.(*proto.ToolStarted); ok {
			shown = s
		}
	}
	if shown == nil || shown.Tool != "read_file" {
		t.Errorf("%#v", shown)
	}
	if ids, err := r.broker.AwaitConfirm(t.Context(), 1); err != nil || ids[0] != "chat-a/1/3/0" {
		t.Error(ids, err)
	}
	r.grows(r.llm.Bodies())
	if !bytes.Contains(r.llm.Bodies()[1], []byte(`{"role":"tool","tool_call_id":"id1","content":"done"}`)) {
		t.Errorf("%s", r.llm.Bodies()[1])
	}
}

func TestNoBroker(t *testing.T) {
	r := newRig(t)
	r.broker.Socket += ".absent"
	r.start()
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		switch n {
		case 0:
			s.CallTool("id1", "call_tool", callTool("read_file", `{}`))
		case 1:
			s.CallTool("id2", "find_tool", `{"query":"files"}`)
		default:
			s.Answer("no tools")
		}
	})
	r.say("chat-a", "o1", "read x")
	last := r.llm.Bodies()[2]
	if n := bytes.Count(last, []byte("denied: no broker")); n != 2 {
		t.Errorf("%d denials in %s", n, last)
	}
}

func TestLocalToolsAndBadCalls(t *testing.T) {
	for _, tc := range []struct{ name, tool, args, want string }{
		{"clock", "clock", `{}`, "20"},
		{"unknown tool", "read_file", `{"path":"/x"}`, `unknown-tool:`},
		{"unknown argument", "clock", `{"zone":"x"}`, `invalid-arguments:`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t).start()
			r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
				if n == 0 {
					s.CallTool("id1", tc.tool, tc.args)
					return
				}
				s.Answer("ok")
			})
			r.say("chat-a", "o1", "go")
			_, text, err := prompt.ParseTool(toolMessage(t, r))
			if err != nil || !strings.Contains(text, tc.want) {
				t.Errorf("%q, want %q (%v)", text, tc.want, err)
			}
			if len(r.broker.Calls()) != 0 {
				t.Error("brokerd was asked")
			}
		})
	}
}

func toolMessage(t *testing.T, r *rig) []byte {
	t.Helper()
	for _, rec := range r.records("chat-a") {
		if tool, ok := rec.(*proto.Tool); ok {
			return tool.Message
		}
	}
	t.Fatal("no tool record")
	return nil
}

func TestApprovalIsShownAndLogged(t *testing.T) {
	r := newRig(t).start()
	r.broker.On(func(c *proto.Call, ask func(*proto.Asked)) *proto.CallResult {
		ask(&proto.Asked{Call: c.ID, Approval: "abc", Expires: "2026-11-30T12:00:00.000Z"})
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallDenied, Code: proto.CodeDeniedByOwner, Class: proto.ClassPublic, Text: "denied-by-owner: no."}
	})
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.CallTool("id1", "call_tool", callTool("write_file", `{}`))
			return
		}
		s.Answer("not allowed")
	})
	_, all := r.done(r.submit("chat-a", "o1", "write"))
	if !has(all, is[*proto.Asked]) || !has(all, func(m proto.Message) bool { w, ok := m.(*proto.Waiting); return ok && w.Reason == proto.WaitApproval }) {
		t.Error(names(all))
	}
	if got := kinds(r.records("chat-a")); !strings.Contains(got, "assistant asked tool") {
		t.Error(got)
	}
}

func TestSameOriginStartsOneTurn(t *testing.T) {
	r := newRig(t).start()
	first := r.say("chat-a", "o1", "hi")
	d, all := r.done(r.submit("chat-a", "o1", "something else"))
	if a := all[0].(*proto.Accepted); !a.Known {
		t.Errorf("%+v", a)
	}
	if d.Answer != first.Answer || d.Outcome != proto.TurnAnswered || len(r.llm.Bodies()) != 1 {
		t.Errorf("%+v after %d requests", d, len(r.llm.Bodies()))
	}
	r.kill()
	r.start() // also across a restart
	if d, _ := r.done(r.submit("chat-a", "o1", "hi")); d.Answer != first.Answer || len(r.llm.Bodies()) != 1 {
		t.Errorf("%+v after %d requests", d, len(r.llm.Bodies()))
	}
}

// TestQueue: messages during a turn wait in order, durably, each with its turn.
func TestQueue(t *testing.T) {
	r := newRig(t).start()
	gate := make(chan struct{})
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			<-gate
		}
		s.Answer(fmt.Sprint("answer ", n))
	})
	s1 := r.submit("chat-a", "o1", "one")
	s2 := r.submit("chat-a", "o2", "two")
	s3 := r.submit("chat-a", "o3", "three")
	for i, s := range []*Stream{s2, s3} {
		ev := r.until(s, is[*proto.Accepted])
		if a := ev[0].(*proto.Accepted); a.Queued != i+1 {
			t.Errorf("%+v", a)
		}
	}
	close(gate)
	for i, s := range []*Stream{s1, s2, s3} {
		d, all := r.done(s)
		if want := fmt.Sprint("answer ", i); d.Answer != want {
			t.Errorf("message %d got %q", i, d.Answer)
		}
		for _, m := range all {
			if x, ok := m.(*proto.Text); ok && x.Text != d.Answer {
				t.Errorf("message %d saw the text of another turn: %q", i, x.Text)
			}
		}
	}
	r.grows(r.llm.Bodies())
}

func TestQueueIsBounded(t *testing.T) {
	r := newRig(t)
	r.set.Limits.Queue = 2
	r.start()
	gate := make(chan struct{})
	defer close(gate)
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) { <-gate; s.Answer("x") })
	for i := range 3 {
		r.submit("chat-a", fmt.Sprint("o", i), "m")
	}
	if _, err := r.try("chat-a", "o9", "m"); code(err) != proto.ErrQueueFull {
		t.Error(err)
	}
}

func TestBadMessages(t *testing.T) {
	r := newRig(t).start()
	for _, tc := range []struct {
		name, text string
		want       proto.ErrCode
	}{
		{"empty", "", proto.ErrEmptyMessage},
		{"white space", " \n\t", proto.ErrEmptyMessage},
		{"too large", strings.Repeat("x", 1<<20), proto.ErrMessageLarge},
		{"not UTF-8", "a\xff", proto.ErrBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := r.try("chat-a", "o1", tc.text); code(err) != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
	if ok, err := r.store.Exists("chat-a"); ok || err != nil {
		t.Error("a refused message left a session behind", ok, err)
	}
}

func TestStopDuringGeneration(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.Role()
			s.Reasoning("I think")
			s.Text("half an")
			s.Hang()
			return
		}
		s.Answer("second")
	})
	s := r.submit("chat-a", "o1", "long one")
	r.until(s, is[*proto.Text])
	if ok, err := r.agent.Stop(t.Context(), "chat-a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	d, _ := r.done(s)
	if d.Outcome != proto.TurnStopped || d.Answer != "" {
		t.Errorf("%+v", d)
	}
	recs := r.records("chat-a")
	if got := kinds(recs); got != "baseline user stopped incomplete turn" {
		t.Error(got)
	}
	if inc := recs[3].(*proto.Incomplete); inc.Text != "half an" || inc.Thinking != "I think" || inc.Why != proto.WhyStopped {
		t.Errorf("%+v", inc)
	}
	r.say("chat-a", "o2", "next")
	r.grows(r.llm.Bodies())
	if ok, _ := r.agent.Stop(t.Context(), "chat-a"); ok {
		t.Error("stopped a session at rest")
	}
	if ok, _ := r.agent.Stop(t.Context(), "chat-nowhere"); ok {
		t.Error("stopped a session that is not there")
	}
}

func TestStopDuringACall(t *testing.T) {
	r := newRig(t).start()
	begun, gate := make(chan struct{}), make(chan struct{})
	defer close(gate)
	r.broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		close(begun)
		<-gate
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPublic}
	})
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n > 0 {
			s.Answer("after")
			return
		}
		s.Role()
		s.Call(0, "a", "call_tool", callTool("slow", `{}`))
		s.Call(1, "b", "clock", `{}`)
		s.Finish("tool_calls")
		s.Usage(0, 10, 5)
		s.Done()
	})
	s := r.submit("chat-a", "o1", "go")
	<-begun
	if ok, err := r.agent.Stop(t.Context(), "chat-a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if d, _ := r.done(s); d.Outcome != proto.TurnStopped {
		t.Errorf("%+v", d)
	}
	var texts []string
	for _, rec := range r.records("chat-a") {
		if tool, ok := rec.(*proto.Tool); ok {
			_, text, err := prompt.ParseTool(tool.Message)
			if err != nil || tool.Code != proto.CodeStopped || tool.Outcome != proto.CallDenied {
				t.Errorf("%+v, %v", tool, err)
			}
			texts = append(texts, text)
		}
	}
	want := []string{"stopped: the call was withdrawn before it ran.", "stopped: the owner stopped the turn; this call was not run."}
	if !slices.Equal(texts, want) { // the first is brokerd's word
		t.Errorf("%q", texts)
	}
	r.say("chat-a", "o2", "next") // every call has a result, so the next request is well formed
	r.grows(r.llm.Bodies())
}

func TestLateJoinerSeesTheWholeTurn(t *testing.T) {
	r := newRig(t).start()
	gate := make(chan struct{})
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		s.Role()
		s.Text("first ")
		<-gate
		s.Text("second")
		s.Finish("stop")
		s.Usage(0, 10, 2)
		s.Done()
	})
	s := r.submit("chat-a", "o1", "go")
	r.until(s, is[*proto.Text])
	s.Close() // the client goes away; the turn goes on
	again := r.submit("chat-a", "o1", "go")
	r.until(again, is[*proto.Text])
	close(gate)
	if d, _ := r.done(again); d.Answer != "first second" {
		t.Errorf("%+v", d)
	}
}

func TestSessionsShareASlotInTurn(t *testing.T) {
	r := newRig(t).start()
	gate := make(chan struct{})
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			<-gate
		}
		s.Answer("x")
	})
	s1 := r.submit("chat-a", "o1", "one")
	for len(r.llm.Bodies()) == 0 {
		if d := r.agent.cfg.Gate.States(); d[0].Session == "chat-a" {
			break
		}
	}
	s2 := r.submit("chat-b", "o1", "two")
	r.until(s2, func(m proto.Message) bool { w, ok := m.(*proto.Waiting); return ok && w.Reason == proto.WaitSlot })
	if d := r.say("job-x", "o1", "background"); d.Answer != "x" {
		t.Error(d)
	}
	close(gate)
	r.done(s1)
	r.done(s2)
}

func TestBrokenLogStopsEverything(t *testing.T) {
	r := newRig(t).start()
	r.say("chat-a", "o1", "hi")
	r.kill()
	whole, err := os.ReadFile(sessionFile(r, "chat-a", 1))
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(whole)
	bad[len(bad)/3] ^= 1
	if err := os.WriteFile(sessionFile(r, "chat-a", 1), bad, 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	_, err = r.try("chat-a", "o2", "more")
	if code(err) != proto.ErrSessionLog || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v", err)
	}
	if now, _ := os.ReadFile(sessionFile(r, "chat-a", 1)); !bytes.Equal(now, bad) {
		t.Error("the damaged log was touched")
	}
	r.say("chat-b", "o1", "others go on")
}
