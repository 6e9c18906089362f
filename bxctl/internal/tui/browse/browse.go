// Package browse is the reader of a whole session: it scrolls, and unfolds
// thinking and tool calls.
//
// It guarantees that only what was asked for is laid out and kept: the newest
// rows first, older ones when the reader comes near them. It does no input or
// output; [Model.Wants] says when older rows are needed. Text reaches a line
// only through packages term and markdown.
package browse

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/tui/markdown"

	"github.com/charmbracelet/x/ansi"
)

// A Model is the reader. Make it with [New].
type Model struct {
	sc     term.Screen
	now    func() time.Time
	title  string
	width  int
	height int

	parts   []*part // oldest first
	up      int     // rows below the screen
	chosen  *part
	whole   bool // nothing older is to be had
	dropped bool // newer parts were let go of
	loading bool
	failed  string
	find    string
	typing  bool // the search text is being typed
}

// part is a piece that is laid out by itself.
type part struct {
	fold bool // it can be folded
	open bool
	head string
	body func(width int) []string
	text string // for the search
	rows []string
	wide int // width of rows; 0: not laid out
}

// New makes a reader that has nothing yet.
func New(sc term.Screen, now func() time.Time, title string, width, height int) *Model {
	return &Model{sc: sc, now: now, title: title, width: width, height: height, loading: true}
}

// Resize sets the size.
func (m *Model) Resize(width, height int) { m.width, m.height = max(width, 20), max(height, 4) }

// Wants reports whether older rows should be loaded now, and notes that they are.
func (m *Model) Wants() bool {
	if m.whole || m.loading || m.failed != "" {
		return false
	}
	if m.up+2*m.height < m.total() {
		return false
	}
	m.loading = true
	return true
}

// Older puts rows in front. whole says that there are none before them.
func (m *Model) Older(items []archive.Item, whole bool, err error) {
	m.loading, m.whole = false, whole
	if err != nil {
		m.failed = term.Line(err.Error())
		return
	}
	var fresh []*part
	for _, it := range items {
		fresh = append(fresh, m.make(it)...)
	}
	m.parts = append(fresh, m.parts...)
	m.drop()
}

// keepParts bounds what is held; a session may have any size.
const keepParts = 1500

// drop lets go of the newest parts, far below the screen.
func (m *Model) drop() {
	for len(m.parts) > keepParts {
		last := m.parts[len(m.parts)-1]
		if m.up -= len(m.rows(last)); m.up < 2*m.height {
			m.up += len(m.rows(last))
			return
		}
		m.parts, m.dropped = m.parts[:len(m.parts)-1:len(m.parts)-1], true
		if last == m.chosen {
			m.chosen = nil
		}
	}
}

// WantsNewest reports whether the reader went back to an end that was let go
// of. Everything is forgotten then, to be loaded from the end again.
func (m *Model) WantsNewest() bool {
	if !m.dropped || m.up > 0 {
		return false
	}
	m.parts, m.chosen, m.dropped, m.whole, m.loading = nil, nil, false, false, true
	return true
}

func (m *Model) room() int { return max(m.width-3, 10) }

func (m *Model) make(it archive.Item) []*part {
	theme := markdown.Theme{Colour: m.sc.Colour}
	when := ""
	if !it.Time.IsZero() {
		when = m.sc.Dim("  " + term.When(it.Time, m.now()))
	}
	switch it.Role {
	case "user":
		return []*part{{text: it.Text, body: func(w int) []string {
			rows := wrap(term.Safe(strings.TrimRight(it.Text, "\n")), w-2)
			for i := range rows {
				mark := "  "
				if i == 0 {
					mark = "> "
				}
				rows[i] = m.sc.Bold(mark + rows[i])
			}
			if last := len(rows) - 1; ansi.StringWidth(rows[last])+ansi.StringWidth(when) <= w {
				rows[last] += when
			}
			return append(rows, "")
		}}}
	case "assistant":
		var out []*part
		if strings.TrimSpace(it.Thinking) != "" {
			words := len(strings.Fields(it.Thinking))
			out = append(out, &part{fold: true, text: it.Thinking, head: fmt.Sprintf("thinking, %d words", words), body: func(w int) []string {
				return append(wrap(term.Safe(strings.TrimSpace(it.Thinking)), w), "")
			}})
		}
		if strings.TrimSpace(it.Text) != "" {
			out = append(out, &part{text: it.Text, body: func(w int) []string { return append(markdown.Render(theme, w, it.Text), "") }})
		}
		return out
	case "call":
		return []*part{callPart(it)}
	default:
		if it.Text == "" {
			return nil
		}
		return []*part{{text: it.Text, body: func(w int) []string {
			return append(wrap(m.sc.Warn("(the turn ended: "+term.Line(it.Text)+")"), w), "")
		}}}
	}
}

// total gives the number of rows that are laid out.
func (m *Model) total() int {
	n := 0
	for _, p := range m.parts {
		n += len(m.rows(p))
	}
	return n
}

// rows lays a part out, once for a width.
func (m *Model) rows(p *part) []string {
	if p.wide == m.width {
		return p.rows
	}
	p.wide, p.rows = m.width, nil
	if !p.fold {
		p.rows = p.body(m.room())
		return p.rows
	}
	mark := "▸ "
	if p.open {
		mark = "▾ "
	}
	p.rows = []string{term.Clip(mark+p.head, m.room())}
	if p.open {
		for _, l := range p.body(m.room() - 2) {
			p.rows = append(p.rows, term.Indent(l))
		}
	}
	return p.rows
}

// View gives the rows of the screen.
func (m *Model) View() []string {
	show := m.height - 1
	total := m.total()
	m.up = min(m.up, max(total-show, 0))
	from, to := max(total-m.up-show, 0), total-m.up
	out := make([]string, 0, m.height)
	at := 0
	for _, p := range m.parts {
		rows := m.rows(p)
		for i, l := range rows {
			if y := at + i; y >= from && y < to {
				out = append(out, m.mark(p, i, l))
			}
		}
		at += len(rows)
	}
	for len(out) < show {
		out = append(out, "")
	}
	return append(out, m.foot(from, total))
}

func (m *Model) mark(p *part, i int, l string) string {
	switch {
	case p == m.chosen && i == 0:
		return m.sc.Bold("› " + ansi.Strip(l))
	case p.fold && (i == 0 || !p.open):
		return m.sc.Dim("  " + l)
	default:
		return "  " + l
	}
}

func (m *Model) foot(from, total int) string {
	place := "all"
	if total > m.height-1 {
		place = fmt.Sprintf("%d%%", (total-m.up)*100/max(total, 1))
	}
	s := m.title + " · " + place
	switch {
	case m.typing:
		return term.Clip("search: "+term.Line(m.find)+"▏", m.width-1)
	case m.failed != "":
		s += " · " + m.failed
	case m.loading:
		s += " · reading…"
	case m.dropped && m.up < m.height:
		s += " · newer ones: G"
	case m.whole && from == 0:
		s += " · start"
	}
	return m.sc.Dim(term.Clip(s+" · q back · ↑↓ PgUp scroll · Tab Enter unfold · a all · / n search", m.width-1))
}

func wrap(s string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(strings.ReplaceAll(s, "\t", "    "), "\n") {
		if ansi.StringWidth(line) <= width {
			out = append(out, line)
			continue
		}
		out = append(out, strings.Split(ansi.Wrap(line, max(width, 4), " "), "\n")...)
	}
	return out
}
