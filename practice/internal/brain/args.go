package brain

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An arg is one argument that a wish knows, under our own name for it.
type arg struct {
	name  string
	value any // string, []string or int
}

// synonyms are what tools may call an argument.
func synonyms(name string) []string {
	all := map[string][]string{
		"path":    {"path", "dir", "directory", "folder", "file", "filename"},
		"query":   {"query", "pattern", "q", "text", "search", "question"},
		"text":    {"text", "content", "body", "data", "note", "value"},
		"old":     {"old", "old_text", "find", "from", "search"},
		"new":     {"new", "new_text", "replace", "to", "replacement"},
		"argv":    {"argv", "args", "command", "cmd"},
		"command": {"command", "cmd", "line", "script"},
		"url":     {"url", "uri", "address"},
		"op":      {"op", "operation", "action"},
	}
	if s, ok := all[name]; ok {
		return s
	}
	return []string{name}
}

// arguments makes the JSON text of a call: the wish's arguments under the
// tool's names; members that the schema does not have are left out, required
// ones that are missing are filled.
func (f *found) arguments(args []arg, filler string) string {
	type member struct {
		name  string
		value any
	}
	var out []member
	has := func(name string) bool {
		return slices.ContainsFunc(out, func(m member) bool { return m.name == name })
	}
	for _, a := range args {
		name, p := a.name, prop{}
		if f.schema {
			i := slices.IndexFunc(f.props, func(p prop) bool { return slices.Contains(synonyms(a.name), p.name) && !has(p.name) })
			if i < 0 {
				continue
			}
			p = f.props[i]
			name = p.name
		}
		out = append(out, member{name, convert(a.value, p.kind, f.root)})
	}
	for _, p := range f.props {
		if slices.Contains(f.required, p.name) && !has(p.name) {
			out = append(out, member{p.name, fill(p, filler)})
		}
	}
	var b strings.Builder
	e := jsontext.NewEncoder(&b)
	_ = e.WriteToken(jsontext.BeginObject)
	for _, m := range out {
		_ = e.WriteToken(jsontext.String(m.name))
		_ = json.MarshalEncode(e, m.value)
	}
	_ = e.WriteToken(jsontext.EndObject)
	return strings.TrimSpace(b.String())
}

// convert fits a value to a schema's type, and a relative path under the folder
// that the tool's description names.
func convert(v any, kind, root string) any {
	switch x := v.(type) {
	case path:
		if root != "" && !strings.HasPrefix(string(x), "/") && !strings.HasPrefix(string(x), "~") {
			if base := root[strings.LastIndex(root, "/")+1:]; base == string(x) || x == "." {
				return root
			}
			return root + "/" + string(x)
		}
		return string(x)
	case []string:
		if kind == "string" {
			return strings.Join(x, " ")
		}
	case string:
		if kind == "array" {
			return []string{x}
		}
	}
	return v
}

type path string

func fill(p prop, filler string) any {
	switch {
	case p.first != "":
		return p.first
	case p.kind == "integer" || p.kind == "number":
		return 1
	case p.kind == "boolean":
		return true
	case p.kind == "array":
		return []string{}
	case p.kind == "object":
		return map[string]string{}
	default:
		return filler
	}
}
