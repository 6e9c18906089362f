package brain

import (
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An arg is one argument that a wish knows, under our own name for it.
type arg struct {
	name  string
	value any // string, []string, path, maybe or words
}

// A path counts from the folder that a tool's description names, if it is
// relative.
type path string

// maybe is a path that is left out where no folder is known.
type maybe path

// words are to be searched for as they are; where a tool takes a pattern, as one.
type words string

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
		if m, ok := a.value.(maybe); ok {
			if f.root == "" || !f.schema {
				continue
			}
			a.value = path(m)
		}
		if f.schema {
			i := slices.IndexFunc(f.props, func(p prop) bool { return slices.Contains(synonyms(a.name), p.name) && !has(p.name) })
			if i < 0 {
				continue
			}
			p = f.props[i]
			name = p.name
		}
		if w, ok := a.value.(words); ok {
			a.value = string(w)
			if name == "pattern" {
				a.value = "(?i)" + regexp.QuoteMeta(string(w))
			}
		}
		out = append(out, member{name, convert(a.value, p.kind, f.root)})
	}
	for _, p := range f.props {
		if slices.Contains(f.required, p.name) && !has(p.name) {
			if f.root != "" && slices.Contains(synonyms("path"), p.name) {
				out = append(out, member{p.name, f.root})
				continue
			}
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
		s, _ := x.under(root)
		return s
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

// under gives the path with the folder that it counts from; false if it is
// relative and there is none.
func (p path) under(root string) (string, bool) {
	s := string(p)
	base := root[strings.LastIndex(root, "/")+1:]
	if rest, ok := strings.CutPrefix(s, "~/"); ok && base != "" && (rest == base || strings.HasPrefix(rest, base+"/")) {
		return root + rest[len(base):], true // the owner's own way to name the folder
	}
	switch {
	case strings.HasPrefix(s, "/"):
		return s, true
	case root == "" || strings.HasPrefix(s, "~"):
		return s, false
	case s == base || s == "." || s == "notes": // "my notes" is whatever folder there is
		return root, true
	default:
		return root + "/" + s, true
	}
}

// lacks gives a path of the wish that no folder is known for, if the tool takes
// whole paths only.
func (f *found) lacks(args []arg) (string, bool) {
	if !slices.ContainsFunc(f.props, func(p prop) bool { return p.whole }) {
		return "", false
	}
	for _, a := range args {
		if p, ok := a.value.(path); ok {
			if s, ok := p.under(f.root); !ok {
				return s, true
			}
		}
	}
	return "", false
}

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
