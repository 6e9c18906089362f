// Package approval shows a call that waits for the owner.
//
// It guarantees that what is shown was laid out here: every text that a model or
// a file may have written stands behind a gutter mark in a fixed column, on
// every row, with control characters, reordering and hidden letters made
// visible; so that no such text can end the frame, pass for a line of ours,
// leave its row, or push something out of sight without a word about it. It
// shows an approval as brokerd gave it and does not judge the call.
package approval

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// Options say how it is shown.
type Options struct {
	Width  int         // columns, at least MinWidth
	Screen term.Screen // for its colours only
	Now    time.Time
	Fold   string // how a folded part can be seen, such as "Ctrl-T"; empty: nothing is folded
	Hint   string // last line; text of ours
}

// Layout. A row of a text is "│ label    ┆ text", and "│          ┆»text" where
// the row above goes on. A line of ours has a space in the gutter's place.
const (
	labelWidth = 8
	gutterAt   = 2 + labelWidth + 1 // columns before the mark
	textAt     = gutterAt + 2
	spare      = 3 // the frame's own marks take two columns in some settings

	// MinWidth is the narrowest screen that a call can be shown on. On a narrower
	// one the ends of its rows are out of sight.
	MinWidth = 24

	foldHead, foldTail = 10, 4
	diffHead, diffTail = 28, 6
)

type page struct {
	Options
	out    []string
	folded bool
}

// Lines gives the approval as lines of at most o.Width columns, with colours
// where the screen has them.
func Lines(a *proto.Approval, o Options) []string {
	p := render(a, o)
	return p.out
}

// Folded reports whether something is left out with these options.
func Folded(a *proto.Approval, o Options) bool { return render(a, o).folded }

func render(a *proto.Approval, o Options) *page {
	o.Width = max(o.Width, MinWidth)
	p := &page{Options: o}
	p.rule("┌─ ", p.title(a))
	if a.Untrusted {
		p.ours("!", "This session has seen untrusted text, such as a web page or a file of others. The model may be doing what that text says, and not what you want.", o.Screen.Warn)
	}
	for _, f := range a.Fields {
		p.field(a, f)
	}
	p.diff(a)
	p.list("reads", a.Read)
	p.list("writes", a.Write)
	p.list("hosts", a.Hosts)
	p.list("secrets", a.Secrets)
	p.ours("class", "result: "+word(string(a.Class))+" · this session so far: "+word(string(a.Taint)), plain)
	p.text("grant", a.Grant, plain, foldHead, foldTail)
	if a.Reason != "" {
		p.text("reason", a.Reason, plain, foldHead, foldTail)
	}
	p.ours("asked", p.when(a.Asked)+" in session "+word(a.Session), plain)
	p.ours("expires", p.expiry(a.Expires), plain)
	if term.Columns(o.Hint) > p.ruleRoom() { // the codes in it must stay whole
		p.ours("answer", o.Hint, plain)
		o.Hint = ""
	}
	p.rule("└─ ", o.Hint)
	return p
}

// title is the first line; what gets shorter in a narrow one is not the code.
func (p *page) title(a *proto.Approval) string {
	name, rest := word(a.Tool), " wants your approval · code "+word(a.Code)+" "
	if term.Columns(name+rest) > p.ruleRoom() {
		rest = " asks · code " + word(a.Code) + " "
	}
	if term.Columns(rest)+4 > p.ruleRoom() {
		rest = " " + word(a.Code) + " "
	}
	return term.Clip(name, max(p.ruleRoom()-term.Columns(rest), 4)) + rest
}

func (p *page) ruleRoom() int { return p.Width - 6 }

func (p *page) room() int { return p.Width - textAt - spare }

func plain(s string) string { return s }

// word keeps what our identifiers are made of; they were checked when they came
// in, and are so once more.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./", r) {
			return r
		}
		return '?'
	}, s)
	return term.Clip(s, proto.MaxToolName)
}

// rule is the first or last line of the frame.
func (p *page) rule(corner, s string) {
	if s == "" {
		p.out = append(p.out, p.Screen.Dim(strings.TrimRight(corner, " ")+strings.Repeat("─", max(p.Width-2, 10))))
		return
	}
	s = term.Clip(s, p.ruleRoom())
	rest := max(p.Width-1-3-term.Columns(s), 0)
	if corner[:3] == "└" {
		rest = 0
	}
	p.out = append(p.out, p.Screen.Dim(corner)+p.Screen.Bold(strings.TrimRight(s, " "))+p.Screen.Dim(trail(s, rest)))
}

func trail(s string, rest int) string {
	if rest == 0 {
		return ""
	}
	return strings.Repeat(" ", len(s)-len(strings.TrimRight(s, " "))) + strings.Repeat("─", rest)
}

func (p *page) label(s string) string {
	s = term.Clip(word(s), labelWidth)
	if s == "?" { // the mark of a warning
		s = "!"
	}
	return p.Screen.Dim("│ ") + p.Screen.Bold(s) + strings.Repeat(" ", labelWidth-term.Columns(s)+1)
}

