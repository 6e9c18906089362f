package serve

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// What find_tool gives at most with schemas, and looks at of a query. A model
// reads all of it, at each search.
const (
	maxShown   = 3
	maxSchemas = 1800 // bytes of schemas, beside the first
	maxWords   = 24
	maxQuery   = 4 << 10 // bytes
)

// find gives the tools that some grant permits to the session as it is now: those that fit the query best
// with a schema, the others by their names and lines.
func (s *server) find(m *proto.FindTools) (proto.Message, error) {
	set, err := s.cfg.Grants()
	if err != nil {
		return nil, err
	}
	r := grant.Request{Now: s.cfg.Now()}
	r.Taint, r.Untrusted, _ = s.cfg.Taint(m.Session) // with an error it gives the worst, which is what decides too
	var granted []*tool.Tool
	for _, t := range tool.All() {
		if set.Permits(t.Name, r) {
			granted = append(granted, t)
		}
	}
	return &proto.ToolList{Tools: shown(granted, m.Query, func(name string) string { return places(set, name, r) })}, nil
}

// shown describes tools for a query; where tells the places of one.
func shown(granted []*tool.Tool, query string, where func(name string) string) []proto.ToolInfo {
	out := []proto.ToolInfo{}
	order, whole := rank(granted, query)
	size := 0
	for i, t := range order {
		info := proto.ToolInfo{Name: t.Name, Line: t.Line}
		if schema := brief(t.Schema()); i < whole && (i == 0 || size+len(schema) <= maxSchemas) {
			info.Line += where(t.Name)
			info.Schema = schema
			size += len(schema)
		}
		out = append(out, info)
	}
	return out
}

// maxPlaces is how many places a tool's line names: a model has to read them.
const maxPlaces = 6

// places tells a model where a tool may be used, so that it need not guess: the
// paths and hosts of the grants that can allow, and nothing else of them.
func places(set grant.Set, name string, r grant.Request) string {
	var all []string
	add := func(list []string) {
		for _, p := range list {
			if set.Denied(name, p, r) {
				continue
			}
			if strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'`,()<>|", r) }) {
				p = strconv.Quote(p)
			}
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	for _, g := range set.Grants {
		if g.Tool != name || !g.Open(r) {
			continue
		}
		if name != tool.NameWriteFile && name != tool.NameEditFile {
			add(g.Paths.Read)
		}
		add(g.Paths.Write)
		add(g.Net.Hosts)
	}
	switch {
	case len(all) == 0:
		return ""
	case len(all) > maxPlaces:
		all = append(all[:maxPlaces], "and more")
	}
	return " Granted: " + strings.Join(all, ", ")
}

// rank orders tools by how well they fit a query. The first whole of them fit
// well: they have at least half the points of the best.
func rank(all []*tool.Tool, query string) (order []*tool.Tool, whole int) {
	words := split(query[:min(len(query), maxQuery)])
	words = words[:min(len(words), maxWords)]
	points, best := score(all, slices.DeleteFunc(slices.Clone(words), func(w string) bool { return dull(w) || strings.HasPrefix(w, "file") }))
	if best == 0 { // "files" alone
		points, best = score(all, slices.DeleteFunc(words, dull))
	}
	order = slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *tool.Tool) int { return cmp.Compare(points[b.Name], points[a.Name]) })
	if best == 0 && len(order) > maxShown { // names first: it can ask for one by its name
		return order, 0
	}
	for whole < min(len(order), maxShown) && 2*points[order[whole].Name] >= best {
		whole++
	}
	return order, whole
}

// score gives points for words, and where they are: in the name, the line, or
// the schema.
func score(all []*tool.Tool, words []string) (points map[string]int, best int) {
	points = map[string]int{}
	for _, t := range all {
		for _, w := range words {
			points[t.Name] += 6*has(t.Name, w) + 3*has(t.Line, w) + has(string(t.Schema()), w)
		}
		best = max(best, points[t.Name])
	}
	return points, best
}

// dull reports whether a word of a query says nothing about a tool: all of them
// have it, or none is meant by it.
func dull(word string) bool {
	switch word {
	case "a", "an", "the", "my", "me", "to", "of", "for", "in", "on", "and", "or", "with", "by", "from", "is", "it", "tool", "tools", "all", "any":
		return true
	default:
		return false
	}
}

// has is 2 for a whole word of the text, 1 for the start of one, 0 for neither.
func has(text, word string) int {
	best := 0
	for _, w := range split(text) {
		switch {
		case w == word:
			return 2
		case len(word) >= 3 && (strings.HasPrefix(w, word) || len(w) >= 4 && strings.HasPrefix(word, w)):
			best = 1
		}
	}
	return best
}

func split(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// tools tells the owner what there is, and what is granted of it.
func (s *server) tools() (proto.Message, error) {
	set, err := s.cfg.Grants()
	if err != nil {
		return nil, err
	}
	table := &proto.ToolTable{Tools: []proto.ToolRow{}}
	for _, t := range tool.All() {
		row := proto.ToolRow{Name: t.Name, Line: t.Line, Schema: string(t.Schema()), Grants: []string{}}
		for _, g := range set.Grants {
			if g.Tool == t.Name && !g.Expired(s.cfg.Now()) {
				row.Grants = append(row.Grants, g.ID)
			}
		}
		table.Tools = append(table.Tools, row)
	}
	return table, nil
}
