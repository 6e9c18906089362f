package doctor

import (
	"fmt"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
)

// Text lays the report out for people. Everything in it is safe for a terminal.
func (r Report) Text(s term.Screen) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s\n\n", s.Bold("Boxmaker doctor"), term.Line(r.Home))
	for _, m := range r.Mended {
		if m.Error != "" {
			fmt.Fprintf(&b, "  %s %s: %s\n", s.Bad("not mended"), term.Line(m.What), term.Line(m.Error))
		} else {
			fmt.Fprintf(&b, "  %s %s\n", s.Good("mended"), term.Line(m.What))
		}
	}
	if len(r.Mended) > 0 {
		b.WriteString("\n")
	}
	wide := 0
	for _, name := range Names() {
		wide = max(wide, len(name))
	}
	last := ""
	for _, f := range r.Findings {
		name := f.Check
		if name == last {
			name = ""
		}
		last = f.Check
		f.row(&b, s, name, wide)
	}
	b.WriteString("\n" + r.Sum() + "\n")
	return b.String()
}

func (f Finding) row(b *strings.Builder, s term.Screen, name string, wide int) {
	paint := map[Verdict]func(string) string{OK: s.Good, Skipped: s.Dim, Warn: s.Warn, Fail: s.Bad}[f.Verdict]
	margin := 10 + wide + 2
	indent := strings.Repeat(" ", margin)
	line := func(hang int, text string) { b.WriteString(s.Fold(hang, text) + "\n") }
	line(margin, fmt.Sprintf("  %s%-*s  %s", paint(fmt.Sprintf("%-8s", f.Verdict)), wide, name, term.Line(f.Looked+": "+f.Detail)))
	for _, l := range []struct{ head, text string }{{"mend: ", f.Mend}, {"--fix: ", f.Fix}} {
		if l.text != "" && f.Verdict != OK {
			line(margin+len(l.head), indent+s.Dim(l.head)+term.Line(l.text))
		}
	}
	if f.Runbook != "" && (f.Verdict == Warn || f.Verdict == Fail) {
		line(margin, indent+s.Dim("(see runbook: "+term.Line(f.Runbook)+")"))
	}
}

// Sum is the result in a line.
func (r Report) Sum() string {
	count := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	fixable := 0
	for _, f := range r.Findings {
		if f.Fix != "" && f.Verdict != OK {
			fixable++
		}
	}
	if r.Failures+r.Warnings == 0 {
		return "Nothing is wrong."
	}
	line := fmt.Sprintf("%s, %s.", count(r.Failures, "failure"), count(r.Warnings, "warning"))
	if fixable > 0 {
		line += fmt.Sprintf(" bxctl doctor --fix can mend %d.", fixable)
	}
	return line
}

// Err is the report as an error with its exit code, or nil.
func (r Report) Err() error {
	code := r.ExitCode()
	if code == fault.OK {
		return nil
	}
	return &fault.Fault{Code: code, What: "not everything is in order: " + strings.TrimSuffix(strings.Split(r.Sum(), ". ")[0], "."), Do: "mend what stands above as it says there", Key: "doctor-findings"}
}
