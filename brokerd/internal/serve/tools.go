package serve

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// maxFound is how many tools find_tool gives: a model reads all of them.
const maxFound = 8

// find gives the tools that some grant permits, those that fit the query best
// first; all of them for a query without words.
func (s *server) find(m *proto.FindTools) (proto.Message, error) {
	set, err := s.cfg.Grants()
	if err != nil {
		return nil, err
	}
	var granted []*tool.Tool
	for _, t := range tool.All() {
		if set.Permits(t.Name, s.cfg.Now()) {
			granted = append(granted, t)
		}
	}
	list := &proto.ToolList{Tools: []proto.ToolInfo{}}
	for _, t := range rank(granted, m.Query) {
		list.Tools = append(list.Tools, proto.ToolInfo{Name: t.Name, Line: t.Line + places(set, t.Name, s.cfg.Now()), Schema: string(t.Schema)})
	}
	return list, nil
}

// maxPlaces is how many places a tool's line names: a model has to read them.
const maxPlaces = 6

// places tells a model where a tool may be used, so that it need not guess: the
// paths and hosts of the grants that can allow, and nothing else of them.
func places(set grant.Set, name string, now time.Time) string {
	var all []string
	add := func(list []string) {
		for _, p := range list {
			if strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'`,()<>|", r) }) {
				p = strconv.Quote(p)
			}
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	for _, g := range set.Grants {
		if g.Tool != name || g.Expired(now) || g.Mode == grant.Deny {
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

// rank orders tools by how many words of the query they have, and where: in the
// name, the line, or the schema.
func rank(all []*tool.Tool, query string) []*tool.Tool {
	words := split(query)
	points := map[string]int{}
	var found []*tool.Tool
	for _, t := range all {
		for _, w := range words {
			points[t.Name] += 6*has(t.Name, w) + 3*has(t.Line, w) + has(string(t.Schema), w)
		}
		if points[t.Name] > 0 || len(words) == 0 {
			found = append(found, t)
		}
	}
	if len(found) == 0 { // better all than none: a small model seldom asks twice
		found = slices.Clone(all)
	}
	slices.SortStableFunc(found, func(a, b *tool.Tool) int { return cmp.Compare(points[b.Name], points[a.Name]) })
	return found[:min(len(found), maxFound)]
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
		row := proto.ToolRow{Name: t.Name, Line: t.Line, Schema: string(t.Schema), Grants: []string{}}
		for _, g := range set.Grants {
			if g.Tool == t.Name && !g.Expired(s.cfg.Now()) {
				row.Grants = append(row.Grants, g.ID)
			}
		}
		table.Tools = append(table.Tools, row)
	}
	return table, nil
}
