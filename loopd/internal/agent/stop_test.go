package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// TestStopBeforeTheSelfTest: a turn that a restart cut off can be stopped before
// the server is there, and does not go on then.
func TestStopBeforeTheSelfTest(t *testing.T) {
	r := newRig(t).start()
	r.say("chat-b", "o1", "hi")
	r.llm.On(func(_ int, _ []byte, s *testkit.Stream) { s.Role(); s.Text("on"); s.Hang() })
	r.until(r.submit("chat-a", "o1", "go"), is[*proto.Text])
	r.kill()
	r.boot()
	for range 2 {
		if running, err := r.agent.Stop(t.Context(), "chat-a"); !running || err != nil {
			t.Fatal(running, err)
		}
	}
	for _, id := range []string{"chat-b", "chat-none"} {
		if running, err := r.agent.Stop(t.Context(), id); running || err != nil {
			t.Errorf("%s: %v, %v", id, running, err)
		}
	}
	r.ready()
	if d, _ := r.done(r.submit("chat-a", "o1", "go")); d.Outcome != proto.TurnStopped {
		t.Errorf("%+v", d)
	}
	if n := len(r.llm.Bodies()); n != 2 {
		t.Errorf("%d requests", n)
	}
	if got := kinds(r.records("chat-a")); got != "baseline user stopped turn" {
		t.Error(got)
	}
}

// TestARetryWaitsForTheServer: it is seen to be there before it is sent the same
// request again, and the owner may stop the turn in the meantime.
func TestARetryWaitsForTheServer(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 || n == 2 {
			s.Role()
			s.Text("ha")
			s.Cut()
		}
		s.Answer("ok")
	})
	r.say("chat-a", "o1", "go")
	want := []string{"POST /v1/chat/completions", "GET /health", "POST /v1/chat/completions"}
	if got := r.llm.Paths(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	r.agent.cfg.RetryPause = 1000 * time.Hour
	s := r.submit("chat-a", "o2", "go")
	r.until(s, notice(proto.NoticeRetry))
	if running, err := r.agent.Stop(t.Context(), "chat-a"); !running || err != nil {
		t.Error(running, err)
	}
	if d, _ := r.done(s); d.Outcome != proto.TurnStopped || len(r.llm.Bodies()) != 3 {
		t.Errorf("%+v after %d requests", d, len(r.llm.Bodies()))
	}
}

// TestStopInLine: a turn that waits for its slot is stopped, and whoever holds the
// slot does not notice.
func TestStopInLine(t *testing.T) {
	r := newRig(t).start()
	gate := make(chan struct{})
	r.llm.On(func(_ int, _ []byte, s *testkit.Stream) {
		s.Role()
		s.Text("x")
		<-gate
		s.Finish("stop")
		s.TrueUsage()
		s.Done()
	})
	first := r.submit("chat-a", "o1", "go")
	r.until(first, is[*proto.Text])
	second := r.submit("chat-b", "o1", "go")
	r.until(second, is[*proto.Waiting])
	if running, err := r.agent.Stop(t.Context(), "chat-b"); !running || err != nil {
		t.Error(running, err)
	}
	if d, _ := r.done(second); d.Outcome != proto.TurnStopped {
		t.Errorf("%+v", d)
	}
	close(gate)
	if d, _ := r.done(first); d.Outcome != proto.TurnAnswered || len(r.llm.Bodies()) != 1 {
		t.Errorf("%+v", d)
	}
}

// TestStopWhileTheOwnerIsAsked: brokerd withdraws the call and says so, which the log
// and the model then have.
func TestStopWhileTheOwnerIsAsked(t *testing.T) {
	r := newRig(t).start()
	gate := make(chan struct{})
	defer close(gate)
	r.broker.On(func(c *proto.Call, ask func(*proto.Asked)) *proto.CallResult {
		ask(&proto.Asked{Call: c.ID, Approval: "abc", Expires: "2026-11-30T12:00:00.000Z"})
		<-gate
		return nil
	})
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.CallTool("id", "call_tool", callTool("write_file", `{}`))
			return
		}
		s.Answer("ok")
	})
	s := r.submit("chat-a", "o1", "go")
	r.until(s, is[*proto.Asked])
	if running, err := r.agent.Stop(t.Context(), "chat-a"); !running || err != nil {
		t.Error(running, err)
	}
	if d, _ := r.done(s); d.Outcome != proto.TurnStopped {
		t.Errorf("%+v", d)
	}
	if got := kinds(r.records("chat-a")); got != "baseline user completion assistant asked stopped tool turn" {
		t.Error(got)
	}
	r.settledOnce("chat-a/1/3/0")
	for _, rec := range r.records("chat-a") {
		if tool, ok := rec.(*proto.Tool); ok && (tool.Outcome != proto.CallDenied || tool.Code != proto.CodeStopped) {
			t.Errorf("%+v", tool)
		}
	}
	r.say("chat-a", "o2", "and on")
	r.grows(r.llm.Bodies())
}

