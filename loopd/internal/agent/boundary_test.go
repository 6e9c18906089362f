package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"
)

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
					if tool, ok := p.rec.(*proto.Tool); ok && tool.Call == id && call.Name == "call_tool" && (tool.Code == "" || bytes.Contains(tool.Message, []byte("was withdrawn"))) {
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
	kept := len(c.head)%2 == 0
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
			if unknown := tool.Code == proto.CodeUnknownFate; unknown != (known[tool.Call] || tool.Call == front && !kept && !stopped) {
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
