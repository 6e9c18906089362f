// Package term is the way to the owner's terminal.
//
// It guarantees that text of a model, a tool, a server or a log that goes
// through [Safe], [Line], [JSON] or a [Cleaner] can't move the cursor, change
// colours or modes, reorder what is read, or hide characters: each such rune
// is shown as a visible stand-in. It assumes a terminal that reads UTF-8. It
// does not judge look-alike letters.
package term

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe gives s as it may be written to a terminal. Newlines and tabs stay.
func Safe(s string) string {
	var c Cleaner
	return c.Clean(s)
}

// Line is [Safe] for a text that must stay one line: runs of white space
// become one space, and white space at the ends goes away.
func Line(s string) string {
	return strings.Join(strings.Fields(Safe(s)), " ")
}

// A Cleaner is [Safe] for a text that comes in pieces, cut anywhere between
// runes: the pieces cleaned one by one give what the whole would give.
// The zero value is ready to use.
type Cleaner struct{ last rune }

// Clean gives the next piece as it may be written.
func (c *Cleaner) Clean(s string) string {
	i := 0
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || !c.plain(r) {
			break
		}
		c.last = r
		i += n
	}
	if i == len(s) {
		return s // the usual case: nothing to do
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	for _, r := range s[i:] { // invalid bytes come as U+FFFD
		if !c.plain(r) {
			shown := standIn(r)
			b.WriteString(shown)
			r, _ = utf8.DecodeLastRuneInString(shown) // what comes next stands behind this
		} else {
			b.WriteRune(r)
		}
		c.last = r
	}
	return b.String()
}

// plain reports whether r can be written as it is after the last rune.
func (c *Cleaner) plain(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return true
	case r < 0x20 || r == 0x7f:
		return false
	case r < 0x7f:
		return true
	case r == zwnj || r == zwj:
		// Joiners shape emoji and the letters of several scripts; elsewhere
		// they only hide a difference.
		return joins(c.last)
	case r == 0xfe0e || r == 0xfe0f: // text or emoji presentation
		return c.last > 0xa0 && !hidden(c.last) || isKeycap(c.last)
	default:
		return !hidden(r)
	}
}

const (
	zwnj = 0x200c
	zwj  = 0x200d
)

func isKeycap(r rune) bool { return r >= '0' && r <= '9' || r == '#' || r == '*' }

// joins reports whether a joiner after r has an honest use.
func joins(r rune) bool {
	if r == 0xfe0f || r >= 0x1f3fb && r <= 0x1f3ff { // presentation, skin tone
		return true
	}
	return r > 0x5ff && !hidden(r) && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.Is(unicode.So, r))
}

// hidden reports whether r has no glyph of its own or acts on its neighbours.
func hidden(r rune) bool {
	switch {
	case r < 0x80:
		return r < 0x20 || r == 0x7f
	case r < 0xa0: // C1: CSI, OSC and others in one rune
		return true
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, r >= 0x180b && r <= 0x180f:
		return true // variation selectors carry bytes unseen
	case r >= 0xe0000 && r <= 0xe0fff, r >= 0xfff0 && r <= 0xfffb:
		return true // tags, annotations
	}
	switch r {
	case 0x2028, 0x2029: // separators that some terminals take as line feeds
		return true
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x3164, 0xffa0: // blank letters
		return true
	case 0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6dd, 0x70f, 0x890, 0x891, 0x8e2, 0x110bd, 0x110cd:
		return false // format characters of Arabic, Syriac, Kaithi that have a glyph
	}
	return unicode.Is(unicode.Cf, r) // bidi controls, zero width, soft hyphen, joiners
}

// standIn gives the visible form: control pictures for C0, else the number.
func standIn(r rune) string {
	switch {
	case r < 0x20:
		return string(0x2400 + r)
	case r == 0x7f:
		return "\u2421"
	default:
		return fmt.Sprintf("<U+%04X>", r)
	}
}

// JSON gives a JSON text in which runes that [Safe] would replace stand as
// \u escapes: the same value, safe for a terminal.
func JSON(b []byte) []byte {
	clean := true
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r != '\n' && hidden(r) {
			clean = false
			break
		}
		i += n
	}
	if clean {
		return b
	}
	var out strings.Builder
	for _, r := range string(b) {
		switch {
		case r == '\n' || r == '\t' || !hidden(r):
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String())
}
