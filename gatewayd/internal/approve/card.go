package approve

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"boxmaker/gatewayd/internal/split"
	"boxmaker/internal/proto"
)

// Emoji are the names of the reactions that count, and no others: neither "+1",
// which stands on every screen's first place, nor any skin tone of it.
const (
	EmojiYes = "white_check_mark"
	EmojiNo  = "x"
)

// Seal stands at the start of every card. Text of a model is posted without it.
const Seal = split.Seal

// A Card is what the owner sees of an approval.
type Card struct {
	Text string
	// File is the whole of a card that Text shows in part; empty: it shows all.
	File string
	// Mute says that the call cannot be answered in the chat.
	Mute bool
}

// folds are how many rows of a text are shown, in the order in which it is tried:
// of a field its start and its end, of a change the same.
func folds() [][4]int { return [][4]int{{10, 4, 30, 6}, {5, 2, 10, 3}, {2, 1, 3, 1}} }

// Draw makes the card of a waiting approval. It has at most limit runes.
func Draw(a *proto.Ask, limit int, zone *time.Location) Card {
	if a.Elsewhere() {
		return Card{Mute: true, Text: head(a, "wants your approval") + "\n" +
			"It may not be answered here, so that nothing of it is shown. On the machine: `bxctl approvals`, or `bxctl chat`.\n" + until(a, zone)}
	}
	foot := fmt.Sprintf("React with :%s: to approve or :%s: to deny; or reply `approve %s` or `deny %s`.\n%s", EmojiYes, EmojiNo, word(a.Code), word(a.Code), until(a, zone))
	first := head(a, "wants your approval · code `"+word(a.Code)+"`")
	for _, f := range folds() {
		p := block(a, &f)
		card := Card{Text: first + "\n" + p.warnings() + p.fenced() + "\n"}
		if p.folded {
			card.Text += "**A part is left out above. The attached file has all of it.**\n"
		}
		if card.Text += foot; utf8.RuneCountInString(card.Text) > limit {
			continue
		}
		if p.folded {
			card.File = strings.Join(block(a, nil).rows, "\n") + "\n"
		}
		return card
	}
	return Card{Mute: true, Text: first + "\n" +
		"It is too long to be shown here. On the machine: `bxctl approvals`, or `bxctl chat`.\n" + until(a, zone)}
}

// Outcome makes the card of an approval that waits no more. It has at most limit
// runes.
func Outcome(a *proto.Ask, end End, limit int) string {
	first := head(a, outcome(end))
	f := folds()[1]
	if p := block(a, &f); !a.Elsewhere() && utf8.RuneCountInString(first+p.fenced())+1 <= limit {
		return first + "\n" + p.fenced()
	}
	return first
}

// outcome says how it ended. The verdict and where it was given come from
// brokerd, which has it on record.
func outcome(e End) string {
	where := ""
	switch {
	case e.Channel == "mattermost":
		where = " here, by the owner"
	case e.By != "":
		where = " on the machine, by " + word(e.By)
	}
	switch e.Verdict {
	case proto.VerdictApproved:
		return ":" + EmojiYes + ": **approved**" + where
	case proto.VerdictDenied:
		return ":" + EmojiNo + ": **denied**" + where
	case proto.VerdictExpired:
		return ":hourglass: **expired**: nobody answered in time, and it was not run"
	case proto.VerdictWithdrawn:
		return "**withdrawn**: the turn was stopped, or all was halted; it was not run"
	default:
		return "**over**"
	}
}

// changed is what stands in a card that somebody else has edited.
func changed(a *proto.Ask) string {
	return head(a, "wants your approval") + "\n" +
		":warning: **Somebody changed this message, so that answers to it count for nothing.** Look at the call on the machine: `bxctl approvals`, or `bxctl chat`."
}

func head(a *proto.Ask, what string) string { return Seal + " **" + word(a.Tool) + "** " + what }

func until(a *proto.Ask, zone *time.Location) string {
	t, err := proto.ParseTime(a.Expires)
	if err != nil {
		return "It expires at a time that cannot be read."
	}
	return "It expires at " + t.In(zone).Format("15:04 MST on 2 January") + ", and is denied then."
}

// A page is the block of code of a card.
type page struct {
	rows   []string
	warn   []string
	fold   *[4]int // nil: all is shown
	folded bool
}

func block(a *proto.Ask, fold *[4]int) *page {
	p := &page{fold: fold}
	if a.Untrusted {
		p.warn = append(p.warn, "This session has seen untrusted text, such as a web page. The model may be doing what that text says, and not what you want.")
	}
	for _, f := range a.Fields {
		p.text(f.Name, f.Value, false)
		if f.Name == "path" || f.Name == "dir" || f.Name == "url" {
			p.odd(f.Name, f.Value)
		}
	}
	if a.Diff != "" {
		p.text("change", a.Diff, true)
	}
	if a.DiffNote != "" {
		p.text("note", a.DiffNote, false)
	}
	for _, l := range []struct {
		label string
		all   []string
	}{{"reads", a.Read}, {"writes", a.Write}, {"hosts", a.Hosts}, {"secrets", a.Secrets}} {
		if len(l.all) > 0 {
			p.text(l.label, strings.Join(lines(l.all), "\n"), false)
			p.odd(l.label, strings.Join(l.all, " "))
		}
	}
	p.ours("class", "result "+word(string(a.Class))+", session so far "+word(string(a.Taint)))
	p.text("grant", a.Grant, false)
	if a.Reason != "" {
		p.text("reason", a.Reason, false)
	}
	p.ours("session", word(a.Session))
	return p
}

// lines makes each entry of a list one line.
func lines(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = strings.ReplaceAll(s, "\n", "<U+000A>")
	}
	return out
}

func label(s string) string {
	s = word(s)
	if len(s) > labelWidth {
		s = s[:labelWidth-1] + "~"
	}
	return s + strings.Repeat(" ", labelWidth-len(s)+1)
}

func (p *page) ours(name, s string) {
	for len(s) > textWidth {
		p.rows, s, name = append(p.rows, label(name)+"  "+s[:textWidth]), s[textWidth:], ""
	}
	p.rows = append(p.rows, label(name)+"  "+s)
}

// text is one of others, of which the middle may be left out.
func (p *page) text(name, s string, diff bool) {
	if s == "" {
		p.ours(name, "(empty)")
		return
	}
	if turned(s) {
		p.warn = append(p.warn, word(name)+" has letters that are written from right to left; they may be shown in another order.")
	}
	all := rows(s)
	head, tail := len(all), 0
	if p.fold != nil {
		head, tail = p.fold[0], p.fold[1]
		if diff {
			head, tail = p.fold[2], p.fold[3]
		}
	}
	for i := 0; i < len(all); i++ {
		if left := len(all) - head - tail; i == head && left > 1 {
			p.ours("", fmt.Sprintf("... %d rows are left out here ...", left))
			p.folded = true
			i += left
		}
		p.rows = append(p.rows, label(name)+all[i])
		name = ""
	}
}

func (p *page) odd(name, s string) {
	if o := odd(s); o != "" {
		p.warn = append(p.warn, word(name)+" has letters that are not ASCII and may look like others: "+o)
	}
}

func (p *page) warnings() string {
	out := ""
	for _, w := range p.warn {
		out += ":warning: " + w + "\n"
	}
	return out
}

func (p *page) fenced() string {
	text := strings.Join(p.rows, "\n")
	f := fence(text)
	return f + "text\n" + text + "\n" + f
}
