package markdown

import (
	"strings"

	"boxmaker/bxctl/internal/term"

	"github.com/charmbracelet/x/ansi"
)

// A Theme says how marks look. Only the sixteen colours of the terminal's own
// palette are used, and never a background: so text stays readable on dark and
// on light terminals, whatever their owner chose.
type Theme struct{ Colour bool }

// attr is a set of marks.
type attr uint16

const (
	bold attr = 1 << iota
	dim
	italic
	under
	strike
	code
	heading
	word   // of a programming language
	quoted // a string in code
	remark // a comment in code
	number // in code
)

// sgr gives the parameters that switch a on.
func (a attr) sgr() string {
	var out []string
	add := func(bit attr, code string) {
		if a&bit != 0 {
			out = append(out, code)
		}
	}
	add(bold, "1")
	add(dim, "2")
	add(italic, "3")
	add(under, "4")
	add(strike, "9")
	add(code, "36")
	add(heading, "1;35")
	add(word, "34")
	add(quoted, "32")
	add(remark, "2;3")
	add(number, "35")
	return strings.Join(out, ";")
}

// span is text of one look, without line breaks.
type span struct {
	text string
	look attr
}

// paint gives spans as they are written.
func (t Theme) paint(line []span) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		s := line[i]
		for i+1 < len(line) && line[i+1].look == s.look {
			i++
			s.text += line[i].text
		}
		if !t.Colour || s.look == 0 || s.text == "" {
			b.WriteString(s.text)
			continue
		}
		b.WriteString("\x1b[" + s.look.sgr() + "m" + s.text + "\x1b[0m")
	}
	return b.String()
}

// inert makes text of anybody a span: no control character survives. It is
// the only way from text to a span.
func inert(text string, look attr) span {
	text = term.Safe(text)
	if strings.ContainsAny(text, "\n\t") {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\t", "    "), "\n", " ")
	}
	return span{text, look}
}

func columns(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

func spanColumns(line []span) int {
	n := 0
	for _, s := range line {
		n += columns(s.text)
	}
	return n
}

// wrapper breaks spans into rows.
type wrapper struct {
	width int
	rows  [][]span
	row   []span
	used  int
	word  []span // since the last place where a row may end
	wide  int    // columns of word
}

// wrap breaks line into rows of at most width columns, at spaces where there
// are any. A "\n" span forces a break. There is at least one row.
func wrap(line []span, width int) [][]span {
	w := wrapper{width: max(width, 4)}
	for _, s := range line {
		if s.text == "\n" {
			w.endWord()
			w.endRow()
			continue
		}
		w.add(s)
	}
	w.endWord()
	w.endRow()
	return w.rows
}

func (w *wrapper) add(s span) {
	for text := s.text; text != ""; {
		if text[0] == ' ' {
			w.endWord()
			if w.used > 0 && w.used < w.width {
				w.row = append(w.row, span{" ", s.look})
				w.used++
			} else if w.used >= w.width {
				w.endRow()
			}
			text = text[1:]
			continue
		}
		n, cols := piece(text)
		alone := cols > 1 && text[0] >= 0x80 // a wide character may stand at a row's end
		if alone {
			w.endWord()
		}
		if w.wide+cols > w.width && w.wide > 0 { // a word that is longer than a row
			w.endWord()
		}
		w.word = append(w.word, span{text[:n], s.look})
		w.wide += cols
		if alone {
			w.endWord()
		}
		text = text[n:]
	}
}

// piece gives the bytes and columns of what can be taken at once: one cluster,
// or a run of plain letters of at most eight.
func piece(s string) (n, cols int) {
	for n < len(s) && n < 8 && s[n] > ' ' && s[n] < 0x7f {
		n++
	}
	if n > 1 && n < len(s) && s[n] >= 0x80 { // the last may carry a mark
		n--
	}
	if n > 0 && (n == len(s) || s[n] < 0x80 || n > 1) {
		if n == 1 && len(s) > 1 && s[1] >= 0x80 {
			n = 0
		} else {
			return n, n
		}
	}
	cluster, cols := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
	return max(len(cluster), 1), cols
}

func (w *wrapper) endWord() {
	if w.wide == 0 && len(w.word) == 0 {
		return
	}
	if w.used+w.wide > w.width && w.used > 0 {
		w.endRow()
	}
	w.row = append(w.row, w.word...)
	w.used += w.wide
	w.word, w.wide = nil, 0
}

func (w *wrapper) endRow() {
	for len(w.row) > 0 && w.row[len(w.row)-1].text == " " {
		w.row = w.row[:len(w.row)-1]
	}
	w.rows = append(w.rows, w.row)
	w.row, w.used = nil, 0
}
