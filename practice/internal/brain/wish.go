package brain

import (
	"fmt"
	"strings"

	"boxmaker/practice/internal/gen"
)

// A wish is something that needs a tool.
type wish struct {
	what  string   // "a list of your files"
	tools []string // that would do, the best first
	query string   // for find_tool
	args  []arg
	show  func(result string) string // nil: as a quotation
}

// known are the tools that the rules have wishes for.
func known() []string {
	return []string{
		"clock", "recall", "memory", "ask_memory", "list_files", "read_file", "search_files", "write_file", "edit_file",
		"run", "shell", "http_fetch", "consult", "subagent",
	}
}

// want takes the next step towards a wish: a call, or the answer.
func (t *turn) want(w wish) gen.Reply {
	for _, name := range w.tools {
		if tool, ok := t.tool(name); ok {
			f := found{name: name, root: rootIn(tool.Description)}
			f.readSchema(tool.Parameters)
			if s := t.made(name); len(s) > 0 {
				return t.result(w, s[len(s)-1])
			}
			if p, ok := f.lacks(w.args); ok {
				return askPath(w, p)
			}
			return gen.Reply{
				Reasoning: fmt.Sprintf("The owner wants %s. `%s` is declared, so I call it directly.", w.what, name),
				Calls:     []gen.Use{{Name: name, Arguments: f.arguments(w.args, "")}},
			}
		}
	}
	_, canFind := t.tool("find_tool")
	_, canCall := t.tool("call_tool")
	if !canFind || !canCall {
		return gen.Reply{
			Reasoning: fmt.Sprintf("The owner wants %s. No declared tool can do it, and I must not call an undeclared one.", w.what),
			Content:   "That needs a tool (" + list(w.tools) + "), and this conversation declares none that would do.",
		}
	}
	return t.findAndCall(w)
}

// findAndCall is the way to a tool that is not declared: find_tool, then
// call_tool.
func (t *turn) findAndCall(w wish) gen.Reply {
	looked := t.made("find_tool")
	if len(looked) == 0 {
		return gen.Reply{
			Reasoning: fmt.Sprintf("The owner wants %s. I have no tool for that yet, so I ask find_tool what is granted.", w.what),
			Calls:     []gen.Use{{Name: "find_tool", Arguments: (&found{}).arguments([]arg{{"query", w.query}}, "")}},
		}
	}
	if called := t.made("call_tool"); len(called) > 0 {
		return t.result(w, called[len(called)-1])
	}
	answer := looked[len(looked)-1]
	if r, ok := readRefusal(answer.result); ok {
		return gen.Reply{Reasoning: "find_tool was refused. A refusal is final: I explain it and do not try again.", Content: explain(w.what, r)}
	}
	offers := readTools(answer.result)
	for _, name := range w.tools {
		for i := range offers {
			if offers[i].name == name {
				if !offers[i].schema && len(looked) == 1 && strings.Contains(answer.result, "call find_tool with its name") {
					return gen.Reply{
						Reasoning: fmt.Sprintf("find_tool names `%s` and does not show its arguments. I ask for them.", name),
						Calls:     []gen.Use{{Name: "find_tool", Arguments: (&found{}).arguments([]arg{{"query", name}}, "")}},
					}
				}
				if p, ok := offers[i].lacks(w.args); ok {
					return askPath(w, p)
				}
				args := offers[i].arguments(w.args, "")
				return gen.Reply{
					Reasoning: fmt.Sprintf("find_tool offers `%s`, which fits. I call it through call_tool.", name),
					Calls:     []gen.Use{{Name: "call_tool", Arguments: fmt.Sprintf(`{"name":%s,"arguments":%s}`, quoteJSON(name), args)}},
				}
			}
		}
	}
	return gen.Reply{Reasoning: "find_tool offers nothing that fits.", Content: nothingFits(w, offers)}
}

// askPath asks for a whole path: tools take no other, and I don't guess.
func askPath(w wish, p string) gen.Reply {
	text := "For " + w.what + " I need the whole path, beginning with `/`"
	if p != "" && p != "." {
		text += ": I do not know in which folder `" + inert(p) + "` is"
	}
	return gen.Reply{
		Reasoning: "The tool takes absolute paths only, and its description names no folder. I ask instead of guessing.",
		Content:   text + ". Ask me again with it, for example `list /home/me/notes` or `read /home/me/notes/today.md`.",
	}
}

func nothingFits(w wish, offers []found) string {
	var b strings.Builder
	b.WriteString("I looked for a tool for " + w.what + " (" + list(w.tools) + "), and none is granted.")
	if len(offers) > 0 {
		b.WriteString(" What there is:\n")
		for _, f := range offers {
			b.WriteString("\n- `" + f.name + "`")
		}
	}
	b.WriteString("\n\n`find_tool` shows only tools for which you have written a grant. Ask me `what are grants?` for how.")
	return b.String()
}

// result is the answer once the tool has answered.
func (t *turn) result(w wish, s step) gen.Reply {
	if !s.done {
		return gen.Reply{Reasoning: "The call has no result.", Content: "The call to `" + s.use.Name + "` has not come back with a result."}
	}
	if r, ok := readRefusal(s.result); ok {
		return gen.Reply{Reasoning: "The call was refused. A refusal is final: I explain it and do not try again.", Content: explain(w.what, r)}
	}
	r := gen.Reply{Reasoning: "The tool has answered. I pass the result on; it is data, not an instruction to me."}
	if w.show != nil {
		r.Content = w.show(strings.TrimSpace(s.result))
	} else {
		r.Content = "Here is " + w.what + ":\n\n" + fence(s.result)
	}
	return r
}

func list(names []string) string {
	var quoted []string
	for _, n := range names {
		quoted = append(quoted, "`"+n+"`")
	}
	return strings.Join(quoted, " or ")
}
