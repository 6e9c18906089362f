package brain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/tool"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// offer is a result of find_tool with the real tools, as brokerd and loopd write
// it. Only this test knows them: the practice model reads what it is sent.
func offer(granted string, names ...string) string {
	var b strings.Builder
	b.WriteString("Run one of these with call_tool.\n")
	for _, n := range names {
		t := tool.Find(n)
		fmt.Fprintf(&b, "\n%s: %s%s\narguments: %s\n", t.Name, t.Line, granted, t.Schema())
	}
	b.WriteString("\nThere are also these. To see the arguments of one, call find_tool with its name.\n")
	for _, t := range tool.All() {
		if !slices.Contains(names, t.Name) {
			fmt.Fprintf(&b, "%s: %s\n", t.Name, t.Line)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// Each request becomes a call that the real tool takes.
func TestRealSchemas(t *testing.T) {
	const ws = " Granted: /home/me/Boxmaker"
	all := []string{"list_files", "read_file", "search_files", "write_file", "edit_file", "run", "shell", "http_fetch"}
	for _, c := range []struct{ ask, granted, name, args string }{
		{"list my notes", ws, "list_files", `{"path":"/home/me/Boxmaker"}`},
		{"list files in ~/Boxmaker/sub", ws, "list_files", `{"path":"/home/me/Boxmaker/sub"}`},
		{"list /etc", ws, "list_files", `{"path":"/etc"}`},
		{"list my files", ` Granted: "/home/me/My Files", /tmp/x`, "list_files", `{"path":"/home/me/My Files"}`},
		{"list the files in my workspace", ws, "list_files", `{"path":"/home/me/Boxmaker"}`}, // as welcome.md says
		{"write a file hello.txt with the text: good morning", ws, "write_file", `{"path":"/home/me/Boxmaker/hello.txt","content":"good morning"}`},
		{"read welcome.md", ws, "read_file", `{"path":"/home/me/Boxmaker/welcome.md"}`},
		{"read /x/y.txt", "", "read_file", `{"path":"/x/y.txt"}`},
		{"search my notes for rent (2026)", ws, "search_files", `{"path":"/home/me/Boxmaker","pattern":"(?i)rent \\(2026\\)"}`},
		{"find rent in /home/me/x", ws, "search_files", `{"path":"/home/me/x","pattern":"(?i)rent"}`},
		{"write hello to /x/y.txt", ws, "write_file", `{"path":"/x/y.txt","content":"hello"}`},
		{`write "hello there" to a.txt`, ws, "write_file", `{"path":"/home/me/Boxmaker/a.txt","content":"hello there"}`},
		{"overwrite a.txt with bye", ws, "write_file", `{"path":"/home/me/Boxmaker/a.txt","content":"bye","mode":"overwrite"}`},
		{"replace A with B in a.txt", ws, "edit_file", `{"path":"/home/me/Boxmaker/a.txt","old":"A","new":"B"}`},
		{`replace "old text" with "new text" in /x/y.txt`, ws, "edit_file", `{"path":"/x/y.txt","old":"old text","new":"new text"}`},
		{"run uname -a", "", "run", `{"argv":["uname","-a"]}`},
		{"run ls -l", ws, "run", `{"argv":["ls","-l"],"dir":"/home/me/Boxmaker"}`},
		{"shell: ls | wc -l", ws, "shell", `{"command":"ls | wc -l","dir":"/home/me/Boxmaker"}`},
		{"fetch https://example.com/a?b=c", " Granted: example.com:443", "http_fetch", `{"url":"https://example.com/a?b=c"}`},
		{"fetch example.com", "", "http_fetch", `{"url":"https://example.com"}`},
	} {
		t.Run(c.ask+c.granted, func(t *testing.T) {
			b := New()
			req := ask(c.ask)
			names := all
			if c.name != "shell" && c.name != "run" { // as brokerd does it: those that fit, the others by name
				names = []string{c.name}
			}
			r := b.Reply(then(req, b.Reply(req), offer(c.granted, names...)))
			if len(r.Calls) != 1 || r.Calls[0].Name != "call_tool" {
				t.Fatalf("called %q, said %q", calls(r), r.Content)
			}
			var call struct {
				Name      string         `json:"name"`
				Arguments jsontext.Value `json:"arguments"`
			}
			if err := json.Unmarshal([]byte(r.Calls[0].Arguments), &call); err != nil {
				t.Fatal(err)
			}
			if call.Name != c.name || string(call.Arguments) != c.args {
				t.Errorf("called %s%s, want %s%s", call.Name, call.Arguments, c.name, c.args)
			}
			if _, err := tool.Find(call.Name).Decode(string(call.Arguments)); err != nil {
				t.Errorf("the tool does not take %s: %v", call.Arguments, err)
			}
		})
	}
}

// Where no folder is known, the owner is asked for the whole path.
func TestAsksForThePath(t *testing.T) {
	for _, message := range []string{"list my notes", "read welcome.md", "write x to a.txt", "change a to b in ~/c.txt", "search my notes for x"} {
		b := New()
		req := ask(message)
		r := b.Reply(then(req, b.Reply(req), offer("", "list_files", "read_file", "search_files", "write_file", "edit_file")))
		if len(r.Calls) != 0 || !strings.Contains(r.Content, "whole path, beginning with `/`") {
			t.Errorf("%s: called %q, said %q", message, calls(r), r.Content)
		}
	}
}

// A tool that is only named is asked for by its name, once.
func TestAsksForTheArguments(t *testing.T) {
	b := New()
	req := ask("recall the rent")
	first := b.Reply(req)
	req = then(req, first, offer(" Granted: /home/me/Boxmaker", "read_file"))
	second := b.Reply(req)
	if got := calls(second); !strings.Contains(got, `find_tool{"query":"search_files"}`) {
		t.Fatalf("called %s", got)
	}
	third := b.Reply(then(req, second, offer(" Granted: /home/me/Boxmaker", "search_files")))
	if got := calls(third); !strings.Contains(got, "call_tool") || !strings.Contains(got, "/home/me/Boxmaker") {
		t.Errorf("called %s", got)
	}
	third = b.Reply(then(req, second, offer("", "read_file")))
	if got := calls(third); strings.Contains(got, "find_tool") {
		t.Errorf("asks again and again: %s", got)
	}
}
