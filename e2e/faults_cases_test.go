package e2e

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// A server that found nothing in its cache: told with its cost, no error, not sent
// again.
func TestCase_P10_NothingInTheCache(t *testing.T) {
	s, llama := scripted(t)
	onMain(llama, func(n int, _ []byte, a *testkit.Stream) {
		if n != 1 {
			a.Answer("ok")
			return
		}
		a.Role()
		a.Text("cold")
		a.Finish("stop")
		a.Usage(0, a.CacheN+a.PromptN, 3)
		a.Done()
	})
	s.Up()
	answered(t, s, "chat-cold", "This is chat-cold.")
	ev, done, _ := askEvents(t, s, "chat-cold", "Once more.")
	ev.wantNotices(t, proto.NoticeColdCache)
	for _, m := range ev {
		if n, ok := m.(*proto.Notice); ok && (n.Lost < 500 || n.MS < 500 || !strings.Contains(n.Text, "read again")) {
			t.Errorf("its cost: %+v", n)
		}
	}
	if done.Answer != "cold" || len(mainBodies(llama)) != 2 {
		t.Errorf("answer %q after %d requests", done.Answer, len(mainBodies(llama)))
	}
	lost := 0
	for _, c := range records[*proto.Completion](epoch(t, settled(t, s), "chat-cold", 1)) {
		if c.Lost > 0 {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d cold caches in the log", lost)
	}
	ev, _, _ = askEvents(t, s, "chat-cold", "And again.")
	ev.wantNotices(t)
	s.Down()
}

// A parse error of the server is tried once more with the same bytes, then told.
func TestCase_P20_ServerCannotParse(t *testing.T) {
	t.Parallel()
	s, llama := scripted(t)
	onMain(llama, func(n int, _ []byte, a *testkit.Stream) {
		if n == 0 || n == 2 || n == 3 {
			a.Fail(http.StatusInternalServerError, "application/json; charset=utf-8", `{"error":{"code":500,"message":"Failed to parse input at pos 12: <|channel|>","type":"server_error"}}`)
			return
		}
		a.Answer("parsed")
	})
	s.Up()
	ev, done, _ := askEvents(t, s, "chat-parse", "One.")
	ev.wantNotices(t, retried...)
	if done.Answer != "parsed" {
		t.Errorf("answer %q", done.Answer)
	}
	view{exitUnanswered, "server-error", []string{"Failed to parse input at pos 12"}}.check(t, ask(s, "chat-parse", "Two."))
	if got := answered(t, s, "chat-parse", "Three."); got != "parsed" {
		t.Errorf("answer %q", got)
	}
	bodies := mainBodies(llama)
	if len(bodies) != 5 || !bytes.Equal(bodies[0], bodies[1]) || !bytes.Equal(bodies[2], bodies[3]) {
		t.Errorf("%d requests, or a retry in other bytes", len(bodies))
	}
	wantGrowth(t, settled(t, s), bodies)
	s.Down()
}

// Settings that change between two turns, and a restart, leave the front of a
// conversation's requests as it was; only a new conversation has the new ones. No
// request has a time in front of its messages.
func TestCase_P03_P05_FrontSurvivesOtherSettings(t *testing.T) {
	s, llama := scripted(t)
	s.Up()
	answered(t, s, "chat-old", "This is chat-old.")
	s.Down()
	prompt := s.Home + "/pirate.md"
	if err := os.WriteFile(prompt, []byte("You are a pirate."), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Set("loopd.toml", "prompt", "system", prompt)
	s.Set("loopd.toml", "sampling", "temperature", "0.9")
	s.Set("loopd.toml", "sampling", "max_tokens", 4000)
	s.Set("loopd.toml", "sampling", "thinking_tokens", 1000)
	s.Set("loopd.toml", "upstream", "idle", "9s")
	llama.SetModel("renamed")
	s.Up()
	answered(t, s, "chat-old", "Are you the same?")
	answered(t, s, "chat-new", "This is chat-new.")
	bodies := mainBodies(llama)
	wantGrowth(t, settled(t, s), bodies)
	if err := stack.Extends(bodies[0], bodies[1]); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(bodies[2], []byte("You are a pirate.")) || !bytes.Contains(bodies[2], []byte(`"temperature":0.9,`)) || !bytes.Contains(bodies[2], []byte(`"model":"renamed"`)) {
		t.Errorf("a new conversation has the old settings: %.400s", bodies[2])
	}
	for _, b := range bodies {
		front, _, _ := bytes.Cut(b, []byte(`{"role":"user"`))
		if now := time.Now(); bytes.Contains(front, []byte(now.Format("2006-01"))) || bytes.Contains(front, []byte(now.Format("15:04"))) {
			t.Errorf("a time in front: %s", front)
		}
	}
	s.Down()
}
