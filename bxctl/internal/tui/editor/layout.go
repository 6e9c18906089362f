package editor

import "strings"

// A Layout is the text in rows of limited width.
type Layout struct {
	Rows     []string
	Row, Col int // of the cursor
}

// place is where a cell starts.
type place struct{ row, col int }

// lay gives the place of each cell, and of the end.
func (e *Editor) lay(width int) []place {
	width = max(width, 2)
	at := make([]place, 0, len(e.cells)+1)
	var p place
	for i := 0; i < len(e.cells); i++ {
		if e.cells[i] == "\n" {
			at = append(at, p)
			p = place{p.row + 1, 0}
			continue
		}
		_, w := shown(e.cells[i])
		if p.col > 0 && p.col+e.wordWidth(i, width) > width && (p.col+w > width || i > 0 && space(e.cells[i-1])) {
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

// wordWidth gives the columns of the word that starts at i, as far as they
// matter.
func (e *Editor) wordWidth(i, width int) int {
	n := 0
	for ; i < len(e.cells) && n <= width; i++ {
		_, w := shown(e.cells[i])
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
	last := at[len(at)-1]
	rows := make([]strings.Builder, last.row+1)
	for i, cell := range e.cells {
		if cell != "\n" {
			s, w := shown(cell)
			if at[i].col+w > max(width, 2) { // one cell wider than the row
				s = "…"
			}
			rows[at[i].row].WriteString(s)
		}
	}
	l := Layout{Row: at[e.pos].row, Col: at[e.pos].col}
	for i := range rows {
		l.Rows = append(l.Rows, rows[i].String())
	}
	return l
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