// ours is text of this program.
func (p *page) ours(label, s string, colour func(string) string) {
	for _, l := range words(s, p.Width-textAt) {
		p.out = append(p.out, p.label(label)+"  "+colour(l))
		label = ""
	}
}

// text is text of others.
func (p *page) text(label, s string, colour func(string) string, head, tail int) {
	p.rows(label, layout(s, p.room()), func(string) func(string) string { return colour }, head, tail)
}

// rows puts rows behind the gutter, and leaves out the middle of many.
func (p *page) rows(label string, rows []row, colour func(line string) func(string) string, head, tail int) {
	for i := 0; i < len(rows); i++ {
		if left := len(rows) - head - tail; i == head && p.Fold != "" && left > 1 {
			p.ours("", fmt.Sprintf("… %s more rows are folded; %s shows them", term.Count(int64(left)), p.Fold), p.Screen.Warn)
			p.folded = true
			i += left
		}
		r := rows[i]
		mark := "┆ "
		if r.goesOn {
			mark = "┆»"
		}
		p.out = append(p.out, p.label(label)+p.Screen.Dim(mark)+colour(r.line)(r.text))
		label = ""
	}
}

func (p *page) field(a *proto.Approval, f proto.Field) {
	if f.Value == "" {
		p.ours(f.Name, "(empty)", p.Screen.Dim)
		return
	}
	whole := f.Value
	f.Value = strings.TrimSuffix(whole, "\n")
	if n := strings.Count(f.Value, "\n"); n > 0 {
		p.ours(f.Name, fmt.Sprintf("(%s lines, %s)", term.Count(int64(n+1)), term.Bytes(int64(len(whole)))), p.Screen.Dim)
		f.Name = ""
	}
	head, tail := foldHead, foldTail
	if a.Diff != "" && a.DiffNote == "" && len(f.Value) > 200 { // the diff has it all
		head, tail = 3, 1
	}
	p.text(f.Name, f.Value, plain, head, tail)
	if f.Name == "path" || f.Name == "dir" || f.Name == "url" {
		p.odd(f.Value)
	}
	p.rightToLeft(f.Value)
}

func (p *page) list(label string, all []string) {
	for _, s := range all {
		p.text(label, s, plain, foldHead, foldTail)
		p.odd(s)
		label = ""
	}
}

// odd names letters that can look like others.
func (p *page) odd(s string) {
	var odd []string
	for _, r := range s {
		if name := fmt.Sprintf("U+%04X", r); r > 0x7e && len(odd) < 12 && !strings.Contains(strings.Join(odd, " "), name) {
			odd = append(odd, name)
		}
	}
	if odd != nil {
		p.ours("!", "has letters that are not ASCII and may look like others: "+strings.Join(odd, " "), p.Screen.Warn)
	}
}

// rightToLeft warns where a terminal may show another order.
func (p *page) rightToLeft(s string) {
	for _, r := range s {
		if r >= 0x590 && r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfefc || r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff {
			p.ours("!", "has letters that are written from right to left; a terminal may show them in another order", p.Screen.Warn)
			return
		}
	}
}

func (p *page) diff(a *proto.Approval) {
	if a.Diff != "" {
		p.ours("change", fmt.Sprintf("(%s)", counts(a.Diff)), p.Screen.Dim)
		p.rows("", layout(strings.TrimSuffix(a.Diff, "\n"), p.room()), p.diffColour, diffHead, diffTail)
		p.rightToLeft(a.Diff)
	}
	if a.DiffNote != "" {
		p.text("note", a.DiffNote, p.Screen.Warn, foldHead, foldTail)
	}
}

func counts(diff string) string {
	var plus, minus int64
	for line := range strings.SplitSeq(diff, "\n") {
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+"):
			plus++
		case strings.HasPrefix(line, "-"):
			minus++
		}
	}
	return "+" + term.Count(plus) + " -" + term.Count(minus) + " lines"
}

func (p *page) diffColour(line string) func(string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return p.Screen.Good
	case strings.HasPrefix(line, "-"):
		return p.Screen.Bad
	case strings.HasPrefix(line, "@@"):
		return p.Screen.Dim
	default:
		return plain
	}
}

func (p *page) when(s string) string {
	t, err := proto.ParseTime(s)
	if err != nil {
		return "at a time that can't be read"
	}
	return term.When(t, p.Now)
}

func (p *page) expiry(s string) string {
	t, err := proto.ParseTime(s)
	if err != nil {
		return "at a time that can't be read"
	}
	if !t.After(p.Now) {
		return "it has expired"
	}
	left := t.Sub(p.Now)
	if left > 2*time.Minute {
		left = left.Round(time.Minute) // 14 min 59 s are 15, as the chat says below
	}
	return "at " + term.When(t, p.Now) + " (in " + term.Span(left) + "), and is denied then"
}
