// Package toolset holds the tools that every request declares, and the default
// system prompt that explains them.
//
// There are three, and there will be few: everything that an owner grants is
// behind find_tool and call_tool, so the baseline has the same bytes however
// many tools exist. A tool is a schema and a description in tools/, and a
// struct in decode.go; a test ties them. The package guarantees that Tools
// always gives the same bytes, and that a request it decodes has the types of
// the schema. It decides nothing: whether a tool behind call_tool exists, and
// may run, is for brokerd.
package toolset

import (
	"embed"
	"fmt"
	"strings"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

//go:embed tools prompts
var files embed.FS

// Names of the declared tools, in the order in which they are declared.
const (
	clock    = "clock"
	findTool = "find_tool"
	callTool = "call_tool"
)

func names() []string { return []string{clock, findTool, callTool} }

// Tools returns the "tools" member of a request: an array of
// {"type":"function","function":{"name":…,"description":…,"parameters":…}}
// in compact form. It panics if an embedded file is broken, which a test rules out.
func Tools() jsontext.Value {
	b := []byte{'['}
	for i, name := range names() {
		if i > 0 {
			b = append(b, ',')
		}
		schema := jsontext.Value(file("tools/" + name + ".json"))
		if err := schema.Compact(); err != nil {
			panic(fmt.Sprintf("toolset: schema of %s: %v", name, err))
		}
		b = append(b, `{"type":"function","function":{"name":"`+name+`","description":`...)
		b, _ = jsontext.AppendQuote(b, file("tools/"+name+".txt")) // its only error is invalid UTF-8
		b = append(b, `,"parameters":`...)
		b = append(append(b, schema...), "}}"...)
	}
	return append(b, ']')
}

// DefaultSystem returns the system prompt for an owner who has not written one.
// It says nothing of the day, the place or the state of things.
func DefaultSystem() string { return file("prompts/system.md") }

func file(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("toolset: embedded file: %v", err))
	}
	return strings.TrimRight(string(b), "\n")
}

// FormatTools writes what the model reads as the result of find_tool: tools with
// their schemas first, then the names of those that have none here. The text of
// the tools is not neutralised here.
func FormatTools(tools []proto.ToolInfo) string {
	if len(tools) == 0 {
		return "No tool fits. Try other words once; if that finds nothing either, tell your owner that you have no tool for it."
	}
	var whole, named strings.Builder
	for _, t := range tools {
		line := strings.Join(strings.Fields(t.Line), " ")
		if t.Schema == "" {
			fmt.Fprintf(&named, "%s: %s\n", t.Name, line)
		} else {
			fmt.Fprintf(&whole, "\n%s: %s\narguments: %s\n", t.Name, line, t.Schema)
		}
	}
	text := whole.String()
	if text != "" {
		text = "Run one of these with call_tool.\n" + text
	}
	if named.Len() > 0 {
		if text != "" {
			text += "\n"
		}
		text += "There are also these. To see the arguments of one, call find_tool with its name.\n" + named.String()
	}
	return strings.TrimRight(text, "\n")
}
