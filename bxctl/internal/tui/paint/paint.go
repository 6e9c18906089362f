// Package paint draws on a terminal without the alternate screen: finished
// lines go into the terminal's own scrollback and are never touched again; the
// live lines below them are replaced in place.
//
// It guarantees that a frame is one write, inside synchronised output where the
// terminal knows it, that only rows that changed are written, and that what it
// switched on is switched off by [Painter.Leave]. Lines must be safe for a
// terminal, fit the width, and hold no other sequences than SGR: cleaning is
// the caller's.
package paint

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A Frame is what is to be seen.
type Frame struct {
	Done     []string // finished lines, in front of the live ones
	Live     []string // at least one line
	Row, Col int      // of the cursor, within Live
	Hide     bool     // no cursor
}

// A Painter owns the lower end of one terminal.
type Painter struct {
	W     io.Writer
	live  []string // as drawn
	row   int      // of the cursor, within live
	col   int
	hide  bool
	width int
	out   bytes.Buffer
}

const (
	syncOn, syncOff   = "\x1b[?2026h", "\x1b[?2026l"
	wrapOn, wrapOff   = "\x1b[?7h", "\x1b[?7l"
	showCur, hideCur  = "\x1b[?25h", "\x1b[?25l"
	pasteOn, pasteOff = "\x1b[?2004h", "\x1b[?2004l"
	keysOn, keysOff   = "\x1b[>1u", "\x1b[<1u" // tells Shift-Enter from Enter, where it is known
)

// Enter prepares the terminal; the cursor must stand in column 0.
func (p *Painter) Enter() error {
	p.live, p.row, p.col = nil, 0, 0
	_, err := io.WriteString(p.W, pasteOn+keysOn)
	return err
}

// Leave takes the live lines away and gives the terminal back.
func (p *Painter) Leave() error {
	p.out.Reset()
	p.top()
	p.out.WriteString("\x1b[J" + keysOff + pasteOff + wrapOn + showCur)
	p.live, p.row, p.hide = nil, 0, false
	_, err := p.W.Write(p.out.Bytes())
	return err
}

// Resize says that the terminal is width columns wide from now on. Terminals
// break rows that got too long, so the live lines may take more rows than they
// did.
func (p *Painter) Resize(width int) {
	if width == p.width || p.width == 0 {
		p.width = width
		return
	}
	rows := 0
	for i, l := range p.live {
		w := max(ansi.StringWidth(l), 1)
		if i < p.row {
			rows += (w + width - 1) / width
		} else {
			rows += p.col / width
			break
		}
	}
	p.width = width
	p.out.Reset()
	p.out.WriteString(syncOn + "\r")
	p.up(rows)
	p.out.WriteString("\x1b[J" + syncOff)
	p.live, p.row, p.col = nil, 0, 0
	_, _ = p.W.Write(p.out.Bytes()) // the next frame tells
}

// Forget makes the next frame draw everything anew, from the cursor on.
func (p *Painter) Forget() { p.live, p.row, p.col, p.hide = nil, 0, 0, false }

// Paint draws a frame; nothing is written if nothing changed.
func (p *Painter) Paint(f Frame) error {
	if len(f.Done) == 0 && same(p.live, f.Live) && p.row == f.Row && p.col == f.Col && p.hide == f.Hide {
		return nil
	}
	p.out.Reset()
	p.out.WriteString(syncOn + hideCur + wrapOff)
	at := p.row // row of the cursor, counted from the first live line
	old := p.live
	if len(f.Done) > 0 {
		p.top()
		at = 0
		for i, l := range f.Done {
			p.line(l, i < len(old) && old[i] == l)
			p.out.WriteString("\r\n")
		}
		// What was drawn moved up in relation to the live lines.
		old = old[min(len(f.Done), len(old)):]
	}
	for i, l := range f.Live {
		if i < len(old) && old[i] == l {
			continue
		}
		at = p.to(at, i, len(old))
		p.line(l, false)
		p.out.WriteString("\r")
	}
	if len(old) > len(f.Live) {
		at = p.to(at, len(f.Live), len(old))
		p.out.WriteString("\r\x1b[J")
	}
	p.to(at, f.Row, max(len(old), len(f.Live)))
	p.out.WriteString("\r")
	if f.Col > 0 {
		fmt.Fprintf(&p.out, "\x1b[%dC", f.Col)
	}
	p.out.WriteString(wrapOn)
	if !f.Hide {
		p.out.WriteString(showCur)
	}
	p.out.WriteString(syncOff)
	p.live, p.row, p.col, p.hide = append(p.live[:0:0], f.Live...), f.Row, f.Col, f.Hide
	_, err := p.W.Write(p.out.Bytes())
	return err
}

func (p *Painter) line(l string, there bool) {
	if there {
		return
	}
	// Erased before and not behind the text: some terminals remember how wide a
	// row was, and break the blank rest of it when they get narrower.
	p.out.WriteString("\r\x1b[K" + l)
	if strings.Contains(l, joiner) && strings.HasSuffix(ansi.Strip(l), joiner) {
		p.out.WriteString(" ")
	}
}

// joiner draws the next letter onto the one before it. Some terminals do so over
// the end of a row, with the first letter of the next one.
const joiner = "\u200d"

// to moves from row at to row, of which rows exist; behind them a line feed
// makes one.
func (p *Painter) to(at, row, exist int) int {
	switch {
	case row < at:
		p.up(at - row)
	case row > at:
		if down := min(row, max(exist-1, 0)) - at; down > 0 {
			fmt.Fprintf(&p.out, "\x1b[%dB", down)
			at += down
		}
		for ; at < row; at++ {
			p.out.WriteString("\r\n")
		}
	}
	return row
}

func (p *Painter) top() {
	p.out.WriteString("\r")
	p.up(p.row)
}

func (p *Painter) up(n int) {
	if n > 0 {
		fmt.Fprintf(&p.out, "\x1b[%dA", n)
	}
}

func same(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
