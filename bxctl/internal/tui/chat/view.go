package chat

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/tui/paint"
	"boxmaker/internal/proto"

	"github.com/charmbracelet/x/ansi"
)

const inputMark = 2 // columns of "> "

func (m *Model) inputRoom() int { return max(m.room()-inputMark, 6) }

// Frame gives the live lines, and the finished ones that were not taken yet.
func (m *Model) Frame() paint.Frame {
	f := paint.Frame{Done: m.Take()}
	if m.leaving {
		f.Live, f.Hide = []string{""}, true
		return f
	}
	top := m.turnLines()
	input, row, col := m.inputLines()
	foot := m.footLines()
	room := max(m.height-1-len(input)-len(foot), 0)
	if len(top) > room {
		top = top[len(top)-room:]
	}
	f.Live = append(append(append(f.Live, top...), input...), foot...)
	f.Row, f.Col = len(top)+row, col
	for i, l := range f.Live { // the last defence: a row never takes two
		if ansi.StringWidth(l) > m.width {
			f.Live[i] = ansi.Truncate(l, m.width, "")
		}
	}
	return f
}

// turnLines is what is not finished of the turn, and what waits.
func (m *Model) turnLines() []string {
	var out []string
	if len(m.jobs) > 0 {
		t := m.jobs[0]
		if t.md != nil {
			if open := t.md.Open(); len(open) > 0 {
				if !t.known["text"] && !m.blank {
					out = append(out, "")
				}
				out = append(out, open...)
			}
		}
		if m.details && !t.thought.IsZero() {
			rows := wrapText(term.Safe(strings.TrimSpace(tail(t.think.String(), 4096))), m.room()-2)
			for _, l := range rows[max(0, len(rows)-8):] {
				out = append(out, m.sc.Dim(term.Indent(l)))
			}
		}
		for _, c := range t.calls {
			out = append(out, m.sc.Dim(term.Clip(m.spin()+" "+callLine(c), m.room())))
		}
		if len(out) > 0 || !m.blank {
			out = append(out, "")
		}
		out = append(out, m.sc.Warn(m.spin())+" "+m.phase(t))
		for i, q := range m.jobs {
			if i == 0 && q.shown {
				continue
			}
			out = append(out, m.sc.Dim(term.Clip("⋯ waits: "+term.Line(q.text), m.room())))
		}
	} else if m.away {
		out = append(out, m.sc.Warn(m.spin()+" loopd does not answer; trying again"))
	}
	return append(out, m.askLines()...)
}

// tail gives about the last n bytes of s, whole runes.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

func (m *Model) spin() string {
	marks := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	return string(marks[m.frame%len(marks)])
}

// phase says what the turn is at.
func (m *Model) phase(t *turn) string {
	now := m.cfg.Now()
	since := term.Span(now.Sub(t.began).Truncate(100 * time.Millisecond))
	if now.Sub(t.began) < time.Second {
		since = ""
	}
	s := ""
	switch {
	case t.lost:
		s = m.sc.Warn("loopd is away; joining the turn again")
	case m.stopping:
		s = "stopping"
	case !t.shown:
		s, since = waiting(&proto.Waiting{Reason: proto.WaitQueue}), ""
	case t.wait != nil:
		s = waiting(t.wait)
	case t.read != nil && t.read.last.Done < t.read.last.Total:
		s, since = t.read.line(m.room()-2), ""
	case !t.thought.IsZero():
		s = fmt.Sprintf("thinking, %d words", len(strings.Fields(t.think.String())))
		if !m.details {
			s += m.sc.Dim(" (Ctrl-T shows it)")
		}
	case len(t.calls) > 0:
		s = "using a tool"
	case t.md != nil:
		s = m.writing(t)
	case t.taken:
		s = "asked"
	default:
		s = "asking"
	}
	if since != "" {
		s += m.sc.Dim(" · " + since)
	}
	return s
}

func waiting(w *proto.Waiting) string {
	ahead := ""
	if w.Ahead > 0 {
		ahead = fmt.Sprintf(", %d ahead", w.Ahead)
	}
	switch w.Reason {
	case proto.WaitSlot:
		return "waiting for the slot" + ahead
	case proto.WaitModel:
		return "waiting for the model"
	case proto.WaitApproval:
		return "waiting for your approval"
	default:
		return "waiting for the message before this one" + ahead
	}
}

// inputLines is the rule and what is typed; row and col are the cursor's.
func (m *Model) inputLines() (lines []string, row, col int) {
	l := m.ed.Layout(m.inputRoom())
	most := max((m.height-4)/2, 1)
	from := 0
	if len(l.Rows) > most {
		from = min(max(l.Row-most+1, 0), len(l.Rows)-most)
	}
	to := min(from+most, len(l.Rows))
	rule := strings.Repeat("─", m.room())
	if from > 0 || to < len(l.Rows) {
		note := fmt.Sprintf(" %d lines ", len(l.Rows))
		rule = "──" + note + strings.Repeat("─", max(m.room()-2-len(note), 0))
	}
	lines = append(lines, m.sc.Dim(rule))
	for i := from; i < to; i++ {
		mark := "  "
		if i == 0 {
			mark = m.sc.Bold("> ")
		}
		lines = append(lines, mark+l.Rows[i])
	}
	return lines, 1 + l.Row - from, min(inputMark+l.Col, m.width-1)
}

// footLines is the popup, or one line about the session.
func (m *Model) footLines() []string {
	if l := m.focusLines(); l != nil {
		return l
	}
	list := m.choices()
	if len(list) == 0 {
		return []string{m.sc.Dim(m.foot())}
	}
	pick := min(m.pick, len(list)-1)
	from := max(0, pick-maxChoices+1)
	wide := 0
	for _, c := range list {
		wide = max(wide, term.Columns(c.show))
	}
	var out []string
	for i := from; i < min(from+maxChoices, len(list)); i++ {
		c := list[i]
		row := c.show + strings.Repeat(" ", wide-term.Columns(c.show)+2) + c.about
		if i == pick {
			out = append(out, m.sc.Bold("› "+term.Clip(row, m.room()-2)))
		} else {
			out = append(out, m.sc.Dim("  "+term.Clip(row, m.room()-2)))
		}
	}
	return out
}

// foot leaves out what does not fit, the least important first.
func (m *Model) foot() string {
	var parts []string
	if u := m.usage; u.Window > 0 {
		parts = append(parts, fmt.Sprintf("context %d%% of %s", u.Context*100/u.Window, term.Count(u.Window)))
	}
	parts = append(parts, m.cfg.Session)
	if m.status != nil {
		model := report.Model(m.status.Server)
		if m.status.Server.Practice {
			model = "practice model"
		}
		parts = append(parts, model)
	}
	if m.details {
		parts = append([]string{"unfolded"}, parts...)
	}
	parts = append(parts, "/help")
	s := ""
	for _, p := range parts {
		next := p
		if s != "" {
			next = s + " · " + p
		}
		if term.Columns(next) > m.room() {
			continue
		}
		s = next
	}
	return s
}
