package brain

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/gen"
	"boxmaker/practice/internal/template"
)

// core are the tools that loopd declares today.
func core() []chat.Tool {
	return []chat.Tool{
		{Name: "clock", Parameters: jsontext.Value(`{"type":"object","properties":{"zone":{"type":"string"}}}`)},
		{Name: "find_tool", Parameters: jsontext.Value(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`)},
		{Name: "call_tool", Parameters: jsontext.Value(`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name","arguments"]}`)},
	}
}

func ask(text string) *chat.Request {
	return &chat.Request{Tools: core(), Choice: chat.Auto, Parallel: true, Thinking: true, Messages: []template.Message{{Role: "system", Content: "s"}, {Role: "user", Content: text}}}
}

// then adds the reply's calls and their results to the conversation.
func then(req *chat.Request, r gen.Reply, results ...string) *chat.Request {
	m := template.Message{Role: "assistant", Content: r.Content, Reasoning: r.Reasoning}
	for _, c := range r.Calls {
		m.Calls = append(m.Calls, template.ToolUse{Name: c.Name, Arguments: jsontext.Value(c.Arguments)})
	}
	req.Messages = append(req.Messages, m)
	for _, res := range results {
		req.Messages = append(req.Messages, template.Message{Role: "tool", Content: res})
	}
	return req
}

func calls(r gen.Reply) string {
	var out []string
	for _, c := range r.Calls {
		out = append(out, c.Name+c.Arguments)
	}
	return strings.Join(out, " ")
}

// Each row: a message, the rule that must take it, and what the first reply
// must have.
func TestRules(t *testing.T) {
	b := New()
	tests := []struct {
		rule, message string
		calls         string // all calls, or none
		content       string // must be in the content
	}{
		{"greeting", "Hello!", "", "Hello."},
		{"greeting", "good morning", "", "Hello."},
		{"what can you do", "what can you do?", "", "plain requests"},
		{"what can you do", "What can you do", "", "plain requests"},
		{"what can you do", "help", "", "plain requests"},
		{"what can you do", "please help me", "", "plain requests"},
		{"practice model", "Are you a language model?", "", "not a language model"},
		{"practice model", "who are you?", "", "not a language model"},
		{"real server", "How do I use a real model?", "", "bxctl init --upstream"},
		{"real server", "how do I point it at a llama-server?", "", "bxctl up --model"},
		{"grants", "what are grants?", "", "`grants` folder"},
		{"approvals", "How do approvals work?", "", "exactly that one call"},
		{"audit", "what is the audit log", "", "bxctl audit verify"},
		{"broker", "what does no-broker mean?", "", "brokerd"},
		{"slots", "What is a slot?", "", "background"},
		{"cache", "why does it never re-read?", "", "never re-reads"},
		{"epochs", "what is an epoch?", "", "epochs"},
		{"sessions", "where is my history?", "", "sessions/<id>"},
		{"memory", "how does memory work?", "", "core.md"},
		{"taint", "what is taint", "", "untrusted"},
		{"network", "do you send anything to the cloud?", "", "telemetry"},
		{"roles", "which daemons are there?", "", "inferproxy"},
		{"commands", "how do I stop it?", "", "bxctl down"},
		{"files", "where is everything kept?", "", "BOXMAKER_HOME"},
		{"boxmaker", "What is Boxmaker?", "", "Three promises"},
		{"thanks", "Thanks a lot!", "", "welcome"},
		{"yes or no", "try again", "", "whole request"},
		{"test", "test", "", "It works"},
		{"none", "colourless green ideas sleep furiously", "", "did not understand"},
		{"none", "", "", "did not understand"},
		{"fault switch", "!fault stall", "", "Fault switch"},

		{"time", "what time is it?", "clock{}", ""},
		{"time", "Hi, could you tell me the time please?", "clock{}", ""},
		{"time", "what's the date today?", "clock{}", ""},
		{"time", "call the clock", "clock{}", ""},
		{"time", "What time is it in Europe/Berlin?", `clock{"zone":"Europe/Berlin"}`, ""},
		{"tools", "what tools do you have?", `find_tool{"query":"all"}`, ""},
		{"find tool", "find a tool for pictures", `find_tool{"query":"pictures"}`, ""},
		{"list", "list my notes", `find_tool{"query":"list files"}`, ""},
		{"list", "Can you list the files, please?", `find_tool{"query":"list files"}`, ""},
		{"list in", "show me the files in ~/Boxmaker", `find_tool{"query":"list files"}`, ""},
		{"list path", "ls /tmp/x", `find_tool{"query":"list files"}`, ""},
		{"read", "read notes/today.md", `find_tool{"query":"read a file"}`, ""},
		{"what is in", "what's in todo.txt?", `find_tool{"query":"read a file"}`, ""},
		{"search", "search my notes for rent", `find_tool{"query":"search files"}`, ""},
		{"find in", "find rent in my notes", `find_tool{"query":"search files"}`, ""},
		{"write to", `write "milk" to notes/shopping.md`, `find_tool{"query":"write a file"}`, ""},
		{"write", "create a file called a.txt with hello world", `find_tool{"query":"write a file"}`, ""},
		{"edit", "change milk to bread in notes/shopping.md", `find_tool{"query":"edit a file"}`, ""},
		{"run", "run uname -a", `find_tool{"query":"run a program"}`, ""},
		{"shell", "shell: ls | wc -l", `find_tool{"query":"shell command"}`, ""},
		{"fetch", "fetch https://example.com/x", `find_tool{"query":"fetch a web page"}`, ""},
		{"fetch host", "fetch example.com", `find_tool{"query":"fetch a web page"}`, ""},
		{"remember", "remember that the rent is due", `find_tool{"query":"remember a note"}`, ""},
		{"recall", "what do you know about rent?", `find_tool{"query":"recall notes"}`, ""},
		{"delegate", "delegate: sort my notes", `find_tool{"query":"subagent"}`, ""},
		{"consult", "consult about black holes", `find_tool{"query":"consult another model"}`, ""},
		{"summary", "summarise this conversation", "", "nothing yet"},

		{"answer with", "answer with PONG", "", "PONG"},
		{"say words", "say 5 words", "", "the box holds small things"},
		{"count", "count to 5", "", "1 2 3 4 5"},
		{"think words", "think for 10 words", "", "10 words"},
		{"think long", "Think carefully about it", "", "thought about it"},
		{"clock times", "call clock 3 times", "clock{}", ""},
		{"for ever", "repeat the same call for ever", "clock{}", ""},
		{"alternate", "alternate two calls forever", "clock{}", ""},
		{"parallel", "call clock and list my notes in parallel", `clock{} find_tool{"query":"list files"}`, ""},
		{"call with", `call read_file with {"path":"x"}`, `call_tool{"name":"read_file","arguments":{"path":"x"}}`, ""},
		{"call with", `call clock with {}`, `clock{}`, ""},
		{"say", `say "good day"`, "", "good day"},
	}
	for _, tc := range tests {
		t.Run(tc.rule+": "+tc.message, func(t *testing.T) {
			row, _ := b.find(tc.message)
			if row.name != tc.rule {
				t.Errorf("rule %q took it, want %q", row.name, tc.rule)
			}
			r := b.Reply(ask(tc.message))
			if got := calls(r); got != tc.calls {
				t.Errorf("calls %q, want %q", got, tc.calls)
			}
			if !strings.Contains(r.Content, tc.content) || (tc.calls == "") != (r.Content != "") && tc.rule != "parallel" {
				t.Errorf("content %q, want %q in it", r.Content, tc.content)
			}
			if r.Reasoning == "" {
				t.Error("no thought")
			}
		})
	}
}

// No row is unreachable or untried.
func TestEveryRuleIsTried(t *testing.T) {
	tried := map[string]bool{}
	for _, text := range everyMessage() {
		row, _ := New().find(text)
		tried[row.name] = true
	}
	for _, r := range rules() {
		if !tried[r.name] {
			t.Errorf("no message of the tests is taken by rule %q", r.name)
		}
	}
}

func TestIntroduction(t *testing.T) {
	b := New()
	req := ask("hello")
	first := b.Reply(req)
	if !strings.HasPrefix(first.Content, Intro) {
		t.Errorf("the first answer is %q", first.Content)
	}
	req.Messages = append(req.Messages, template.Message{Role: "assistant", Content: first.Content}, template.Message{Role: "user", Content: "hello"})
	if second := b.Reply(req); strings.Contains(second.Content, Intro) {
		t.Errorf("the second answer is %q", second.Content)
	}
	req = ask("what time is it?")
	if r := b.Reply(then(req, b.Reply(req), "2026-11-30 12:00")); !strings.HasPrefix(r.Content, Intro) {
		t.Errorf("after a tool call the first answer is %q", r.Content)
	}
	if r := b.Reply(ask("answer with PONG")); r.Content != "PONG" {
		t.Errorf("answer with: %q", r.Content)
	}
	long := strings.Repeat("a", 20000)
	if r := b.Reply(ask("answer with " + long)); r.Content != long {
		t.Errorf("answer with a long text gave %d bytes", len(r.Content))
	}
}

func TestChoice(t *testing.T) {
	b := New()
	req := ask("hello")
	req.Choice = chat.Required
	if r := b.Reply(req); calls(r) != "clock{}" || r.Content != "" {
		t.Errorf("required: %q, %q", calls(r), r.Content)
	}
	req.Tools = []chat.Tool{{Name: "f", Parameters: jsontext.Value(`{"properties":{"a":{"type":"integer"},"b":{"enum":["x","y"]},"c":{"type":"string"},"d":{"type":"boolean"},"e":{"type":"object"}},"required":["a","b","c","e"]}`)}}
	if r := b.Reply(req); calls(r) != `f{"a":1,"b":"x","c":"practice","e":{}}` {
		t.Errorf("required, other tool: %q", calls(r))
	}
	req = ask("what time is it?")
	req.Choice = chat.None
	if r := b.Reply(req); calls(r) != "" || !strings.Contains(r.Content, "does not allow tool calls") {
		t.Errorf("none: %q, %q", calls(r), r.Content)
	}
	req = ask("what time is it?")
	req.Tools = nil
	if r := b.Reply(req); calls(r) != "" || !strings.Contains(r.Content, "declares none") {
		t.Errorf("no tools: %q, %q", calls(r), r.Content)
	}
}

func TestUtilitiesCount(t *testing.T) {
	b := New()
	req := ask("call clock 3 times")
	for i := range 3 {
		r := b.Reply(req)
		if calls(r) != "clock{}" {
			t.Fatalf("call %d: %q", i, calls(r))
		}
		then(req, r, "noon")
	}
	if r := b.Reply(req); calls(r) != "" || !strings.Contains(r.Content, "3 times") {
		t.Errorf("afterwards: %q, %q", calls(r), r.Content)
	}
	req = ask("alternate two calls for ever")
	var names []string
	for range 4 {
		r := b.Reply(req)
		names = append(names, r.Calls[0].Name)
		then(req, r, "repeated-call: not passed on")
	}
	if got := strings.Join(names, " "); got != "clock find_tool clock find_tool" {
		t.Errorf("alternate: %s", got)
	}
	req = ask("repeat the same call for ever")
	for range 5 {
		r := b.Reply(req)
		if calls(r) != "clock{}" {
			t.Fatalf("for ever ended with %q", r.Content)
		}
		then(req, r, "repeated-call: not passed on")
	}
}

func TestSummary(t *testing.T) {
	req := ask("what are grants?")
	req.Messages = append(req.Messages, template.Message{Role: "assistant", Content: "x"}, template.Message{Role: "user", Content: "summarize"})
	if r := New().Reply(req); !strings.Contains(r.Content, "- what are grants?") {
		t.Errorf("got %q", r.Content)
	}
}

func everyMessage() []string {
	return []string{
		"!fault stall", "answer with x", "say 5 words", "count to 5", "think for 5 words", "think hard", "call clock 2 times", "repeat the same call for ever",
		"alternate a and b for ever", "call clock and list my notes in parallel", "call x with {}", "say hi", "what time is it", "what tools do you have", "find a tool for x",
		"list files in notes", "list files", "ls ~/x", "search for x in notes", "search for x", "find x in notes", "write x to a.txt", "write a.txt: x", "overwrite a.txt with x", "change a to b in c.txt",
		"fetch https://a.example", "fetch a.example", "read a.txt", "read my diary", "what is in a.txt", "shell: ls", "run ls", "remember x", "recall x", "delegate: x", "consult: x", "summarise",
		"help", "how do I use a real model", "who are you", "grants", "approvals", "audit", "broker", "slots", "cache", "epochs", "sessions", "memory", "taint", "network", "roles",
		"tools", "how does bxctl work", "where are files", "thinking", "mattermost", "cron", "boxmaker", "hello", "thanks", "bye", "how are you", "yes", "ping",
	}
}
