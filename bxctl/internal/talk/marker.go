package talk

import (
	"strings"

	"boxmaker/bxctl/internal/term"
)

// A marker puts those lines of a streamed text behind a gutter that could pass for
// lines of ours. The zero value is ready to use.
type marker struct {
	begin string // of the open line, while it can't be told what it looks like
	told  bool
}

// more gives what can be written after the next piece.
func (m *marker) more(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		whole := strings.HasSuffix(line, "\n")
		if m.told {
			out.WriteString(line)
		} else if m.begin += line; whole || settled(m.begin) {
			out.WriteString(term.Theirs(m.begin))
			m.begin, m.told = "", true
		}
		m.told = m.told && !whole
	}
	return out.String()
}

// end gives what was held back of the last line.
func (m *marker) end() string {
	rest := term.Theirs(m.begin)
	*m = marker{}
	return rest
}

// settled reports whether the begin of a line tells what the line looks like: more of
// it could not change that.
func settled(begin string) bool {
	begin = strings.TrimLeft(begin, " \t")
	switch {
	case begin == "":
		return false
	case term.Ours(begin):
		return true
	case strings.HasPrefix(begin, "─"), strings.HasPrefix(begin, "━"), strings.HasPrefix(begin, "═"): // a rule, as far as it is there
		return false
	default:
		return len(begin) > 1 || !strings.Contains(">!+", begin)
	}
}
