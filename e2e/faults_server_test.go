package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// A serverFault is something that the server does in the middle of a
// conversation, and what the owner gets to see of it.
type serverFault struct {
	name  string
	order string // to the practice model, without the slot
	text  string // of the message; default: one that is answered with itself

	outcome proto.TurnOutcome
	key     string // runbook
	says    string // to the owner
	notices []proto.NoticeKind
	sent    int // requests of the turn
}

var retried = []proto.NoticeKind{proto.NoticeIncomplete, proto.NoticeRetry}

func serverFaults() []serverFault {
	incomplete := []proto.NoticeKind{proto.NoticeIncomplete}
	twice := []proto.NoticeKind{proto.NoticeIncomplete, proto.NoticeRetry, proto.NoticeIncomplete}
	const (
		answered = proto.TurnAnswered
		failed   = proto.TurnFailed
		full     = proto.TurnContextFull
	)
	clock := "What time is it?"
	return []serverFault{
		{"401", `"kind":"unauthorised"`, "", failed, "server-unauthorised", "API key", incomplete, 1},
		{"503 for ever", `"kind":"loading","times":-1`, "", failed, "server-unreachable", "Loading model", incomplete, 0},
		{"503 once", `"kind":"loading"`, "", answered, "", "", nil, 1},
		{"HTML", `"kind":"html"`, "", failed, "server-bad-data", "text/html", incomplete, 1},
		{"error before the stream", `"kind":"server-error"`, "", answered, "", "", retried, 2},
		{"error before the stream, twice", `"kind":"server-error","times":2`, "", failed, "server-error", "peg-native", twice, 2},
		{"error event", `"kind":"error","after":3`, "", answered, "", "", retried, 2},
		{"error event, twice", `"kind":"error","after":3,"times":2`, "", failed, "server-error", "peg-native", twice, 2},
		{"no end mark", `"kind":"cut","after":3`, "", answered, "", "", retried, 2},
		{"no end mark, twice", `"kind":"cut","after":3,"times":2`, "", failed, "server-cut", "end mark", twice, 2},
		{"connection breaks", `"kind":"disconnect","after":3`, "", answered, "", "", retried, 2},
		{"connection breaks, twice", `"kind":"disconnect","times":2`, "", failed, "server-cut", "ended before the answer did", twice, 2},
		{"stall", `"kind":"stall","after":3`, "", failed, "server-stalled", "nothing came for 2s", incomplete, 1},
		{"slow drip", `"kind":"drip","ms":40`, "say 12 words", answered, "", "", nil, 1},
		{"10 MB in one event", `"kind":"big-event","after":2`, "", failed, "server-bad-data", "too large", incomplete, 1},
		{"invalid UTF-8", `"kind":"bad-utf8","after":2`, "", failed, "server-bad-data", "UTF-8", incomplete, 1},
		{"an event that is no JSON", `"kind":"bad-json","after":2`, "", failed, "server-bad-data", "does not decode", incomplete, 1},
		{"empty answer", `"kind":"empty"`, "", answered, "", "", retried, 2},
		{"empty answer, twice", `"kind":"empty","times":2`, "", failed, "answer-unusable", "empty", twice, 2},
		{"nothing but a thought, twice", `"kind":"thought-only","times":2`, "", failed, "answer-unusable", "empty", twice, 2},
		{"thought without end", `"kind":"long-thought"`, "", failed, "answer-unusable", "token limit", incomplete, 1},
		{"cut arguments", `"kind":"cut-arguments"`, clock, failed, "answer-unusable", "in the middle of a tool call", incomplete, 1},
		{"duplicate index", `"kind":"duplicate-index"`, clock, answered, "", "", retried, 2 + 1},
		{"duplicate index, twice", `"kind":"duplicate-index","times":2`, clock, failed, "answer-unusable", "index 0", twice, 2},
		{"unknown tool", `"kind":"unknown-tool"`, "", answered, "", "", nil, 2},
		{"bad JSON in arguments", `"kind":"bad-json-args"`, clock, answered, "", "", retried, 2 + 1},
		{"bad JSON in arguments, twice", `"kind":"bad-json-args","times":2`, clock, failed, "answer-unusable", "JSON", twice, 2},
		{"markup", `"kind":"markup"`, "", answered, "", "", retried, 2},
		{"markup, twice", `"kind":"markup","times":2`, "", failed, "answer-unusable", "plain text", twice, 2},
		{"eviction", `"kind":"evict"`, "", answered, "", "", []proto.NoticeKind{proto.NoticeColdCache}, 1},
		{"400 exceed_context_size_error", `"kind":"exceeded"`, "", full, "context-full", "no longer fits", incomplete, 1},
		{"cache full in the middle", `"kind":"kv-full","after":3`, "", full, "context-full", "no longer fits", incomplete, 1},
		{"thought up to the window's end", `"kind":"context-full","after":3`, "", full, "context-full", "no longer fits", incomplete, 1},
	}
}

