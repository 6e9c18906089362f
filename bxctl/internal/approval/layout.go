package approval

import (
	"strings"
	"unicode"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// A row is what fits beside the gutter of one line of a text.
type row struct {
	text   string
	goesOn bool   // it goes on with the line of the row above
	line   string // the whole line's first bytes, for its colour
}

// maxMarks is how many marks may stand on one letter. More of them paint over
// the rows above and below.
const maxMarks = 2

// layout breaks a text into rows of at most width columns. It is broken at the
// column and not at words: nothing is left out or moved.
func layout(s string, width int) []row {
	var out []row
	for line := range strings.SplitSeq(term.Safe(s), "\n") {
		line = strings.ReplaceAll(tame(line), "\t", "    ")
		start := line[:min(len(line), 2)]
		from, n, goesOn := 0, 0, false
		base, above := 0, 0 // the last letter of its own, and the columns up to it
		for i, r := range line {
			w := columns(r)
			if !rides(r) {
				base, above = i, n
			}
			if n+w > width && base > from { // never between a letter and its marks
				out = append(out, row{line[from:base], goesOn, start})
				from, n, goesOn = base, n-above, true
				above = 0
			}
			n += w
		}
		out = append(out, row{line[from:], goesOn, start})
	}
	return out
}

// columns is the most that any terminal takes for a rune: fonts, settings and
// versions of Unicode differ, and a row that is wider than was thought would go
// on in the next line of the screen, without a gutter.
func columns(r rune) int {
	if r < 0x80 {
		return 1
	}
	return 2
}

// rides reports whether a rune is drawn onto the one before it.
func rides(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) || r == 0xfe0e || r == 0xfe0f
}

// joiners draw what follows onto what is before them. Some terminals do so over
// the end of a row, with the frame's own edge.
var joiners = strings.NewReplacer("\u200c", "<U+200C>", "\u200d", "<U+200D>") //nolint:gochecknoglobals // a table

// tame shows joiners by number, and marks where they stand on nothing or are too
// many.
func tame(line string) string {
	line = joiners.Replace(line)
	marks, changed := maxMarks, false // at the start there is no letter
	for _, r := range line {
		if unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) {
			changed = true
		}
	}
	if !changed {
		return line
	}
	var b strings.Builder
	for _, r := range line {
		switch {
		case !unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc):
			marks = 0
			if r == ' ' || r == '\t' {
				marks = maxMarks
			}
		case marks >= maxMarks || unicode.Is(unicode.Me, r):
			b.WriteString("<U+" + hex(r) + ">")
			continue
		default:
			marks++
		}
		b.WriteRune(r)
	}
	return b.String()
}

func hex(r rune) string {
	const digits = "0123456789ABCDEF"
	s := ""
	for ; r > 0 || len(s) < 4; r >>= 4 {
		s = digits[r&15:r&15+1] + s
	}
	return s
}

// words breaks text of ours at spaces.
func words(s string, width int) []string {
	var out []string
	line := ""
	for _, w := range strings.Fields(s) {
		switch {
		case line == "":
			line = w
		case term.Columns(line)+1+term.Columns(w) <= width:
			line += " " + w
		default:
			out, line = append(out, line), w
		}
	}
	out = append(out, line)
	for i, l := range out {
		out[i] = term.Clip(l, width)
	}
	return out
}

// Line sums an approval up in one line: code, tool, first argument, session.
func Line(a *proto.Approval, o Options) string {
	s := word(a.Code) + "  " + word(a.Tool)
	if len(a.Fields) > 0 {
		// Short enough for any terminal's widths.
		s += "  " + clip(tame(term.Line(a.Fields[0].Value)), max(o.Width-term.Columns(s)-4, 8))
	}
	return term.Clip(s, o.Width)
}

// clip cuts by the most columns that a terminal may take.
func clip(s string, width int) string {
	n := 0
	for i, r := range s {
		if n += columns(r); n > width-2 {
			return s[:i] + "…"
		}
	}
	return s
}
