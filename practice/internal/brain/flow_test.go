package brain

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/template"
)

// The way from a request over find_tool and call_tool to an answer, whatever
// form find_tool's result has.
func TestFindAndCall(t *testing.T) {
	schema := `{"type":"object","properties":{"dir":{"type":"string"},"depth":{"type":"integer"}},"required":["dir"]}`
	tests := []struct {
		name, ask, offer, call string
	}{
		{"a list of objects", "list my notes", `[{"name":"read_file","line":"x","schema":"{}"},{"name":"list_files","line":"Lists /home/me/notes","schema":` + quoteJSON(schema) + `}]`, `call_tool{"name":"list_files","arguments":{"dir":"/home/me/notes"}}`},
		{"OpenAI form", "list my notes", `{"tools":[{"type":"function","function":{"name":"list_files","description":"d","parameters":` + schema + `}}]}`, `call_tool{"name":"list_files","arguments":{"dir":"notes"}}`},
		{"as loopd writes it", "list my notes", "Call one with call_tool.\n\nread_file: Reads a file.\narguments: {\"type\":\"object\"}\n\nlist_files: Lists a folder.\narguments: " + schema + "\n", `call_tool{"name":"list_files","arguments":{"dir":"notes"}}`},
		{"lines with schemas", "list my notes", "2 tools:\n- read_file: reads a file\n{\"properties\":{}}\n- list_files: lists a folder\n" + schema + "\n", `call_tool{"name":"list_files","arguments":{"dir":"notes"}}`},
		{"names alone", "list my notes", "read_file\nlist_files\n", `call_tool{"name":"list_files","arguments":{"path":"notes"}}`},
		{"markdown", "list my notes", "* **`list_files`** - lists", `call_tool{"name":"list_files","arguments":{"path":"notes"}}`},
		{"the second best", "run uname -a", `[{"name":"shell","schema":{"properties":{"command":{"type":"string"}},"required":["command"]}}]`, `call_tool{"name":"shell","arguments":{"command":"uname -a"}}`},
		{"an argument vector", "run uname -a", `[{"name":"run","schema":{"properties":{"argv":{"type":"array"}}}}]`, `call_tool{"name":"run","arguments":{"argv":["uname","-a"]}}`},
		{"required members are filled", "read a.txt", `[{"name":"read_file","parameters":{"properties":{"path":{"type":"string"},"lines":{"type":"integer"},"mode":{"enum":["text","hex"]}},"required":["path","lines","mode"]}}]`, `call_tool{"name":"read_file","arguments":{"path":"a.txt","lines":1,"mode":"text"}}`},
		{"edit", `change "a" to "b" in c.txt`, `[{"name":"edit_file","parameters":{"properties":{"path":{},"old":{},"new":{}}}}]`, `call_tool{"name":"edit_file","arguments":{"path":"c.txt","old":"a","new":"b"}}`},
		{"fetch", "fetch example.com", `[{"name":"http_fetch"}]`, `call_tool{"name":"http_fetch","arguments":{"url":"https://example.com"}}`},
		{"remember", "remember that the rent is due", `[{"name":"memory","parameters":{"properties":{"op":{"enum":["note"]},"text":{}}}}]`, `call_tool{"name":"memory","arguments":{"op":"note","text":"the rent is due"}}`},
	}
	b := New()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			req := ask(tc.ask)
			r := b.Reply(req)
			if len(r.Calls) != 1 || r.Calls[0].Name != "find_tool" {
				t.Fatalf("first %q", calls(r))
			}
			r = b.Reply(then(req, r, tc.offer))
			if got := calls(r); got != tc.call {
				t.Fatalf("called %q, want %q", got, tc.call)
			}
			if args := jsontext.Value(r.Calls[0].Arguments); !args.IsValid() {
				t.Errorf("arguments %s", args)
			}
			r = b.Reply(then(req, r, "one\ntwo <|im_end|> ``` three"))
			if len(r.Calls) != 0 || !strings.Contains(r.Content, "````\none\ntwo ‹|im_end|> ``` three\n````") {
				t.Errorf("answer %q, calls %q", r.Content, calls(r))
			}
		})
	}
}

func TestNothingFits(t *testing.T) {
	b := New()
	req := ask("list my notes")
	r := b.Reply(then(req, b.Reply(req), `[{"name":"http_fetch"}]`))
	if len(r.Calls) != 0 || !strings.Contains(r.Content, "none is granted") || !strings.Contains(r.Content, "`http_fetch`") {
		t.Errorf("got %q", r.Content)
	}
	req = ask("list my notes")
	if r := b.Reply(then(req, b.Reply(req), "No tool matches.")); len(r.Calls) != 0 || !strings.Contains(r.Content, "none is granted") {
		t.Errorf("got %q", r.Content)
	}
}

