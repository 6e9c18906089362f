package brain

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A found is a tool as find_tool described it. The form of such a result is not
// fixed, so it is read loosely: JSON objects with a name, or lines that begin
// with one.
type found struct {
	name     string
	line     string
	schema   bool // the members below are known
	props    []prop
	required []string
	root     string // an absolute path that the description mentions
}

type prop struct {
	name, kind string
	first      string // of an enum
	whole      bool   // an absolute path
}

var (
	nameLine   = regexp.MustCompile("^[\\s*#0-9.)-]*[`*]*([a-z][a-z0-9_]{1,63})[`*]*\\s*(?:[:(–—-]\\s*(.*))?$")
	quotedPath = regexp.MustCompile(`^"(/[^"\\]+)"`) // one with blanks in it
	absolute   = regexp.MustCompile(`(?:^|[\s"'` + "`" + `(=])((?:~|/[A-Za-z0-9._-]+)(?:/[A-Za-z0-9._-]+)*)`)
)

func readTools(result string) []found {
	var out []found
	rest := result
	for rest != "" {
		at := strings.IndexAny(rest, "{[")
		if at < 0 {
			return append(out, readLines(rest)...)
		}
		out = append(out, readLines(rest[:at])...)
		d := jsontext.NewDecoder(strings.NewReader(rest[at:]), jsontext.AllowDuplicateNames(true))
		v, err := d.ReadValue()
		if err != nil {
			rest = rest[at+1:]
			continue
		}
		rest = rest[at+int(d.InputOffset()):]
		named := readValue(v)
		if len(named) == 0 && len(out) > 0 {
			out[len(out)-1].readSchema(v) // a bare schema under its tool's line
		}
		out = append(out, named...)
	}
	return out
}

func readLines(text string) []found {
	var out []found
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := nameLine.FindStringSubmatch(line); m != nil && (strings.Contains(m[1], "_") || m[2] != "" || slices.Contains(known(), m[1])) {
			out = append(out, found{name: m[1], line: m[2], root: rootIn(m[2])})
		}
	}
	return out
}

// rootIn finds the first absolute path in a description: of the granted places,
// where they are told, else of any.
func rootIn(line string) string {
	if _, rest, ok := strings.Cut(line, "Granted: "); ok {
		line = rest
	}
	if m := quotedPath.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	if m := absolute.FindStringSubmatch(line); m != nil {
		return strings.TrimRight(m[1], ".")
	}
	return ""
}

// readValue finds tools in a JSON value, however deep.
func readValue(v jsontext.Value) []found {
	var out []found
	switch v.Kind() {
	case '[':
		var items []jsontext.Value
		if json.Unmarshal(v, &items, jsontext.AllowDuplicateNames(true)) == nil {
			for _, item := range items {
				out = append(out, readValue(item)...)
			}
		}
	case '{':
		m, order := members(v)
		var f found
		if json.Unmarshal(m["name"], &f.name) == nil && f.name != "" && m["properties"] == nil {
			for _, key := range []string{"line", "description"} {
				if json.Unmarshal(m[key], &f.line) == nil {
					break
				}
			}
			f.root = rootIn(f.line)
			for _, key := range []string{"schema", "parameters", "input_schema", "arguments"} {
				f.readSchema(m[key])
			}
			return []found{f}
		}
		for _, key := range order {
			if key != "properties" && key != "examples" && key != "default" { // of a schema: those may have names too
				out = append(out, readValue(m[key])...)
			}
		}
	}
	return out
}

func members(v jsontext.Value) (map[string]jsontext.Value, []string) {
	m, order := make(map[string]jsontext.Value), []string(nil)
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true))
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return m, nil
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			break
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			break
		}
		m[key] = value.Clone()
		order = append(order, key)
	}
	return m, order
}

// readSchema takes the arguments from a JSON schema, or from a JSON text of one.
func (f *found) readSchema(v jsontext.Value) {
	var text string
	if v.Kind() == '"' && json.Unmarshal(v, &text) == nil {
		v = jsontext.Value(text)
	}
	if v.Kind() != '{' || !v.IsValid(jsontext.AllowDuplicateNames(true)) {
		return
	}
	m, _ := members(v)
	if m["properties"].Kind() != '{' {
		return
	}
	f.schema, f.props, f.required = true, nil, nil
	_ = json.Unmarshal(m["required"], &f.required) // a wrong list counts as empty
	ps, order := members(m["properties"])
	for _, name := range order {
		p := prop{name: name}
		pm, _ := members(ps[name])
		_ = json.Unmarshal(pm["type"], &p.kind) // "" counts as text
		var about string
		_ = json.Unmarshal(pm["description"], &about) // "" says nothing
		p.whole = strings.HasPrefix(about, "Absolute path")
		var values []string
		if json.Unmarshal(pm["enum"], &values) == nil && len(values) > 0 {
			p.first = values[0]
		}
		f.props = append(f.props, p)
	}
}
