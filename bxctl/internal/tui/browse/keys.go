package browse

import (
	"bytes"
	"strings"
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	tea "charm.land/bubbletea/v2"
	"github.com/go-json-experiment/json/jsontext"
)

func callPart(it archive.Item) *part {
	c := it.Call
	args := term.Line(c.Args)
	if args == "{}" {
		args = ""
	}
	how := ""
	if c.Ended {
		how = string(c.Outcome)
		if c.Outcome != proto.CallOK && c.Code != "" {
			how += " (" + string(c.Code) + ")"
		}
		how = " → " + term.Line(how) + " · " + term.Line(string(c.Class)) + " · " + term.Span(time.Duration(c.MS)*time.Millisecond)
	}
	head := term.Clip(strings.TrimSpace(term.Line(c.Tool)+" "+args), 60) + how
	body := func(w int) []string {
		rows := []string{"arguments:"}
		rows = append(rows, indent(wrap(term.Safe(pretty(c.Args)), w-2))...)
		rows = append(rows, "result:")
		rows = append(rows, indent(wrap(term.Safe(strings.TrimRight(it.Text, "\n")), w-2))...)
		if c.Dropped > 0 {
			rows = append(rows, "("+term.Bytes(c.Dropped)+" were cut off)")
		}
		return append(rows, "")
	}
	return &part{fold: true, head: head, text: c.Tool + " " + c.Args + " " + it.Text, body: body}
}

func indent(rows []string) []string {
	for i := range rows {
		rows[i] = "  " + rows[i]
	}
	return rows
}

// pretty lays JSON out in lines; what is none stays as it is.
func pretty(s string) string {
	v := jsontext.Value(bytes.Clone([]byte(s)))
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return s
	}
	return string(v)
}

// Key takes one key; true leaves the reader.
func (m *Model) Key(k tea.KeyPressMsg) (leave bool) {
	name := k.Keystroke()
	if m.typing {
		m.typed(k, name)
		return false
	}
	page := max(m.height-2, 1)
	switch name {
	case "q", "esc", "ctrl+c", "ctrl+o", "ctrl+d":
		return true
	case "up", "k":
		m.up++
	case "down", "j":
		m.up--
	case "pgup", "b", "ctrl+u":
		m.up += page
	case "pgdown", "space", "f", "ctrl+f":
		m.up -= page
	case "home", "g":
		m.up = m.total()
	case "end", "shift+g":
		m.up = 0
	case "tab":
		m.choose(1)
	case "shift+tab":
		m.choose(-1)
	case "enter":
		m.toggle()
	case "a":
		m.all()
	case "/":
		m.typing, m.find = true, ""
	case "n":
		m.search()
	}
	m.up = max(m.up, 0)
	return false
}

func (m *Model) typed(k tea.KeyPressMsg, name string) {
	switch name {
	case "enter":
		m.typing = false
		m.search()
	case "esc", "ctrl+c":
		m.typing = false
	case "backspace":
		if r := []rune(m.find); len(r) > 0 {
			m.find = string(r[:len(r)-1])
		}
	default:
		m.find += k.Text
	}
}

// choose goes to the next part that folds, round and round. The first time it
// is the last one that there is.
func (m *Model) choose(by int) {
	var folds []*part
	at := -1
	for _, p := range m.parts {
		if !p.fold {
			continue
		}
		if p == m.chosen {
			at = len(folds)
		}
		folds = append(folds, p)
	}
	switch {
	case len(folds) == 0:
		return
	case at < 0:
		at = len(folds) - 1
	default:
		at = (at + by + len(folds)) % len(folds)
	}
	m.chosen = folds[at]
	m.reveal(m.chosen)
}

// reveal scrolls so that the part's first row is seen.
func (m *Model) reveal(to *part) {
	below := 0
	for i := len(m.parts) - 1; i >= 0; i-- {
		below += len(m.rows(m.parts[i]))
		if m.parts[i] == to {
			break
		}
	}
	show := m.height - 1
	if below <= m.up {
		m.up = max(below-show/2, 0)
	} else if below > m.up+show {
		m.up = below - show
	}
}

func (m *Model) toggle() {
	if m.chosen == nil {
		m.choose(-1)
	}
	if m.chosen != nil {
		m.chosen.open, m.chosen.wide = !m.chosen.open, 0
		m.reveal(m.chosen)
	}
}

// all unfolds everything, or folds it if nothing is folded.
func (m *Model) all() {
	open := false
	for _, p := range m.parts {
		open = open || p.fold && !p.open
	}
	for _, p := range m.parts {
		if p.fold {
			p.open, p.wide = open, 0
		}
	}
}

// search goes up to the next part that holds the text, in what is loaded.
func (m *Model) search() {
	if m.find == "" {
		return
	}
	find := strings.ToLower(m.find)
	at := len(m.parts)
	for i, p := range m.parts {
		if p == m.chosen {
			at = i
		}
	}
	for n := 1; n <= len(m.parts); n++ {
		i := ((at-n)%len(m.parts) + len(m.parts)) % len(m.parts)
		if strings.Contains(strings.ToLower(m.parts[i].text), find) {
			m.chosen = m.parts[i]
			m.reveal(m.chosen)
			return
		}
	}
}
