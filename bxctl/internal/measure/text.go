package measure

import (
	"fmt"
	"strings"

	"boxmaker/bxctl/internal/term"
)

// Text is the short form for a terminal: the contract and the block for loopd.toml.
func (r *Results) Text(s term.Screen, points []Contract) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s, slot %d of %d, window %s\n", s.Bold("Measured"), term.Line(r.Server.Model), term.Line(r.Server.Build), r.Server.Slot, r.Server.Slots, term.Count(r.Server.Window))
	if r.Server.Practice {
		b.WriteString(s.Warn("This is the practice model: rules, not a language model. Its figures say nothing about one.") + "\n")
	}
	b.WriteString("\n")
	paint := map[Verdict]func(string) string{Kept: s.Good, Doubt: s.Warn, Broken: s.Bad, Unclear: s.Dim}
	for _, c := range points {
		const margin = 12
		space := strings.Repeat(" ", margin)
		b.WriteString(s.Fold(margin, "  "+paint[c.Verdict](fmt.Sprintf("%-8s", c.Verdict))+"  "+c.Point) + "\n")
		b.WriteString(s.Fold(margin, space+s.Dim(term.Line(c.Seen))) + "\n")
		if c.Do != "" {
			b.WriteString(s.Fold(margin+len("do: "), space+"do: "+term.Line(c.Do)) + "\n")
		}
	}
	fmt.Fprintf(&b, "\nFor config/loopd.toml, so that loopd refuses to start with another server:\n\n%s", r.Expect())
	return b.String()
}
