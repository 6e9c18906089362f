package term

import "strings"

// Fold breaks a line that a terminal would break in the middle of a word; the rows
// after the first begin with hang spaces. Our own SGR sequences may stand in it. A
// word that fits in no row stays whole, and a pipe gets the line as it is.
func (s Screen) Fold(hang int, line string) string {
	if !s.Terminal {
		return line
	}
	width := s.Width() - 1 // many terminals wait in the last column
	hang = max(min(hang, s.Width()/2), 0)
	var b strings.Builder
	at := 0
	for i, word := range strings.SplitAfter(line, " ") {
		cols := Columns(unmarked(strings.TrimSuffix(word, " ")))
		if i > 0 && at+cols > width && strings.TrimSpace(word) != "" && at > hang {
			kept := strings.TrimRight(b.String(), " ")
			b.Reset()
			b.WriteString(kept + "\n" + strings.Repeat(" ", hang))
			at = hang
		}
		b.WriteString(word)
		at += cols + len(word) - len(strings.TrimSuffix(word, " "))
	}
	return strings.TrimRight(b.String(), " ")
}

// unmarked takes SGR sequences away.
func unmarked(s string) string {
	for {
		before, after, ok := strings.Cut(s, "\x1b[")
		if !ok {
			return s
		}
		_, rest, ok := strings.Cut(after, "m")
		if !ok {
			return s
		}
		s = before + rest
	}
}
