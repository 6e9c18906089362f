// Package panel is the picture that `bxctl up` shows in a terminal: roles,
// model, self-test, and the last lines of the logs.
//
// It is pure: state in, lines out. No line is wider than the screen, there are
// never more of them than it has rows, and all text of others in them is safe
// for the terminal.
package panel

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// Usage is what a process takes now.
type Usage struct {
	CPU    float64 // share of one core, 1 is all of it
	Memory int64   // resident bytes
}

// A Line is one line of a log.
type Line struct {
	At, Role string
	Text     string // went through term.Line
	Paint    func(string) string
}

// Data is what is shown.
type Data struct {
	Home  string
	Up    report.Up
	Use   map[int]Usage // by pid
	Loopd *proto.Status // nil: it does not answer
	// Broker is brokerd's own word; nil: it does not answer, or does not run.
	Broker *proto.BrokerStatus
	Lines  []Line // oldest first
	Now    time.Time
}

// Render gives the rows of the picture, at most height of them.
func Render(sc term.Screen, d Data, width, height int) []string {
	p := &picture{sc: sc, width: width}
	p.head(d)
	p.roles(d)
	p.model(d)
	if d.Broker != nil {
		text, warn := report.Authority(d.Broker)
		paint := p.sc.Good
		if warn {
			paint = p.sc.Warn
		}
		p.row(paint, "authority       "+text)
	}
	room := height - len(p.rows) - 2
	if room > 0 && len(d.Lines) > 0 {
		p.text("")
		p.row(sc.Dim, "── log "+strings.Repeat("─", max(0, width-7)))
		for _, l := range d.Lines[max(0, len(d.Lines)-room):] {
			p.log(l)
		}
	}
	if len(p.rows) > height {
		p.rows = p.rows[:max(height, 0)]
	}
	return p.rows
}

type picture struct {
	sc    term.Screen
	width int
	rows  []string
}

// row adds a line in one colour.
func (p *picture) row(paint func(string) string, s string) {
	p.rows = append(p.rows, paint(term.Clip(s, p.width)))
}

func (p *picture) text(s string) { p.row(func(s string) string { return s }, s) }

func (p *picture) head(d Data) {
	state, paint := "starting", p.sc.Warn
	switch {
	case d.Up.State == "stopping" || d.Up.State == "failed":
		state = d.Up.State
	case d.Loopd != nil && d.Loopd.State == "ready":
		state, paint = "ready", p.sc.Good
	case d.Loopd != nil:
		state = strings.TrimSuffix(d.Loopd.State+": "+term.Line(d.Loopd.Detail), ": ")
	}
	hint := "Ctrl-C stops everything"
	left := "Boxmaker " + term.Line(d.Up.Version) + " · "
	mid := term.Clip(state, max(1, p.width-term.Columns(left)))
	line := p.sc.Bold(left) + paint(mid)
	if p.width < term.Columns(left)+1 {
		line = term.Clip(left+state, p.width)
	}
	if gap := p.width - term.Columns(left) - term.Columns(mid) - len(hint); gap >= 2 {
		line += strings.Repeat(" ", gap) + p.sc.Dim(hint)
	}
	p.rows = append(p.rows, line)
	p.row(p.sc.Dim, "up "+term.Span(d.Now.Sub(d.Up.Since))+" · pid "+fmt.Sprint(d.Up.PID)+" · "+term.Line(d.Home))
	p.text("")
}

func (p *picture) roles(d Data) {
	p.row(p.sc.Dim, fmt.Sprintf("%-12s %-9s %8s %8s %6s %9s", "role", "state", "pid", "up", "cpu", "memory"))
	for _, r := range d.Up.Roles {
		pid, since, cpu, memory := "-", "-", "-", "-"
		if r.PID != 0 {
			pid, since = fmt.Sprint(r.PID), term.Span(d.Now.Sub(r.Since))
			if u, ok := d.Use[r.PID]; ok {
				cpu, memory = fmt.Sprintf("%.0f%%", 100*u.CPU), term.Bytes(u.Memory)
			}
		}
		paint := p.sc.Good
		if r.State != "running" {
			paint = p.sc.Warn
		}
		text := fmt.Sprintf(" %8s %8s %6s %9s", pid, since, cpu, memory)
		if p.width < 60 {
			text = fmt.Sprintf(" %8s %8s", pid, since)
		}
		if p.width < 24 {
			p.text(term.Line(r.Name) + " " + term.Line(r.State))
			continue
		}
		p.rows = append(p.rows, pad(r.Name, 12)+" "+paint(pad(r.State, 9))+term.Clip(text, max(1, p.width-22)))
		if r.Restarts > 0 {
			p.row(p.sc.Warn, fmt.Sprintf("  restarts: %d, last end: %s", r.Restarts, term.Line(r.Exit)))
		}
		for _, m := range r.Missing {
			p.row(p.sc.Warn, "  missing: "+term.Line(m))
		}
	}
}

// pad gives a name so many columns.
func pad(s string, n int) string {
	s = term.Clip(term.Line(s), n)
	return s + strings.Repeat(" ", n-term.Columns(s))
}

func (p *picture) model(d Data) {
	p.text("")
	if d.Loopd == nil {
		p.text("model           " + term.Line(d.Up.Model))
		return
	}
	st := d.Loopd
	text := term.Line(d.Up.Model)
	if st.Server.Model != "" && !st.Server.Practice {
		text += " · " + term.Line(st.Server.Model)
	}
	if st.Server.Context > 0 {
		text += fmt.Sprintf(" · %s tokens, %d slots", term.Count(st.Server.Context), st.Server.Slots)
	}
	p.text("model           " + text)
	p.selftest(st.Checks)
	for _, s := range st.Slots {
		use := "free"
		if s.Session != "" {
			use = "used by " + term.Line(s.Session)
		}
		if s.Waiting > 0 {
			use += fmt.Sprintf(", %d waiting", s.Waiting)
		}
		p.text(fmt.Sprintf("%-15s %s", term.Clip("slot "+term.Line(s.Name), 15), use))
	}
	if st.OpenTurns > 0 {
		p.text(fmt.Sprintf("open turns      %d", st.OpenTurns))
	}
}

// selftest is a bar of the checks, with the one that is awaited.
func (p *picture) selftest(checks []proto.Check) {
	if len(checks) == 0 {
		return
	}
	done, next := 0, ""
	var failed []string
	for _, c := range checks {
		switch c.State {
		case "pending":
			if next == "" {
				next = c.Name
			}
		case "failed":
			failed = append(failed, c.Name)
			done++
		default:
			done++
		}
	}
	bar := strings.Repeat("█", done) + strings.Repeat("░", len(checks)-done)
	text := fmt.Sprintf("self-test       %s %d of %d", bar, done, len(checks))
	switch {
	case len(failed) > 0:
		p.row(p.sc.Bad, text+", failed: "+term.Line(strings.Join(failed, ", ")))
	case next != "":
		p.row(p.sc.Warn, text+", now: "+term.Line(next))
	default:
		p.row(p.sc.Good, text)
	}
}

func (p *picture) log(l Line) {
	role := " " + pad(l.Role, 10) + " "
	room := p.width - term.Columns(l.At) - term.Columns(role)
	if room < 8 {
		p.row(l.Paint, l.Text)
		return
	}
	p.rows = append(p.rows, p.sc.Dim(l.At)+role+l.Paint(term.Clip(l.Text, room)))
}
