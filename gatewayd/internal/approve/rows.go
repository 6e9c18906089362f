package approve

import (
	"fmt"
	"strings"
	"unicode"
)

// Layout of the one block of code in a card. A row of a text of others is
// "label    ┆ text", and "         ┆»text" where the row above goes on; a row of
// ours has a blank in the mark's place. A telephone shows some 45 columns, and
// what does not fit must be scrolled to, so that rows are broken before that.
const (
	labelWidth = 8
	textWidth  = 44
	maxMarks   = 2 // on one letter; more of them paint over other rows
)

// rows breaks a text into rows, each with its mark. Nothing is left out or moved;
// what shows as nothing, or turns the direction of writing, is written out.
func rows(s string) []string {
	var out []string
	for line := range strings.SplitSeq(strings.TrimSuffix(visible(s), "\n"), "\n") {
		mark, n, from := "┆ ", 0, 0
		for i, r := range line {
			w := columns(r)
			if n+w > textWidth && r != '\u200b' && !unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) {
				out = append(out, mark+line[from:i])
				mark, from, n = "┆»", i, 0
			}
			n += w
		}
		out = append(out, mark+line[from:])
	}
	return out
}

// columns is the most that a client takes for a rune.
func columns(r rune) int {
	if r < 0x80 {
		return 1
	}
	return 2
}

// visible writes out all that cannot be seen, and breaks up what a chat server
// acts upon even in code: names that call everybody, and links to posts.
func visible(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "<U+000D>\n")
	var b strings.Builder
	marks := maxMarks // at the start there is no letter for one to stand on
	for _, r := range s {
		switch {
		case r == '\n':
			marks = maxMarks
			b.WriteRune(r)
		case r == '\t':
			marks = maxMarks
			b.WriteString("    ")
		case unicode.In(r, unicode.Mn, unicode.Mc) && marks < maxMarks && !unicode.Is(unicode.Variation_Selector, r):
			marks++
			b.WriteRune(r)
		case hidden(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			marks = 0
			if r == ' ' {
				marks = maxMarks
			}
			b.WriteRune(r)
		}
	}
	return calm(b.String())
}

// hidden reports what shows as nothing or as something else.
func hidden(r rune) bool {
	switch r {
	case ' ':
		return false
	case 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0: // letters without a shape
		return true
	}
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc, unicode.Other_Default_Ignorable_Code_Point)
}

// gap is invisible and ends a word. It is put behind an @ or a slash only.
const gap = "\u200b"

func calm(s string) string {
	return strings.NewReplacer("@", "@"+gap, "/pl/", "/"+gap+"pl/").Replace(s)
}

// fence gives a mark of code that is longer than any in the text.
func fence(text string) string {
	most, n := 2, 0
	for _, r := range text {
		if r == '`' {
			n++
			most = max(most, n)
		} else {
			n = 0
		}
	}
	return strings.Repeat("`", most+1)
}

// odd names letters that can look like others; few are enough.
func odd(s string) string {
	var all []string
	for _, r := range s {
		name := fmt.Sprintf("U+%04X", r)
		if r > 0x7e && len(all) < 8 && !strings.Contains(strings.Join(all, " "), name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, " ")
}

// turned reports letters that are written from right to left.
func turned(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return r >= 0x590 && r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfefc || r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
	})
}

// word keeps what our identifiers are made of.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./ ", r) {
			return r
		}
		return '?'
	}, s)
	if len(s) > 64 {
		s = s[:64]
	}
	return s
}
