package stats

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"github.com/guptarohit/asciigraph"
)

// barTurns is how many turns are drawn as bars: the newest.
const barTurns = 20

// Text draws the figures in at most width columns; times in the zone of now.
func (s *Stats) Text(sc term.Screen, width int, now time.Time) string {
	w := &writer{sc: sc, width: max(width, 50), now: now}
	w.head(s)
	if len(s.Turns) > 0 {
		w.bars(s.Turns)
	}
	if len(s.Turns) > 2 {
		w.plot("window: tokens held behind each turn", s.Turns, func(t Turn) float64 { return float64(t.Context) }, func(v float64) string { return term.Count(int64(v)) })
		w.plot("time to the first token", s.Turns, func(t Turn) float64 { return float64(t.FirstMS) }, span)
	}
	w.colds(s)
	return w.b.String()
}

// sure is how many milliseconds make a speed.
const sure = 100

type writer struct {
	b     strings.Builder
	sc    term.Screen
	width int
	now   time.Time
}

func (w *writer) line(s string) { w.b.WriteString(s + "\n") }

func span(ms float64) string { return term.Span(time.Duration(ms) * time.Millisecond) }

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return term.Count(int64(n)) + " " + what + "s"
}

// wrapped writes parts, as many in a line as fit.
func (w *writer) wrapped(parts []string) {
	line := ""
	for _, p := range parts {
		switch {
		case line == "":
			line = p
		case term.Columns(line)+3+term.Columns(p) > w.width:
			w.line(line)
			line = p
		default:
			line += " · " + p
		}
	}
	w.line(line)
}

func (w *writer) head(s *Stats) {
	w.line(w.sc.Bold("session " + s.Session))
	w.wrapped([]string{"model " + term.Line(s.Model), fmt.Sprintf("slot %d", s.Slot), many(s.Epochs, "epoch"), many(len(s.Turns), "turn"), many(s.Sum.Calls, "tool call")})
	if s.Window > 0 {
		const cells = 20
		full := int(min(atLeast(s.Context*cells/s.Window, s.Context), cells))
		w.line(fmt.Sprintf("window %s%s %d%%, %s of %s tokens", strings.Repeat("█", full), strings.Repeat("░", cells-full),
			s.Context*100/s.Window, term.Count(s.Context), term.Count(s.Window)))
	}
	u := s.Sum
	parts := []string{term.Count(u.Processed) + " tokens processed", term.Count(u.Reused) + " reused", term.Count(u.Generated) + " generated"}
	if u.PromptMS >= sure {
		parts = append(parts, "reading "+term.Count(u.Processed*1000/u.PromptMS)+"/s")
	}
	if u.GenerateMS >= sure {
		parts = append(parts, "writing "+term.Count(u.Generated*1000/u.GenerateMS)+"/s")
	}
	w.wrapped(parts)
}

// bars draws one row a turn: what was reused, processed, generated.
func (w *writer) bars(turns []Turn) {
	w.line("")
	w.line(w.sc.Bold("turns") + "  " + w.sc.Dim("░ reused") + "  " + w.sc.Warn("█ processed") + "  " + w.sc.Good("▒ generated"))
	if skip := len(turns) - barTurns; skip > 0 {
		w.line(w.sc.Dim(fmt.Sprintf("(%s before these are in the plots, and in --json)", many(skip, "turn"))))
		turns = turns[skip:]
	}
	var most int64 = 1
	for _, t := range turns {
		most = max(most, t.Reused+t.Processed+t.Generated)
	}
	for _, t := range turns {
		tail := fmt.Sprintf(" %8s first %7s", term.Count(t.Reused+t.Processed+t.Generated), span(float64(t.FirstMS)))
		if w.width >= 100 {
			tail = fmt.Sprintf(" %9s reused %8s processed %7s generated · first token %7s", term.Count(t.Reused), term.Count(t.Processed), term.Count(t.Generated), span(float64(t.FirstMS)))
		}
		mark := ""
		if t.Lost > 0 {
			mark = " cold"
		}
		cells := int64(max(w.width-5-len(tail)-5, 8))
		cells = min(cells, 80)
		a, b, c := cells*t.Reused/most, cells*t.Processed/most, cells*t.Generated/most
		b, c = atLeast(b, t.Processed), atLeast(c, t.Generated)
		a = max(min(a, cells-b-c), 0)
		w.line(fmt.Sprintf("%4d ", t.N) + w.sc.Dim(strings.Repeat("░", int(a))) + w.sc.Warn(strings.Repeat("█", int(b))) + w.sc.Good(strings.Repeat("▒", int(c))) +
			strings.Repeat(" ", int(max(cells-a-b-c, 0))) + tail + w.sc.Bad(mark))
	}
}

// atLeast gives what is there one cell.
func atLeast(cells, tokens int64) int64 {
	if cells == 0 && tokens > 0 {
		return 1
	}
	return cells
}

// plot draws one figure over all turns.
func (w *writer) plot(title string, turns []Turn, of func(Turn) float64, label func(float64) string) {
	values := make([]float64, 0, len(turns))
	for _, t := range turns {
		values = append(values, of(t))
	}
	graph := asciigraph.Plot(values, asciigraph.Height(6), asciigraph.Width(min(w.width-14, 100)), asciigraph.LowerBound(0),
		asciigraph.YAxisValueFormatter(label))
	w.line("")
	w.line(w.sc.Bold(title))
	for l := range strings.SplitSeq(graph, "\n") {
		w.line(strings.TrimRight(l, " "))
	}
}

func (w *writer) colds(s *Stats) {
	w.line("")
	if len(s.Colds) == 0 {
		w.line(w.sc.Dim("no cold cache"))
		return
	}
	w.line(w.sc.Bold("cold caches") + fmt.Sprintf(": %d, %s tokens read again, about %s", len(s.Colds), term.Count(s.Sum.Lost), span(float64(s.Sum.LostMS))))
	for _, c := range s.Colds[max(0, len(s.Colds)-10):] {
		when := term.Line(c.Time)
		if t, err := proto.ParseTime(c.Time); err == nil {
			when = term.When(t, w.now)
		}
		w.line(fmt.Sprintf("  turn %d, %s: %s tokens, about %s", c.Turn, when, term.Count(c.Lost), span(float64(c.LostMS))))
	}
}
