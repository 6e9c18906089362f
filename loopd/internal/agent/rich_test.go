package agent

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
	"boxmaker/loopd/internal/prompt"
)

// The rich session: what its messages make the model do.
const (
	twoCalls  = "two calls"            // a call that waits for the owner, then one of loopd's own
	repeats   = "repeats"              // the same call three times in one message, then another
	slowCall  = "slow call"            // a call that never ends, until the turn is stopped, and another
	runaway   = "runaway"              // the same call for ever
	hangs     = "hangs"                // an answer that never ends, until it is stopped
	cuts      = "cuts"                 // a stream that breaks once
	overflows = "overflows"            // a prompt that does not fit the window
	carried   = "fresh context window" // stands in every request of a later epoch
)

// richModel answers by what it is sent, never by how often it was asked, so that a
// session that goes on after a restart gets the answers it would have got.
func richModel(hang bool) func(int, []byte, *testkit.Stream) {
	var mu sync.Mutex
	seen := map[string]int{}
	return func(_ int, body []byte, s *testkit.Stream) {
		mu.Lock()
		seen[string(body)]++
		times := seen[string(body)]
		mu.Unlock()
		asked, after := "", 0
		for _, m := range s.Request.Messages {
			if text, err := prompt.ParseUser(m); err == nil {
				asked, after = text, -1
			}
			after++
		}
		poke := func(i int) { s.Call(i, fmt.Sprint("id", i), "call_tool", callTool("poke", `{}`)) }
		switch {
		case asked == twoCalls && after == 0:
			s.Role()
			s.Text("I look.")
			s.Call(0, "a", "call_tool", callTool("ask_first", `{"path":"/x"}`))
			s.Call(1, "b", "clock", `{}`)
		case asked == twoCalls && after == 3:
			s.Role()
			s.Call(0, "c", "find_tool", `{"query":"x"}`)
		case asked == repeats && after == 0:
			s.Role()
			poke(0)
			poke(1)
			poke(2)
			s.Call(3, "d", "call_tool", callTool("last", `{}`))
		case asked == slowCall && after == 0:
			s.Role()
			s.Call(0, "e", "call_tool", callTool("slow", `{}`))
			s.Call(1, "f", "call_tool", callTool("last", `{}`))
		case asked == runaway:
			s.Role()
			poke(0)
		case asked == hangs && hang:
			s.Role()
			s.Text("on and on")
			s.Hang()
			return
		case asked == cuts && times == 1:
			s.Role()
			s.Text("hal")
			s.Cut()
			return
		case asked == overflows:
			s.Overflow(40000, 32768)
			return
		default:
			s.Answer("answer to " + asked)
			return
		}
		s.Finish("tool_calls")
		s.TrueUsage()
		s.Done()
	}
}

func richBroker(c *proto.Call, ask func(*proto.Asked)) *proto.CallResult {
	if c.Tool == "ask_first" {
		ask(&proto.Asked{Call: c.ID, Approval: "abc", Expires: "2026-11-30T12:00:00.000Z"})
	}
	return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPrivate, Text: "ran " + c.ID}
}

// A place is one record of the session and its line on disk.
type place struct {
	epoch int
	line  []byte
	rec   proto.Record
}

// richSession runs the session to its end and gives its records.
func richSession(t *testing.T) (all []place) {
	r := newRig(t)
	r.llm.On(richModel(true))
	begun, gate := make(chan struct{}), make(chan struct{})
	defer close(gate)
	r.broker.On(func(c *proto.Call, ask func(*proto.Asked)) *proto.CallResult {
		if c.Tool == "slow" {
			close(begun)
			<-gate
			return nil
		}
		return richBroker(c, ask)
	})
	r.start()
	slow := r.submit("chat-a", "slow", slowCall)
	<-begun
	if ok, err := r.agent.Stop(t.Context(), "chat-a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r.done(slow)
	for i, text := range []string{twoCalls, repeats, runaway} {
		r.done(r.submit("chat-a", fmt.Sprint("o", i), text))
	}
	first := r.submit("chat-a", "o3", hangs)
	r.until(first, is[*proto.Text])
	for _, key := range []string{"k0", "k0"} { // in the middle of a turn, and again
		if err := r.agent.Delivered(t.Context(), "chat-a", key); err != nil {
			t.Fatal(err)
		}
	}
	var queue []*Stream
	for i, text := range []string{cuts, overflows, "fresh", overflows, "again"} {
		queue = append(queue, r.submit("chat-a", fmt.Sprint("o", 4+i), text))
	}
	if ok, err := r.agent.Stop(t.Context(), "chat-a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, s := range append(queue, first) {
		r.done(s)
	}
	if err := r.agent.Delivered(t.Context(), "chat-a", "k8"); err != nil {
		t.Fatal(err)
	}
	r.kill()
	lines := map[int][][]byte{}
	kinds := map[string]bool{}
	err := r.store.Read("chat-a", func(epoch int, h proto.Header, rec proto.Record) error {
		if lines[epoch] == nil {
			raw, err := os.ReadFile(sessionFile(r, "chat-a", epoch))
			if err != nil {
				return err
			}
			lines[epoch] = slices.Collect(bytes.Lines(raw))
		}
		kinds[rec.Kind()] = true
		all = append(all, place{epoch, lines[epoch][h.N], rec})
		return nil
	})
	if err != nil || len(lines) != 3 || len(kinds) != len(proto.RecordKinds())-1 { // none was recovered
		t.Fatal(err, len(lines), kinds)
	}
	return all
}
