package rights

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
)

// Table shows grants as aligned rows under a heading.
func Table(grants []*grant.Grant, now time.Time, s term.Screen, width int) []string {
	rows := [][]string{{"GRANT", "TOOL", "MODE", "EXPIRES", "ABOUT"}}
	for _, g := range grants {
		rows = append(rows, []string{g.ID, g.Tool, mode(g), expiry(g, now), about(g)})
	}
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], term.Columns(term.Line(c)))
		}
	}
	var out []string
	for n, r := range rows {
		var b strings.Builder
		for i, c := range r {
			c = term.Line(c)
			b.WriteString(c)
			if i < len(r)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-term.Columns(c)+2))
			}
		}
		line := term.Clip(b.String(), width)
		switch {
		case n == 0:
			line = s.Dim(line)
		case grants[n-1].Expired(now):
			line = s.Warn(line)
		}
		out = append(out, line)
	}
	return out
}

func mode(g *grant.Grant) string {
	if g.ModeUntrusted != g.Mode {
		return string(g.Mode) + "/" + string(g.ModeUntrusted)
	}
	return string(g.Mode)
}

func expiry(g *grant.Grant, now time.Time) string {
	switch {
	case g.Expires.IsZero():
		return "-"
	case g.Expired(now):
		return "expired"
	default:
		return g.Expires.UTC().Format(time.DateOnly)
	}
}

// about names what a grant reaches, and which arguments it bounds.
func about(g *grant.Grant) string {
	var parts []string
	parts = append(parts, g.Paths.Read...)
	for _, p := range g.Paths.Write {
		parts = append(parts, p+" (write)")
	}
	parts = append(parts, g.Net.Hosts...)
	for _, c := range g.Args {
		parts = append(parts, "["+c.Arg+"]")
	}
	if len(parts) == 0 && g.Mode == grant.Deny {
		return "every call"
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}

// Explained shows a verdict and what every grant of the tool makes of the call.
func Explained(e Explanation, s term.Screen) []string {
	head := s.Bad("deny")
	switch e.Verdict {
	case "allow":
		head = s.Good("allow")
	case "ask":
		head = s.Warn("ask")
	}
	why := e.Why
	if e.Code != "" {
		why = "the model would read “" + e.Why + "”"
	}
	lines := []string{head + ": " + term.Line(why), s.Dim(fmt.Sprintf("a session with the taint %s that %s untrusted text", term.Line(e.Taint), map[bool]string{true: "has seen", false: "has not seen"}[e.Untrusted]))}
	for _, st := range e.Steps {
		mark := s.Dim("·")
		switch {
		case st.Fits && st.Grant == e.Grant:
			mark = s.Bold("→")
		case st.Fits:
			mark = "+"
		}
		lines = append(lines, "  "+mark+" "+term.Line(st.Grant)+": "+term.Line(st.Why))
	}
	switch {
	case len(e.Steps) > 0:
	case e.Code == string(proto.CodeInvalidArguments):
		lines = append(lines, s.Dim("  such a call is refused before any grant is looked at"))
	default:
		lines = append(lines, s.Dim("  no grant is for this tool"))
	}
	return lines
}