// Each fault comes in the second turn of a conversation of its own, which goes
// on afterwards as if nothing had been.
func TestFault_Server_DuringATurn(t *testing.T) {
	t.Parallel()
	s := stack.New(t)
	server := s.Serve("-faults")
	quick(s)
	s.Set("loopd.toml", "sampling", "max_tokens", 600) // so that a thought without end has one
	s.Set("loopd.toml", "sampling", "thinking_tokens", 200)
	s.Up()
	for i, f := range serverFaults() {
		t.Run(f.name, func(t *testing.T) { f.run(t, s, server, fmt.Sprintf("chat-fault-%d", i)) })
	}
	wantGrowth(t, settled(t, s), recorded(t, server))
	s.Down()
}

func (f serverFault) run(t *testing.T, s *stack.Stack, server *stack.Server, session string) {
	if got, want := answered(t, s, session, "answer with "+session), session; got != want {
		t.Errorf("turn before: %q, want %q", got, want)
	}
	before := len(recorded(t, server))
	text := f.text
	if text == "" {
		text = "answer with these plain words"
	}
	server.Fault(`{` + f.order + `,"slot":0}`)
	ev, done, r := askEvents(t, s, session, text)
	server.Fault(`{"kind":"clear"}`)

	if done.Outcome != f.outcome || done.Runbook != f.key || !strings.Contains(done.Text, f.says) {
		t.Errorf("ended with %s, %q, runbook %q; want %s, %q, runbook %q", done.Outcome, done.Text, done.Runbook, f.outcome, f.says, f.key)
	}
	if f.outcome == proto.TurnAnswered {
		if done.Answer == "" || f.text == "" && f.name != "unknown tool" && done.Answer != "these plain words" {
			t.Errorf("answer %q", done.Answer)
		}
	} else {
		view{exitUnanswered, f.key, []string{f.says}}.check(t, r)
	}
	ev.wantNotices(t, f.notices...)
	if n := len(recorded(t, server)) - before; n != f.sent {
		t.Errorf("%d requests, want %d", n, f.sent)
	}
	f.checkLog(t, s, session)
	if got := answered(t, s, session, "answer with "+session+" once more"); got != session+" once more" {
		t.Errorf("turn after: %q", got)
	}
}

// checkLog wants the log to say what the client heard, a failed completion to be
// kept apart from the messages, and nothing of it to have been run.
func (f serverFault) checkLog(t *testing.T, s *stack.Stack, session string) {
	e := epoch(t, settled(t, s), session, 1)
	ends := records[*proto.TurnEnd](e)
	if end := ends[len(ends)-1]; len(ends) != 2 || end.Outcome != f.outcome || end.Runbook != f.key {
		t.Errorf("the log has %d ends, the last %+v", len(ends), end)
	}
	lost := 0
	for _, n := range f.notices {
		if n == proto.NoticeIncomplete {
			lost++
		}
	}
	if n := len(records[*proto.Incomplete](e)); n != lost {
		t.Errorf("%d incomplete completions in the log, want %d", n, lost)
	}
	tools := records[*proto.Tool](e)
	switch {
	case f.name == "unknown tool":
		if len(tools) != 1 || tools[0].Outcome != proto.CallFailed || tools[0].Code != proto.CodeUnknownTool {
			t.Errorf("result of a tool that there is not: %+v", tools)
		}
	case f.text == "What time is it?" && f.outcome == proto.TurnAnswered:
		if len(tools) != 1 || tools[0].Outcome != proto.CallOK {
			t.Errorf("the clock was read %d times: %+v", len(tools), tools)
		}
	case len(tools) != 0:
		t.Errorf("half a call was run: %+v", tools[0])
	}
}

// A tool call in the content is neither run nor shown raw.
func TestCase_P19_MarkupInContentIsNotShown(t *testing.T) {
	s := stack.New(t)
	server := s.Serve("-faults")
	s.Up()
	server.Fault(`{"kind":"markup","times":2,"slot":0}`)
	ev, done, r := askEvents(t, s, "chat-markup", "What time is it?")
	view{exitUnanswered, "answer-unusable", []string{"twice", "nothing of it was run"}}.check(t, r)
	if text := ev.shown() + done.Answer; strings.ContainsAny(text, "<>") || !strings.Contains(text, "Let me look.") {
		t.Errorf("shown: %q", text)
	}
	if slices.ContainsFunc(ev, func(m proto.Message) bool { _, ok := m.(*proto.ToolStarted); return ok }) {
		t.Error("a call was announced")
	}
	s.Down()
}
