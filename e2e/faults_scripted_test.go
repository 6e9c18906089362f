package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// scripted is a new installation whose server is a fake on a Unix socket, behind
// the real inferproxy. It is not started yet.
func scripted(t *testing.T) (*stack.Stack, *testkit.Llama) {
	t.Helper()
	llama := testkit.NewLlama(t)
	// As root, inferproxy comes with a uid of its own.
	for path, mode := range map[string]os.FileMode{filepath.Dir(llama.Socket): 0o711, llama.Socket: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	s := stack.New(t)
	s.Must("", "init", "--upstream", "unix:"+llama.Socket)
	return s, llama
}

// onMain is a script for the live sessions' slot; the self-test gets its default.
// n counts the requests of that slot, from 0.
func onMain(llama *testkit.Llama, script func(n int, body []byte, s *testkit.Stream)) {
	var mu sync.Mutex // guards n, and what the script keeps for itself
	n := 0
	llama.On(func(_ int, body []byte, s *testkit.Stream) {
		if s.Request.Slot != 0 {
			s.Default()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		script(n-1, body, s)
	})
}

// Silence before the first byte, pings, progress and thinking each last longer
// than the limit of silence inside an answer, and the whole lasts five times as
// long. All of it is life.
func TestCase_P14_P15_P16_P17_ASlowServerIsAlive(t *testing.T) {
	t.Parallel()
	s, llama := scripted(t)
	s.Set("loopd.toml", "upstream", "idle", "1s")
	onMain(llama, func(_ int, _ []byte, a *testkit.Stream) {
		long := func(do func(i int)) {
			for i := range 6 {
				select {
				case <-time.After(210 * time.Millisecond): // the subject of the test
				case <-a.Gone():
					return
				}
				do(i)
			}
		}
		long(func(int) {})
		a.Head()
		long(func(int) { a.Ping() })
		long(func(i int) { a.Progress(600, 0, 100*(i+1), 210*(i+1)) })
		a.Role()
		long(func(i int) { a.Reasoning(fmt.Sprint(i)) })
		long(func(i int) { a.Text(fmt.Sprint(i)) })
		a.Finish("stop")
		a.TrueUsage()
		a.Done()
	})
	s.Up()
	ev, done, _ := askEvents(t, s, "chat-slow", "Take your time.")
	if done.Answer != "012345" {
		t.Errorf("answer %q", done.Answer)
	}
	ev.wantNotices(t)
	progress := 0
	for _, m := range ev {
		if p, ok := m.(*proto.Prefill); ok && p.Total == 600 {
			progress++
		}
	}
	if progress != 6 {
		t.Errorf("%d progress events were shown", progress)
	}
	if n := len(mainBodies(llama)); n != 1 {
		t.Errorf("%d requests: a slow one was sent again", n)
	}
	s.Down()
}

// mainBodies are the requests of the live sessions.
func mainBodies(llama *testkit.Llama) [][]byte {
	var out [][]byte
	for _, b := range llama.Bodies() {
		if !bytes.Contains(b, []byte(`"id_slot":1,`)) {
			out = append(out, b)
		}
	}
	return out
}

// What newer servers may add is passed over; what they must not say twice is not.
func TestFault_Server_UnknownFields(t *testing.T) {
	s, llama := scripted(t)
	onMain(llama, func(n int, _ []byte, a *testkit.Stream) {
		if n == 1 {
			a.Data(`{"id":"x","choices":[],"choices":[]}`)
			return
		}
		a.Data(`{"id":"x","new":{"a":[1,null]},"choices":[{"index":0,"finish_reason":null,"logprobs":null,"delta":{"role":"assistant","content":null,"refusal":null}}]}`)
		a.Data(`{"choices":[{"index":0,"delta":{"content":"understood","annotations":[{}]},"finish_reason":null}],"service_tier":"x","prompt_progress":null}`)
		a.Finish("stop")
		a.TrueUsage()
		a.Done()
	})
	s.Up()
	if got := answered(t, s, "chat-new", "Hello."); got != "understood" {
		t.Errorf("answer %q", got)
	}
	view{exitUnanswered, "server-bad-data", []string{"does not decode"}}.check(t, ask(s, "chat-new", "Once more."))
	if got := answered(t, s, "chat-new", "And now?"); got != "understood" {
		t.Errorf("answer of the turn after: %q", got)
	}
	wantGrowth(t, settled(t, s), llama.Bodies())
	s.Down()
}

// Thinking, content and arguments come back to the server byte for byte, whatever
// they are made of.
func TestCase_P01_P09_AnswersAreReplayedByteForByte(t *testing.T) {
	s, llama := scripted(t)
	odd := "é\u00a0\u2028\u2029\t\"quoted\" \\ / \U0001f600 <b>&amp; \u0000 end "
	args := `{ "zone" :"Europe/Berlin" }`
	onMain(llama, func(n int, _ []byte, a *testkit.Stream) {
		switch n {
		case 0:
			a.Role()
			a.Reasoning("thought " + odd)
			a.Text("said " + odd)
			a.Call(0, "call-1", "clock", args)
			a.Finish("tool_calls")
			a.TrueUsage()
			a.Done()
		default:
			a.Think("again "+odd, "done "+odd)
		}
	})
	s.Up()
	answered(t, s, "chat-odd", "What time is it?")
	answered(t, s, "chat-odd", "Thank you.")
	bodies := mainBodies(llama)
	if len(bodies) != 3 {
		t.Fatalf("%d requests", len(bodies))
	}
	quoted := func(s string) []byte {
		r := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`, "\x00", `\u0000`)
		return []byte(`"` + r.Replace(s) + `"`)
	}
	last := bodies[2]
	for name, want := range map[string][]byte{
		"thinking": append([]byte(`"reasoning_content":`), quoted("thought "+odd)...), "content": append([]byte(`"content":`), quoted("said "+odd)...),
		"arguments": append([]byte(`"arguments":`), quoted(args)...), "thinking of the answer": append([]byte(`"reasoning_content":`), quoted("again "+odd)...),
	} {
		if !bytes.Contains(last, want) {
			t.Errorf("the last request has not the %s %s:\n%s", name, want, last[bytes.Index(last, []byte(`"messages"`)):])
		}
	}
	wantGrowth(t, settled(t, s), bodies)
	s.Down()
}

// A model that calls for ever is stopped, soon and with words; the session goes on.
func TestCase_P23_RunawayCalls(t *testing.T) {
	s, llama := scripted(t)
	s.Set("loopd.toml", "limits", "tool_rounds", 8)
	calls := func(n int) (id, args string) { return fmt.Sprintf("call-%d", n), `{"zone":"UTC"}` }
	onMain(llama, func(n int, body []byte, a *testkit.Stream) {
		id, args := calls(n)
		switch {
		case bytes.HasSuffix(body, []byte(`"content":"stop it"}]}`)):
			a.Answer("I stopped.")
		case bytes.Contains(body, []byte("always another")):
			a.CallTool(id, "clock", fmt.Sprintf(`{"zone":"Etc/GMT+%d"}`, n%12))
		case n%2 == 1:
			a.CallTool(id, "clock", ` { "zone" : "UTC" } `) // the same in other bytes
		default:
			a.CallTool(id, "clock", args)
		}
	})
	s.Up()
	for _, c := range []struct {
		session, text string
		most          int // requests
		says          string
	}{
		{"chat-same", "the same for ever", 4, "the same calls came again and again"},
		{"chat-other", "always another", 9, "8 rounds"},
	} {
		before := len(mainBodies(llama))
		ev, done, r := askEvents(t, s, c.session, c.text)
		view{exitUnanswered, "runaway-stopped", []string{c.says}}.check(t, r)
		if n := len(mainBodies(llama)) - before; n > c.most || done.Outcome != proto.TurnCapped {
			t.Errorf("%s: %d requests, at most %d wanted; outcome %s", c.session, n, c.most, done.Outcome)
		}
		if len(ev.notices()) > 2 {
			t.Errorf("notices %v", ev.notices())
		}
		if got := answered(t, s, c.session, "stop it"); got != "I stopped." {
			t.Errorf("%s: turn after: %q", c.session, got)
		}
	}
	wantGrowth(t, settled(t, s), llama.Bodies())
	s.Down()
}

// The server's own limit is read from the error's fields; the next message starts
// a new epoch with what the server has now.
func TestCase_P28_OverflowStartsAnEpoch(t *testing.T) {
	t.Parallel()
	s, llama := scripted(t)
	onMain(llama, func(n int, _ []byte, a *testkit.Stream) {
		if n == 1 {
			a.Overflow(40000, 32768)
			return
		}
		a.Answer(fmt.Sprintf("answer %d", n))
	})
	s.Up()
	answered(t, s, "chat-full", "This is chat-full.")
	view{exitUnanswered, "context-full", []string{"the context is full", "fresh window"}}.check(t, ask(s, "chat-full", "Too much."))
	ev, done, _ := askEvents(t, s, "chat-full", "Go on.")
	if done.Answer != "answer 2" {
		t.Errorf("answer %q", done.Answer)
	}
	ev.wantNotices(t, proto.NoticeNewEpoch)
	all := settled(t, s)
	if n := len(records[*proto.User](epoch(t, all, "chat-full", 1))); n != 2 {
		t.Errorf("the old log has %d messages of the owner", n)
	}
	second := epoch(t, all, "chat-full", 2)
	if b := second.Lines[0].Record.(*proto.Baseline); len(b.Carry) == 0 || !bytes.Contains(b.Carry[0], []byte("Too much.")) {
		t.Errorf("the new epoch does not know what was asked last: %s", b.Carry)
	}
	wantGrowth(t, all, llama.Bodies())
	if err := stack.Extends(mainBodies(llama)[1], mainBodies(llama)[2]); err == nil {
		t.Error("the request of the new epoch extends the old one")
	}
	s.Down()
}

// Text that a server calls an error is shown without what could steer a terminal.
func TestFault_Server_ErrorTextIsCleaned(t *testing.T) {
	s, llama := scripted(t)
	onMain(llama, func(_ int, _ []byte, a *testkit.Stream) {
		a.Fail(http.StatusBadRequest, "application/json", `{"error":{"code":400,"type":"invalid_request_error","message":"no \u001b[31mway\u202e\r\n\u0007"}}`)
	})
	s.Up()
	r := ask(s, "chat-rude", "Hello.")
	view{exitUnanswered, "server-error", []string{"no [31mway"}}.check(t, r)
	if strings.ContainsAny(r.Stderr, "\x1b\a\r\u202e") {
		t.Errorf("shown: %q", r.Stderr)
	}
	s.Down()
}