// A declared tool is called directly.
func TestDeclaredTool(t *testing.T) {
	b := New()
	req := ask("what do you know about rent?")
	req.Tools = append(req.Tools, chat.Tool{Name: "recall", Parameters: jsontext.Value(`{"properties":{"query":{"type":"string"},"k":{"type":"integer"}},"required":["query"]}`)})
	r := b.Reply(req)
	if calls(r) != `recall{"query":"rent"}` {
		t.Fatalf("called %q", calls(r))
	}
	if r := b.Reply(then(req, r, "rent: due on the first")); !strings.Contains(r.Content, "due on the first") {
		t.Errorf("got %q", r.Content)
	}
}

// A refusal is explained and not tried again.
func TestRefusals(t *testing.T) {
	tests := []struct{ name, result, code string }{
		{"code and text", "no-broker: brokerd does not run", "no-broker"},
		{"the issue's words", "denied: no broker", "no-broker"},
		{"code in a denial", "denied: no-grant: nothing matches", "no-grant"},
		{"code alone", "denied-by-owner", "denied-by-owner"},
		{"code and full stop", "approval-expired. Ask again later.", "approval-expired"},
		{"loopd's own", "repeated-call: the same call was made 3 times", "repeated-call"},
		{"on several lines", "tool-failed: exit 1\nsomething", "tool-failed"},
	}
	b := New()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, where := range []string{"at find_tool", "at call_tool"} {
				req := ask("list my notes")
				r := b.Reply(req)
				if where == "at call_tool" {
					r = b.Reply(then(req, r, `[{"name":"list_files"}]`))
				}
				r = b.Reply(then(req, r, tc.result))
				if len(r.Calls) != 0 {
					t.Errorf("%s: tried again: %q", where, calls(r))
				}
				if !strings.Contains(r.Content, "`"+tc.code+"`") || !strings.Contains(r.Content, meaning(tc.code)) {
					t.Errorf("%s: %q", where, r.Content)
				}
			}
		})
	}
	for _, result := range []string{"", "notes.md", "note: buy milk", "an ordinary line", "2026-11-30", "{\"a\":1}", "read_file: x"} {
		if r, ok := readRefusal(result); ok {
			t.Errorf("%q was taken for the refusal %+v", result, r)
		}
	}
}

func TestParallelResults(t *testing.T) {
	b := New()
	req := ask("call clock and list my notes in parallel")
	r := b.Reply(then(req, b.Reply(req), "noon", `[{"name":"list_files"}]`))
	if calls(r) != `call_tool{"name":"list_files","arguments":{"path":"notes"}}` {
		t.Fatalf("called %q", calls(r))
	}
	r = b.Reply(then(req, r, "a.md"))
	if !strings.Contains(r.Content, "noon") || !strings.Contains(r.Content, "a.md") {
		t.Errorf("got %q", r.Content)
	}
	req = ask("call clock and list my notes in parallel")
	r = b.Reply(then(req, b.Reply(req), "noon", "no-broker: x"))
	if len(r.Calls) != 0 || !strings.Contains(r.Content, "noon") || !strings.Contains(r.Content, "`no-broker`") {
		t.Errorf("got %q", r.Content)
	}
}

// The brain never says a control token of the template by itself, never calls
// an undeclared tool, and gives the same reply twice.
func FuzzReply(f *testing.F) {
	for _, m := range everyMessage() {
		f.Add(m, "no-broker: x", `[{"name":"list_files","schema":{"properties":{"path":{}}}}]`)
	}
	b := New()
	f.Fuzz(func(t *testing.T, message, one, two string) {
		req := ask(message)
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(message)), "call") || len(message) > 3000 {
			return // tools that are called by name
		}
		for _, result := range []string{one, two, one} {
			r, again := b.Reply(req), b.Reply(req)
			if r.Content != again.Content || calls(r) != calls(again) {
				t.Fatal("two replies to the same conversation")
			}
			for _, c := range r.Calls {
				if _, ok := (&turn{req: req}).tool(c.Name); !ok {
					t.Errorf("called %s", c.Name)
				}
				if v := jsontext.Value(c.Arguments); !v.IsValid(jsontext.AllowInvalidUTF8(true)) {
					t.Errorf("arguments %q", c.Arguments)
				}
			}
			row, _ := b.find(strings.TrimSpace(message))
			for _, s := range template.Specials() {
				if strings.Contains(r.Content, s) && row.name != "answer with" && row.name != "say" {
					t.Errorf("rule %q says %q: %q", row.name, s, r.Content)
				}
			}
			if len(r.Calls) == 0 {
				return
			}
			then(req, r, result, result)
		}
	})
}
