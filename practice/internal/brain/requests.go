package brain

import (
	"regexp"
	"strings"

	"boxmaker/practice/internal/gen"
)

// askTime passes on a time zone that is named as the clock wants it.
func askTime(t *turn, _ []string) gen.Reply {
	var args []arg
	if zone := zoneName.FindString(t.text); zone != "" {
		args = append(args, arg{"zone", zone})
	}
	return t.want(wish{
		what: "the time", tools: []string{"clock"}, query: "time", args: args,
		show: func(result string) string { return "The clock says:\n\n" + fence(result) },
	})
}

// zoneName is an IANA time zone.
var zoneName = regexp.MustCompile(`\b(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[A-Z][A-Za-z_]+`)

func askTools(t *turn, m []string) gen.Reply { return findTool(t, []string{m[0], ""}) }

func findTool(t *turn, m []string) gen.Reply {
	var declared strings.Builder
	declared.WriteString("Declared in this conversation:\n")
	for _, tool := range t.req.Tools {
		declared.WriteString("\n- `" + tool.Name + "`: " + inert(oneLine(tool.Description, 120)))
	}
	if len(t.req.Tools) == 0 {
		declared.WriteString("\n- none")
	}
	if _, can := t.tool("find_tool"); !can {
		return gen.Reply{Content: declared.String()}
	}
	query := strings.TrimSpace(m[1])
	if query == "" {
		query = "all"
	}
	r := t.want(wish{
		what: "the tools that are granted", tools: []string{"find_tool"}, args: []arg{{"query", query}},
		show: func(result string) string {
			return declared.String() + "\n\nGranted, according to `find_tool`:\n\n" + fence(result)
		},
	})
	if ref, refused := t.refused(); refused && len(r.Calls) == 0 {
		r.Content = declared.String() + "\n\n" + explain("the tools that are granted", ref)
	}
	return r
}

// place is the path that a message names; the words for "my notes" stand for
// themselves.
func place(s string) path {
	s = unquote(strings.TrimRight(strings.TrimSpace(s), ",;"))
	switch strings.ToLower(s) {
	case "", "file", "files", "workspace", "folder", "folders", "directory", "directories", "documents":
		return "."
	case "note":
		return "notes"
	}
	return path(s)
}

func listFiles(t *turn, m []string) gen.Reply {
	where := place(m[1])
	return t.want(wish{what: "a list of the files in `" + inert(string(where)) + "`", tools: []string{"list_files"}, query: "list files", args: []arg{{"path", where}}})
}

func readFile(t *turn, m []string) gen.Reply {
	where := place(m[1])
	return t.want(wish{what: "what is in `" + inert(string(where)) + "`", tools: []string{"read_file"}, query: "read a file", args: []arg{{"path", where}}})
}

func searchFiles(t *turn, m []string) gen.Reply {
	where := path("notes")
	if len(m) > 2 {
		where = place(m[2])
	}
	text := unquote(m[1])
	return t.want(wish{
		what: "what mentions \"" + inert(text) + "\"", tools: []string{"search_files"}, query: "search files",
		args: []arg{{"path", where}, {"query", words(text)}},
	})
}

func writeFile(t *turn, where, text, mode string) gen.Reply {
	p := place(where)
	args := []arg{{"path", p}, {"text", unquote(text)}}
	if mode != "" {
		args = append(args, arg{"mode", mode})
	}
	return t.want(wish{
		what: "the text to be written to `" + inert(string(p)) + "`", tools: []string{"write_file"}, query: "write a file",
		args: args,
		show: func(result string) string {
			return "Written to `" + inert(string(p)) + "`. The tool says:\n\n" + fence(result)
		},
	})
}

func editFile(t *turn, m []string) gen.Reply {
	p := place(m[3])
	return t.want(wish{
		what: "a change in `" + inert(string(p)) + "`", tools: []string{"edit_file"}, query: "edit a file",
		args: []arg{{"path", p}, {"old", unquote(m[1])}, {"new", unquote(m[2])}},
		show: func(result string) string {
			return "Changed in `" + inert(string(p)) + "`. The tool says:\n\n" + fence(result)
		},
	})
}

func run(t *turn, m []string) gen.Reply {
	line := unquote(m[1])
	return t.want(wish{
		what: "the output of `" + inert(line) + "`", tools: []string{"run", "shell"}, query: "run a program",
		args: []arg{{"argv", strings.Fields(line)}, {"dir", maybe(".")}},
	})
}

func shell(t *turn, m []string) gen.Reply {
	line := unquote(m[1])
	return t.want(wish{
		what: "the output of `" + inert(line) + "`", tools: []string{"shell", "run"}, query: "shell command",
		args: []arg{{"command", line}, {"dir", maybe(".")}},
	})
}

func fetch(t *turn, m []string) gen.Reply {
	url := m[1]
	if !strings.Contains(url, "://") {
		url = "https://" + url
	}
	return t.want(wish{what: "the page at " + inert(url), tools: []string{"http_fetch"}, query: "fetch a web page", args: []arg{{"url", url}}})
}

func remember(t *turn, m []string) gen.Reply {
	return t.want(wish{
		what: "a note in memory", tools: []string{"memory"}, query: "remember a note",
		args: []arg{{"op", "note"}, {"text", m[1]}},
		show: func(result string) string { return "Noted. The memory says:\n\n" + fence(result) },
	})
}

func recall(t *turn, m []string) gen.Reply {
	return t.want(wish{
		what: "what is known about \"" + inert(m[1]) + "\"", tools: []string{"recall", "ask_memory", "search_files"}, query: "recall notes",
		args: []arg{{"query", words(unquote(m[1]))}},
	})
}

func delegate(t *turn, m []string) gen.Reply {
	return t.want(wish{what: "an answer from a subagent", tools: []string{"subagent"}, query: "subagent", args: []arg{{"task", unquote(m[1])}}})
}

func consult(t *turn, m []string) gen.Reply {
	return t.want(wish{what: "an answer from the consulted model", tools: []string{"consult"}, query: "consult another model", args: []arg{{"question", unquote(m[1])}}})
}

// summary lists what was asked: that much of a conversation can be told by rule.
func summary(t *turn, _ []string) gen.Reply {
	var b strings.Builder
	b.WriteString("What you asked in this conversation:\n")
	asked := t.asked[:len(t.asked)-1]
	if len(asked) > 20 {
		b.WriteString("\n- (earlier messages left out)")
		asked = asked[len(asked)-20:]
	}
	for _, a := range asked {
		b.WriteString("\n- " + inert(oneLine(a, 200)))
	}
	if len(asked) == 0 {
		b.WriteString("\n- nothing yet")
	}
	return gen.Reply{Content: b.String()}
}
