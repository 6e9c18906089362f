package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// TestOneSessionThatCannotGoOn: what makes no sense in a log ends that session and
// tells its clients; it is no reason to end all of them.
func TestOneSessionThatCannotGoOn(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.CallTool("id", "call_tool", callTool("t", "{}"))
			return
		}
		s.Answer("ok")
	})
	r.broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		r.agent.put("chat-a", finished{records: []proto.Record{&proto.Completion{}}}) // no completion can follow a call
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPublic}
	})
	all := r.until(r.submit("chat-a", "o1", "go"), proto.Terminal)
	if e, ok := all[len(all)-1].(*proto.Error); !ok || e.Runbook == "" {
		t.Errorf("%#v", all[len(all)-1])
	}
	r.say("chat-b", "o1", "others go on")
	r.say("chat-a", "o1", "and this one too, once it is opened anew: nothing of it was written")
	r.kill()
	r.start()
	r.say("chat-a", "o2", "and on")
}

// TestALogThatIsTakenAway: who writes hears it, others do not notice, and the next
// message starts the session anew.
func TestALogThatIsTakenAway(t *testing.T) {
	r := newRig(t).start()
	r.say("chat-a", "o1", "hi")
	if err := os.RemoveAll(filepath.Join(r.dir, "chat-a")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.try("chat-a", "o2", "hi"); code(err) != proto.ErrSessionLog {
		t.Errorf("%v", err)
	}
	r.say("chat-b", "o1", "others go on")
	r.say("chat-a", "o2", "hi")
}

// TestLettersBehindOneThatFails: whoever else wrote at that moment gets an answer.
func TestLettersBehindOneThatFails(t *testing.T) {
	r := newRig(t).start()
	r.say("chat-a", "o1", "hi")
	r.kill()
	r.start()
	c := newConversation(r.agent, "chat-a")
	joins, stops := make(chan joined, 1), make(chan bool, 1)
	for _, m := range []any{finished{records: []proto.Record{&proto.Completion{}}}, follow{joins}, stop{stops}} {
		c.put(m)
	}
	r.agent.open["chat-a"] = c
	gone := make(chan struct{})
	r.agent.wg.Go(func() { defer close(gone); c.run(r.agent.ctx) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if j, err := await(ctx, r.agent, joins); err != nil || j.err == nil {
		t.Error(j, err)
	}
	if running, err := await(ctx, r.agent, stops); err != nil || running {
		t.Error(running, err)
	}
	<-gone // a message that came before would hear of it too
	r.say("chat-a", "o2", "and on")
}

// TestTheEndOfLoopdIsNoStop: what a request that is dropped at the end of the process
// leaves is no outcome of the turn, or it would not go on.
func TestTheEndOfLoopdIsNoStop(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(_ int, _ []byte, s *testkit.Stream) { s.Role(); s.Text("half"); s.Hang() })
	r.until(r.submit("chat-a", "o1", "go"), is[*proto.Text])
	r.kill()
	r.boot()
	c := newConversation(r.agent, "chat-a")
	if err := c.openLog(); err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.handle(ended, finished{records: []proto.Record{&proto.Incomplete{Why: proto.WhyStopped, Text: "half"}}}); err != nil {
		t.Fatal(err)
	}
	if got := kinds(r.records("chat-a")); got != "baseline user" {
		t.Error(got)
	}
}

// put posts any letter.
func (a *Agent) put(id string, m any) { a.post(id, m) }
