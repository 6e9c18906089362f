// Package editor is the text that the owner is typing: several lines, a cursor
// that moves by what a reader takes for one character, and its layout in a
// given width.
//
// It guarantees that the text holds no control character but newline and tab,
// and that rows of [Editor.Layout] are safe for a terminal and no wider than
// asked. It draws nothing.
package editor

import (
	"strings"
	"unicode"

	"boxmaker/bxctl/internal/term"

	"github.com/charmbracelet/x/ansi"
)

// An Editor holds text and a cursor. The zero value is empty.
type Editor struct {
	cells  []string // grapheme clusters
	pos    int      // the cursor stands before cells[pos]
	killed string
	goal   int // column that up and down aim at, +1; 0: none

	laid  []place // of cells, in width columns; nil: not yet
	rows  []string
	width int
}

const tabShown = "    "

// Text gives what was typed.
func (e *Editor) Text() string { return strings.Join(e.cells, "") }

// Empty reports whether there is no text at all.
func (e *Editor) Empty() bool { return len(e.cells) == 0 }

// Set replaces the text; the cursor goes to its end.
func (e *Editor) Set(s string) {
	e.cells, e.pos, e.goal, e.laid = split(clean(s)), 0, 0, nil
	e.pos = len(e.cells)
}

// Before gives the text in front of the cursor.
func (e *Editor) Before() string { return strings.Join(e.cells[:e.pos], "") }

// Insert puts s in at the cursor, without its control characters.
func (e *Editor) Insert(s string) {
	if s = clean(s); s == "" {
		return
	}
	e.goal, e.laid = 0, nil
	// What is typed may belong to the cluster before it (a combining mark) or
	// take the one behind it in.
	from, to := max(e.pos-1, 0), min(e.pos+1, len(e.cells))
	head, tail := strings.Join(e.cells[from:e.pos], ""), strings.Join(e.cells[e.pos:to], "")
	fresh := split(head + s + tail)
	behind := len(tail)
	at := len(fresh)
	for at > 0 && behind > 0 {
		at--
		behind -= len(fresh[at])
	}
	e.cells = append(append(append([]string{}, e.cells[:from]...), fresh...), e.cells[to:]...)
	e.pos = from + at
	if behind < 0 { // the tail grew together with what was typed
		e.pos = from + at + 1
	}
}

func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}

func split(s string) []string {
	var out []string
	for s != "" {
		n := 1
		if s[0] >= 0x20 {
			cluster, _ := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
			n = max(len(cluster), 1)
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// Backspace takes the character before the cursor away.
func (e *Editor) Backspace() { e.cut(e.pos-1, e.pos, false) }

// Delete takes the character at the cursor away.
func (e *Editor) Delete() { e.cut(e.pos, e.pos+1, false) }

// KillWord takes the word before the cursor away, for [Editor.Yank].
func (e *Editor) KillWord() { e.cut(e.wordLeft(), e.pos, true) }

// KillWordRight takes the word behind the cursor away, for [Editor.Yank].
func (e *Editor) KillWordRight() { e.cut(e.pos, e.wordRight(), true) }

// KillHome takes all up to the start of the line away, for [Editor.Yank].
func (e *Editor) KillHome() { e.cut(e.lineStart(), e.pos, true) }

// KillEnd takes all up to the end of the line away, or the line break there,
// for [Editor.Yank].
func (e *Editor) KillEnd() {
	end := e.lineEnd()
	if end == e.pos {
		end++
	}
	e.cut(e.pos, end, true)
}

// Yank puts what was killed last in.
func (e *Editor) Yank() { e.Insert(e.killed) }

func (e *Editor) cut(from, to int, keep bool) {
	from, to = max(from, 0), min(to, len(e.cells))
	if from >= to {
		return
	}
	e.goal, e.laid = 0, nil
	if keep {
		e.killed = strings.Join(e.cells[from:to], "")
	}
	e.cells = append(append([]string{}, e.cells[:from]...), e.cells[to:]...)
	e.pos = from
}

// Left moves the cursor by one character.
func (e *Editor) Left() { e.move(e.pos - 1) }

// Right moves the cursor by one character.
func (e *Editor) Right() { e.move(e.pos + 1) }

// WordLeft moves the cursor to the start of the word before it.
func (e *Editor) WordLeft() { e.move(e.wordLeft()) }

// WordRight moves the cursor to the end of the word behind it.
func (e *Editor) WordRight() { e.move(e.wordRight()) }

// Home moves the cursor to the start of the line.
func (e *Editor) Home() { e.move(e.lineStart()) }

// End moves the cursor to the end of the line.
func (e *Editor) End() { e.move(e.lineEnd()) }

func (e *Editor) move(to int) {
	e.pos, e.goal = min(max(to, 0), len(e.cells)), 0
}

func (e *Editor) lineStart() int {
	i := e.pos
	for i > 0 && e.cells[i-1] != "\n" {
		i--
	}
	return i
}

func (e *Editor) lineEnd() int {
	i := e.pos
	for i < len(e.cells) && e.cells[i] != "\n" {
		i++
	}
	return i
}

func space(cell string) bool {
	for _, r := range cell {
		return unicode.IsSpace(r)
	}
	return true
}

func (e *Editor) wordLeft() int {
	i := e.pos
	for i > 0 && space(e.cells[i-1]) {
		i--
	}
	for i > 0 && !space(e.cells[i-1]) {
		i--
	}
	return i
}

func (e *Editor) wordRight() int {
	i := e.pos
	for i < len(e.cells) && space(e.cells[i]) {
		i++
	}
	for i < len(e.cells) && !space(e.cells[i]) {
		i++
	}
	return i
}

// shown gives a cell as it is drawn, and its columns.
func shown(cell string) (string, int) {
	if cell == "\t" {
		return tabShown, len(tabShown)
	}
	s := term.Safe(cell)
	return s, ansi.StringWidth(s)
}
