package markdown

import "strings"

// feed takes one whole line and decides whether it ends the open block.
func (s *Stream) feed(line string) {
	switch {
	case s.kind == fenced:
		s.feedCode(line)
	case s.kind == listItem:
		s.feedList(line)
	default:
		s.feedPlain(line)
	}
}

func (s *Stream) feedCode(line string) {
	if s.endsFence(line) {
		s.emit([]span{{"```", dim}})
		s.kind, s.fence = none, ""
		return
	}
	for _, row := range codeRows(&s.code, line, s.width) {
		s.emit(row)
	}
}

func (s *Stream) endsFence(line string) bool {
	t := strings.TrimSpace(line)
	return len(t) >= len(s.fence) && strings.Trim(t, s.fence[:1]) == "" && indentOf(line) < 4
}

// fenceStart gives the fence that line opens.
func fenceStart(line string) (string, bool) {
	t := strings.TrimLeft(line, " ")
	if len(line)-len(t) > 3 || len(t) < 3 || t[0] != '`' && t[0] != '~' {
		return "", false
	}
	n := 0
	for n < len(t) && t[n] == t[0] {
		n++
	}
	if n < 3 || t[0] == '`' && strings.Contains(t[n:], "`") {
		return "", false
	}
	return t[:n], true
}

func (s *Stream) startFence(fence, line string) {
	s.flush()
	if s.began {
		s.emit(nil)
	}
	lang := strings.TrimSpace(strings.TrimLeft(strings.TrimLeft(line, " "), fence[:1]))
	s.emit([]span{inert("```"+lang, dim)})
	s.kind, s.fence, s.began = fenced, fence, true
	s.code = highlighter{lang: languageOf(lang)}
}

func (s *Stream) feedPlain(line string) {
	t := strings.TrimSpace(line)
	if t == "" {
		s.flush()
		return
	}
	if fence, ok := fenceStart(line); ok {
		s.startFence(fence, line)
		return
	}
	switch {
	case isHeading(line):
		s.flush()
		s.block, s.kind = []string{line}, paragraph
		s.flush()
		return
	case isItem(line) && !s.inTable():
		s.flush()
		s.start(line)
		return
	case strings.HasPrefix(t, ">") && s.kind != quote:
		s.flush()
	}
	if s.kind == none {
		s.kind = paragraph
		if strings.HasPrefix(t, ">") {
			s.kind = quote
		}
	}
	s.block = append(s.block, line)
	if s.kind == paragraph && (isRule(t) || len(s.block) > 1 && strings.Trim(t, "=") == "") { // a rule, or an underlined heading
		s.flush()
	}
}

// inTable: a row of a table may begin like an item.
func (s *Stream) inTable() bool { return len(s.block) > 1 && strings.HasPrefix(s.block[0], "|") }

// start begins a list item.
func (s *Stream) start(line string) {
	s.block, s.kind, s.indent = []string{line}, listItem, indentOf(line)
}

func (s *Stream) feedList(line string) {
	t := strings.TrimSpace(line)
	if s.inner != "" {
		s.block = append(s.block, line)
		if len(t) >= len(s.inner) && strings.Trim(t, s.inner[:1]) == "" {
			s.inner = ""
		}
		return
	}
	fence, isFence := fenceStart(t)
	switch {
	case t == "":
		s.blank = true
		s.block = append(s.block, "")
		return
	case isItem(line) && indentOf(line) <= s.indent+1: // the next item
		same := sameList(s.block[0], line)
		loose := s.blank
		s.flush()
		s.item, s.loose = same, loose
		s.start(line)
		return
	case indentOf(line) <= s.indent && (s.blank || isHeading(line) || isFence || isRule(t)):
		s.flush()
		s.feedPlain(line)
		return
	case isFence:
		s.inner = fence
	}
	s.blank = false
	s.block = append(s.block, line)
}

func indentOf(line string) int {
	n := 0
	for _, c := range line {
		switch c {
		case ' ':
			n++
		case '\t':
			n += 4
		default:
			return n
		}
	}
	return n
}

func isHeading(line string) bool {
	t := strings.TrimLeft(line, " ")
	n := len(t) - len(strings.TrimLeft(t, "#"))
	return len(line)-len(t) <= 3 && n >= 1 && n <= 6 && (len(t) == n || t[n] == ' ')
}

func isRule(t string) bool {
	t = strings.ReplaceAll(t, " ", "")
	return len(t) >= 3 && (strings.Trim(t, "-") == "" || strings.Trim(t, "*") == "" || strings.Trim(t, "_") == "")
}

// isItem reports whether line begins an item of a list.
func isItem(line string) bool { return marker(line) != "" }

// marker gives the mark of an item without its number: "-", "." and so on.
func marker(line string) string {
	t := strings.TrimLeft(line, " ")
	if isRule(strings.TrimSpace(t)) || indentOf(line) > 12 {
		return ""
	}
	n := 0
	for n < len(t) && n < 9 && t[n] >= '0' && t[n] <= '9' {
		n++
	}
	if n >= len(t) || n == 0 && strings.IndexByte("-*+", t[0]) < 0 || n > 0 && t[n] != '.' && t[n] != ')' {
		return ""
	}
	if n+1 < len(t) && t[n+1] != ' ' {
		return ""
	}
	return t[n : n+1]
}

func sameList(a, b string) bool { return marker(a) == marker(b) }
