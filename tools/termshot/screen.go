package main

import (
	"strconv"
	"strings"
	"unicode"
)

// A style is how a run of text looks. Colours are "#rrggbb", empty for the
// terminal's own.
type style struct {
	fg, bg                                string
	bold, faint, italic, underlined, swap bool
}

// A piece is text of one style that begins at a column.
type piece struct {
	style
	column, width int
	text          string
}

// parse takes a screen apart: the runs of each row. Styles go on over line ends.
func parse(s string) [][]piece {
	var rows [][]piece
	var now style
	for line := range strings.Lines(strings.TrimRight(s, "\n") + "\n") {
		line = strings.TrimRight(line, "\r\n")
		var row []piece
		column := 0
		for line != "" {
			if rest, ok := strings.CutPrefix(line, "\x1b"); ok {
				line = now.escape(rest)
				continue
			}
			text, rest := line, ""
			if i := strings.IndexByte(line, '\x1b'); i >= 0 {
				text, rest = line[:i], line[i:]
			}
			line = rest
			// A wide letter ends its run, so that what follows stands where it should.
			for text != "" {
				part, n := head(text)
				text = text[len(part):]
				row = append(row, piece{now, column, n, part})
				column += n
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// head gives the start of a text up to and with its first wide letter, or up to
// that one.
func head(s string) (part string, columns int) {
	for i, r := range s {
		switch width(r) {
		case 2:
			if i == 0 {
				// Its combining marks belong to it.
				end := len(string(r))
				for j, m := range s[end:] {
					if width(m) != 0 {
						return s[:end+j], 2
					}
				}
				return s, 2
			}
			return s[:i], columns
		case 1:
			columns++
		}
	}
	return s, columns
}

func width(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	default:
		return 1
	}
}

// escape takes one sequence off the front of s, which stood behind an escape
// character, and gives the rest.
func (t *style) escape(s string) string {
	switch {
	case strings.HasPrefix(s, "["):
		i := strings.IndexFunc(s[1:], func(r rune) bool { return r >= '@' && r <= '~' })
		if i < 0 {
			return ""
		}
		if s[1+i] == 'm' {
			t.sgr(s[1 : 1+i])
		}
		return s[i+2:]
	case strings.HasPrefix(s, "]"): // a title or a link, to its end
		for _, end := range []string{"\x1b\\", "\a"} {
			if _, rest, ok := strings.Cut(s, end); ok {
				return rest
			}
		}
		return ""
	case s == "":
		return ""
	case s[0] == '(' || s[0] == ')': // a character set
		return s[min(2, len(s)):]
	default:
		return s[1:]
	}
}

// sgr obeys the parameters of one "select graphic rendition".
func (t *style) sgr(params string) {
	var n []int
	for _, p := range strings.FieldsFunc(params+";", func(r rune) bool { return r == ';' || r == ':' }) {
		v, err := strconv.Atoi(p)
		if err != nil {
			return
		}
		n = append(n, v)
	}
	if len(n) == 0 {
		n = []int{0}
	}
	for len(n) > 0 {
		v := n[0]
		n = n[1:]
		switch {
		case v == 0:
			*t = style{}
		case v == 1:
			t.bold = true
		case v == 2:
			t.faint = true
		case v == 3:
			t.italic = true
		case v == 4:
			t.underlined = true
		case v == 7:
			t.swap = true
		case v == 22:
			t.bold, t.faint = false, false
		case v == 23:
			t.italic = false
		case v == 24:
			t.underlined = false
		case v == 27:
			t.swap = false
		case v >= 30 && v <= 37:
			t.fg = indexed(v - 30)
		case v >= 90 && v <= 97:
			t.fg = indexed(v - 90 + 8)
		case v >= 40 && v <= 47:
			t.bg = indexed(v - 40)
		case v >= 100 && v <= 107:
			t.bg = indexed(v - 100 + 8)
		case v == 39:
			t.fg = ""
		case v == 49:
			t.bg = ""
		case v == 38:
			t.fg, n = colour(n)
		case v == 48:
			t.bg, n = colour(n)
		}
	}
}

// colour reads what follows 38 or 48: 5;index or 2;red;green;blue.
func colour(n []int) (string, []int) {
	switch {
	case len(n) >= 2 && n[0] == 5:
		return indexed(n[1]), n[2:]
	case len(n) >= 4 && n[0] == 2:
		return hex(n[1], n[2], n[3]), n[4:]
	default:
		return "", nil
	}
}
