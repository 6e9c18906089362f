package editor

import "strings"

// A Layout is the text in rows of limited width.
type Layout struct {
	Rows     []string
	Row, Col int // of the cursor
}

// place is where a cell starts.
type place struct{ row, col int }

// lay gives the place of each cell, and of the end. It is done once for a text:
// a paste may be large, and the chat draws many times a second.
func (e *Editor) lay(width int) []place {
	width = max(width, 2)
	if e.laid != nil && e.width == width {
		return e.laid
	}
	e.laid, e.rows, e.width = e.places(width), nil, width
	return e.laid
}

func (e *Editor) places(width int) []place {
	at := make([]place, 0, len(e.cells)+1)
	var p place
	for i := 0; i < len(e.cells); i++ {
		if e.cells[i] == "\n" {
			at = append(at, p)
			p = place{p.row + 1, 0}
			continue
		}
		_, w := fit(e.cells[i], width)
		if p.col > 0 && p.col+max(w, e.wordWidth(i, width)) > width && (p.col+w > width || i > 0 && space(e.cells[i-1])) {
			p = place{p.row + 1, 0}
		}
		at = append(at, p)
		p.col += w
	}
	if p.col >= width {
		p = place{p.row + 1, 0}
	}
	return append(at, p)
}

// fit is shown, but for a cell that is wider than a row.
func fit(cell string, width int) (string, int) {
	s, w := shown(cell)
	if w > width {
		return "…", 1
	}
	return s, w
}

// wordWidth gives the columns of the word that starts at i, as far as they
// matter.
func (e *Editor) wordWidth(i, width int) int {
	n := 0
	for ; i < len(e.cells) && n <= width; i++ {
		_, w := fit(e.cells[i], width)
		if space(e.cells[i]) {
			break
		}
		n += w
		if w > 1 && e.cells[i] != "\t" { // East Asian text breaks anywhere
			break
		}
	}
	return max(n, 1)
}

// Layout breaks the text into rows.
func (e *Editor) Layout(width int) Layout {
	at := e.lay(width)
	l := Layout{Row: at[e.pos].row, Col: at[e.pos].col}
	if e.rows == nil {
		e.rows = e.draw(at, max(width, 2))
	}
	l.Rows = e.rows
	return l
}

func (e *Editor) draw(at []place, width int) []string {
	last := at[len(at)-1]
	rows := make([]strings.Builder, last.row+1)
	for i, cell := range e.cells {
		if cell != "\n" {
			s, _ := fit(cell, width)
			rows[at[i].row].WriteString(s)
		}
	}
	out := make([]string, len(rows))
	for i := range rows {
		out[i] = rows[i].String()
	}
	return out
}

// Up moves the cursor one row up; false if it is in the first one.
func (e *Editor) Up(width int) bool { return e.vertical(width, -1) }

// Down moves the cursor one row down; false if it is in the last one.
func (e *Editor) Down(width int) bool { return e.vertical(width, 1) }

func (e *Editor) vertical(width, by int) bool {
	at := e.lay(width)
	if e.goal == 0 {
		e.goal = at[e.pos].col + 1
	}
	row, best, goal := at[e.pos].row+by, -1, e.goal-1
	for i, p := range at {
		if p.row == row && p.col <= goal {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	e.pos = best
	return true
}
