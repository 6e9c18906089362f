package e2e

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// A server that does not fit is refused before the first turn: `bxctl up` prints
// which check failed, with its section of the runbook, and stops everything.
func TestFault_Start_ServerThatDoesNotFit(t *testing.T) {
	t.Parallel()
	s, llama := scripted(t)
	quick(s)
	good := read(t, s.Layout.Config+"/loopd.toml")
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>It works!</html>"))
	}
	login := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}`))
	}
	set := func(section, key string, v any) func() { return func() { s.Set("loopd.toml", section, key, v) } }
	for _, c := range []struct {
		name, key string
		says      []string
		spoil     func()
		mend      func()
	}{
		{"HTML", "selftest-server", []string{"text/html"}, func() { llama.Handle("/health", page) }, func() { llama.Handle("/health", nil) }},
		{"login", "selftest-server", []string{"Invalid API Key", "without --api-key"}, func() { llama.Handle("/v1/models", login) }, func() { llama.Handle("/v1/models", nil) }},
		{"other model", "selftest-model", []string{`model "qwen"`, `"test-model"`}, set("upstream", "model", "qwen"), nil},
		{"fewer slots", "selftest-slots", []string{"at least 2 slots", "found 1"}, func() { llama.SetSlots(1) }, func() { llama.SetSlots(3) }},
		{"fewer slots than expected", "selftest-slots", []string{"at least 4 slots", "found 3"}, set("expect", "slots", 4), nil},
		{"smaller n_ctx", "selftest-context", []string{"found 4096", "-c "}, func() { llama.SetContext(4096) }, func() { llama.SetContext(32768) }},
		{"smaller n_ctx than expected", "selftest-context", []string{"65536", "found 32768"}, set("expect", "context", 65536), nil},
		{"other template", "selftest-template", []string{strings.Repeat("0f", 32), "expect.template"}, set("expect", "template", strings.Repeat("0f", 32)), nil},
		{"other build", "selftest-server", []string{`"b9999"`, `"b11669-test"`}, set("expect", "build", "b9999"), nil},
		{"drafts", "selftest-speculative", []string{"no speculative decoding"}, func() {
			llama.SetProps(map[string]any{"default_generation_settings": map[string]any{"n_ctx": 32768, "params": map[string]any{"speculative.types": "draft"}}})
		}, func() { llama.SetProps(map[string]any{"default_generation_settings": map[string]any{"n_ctx": 32768}}) }},
		{"template that drops thinking", "selftest-extension", nil, func() {
			llama.SetRender(func(body []byte) (string, error) { // of all turns but the last, as many templates do
				last := bytes.LastIndex(body, []byte(`"role":"user"`))
				return testkit.RenderChatML(append(bytes.ReplaceAll(body[:last], []byte("reasoning_content"), []byte("thought")), body[last:]...))
			})
		}, func() { llama.SetRender(testkit.RenderChatML) }},
		{"calls that don't parse", "selftest-tool-call", []string{"a call of a declared tool"}, func() {
			llama.On(func(_ int, _ []byte, a *testkit.Stream) { a.Answer("<tool_call>clock</tool_call>") })
		}, func() { llama.On(nil) }},
		{"cache that does not hit", "selftest-cache", []string{"in the cache"}, func() {
			llama.On(func(_ int, _ []byte, a *testkit.Stream) {
				if len(a.Request.ToolChoice) > 0 {
					a.Default()
					return
				}
				a.Role()
				a.Text("ok")
				a.Finish("stop")
				a.Usage(0, 900, 3)
				a.Done()
			})
		}, func() { llama.On(nil) }},
		{"a check that there is not", "selftest-skip", []string{`"caches"`, "thinking-cap"}, set("selftest", "skip", []string{"caches"}), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spoil()
			r := s.Bxctl("", "up")
			if c.mend != nil {
				c.mend()
			}
			if err := os.WriteFile(s.Layout.Config+"/loopd.toml", []byte(good), 0o600); err != nil {
				t.Fatal(err)
			}
			if r.Code != exitFailed && r.Code != exitUsage || r.Stdout != "" {
				t.Errorf("exit code %d, standard output %q", r.Code, r.Stdout)
			}
			_, end, ok := strings.Cut("\n"+r.Stderr, "\nbxctl: ")
			if !ok || !strings.HasPrefix(end, "loopd refused to start\n") {
				t.Fatalf("no word of the owner's program about its end:\n%s", r.Stderr)
			}
			first, _, _ := strings.Cut(end, "failed too") // the other checks that failed for the same reason
			first, _, _ = strings.Cut(first, "(see runbook: "+c.key+")")
			checkKey(t, first+"(see runbook: "+c.key+")", c.key)
			if !strings.Contains(end, "(see runbook: "+c.key+")") {
				t.Errorf("the key %s is not named:\n%s", c.key, end)
			}
			for _, want := range c.says {
				if !strings.Contains(first, want) {
					t.Errorf("the owner is not told %q:\n%s", want, end)
				}
			}
			if ps := s.Daemons(); len(ps) != 0 {
				t.Errorf("still running: %v", ps)
			}
		})
	}
	// --detach passes it on, status tells of it afterwards, and once it is mended all is well.
	llama.SetSlots(1)
	r := s.Bxctl("", "up", "--detach")
	view{exitFailed, "selftest-slots", []string{"Boxmaker did not start", "loopd refused to start"}}.check(t, r)
	if r = s.Bxctl("", "status"); r.Code != exitNotRunning || !strings.Contains(r.Stderr, "(see runbook: selftest-slots)") {
		t.Errorf("status afterwards: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	llama.SetSlots(3)
	s.Must("", "up", "--detach")
	answered(t, s, "chat-a", "Hello.")
	s.Down()
}

// The program itself says by its exit code that starting it again can't help.
func TestFault_Start_ExitCodeOfARefusal(t *testing.T) {
	s, llama := scripted(t)
	llama.SetSlots(1)
	if err := os.Mkdir(s.Home+"/own", 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) stack.Result {
		return program(s, "loopd", append([]string{"-sessions", s.Home + "/own", "-infer", llama.Socket, "-listen", s.Home + "/loop.sock"}, args...)...)
	}
	if r := run(); r.Code != 78 || !strings.Contains(r.Stderr, "(see runbook: selftest-slots)") {
		t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
	}
	bad := s.Home + "/bad.toml"
	if err := os.WriteFile(bad, []byte("[slots]\nmain = 1\nMain = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run("-config", bad); r.Code != 78 || !strings.Contains(r.Stderr, "bad.toml:3: ") {
		t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
	}
	if r := run("-talk"); r.Code != 2 {
		t.Errorf("exit code %d of a wrong flag", r.Code)
	}
}

// awaitStatus waits until `bxctl status` shows a text, and gives all of it.
func awaitStatus(s *stack.Stack, want string) stack.Result {
	s.TB.Helper()
	var r stack.Result
	s.WaitUntil("bxctl status shows "+want, func() bool {
		r = s.Bxctl("", "status")
		return strings.Contains(r.Stdout, want)
	})
	return r
}

// While nobody listens where the server should be, and while it loads its model,
// Boxmaker waits, says for what, and takes a message that is answered later.
func TestFault_Start_ServerComesLater(t *testing.T) {
	t.Parallel()
	s := stack.New(t)
	server := s.Serve()
	server.Hold()
	s.Start()
	awaitStatus(s, "waiting (the inference server cannot be reached")
	r := s.Bxctl("", "up", "--detach", "--wait", "100ms")
	if !strings.Contains(r.Stdout, "cannot be reached") {
		t.Errorf("what it waits for is not told: %q", r.Stdout)
	}
	r.Stdout = ""
	view{exitFailed, "not-ready", []string{"not ready yet"}}.check(t, r)

	asked := make(chan stack.Result)
	go func() { asked <- ask(s, "chat-early", "answer with early bird") }()
	server.Resume("-loading", "1500ms")
	awaitStatus(s, "loading its model")
	if r := <-asked; r.Code != exitOK || r.Stdout != "early bird\n" {
		t.Errorf("exit code %d, %q\n%s", r.Code, r.Stdout, r.Stderr)
	}
	if st, err := s.Status(); err != nil || st.State != "ready" || st.Detail != "" {
		t.Errorf("status %+v, %v", st, err)
	}
	settled(t, s)
	s.Down()
}

// A server that is killed during the self-test is waited for, like one that is not
// there yet: what it said before its death proves nothing.
func TestFault_Start_ServerDiesInTheSelfTest(t *testing.T) {
	t.Parallel()
	s, llama := scripted(t)
	var cuts atomic.Int64
	llama.On(func(_ int, _ []byte, a *testkit.Stream) {
		if cuts.Add(1) <= 3 {
			a.Role()
			a.Cut()
		}
		a.Default()
	})
	s.Must("", "up", "--detach")
	if cuts.Load() <= 3 {
		t.Error("the self-test made no request")
	}
	answered(t, s, "chat-a", "Hello.")
	s.Down()

	llama.On(func(_ int, _ []byte, a *testkit.Stream) { // one that always does so does not fit
		a.Role()
		a.Cut()
	})
	r := s.Bxctl("", "up")
	if !strings.Contains(r.Stderr, "the connection ended before the answer did") || !strings.Contains(r.Stderr, "(see runbook: selftest-tool-call)") {
		t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
	}
}

// The server goes away in the middle of a conversation. The message is kept, the
// owner is told, and the conversation goes on when the server is back, with a
// cache that is cold, which is no fault.
func TestCase_P12_ServerGoesAndComesBack(t *testing.T) {
	t.Parallel()
	s := stack.New(t)
	server := s.Serve("-gen-tps", "200")
	s.Set("loopd.toml", "upstream", "reach", "1s")
	s.Up()
	answered(t, s, "chat-gone", "This is chat-gone. What time is it?")

	// killed in the middle of an answer, and back at once: the same request once more
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience)
	defer cancel()
	killed := false
	var ev events
	end, err := s.Submit(ctx, &proto.Submit{Session: "chat-gone", Origin: "killed", Text: "say 60 words", Surface: proto.SurfaceAsk}, func(m proto.Message) {
		ev = append(ev, m)
		if _, ok := m.(*proto.Text); ok && !killed {
			killed = s.Kill("practice")
		}
	})
	if done, ok := end.(*proto.Done); err != nil || !ok || done.Outcome != proto.TurnAnswered || !killed {
		t.Fatalf("killed %v, end %+v, %v", killed, end, err)
	}
	ev.wantNotices(t, proto.NoticeIncomplete, proto.NoticeRetry, proto.NoticeColdCache)

	server.Hold()
	r := ask(s, "chat-gone", "Is anybody there?")
	view{exitUnanswered, "server-unreachable", []string{"cannot be reached", "tried for 1s"}}.check(t, r)
	server.Resume()
	ev, done, _ := askEvents(t, s, "chat-gone", "answer with here again")
	if done.Answer != "here again" {
		t.Errorf("answer %q", done.Answer)
	}
	ev.wantNotices(t, proto.NoticeColdCache)
	e := epoch(t, settled(t, s), "chat-gone", 1)
	if n := len(records[*proto.User](e)); n != 4 {
		t.Errorf("%d messages of the owner are in the log", n)
	}
	wantGrowth(t, []stack.Epoch{e}, recorded(t, server))
	s.Down()
}

// inferproxy goes away and comes back: nobody notices but the one who waits.
func TestFault_Server_ProxyIsRestarted(t *testing.T) {
	t.Parallel()
	s := stack.New(t)
	server := s.Serve("-gen-tps", "200")
	s.Up()
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience)
	defer cancel()
	killed := false
	end, err := s.Submit(ctx, &proto.Submit{Session: "chat-proxy", Origin: "one", Text: "say 60 words", Surface: proto.SurfaceAsk}, func(m proto.Message) {
		if _, ok := m.(*proto.Text); ok && !killed {
			killed = syscall.Kill(s.PID("inferproxy"), syscall.SIGKILL) == nil
		}
	})
	if done, ok := end.(*proto.Done); err != nil || !ok || done.Outcome != proto.TurnAnswered || !killed {
		t.Fatalf("killed %v, end %+v, %v", killed, end, err)
	}
	s.WaitUntil("inferproxy is back", func() bool { return s.PID("inferproxy") != 0 })
	wantGrowth(t, settled(t, s), recorded(t, server))
	s.Down()
}
