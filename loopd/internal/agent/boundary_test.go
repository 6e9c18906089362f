package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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

// TestRestartAtEveryRecord: wherever the log of a rich session ends, every message
// in it gets exactly one turn, the call in front is looked up and no other is, no
// call is run twice, and what is sent continues what stands in the log.
func TestRestartAtEveryRecord(t *testing.T) {
	all := richSession(t)
	for k := 1; k <= len(all); k++ {
		c := cut{all: all, head: all[:k]}
		name := fmt.Sprintf("%d after %s", k, all[k-1].rec.Kind())
		t.Run(name, c.test)
		if k < len(all) && all[k].epoch == all[k-1].epoch {
			c.torn = true
			t.Run(name+" and half a line", c.test)
		}
	}
}

// A cut is a log that ends early.
type cut struct {
	all, head []place
	torn      bool // half of the next line stands behind it
}

func (c cut) write(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, "chat-a"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[int][]byte{}
	for _, p := range c.head {
		files[p.epoch] = append(files[p.epoch], p.line...)
	}
	if c.torn {
		p := c.all[len(c.head)]
		files[p.epoch] = append(files[p.epoch], p.line[:len(p.line)/2]...)
	}
	for epoch, data := range files {
		name := filepath.Join(dir, "chat-a", fmt.Sprintf("%04d.jsonl", epoch))
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// front is the call that may have been sent: the first of the last message that
// has no result, if a call of its kind goes to brokerd and was not refused. A
// stopped turn waits for nothing, so there it is not looked up.
func (c cut) front(t *testing.T) (front string, stopped bool) {
	t.Helper()
	done := map[string]bool{}
	for i := len(c.head) - 1; i >= 0; i-- {
		switch r := c.head[i].rec.(type) {
		case *proto.Tool:
			done[r.Call] = true
		case *proto.StopAsked:
			stopped = true
		case *proto.TurnEnd:
			return "", false
		case *proto.Assistant:
			m, err := prompt.ParseAssistant(r.Message)
			if err != nil {
				t.Fatal(err)
			}
			for k, call := range m.Calls {
				id := proto.CallID{Session: "chat-a", Epoch: c.head[i].epoch, Record: int64(c.number(i)), Index: k}.String()
				if done[id] {
					continue
				}
				for _, p := range c.all {
					if tool, ok := p.rec.(*proto.Tool); ok && tool.Call == id && call.Name == "call_tool" && (tool.Code == "" || tool.Code == proto.CodeUnknownFate) {
						return id, stopped
					}
				}
				return "", false
			}
			return "", false
		}
	}
	return "", false
}

// number gives the place of a record in its file.
func (c cut) number(i int) int {
	n := 0
	for n < i && c.all[i-n-1].epoch == c.all[i].epoch {
		n++
	}
	return n
}

// sent is the request that the log stands for.
func (c cut) sent(t *testing.T) []byte {
	t.Helper()
	var p *prompt.Prompt
	for _, at := range c.head {
		if b, ok := at.rec.(*proto.Baseline); ok {
			var err error
			if p, err = prompt.New(b); err != nil {
				t.Fatal(err)
			}
		}
		if m := proto.MessageOf(at.rec); m != nil {
			if err := p.Append(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p.Body()
}

func (c cut) test(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c.write(t, r.dir)
	r.llm.On(richModel(false))
	r.broker.On(richBroker)
	front, stopped := c.front(t)
	kept := len(c.head)%2 == 0 && !stopped
	if front != "" && kept {
		r.broker.Keep(&proto.CallResult{ID: front, Outcome: proto.CallOK, Class: proto.ClassPrivate, Text: "ran before"})
	}
	r.boot()
	want := map[string]bool{"last": true}
	for _, p := range c.head {
		switch rec := p.rec.(type) {
		case *proto.User:
			want[rec.Origin] = true
		case *proto.Queued:
			want[rec.Origin] = true
		}
	}
	c.checkUnfinished(t, r, want)
	r.ready()
	for origin := range want {
		if origin != "last" {
			r.done(r.submit("chat-a", origin, "the same again"))
		}
	}
	r.say("chat-a", "last", "one more")
	c.checkTurns(t, r, want)
	c.checkCalls(t, r, front, kept, stopped)
	c.checkRequests(t, r)
	r.kill()
	r.start() // what it left behind can be opened again
	r.say("chat-a", "more", "and on")
}

// checkUnfinished: a session with a message that has no end goes on by itself.
func (c cut) checkUnfinished(t *testing.T, r *rig, want map[string]bool) {
	t.Helper()
	ended := 1 // the message that is still to come
	for _, p := range c.head {
		if _, ok := p.rec.(*proto.TurnEnd); ok {
			ended++
		}
	}
	ids, err := r.store.Unfinished()
	if err != nil || (len(ids) > 0) != (ended < len(want)) {
		t.Errorf("%d of %d messages have an end, and to go on are %v (%v)", ended, len(want), ids, err)
	}
}

func (c cut) checkTurns(t *testing.T, r *rig, want map[string]bool) {
	t.Helper()
	starts, ends := map[string]int{}, map[string]int{}
	for _, rec := range r.records("chat-a") {
		switch rec := rec.(type) {
		case *proto.User:
			starts[rec.Origin]++
		case *proto.TurnEnd:
			ends[rec.Origin]++
		}
	}
	for origin := range want {
		if starts[origin] != 1 || ends[origin] != 1 {
			t.Errorf("message %s started %d times and ended %d times", origin, starts[origin], ends[origin])
		}
	}
	if len(starts) != len(want) || len(ends) != len(want) {
		t.Errorf("%d messages, %v and %v", len(want), starts, ends)
	}
}

func (c cut) checkCalls(t *testing.T, r *rig, front string, kept, stopped bool) {
	t.Helper()
	fates := r.broker.Fates()
	if wait := front != "" && !stopped; !wait && len(fates) > 0 || wait && (len(fates) != 1 || fates[0] != front) {
		t.Errorf("looked up %v, want %q", fates, front)
	}
	ran := map[string]bool{front: true}
	known := map[string]bool{} // calls that were unknown before
	for _, p := range c.head {
		if tool, ok := p.rec.(*proto.Tool); ok {
			ran[tool.Call] = true
			known[tool.Call] = tool.Code == proto.CodeUnknownFate
		}
	}
	for _, call := range r.broker.Calls() {
		if ran[call.ID] {
			t.Errorf("call %s was run again", call.ID)
		}
		ran[call.ID] = true
	}
	results := map[string]string{}
	for _, rec := range r.records("chat-a") {
		if tool, ok := rec.(*proto.Tool); ok {
			if _, twice := results[tool.Call]; twice {
				t.Errorf("call %s has two results", tool.Call)
			}
			_, results[tool.Call], _ = prompt.ParseTool(tool.Message)
			if unknown := tool.Code == proto.CodeUnknownFate; unknown != (known[tool.Call] || tool.Call == front && !kept) {
				t.Errorf("call %s: %s", tool.Call, tool.Code)
			}
		}
	}
	if front != "" && kept && results[front] != "ran before" {
		t.Errorf("the model reads %q of the call in front", results[front])
	}
}

func (c cut) checkRequests(t *testing.T, r *rig) {
	t.Helper()
	byEpoch := map[string][][]byte{}
	for _, body := range append([][]byte{c.sent(t)}, r.llm.Bodies()...) {
		var key []byte
		if i := bytes.Index(body, []byte(carried)); i >= 0 {
			key, _, _ = bytes.Cut(body[i:], []byte(`"}`))
		}
		byEpoch[string(key)] = append(byEpoch[string(key)], body)
	}
	for _, bodies := range byEpoch {
		r.grows(bodies)
	}
}
