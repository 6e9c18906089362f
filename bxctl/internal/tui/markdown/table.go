package markdown

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
	east "github.com/yuin/goldmark/extension/ast"
)

func cluster(s string) (n, cols int) {
	if s[0] < 0x80 && (len(s) == 1 || s[1] < 0x80) {
		return 1, 1
	}
	c, cols := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
	return max(len(c), 1), cols
}

// table draws a table; one that can't fit is written row by row.
func (r *renderer) table(n *east.Table, width int) [][]span {
	cells := r.cells(n)
	if len(cells) == 0 || len(cells[0]) == 0 {
		return nil
	}
	widths := columnWidths(cells, width)
	if widths == nil {
		return r.stacked(cells, width)
	}
	var out [][]span
	for i, row := range cells {
		out = append(out, tableRow(row, widths, n.Alignments)...)
		if i == 0 {
			out = append(out, ruler(widths))
		}
	}
	return out
}

func (r *renderer) cells(n *east.Table) [][][]span {
	var out [][][]span
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var line [][]span
		look := attr(0)
		if _, head := row.(*east.TableHeader); head {
			look = bold
		}
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			line = append(line, r.inline(c, look))
		}
		out = append(out, line)
	}
	return out
}

const between = 3 // columns of columnRule

// columnRule stands between two cells.
var columnRule = span{" │ ", dim} //nolint:gochecknoglobals // a constant

// columnWidths shares width out; nil if a column would get less than six.
func columnWidths(cells [][][]span, width int) []int {
	widths := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, c := range row {
			if i < len(widths) {
				widths[i] = max(widths[i], spanColumns(c), 1)
			}
		}
	}
	room := width - between*(len(widths)-1)
	for {
		sum, widest := 0, 0
		for i, w := range widths {
			sum += w
			if w > widths[widest] {
				widest = i
			}
		}
		if sum <= room {
			return widths
		}
		if widths[widest] <= 6 {
			return nil
		}
		widths[widest]--
	}
}

func tableRow(row [][]span, widths []int, align []east.Alignment) [][]span {
	wrapped := make([][][]span, len(widths))
	height := 1
	for i := range widths {
		if i < len(row) {
			wrapped[i] = wrap(row[i], widths[i])
		}
		height = max(height, len(wrapped[i]))
	}
	out := make([][]span, height)
	for y := range out {
		for i, w := range widths {
			if i > 0 {
				out[y] = append(out[y], columnRule)
			}
			var cell []span
			if y < len(wrapped[i]) {
				cell = wrapped[i][y]
			}
			gap := max(w-spanColumns(cell), 0)
			left := 0
			if i < len(align) {
				switch align[i] {
				case east.AlignRight:
					left = gap
				case east.AlignCenter:
					left = gap / 2
				default:
				}
			}
			out[y] = append(out[y], span{strings.Repeat(" ", left), 0})
			out[y] = append(out[y], cell...)
			if i < len(widths)-1 {
				out[y] = append(out[y], span{strings.Repeat(" ", gap-left), 0})
			}
		}
	}
	return out
}

func ruler(widths []int) []span {
	var b strings.Builder
	for i, w := range widths {
		if i > 0 {
			b.WriteString("─┼─")
		}
		b.WriteString(strings.Repeat("─", w))
	}
	return []span{{b.String(), dim}}
}

// stacked writes "head: cell" lines.
func (r *renderer) stacked(cells [][][]span, width int) [][]span {
	var out [][]span
	for i, row := range cells[1:] {
		if i > 0 {
			out = append(out, []span{{strings.Repeat("─", min(width, 20)), dim}})
		}
		for j, c := range row {
			var line []span
			if j < len(cells[0]) {
				line = append(append(line, cells[0][j]...), span{": ", dim})
			}
			out = append(out, wrap(append(line, c...), width)...)
		}
	}
	return out
}
