package term

import (
	"strings"
	"unicode/utf8"
)

// Gutter stands before a line of others that would otherwise begin as only
// lines of this program do. No line of ours begins with it.
const Gutter = "┆ "

// Ours reports whether a line begins, white space left out, as only lines of
// this program may: with a piece of a frame, with one of the marks for a call, an
// approval or a message that the owner sent, or with a gutter. A line of a model
// that does so has to stand behind [Gutter]. A line that is nothing but a rule is
// none of these.
func Ours(line string) bool {
	line = strings.TrimLeft(line, " \t")
	switch r, _ := utf8.DecodeRuneInString(line); {
	case line == "":
		return false
	case r == '─' || r == '━' || r == '═':
		return strings.Trim(line, "─━═┼┿╪ ") != ""
	case r >= 0x2500 && r <= 0x257f, r >= 0x2800 && r <= 0x28ff: // frames; the marks of what goes on
		return true
	default:
		return strings.ContainsRune(marks, r) || strings.HasPrefix(line, "> ") || strings.HasPrefix(line, "! ") || strings.HasPrefix(line, "+-")
	}
}

// marks are those of this program, and what looks like them or like a frame's side.
const marks = "✓✔✗✘∴⋯‖∥·›|¦︱❘｜∣⎜⎟⎢⎥⎪"

// Theirs puts the lines of a text, which is safe for a terminal, behind a gutter
// where they could pass for lines of ours.
func Theirs(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if Ours(l) {
			lines[i] = Gutter + l
		}
	}
	return strings.Join(lines, "\n")
}

// Indent moves a row of others two columns to the right; one that could pass for
// ours stands behind a gutter there.
func Indent(row string) string {
	if Ours(row) {
		return Gutter + row
	}
	return "  " + row
}
