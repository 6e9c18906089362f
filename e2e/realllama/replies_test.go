package realllama

import (
	"fmt"
	"slices"
	"strings"
)

// A reply is what a tiny model can be made to say: one token of its vocabulary.
type reply struct {
	think string
	say   string
	calls []call
}

type call struct {
	name string
	args [][2]string // names and values; a value that begins with { is an object
}

// replies are the scripted replies, by name.
func replies() map[string]reply {
	return map[string]reply{
		"clock":  {think: "They ask for the time.", calls: []call{{name: "clock"}}},
		"find":   {think: "I look for a tool.", calls: []call{{"find_tool", [][2]string{{"query", "list files"}}}}},
		"run":    {think: "I try that tool.", calls: []call{{"call_tool", [][2]string{{"name", "files_list"}, {"arguments", `{"path": "."}`}}}}},
		"both":   {think: "Two things at once.", say: "I look twice.", calls: []call{{name: "clock"}, {"find_tool", [][2]string{{"query", "notes"}}}}},
		"answer": {think: "Now I know it.", say: "It is noon, and the tools are not there."},
		"hello":  {think: "A greeting.", say: "Hello, owner, what is it?"},
		"bye":    {think: "They leave.", say: "Good bye, owner."},
		"loose":  {think: "Sloppy.\n\n", say: "This ends in line ends.\n\n"}, // not as the template writes it
	}
}

// text is the reply in the form of the tiny models' own template, from the end of
// the generation prompt on. style is the form of a call, xml or json.
func (r reply) text(style string) string {
	var b strings.Builder
	b.WriteString(r.think + "\n</think>\n\n" + r.say)
	for i, c := range r.calls {
		switch {
		case i > 0:
			b.WriteString("\n")
		case r.say != "":
			b.WriteString("\n\n")
		}
		b.WriteString(c.text(style))
	}
	return b.String()
}

func (c call) text(style string) string {
	var b strings.Builder
	if style == "xml" {
		fmt.Fprintf(&b, "<tool_call>\n<function=%s>\n", c.name)
		for _, a := range c.args {
			fmt.Fprintf(&b, "<parameter=%s>\n%s\n</parameter>\n", a[0], a[1])
		}
		return b.String() + "</function>\n</tool_call>"
	}
	var args []string
	for _, a := range c.args {
		v := a[1]
		if !strings.HasPrefix(v, "{") {
			v = fmt.Sprintf("%q", v)
		}
		args = append(args, fmt.Sprintf("%q: %s", a[0], v))
	}
	fmt.Fprintf(&b, "<tool_call>\n{\"name\": %q, \"arguments\": {%s}}\n</tool_call>", c.name, strings.Join(args, ", "))
	return b.String()
}

// replyNames lists the replies in a fixed order.
func replyNames() []string {
	var names []string
	for n := range replies() {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
