package serve

import (
	"fmt"
	"strings"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"

	"github.com/go-json-experiment/json/jsontext"
)

// size is what a model reads of a list, as loopd writes it.
func size(list []proto.ToolInfo) int {
	n := 0
	for _, t := range list {
		n += len(t.Name) + len(t.Line) + len(t.Schema) + len("\n: \narguments: \n")
	}
	return n
}

func described(list []proto.ToolInfo) (whole, named []string) {
	for _, t := range list {
		if t.Schema != "" {
			whole = append(whole, t.Name)
		} else {
			named = append(named, t.Name)
		}
	}
	return whole, named
}

// Everything that is granted is named at each search, and only what fits has a
// schema: a small model has to read it all.
func TestCase_P71_FoundToolsAreFew(t *testing.T) {
	for _, tc := range []struct {
		query string
		want  string // the first one
		whole int    // with a schema, at most
	}{
		{"list files", "list_files", 3},
		{"read a file", "read_file", 3},
		{"search files", "search_files", 3},
		{"write a file", "write_file", 3},
		{"edit a file", "edit_file", 3},
		{"run a program", "run", 3},
		{"shell command", "shell", 3},
		{"fetch a web page", "http_fetch", 1},
		{"http_fetch", "http_fetch", 1},
		{"replace the text of a file", "write_file", 3},
		{"grep", "search_files", 1},
		{"download", "http_fetch", 1},
		{"Which folders are there?", "list_files", 3},
		{"files", "list_files", 3},
		{"zebra", "list_files", 0},
		{"all", "list_files", 0},
		{"", "list_files", 0},
		{"\x00\xff " + strings.Repeat("x ", 5000), "list_files", 0},
	} {
		t.Run(fmt.Sprintf("%.40q", tc.query), func(t *testing.T) {
			list := shown(tool.All(), tc.query, func(string) string { return " Granted: /home/me/notes, /home/me/Boxmaker" })
			whole, named := described(list)
			if list[0].Name != tc.want || len(whole) > tc.whole || tc.whole > 0 && len(whole) == 0 || len(whole)+len(named) != len(tool.All()) {
				t.Errorf("with a schema %v, named %v", whole, named)
			}
			if n := size(list); n > 2560 {
				t.Errorf("%d bytes", n)
			}
			t.Logf("%d bytes, whole %v", size(list), whole)
		})
	}
}

// With few tools there is nothing to choose.
func TestFewToolsAreShownWhole(t *testing.T) {
	few := []*tool.Tool{tool.Find("read_file"), tool.Find("write_file")}
	if whole, _ := described(shown(few, "zebra", places3)); len(whole) != 2 {
		t.Errorf("%v", whole)
	}
	if whole, _ := described(shown(nil, "zebra", places3)); len(whole) != 0 {
		t.Errorf("%v", whole)
	}
}

func places3(string) string { return "" }

// What makes a call right stays: names, types, choices, what is needed, words.
func TestBrief(t *testing.T) {
	for _, tc := range []struct{ name, schema, want string }{
		{
			"keywords that only check",
			`{"type":"object","properties":{"a":{"type":"integer","minimum":1,"maximum":2,"description":"d \u003c"},"b":{"type":"array","items":{"type":"string","maxLength":3},"minItems":1}},"required":["a"],"additionalProperties":false,"examples":[{"a":1}]}`,
			`{"type":"object","properties":{"a":{"type":"integer","description":"d \u003c"},"b":{"type":"array","items":{"type":"string"}}},"required":["a"]}`,
		},
		{
			"names that look like keywords",
			`{"properties":{"examples":{"type":"string","examples":["x"]},"minimum":{"enum":["a"],"default":"a"},"properties":{"properties":{"maximum":{}}}}}`,
			`{"properties":{"examples":{"type":"string"},"minimum":{"enum":["a"],"default":"a"},"properties":{"properties":{"maximum":{}}}}}`,
		},
		{"nothing left", `{"examples":[]}`, `{}`},
		{"no schema", `{"a":`, `{"a":`},
	} {
		if got := brief([]byte(tc.schema)); got != tc.want {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
	for _, x := range tool.All() {
		if got := brief(x.Schema()); !jsontext.Value(got).IsValid() || len(got) >= len(x.Schema()) || strings.Contains(got, `"examples"`) || !strings.Contains(got, `"required"`) {
			t.Errorf("%s: %s", x.Name, got)
		}
	}
}