// TestStopBeforeTheFirstToken: there is nothing to keep, so nothing is kept.
func TestStopBeforeTheFirstToken(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(_ int, _ []byte, s *testkit.Stream) { s.Progress(100, 0, 10, 5); s.Hang() })
	s := r.submit("chat-a", "o1", "go")
	r.until(s, is[*proto.Prefill])
	if running, err := r.agent.Stop(t.Context(), "chat-a"); !running || err != nil {
		t.Error(running, err)
	}
	r.done(s)
	if got := kinds(r.records("chat-a")); got != "baseline user stopped turn" {
		t.Error(got)
	}
}

// settledOnce: brokerd was told to end that call, and then that it may forget it.
func (r *rig) settledOnce(id string) {
	r.t.Helper()
	if got, err := r.broker.AwaitConfirm(r.t.Context(), 1); err != nil || !slices.Equal(got, []string{id}) {
		r.t.Errorf("confirmed %q, %v", got, err)
	}
	if got, err := r.broker.AwaitCancel(r.t.Context(), 1); err != nil || !slices.Equal(got, []string{id}) {
		r.t.Errorf("cancelled %q, %v", got, err)
	}
}

// TestAStopThatARestartFollows: the call in front may have been sent, so brokerd is
// told to end it, though loopd that sent it is gone, and the log has what it says.
func TestAStopThatARestartFollows(t *testing.T) {
	for _, tc := range []struct {
		name    string
		kept    *proto.CallResult // what brokerd has; nil: it withdraws the call
		outcome proto.CallOutcome
		code    proto.Code
	}{
		{"withdrawn", nil, proto.CallDenied, proto.CodeStopped},
		{"had ended", &proto.CallResult{ID: "chat-a/1/3/0", Outcome: proto.CallOK, Class: proto.ClassPrivate, Text: "done"}, proto.CallOK, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t).start()
			gate := make(chan struct{})
			defer close(gate)
			r.broker.On(func(c *proto.Call, ask func(*proto.Asked)) *proto.CallResult {
				ask(&proto.Asked{Call: c.ID, Approval: "abc", Expires: "2026-11-30T12:00:00.000Z"})
				<-gate
				return nil
			})
			r.llm.On(func(_ int, _ []byte, s *testkit.Stream) { s.CallTool("id", "call_tool", callTool("write_file", `{}`)) })
			r.until(r.submit("chat-a", "o1", "go"), is[*proto.Asked])
			r.kill()
			if tc.kept != nil {
				r.broker.Keep(tc.kept)
			}
			r.boot()
			if running, err := r.agent.Stop(t.Context(), "chat-a"); !running || err != nil {
				t.Fatal(running, err)
			}
			r.ready()
			if d, _ := r.done(r.submit("chat-a", "o1", "go")); d.Outcome != proto.TurnStopped {
				t.Errorf("%+v", d)
			}
			r.settledOnce("chat-a/1/3/0")
			for _, rec := range r.records("chat-a") {
				if tool, ok := rec.(*proto.Tool); ok && (tool.Outcome != tc.outcome || tool.Code != tc.code) {
					t.Errorf("%+v", tool)
				}
			}
		})
	}
}

// TestOnlyAStopEndsACall: a call that ended by itself is only confirmed.
func TestOnlyAStopEndsACall(t *testing.T) {
	r := newRig(t).start()
	head := proto.AuditHead{N: 12, Hash: strings.Repeat("ab", 32)}
	r.broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPublic, Text: "ok", Head: head}
	})
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.CallTool("id", "call_tool", callTool("read_file", `{}`))
			return
		}
		s.Answer("ok")
	})
	r.say("chat-a", "o1", "go")
	if got, err := r.broker.AwaitConfirm(t.Context(), 1); err != nil {
		t.Error(got, err)
	}
	if got, err := r.broker.AwaitCancel(t.Context(), 0); len(got) != 0 || err != nil {
		t.Error(got, err)
	}
	// The head of the audit log is kept with the result: an anchor that brokerd can't change.
	for _, rec := range r.records("chat-a") {
		if tool, ok := rec.(*proto.Tool); ok && tool.Head != head {
			t.Errorf("%+v", tool)
		}
	}
}
