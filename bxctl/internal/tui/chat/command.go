package chat

import (
	"slices"
	"strings"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// command is one slash command.
type command struct {
	name, arg, does string
}

func commands() []command {
	return []command{
		{"/help", "", "this list"},
		{"/stop", "", "end the running turn; messages that wait go on"},
		{"/approvals", "", "show again what waits for your approval, in other sessions too"},
		{"/approve", "CODE", "let the call with that code run, once"},
		{"/deny", "CODE", "refuse the call with that code"},
		{"/new", "", "begin a new session"},
		{"/resume", "[ID]", "go on with another session; without an ID, the newest other one"},
		{"/sessions", "", "list the sessions"},
		{"/status", "", "what runs, and the state of this session"},
		{"/context", "", "how full the window is, and every turn as a plot"},
		{"/transcript", "", "read the whole session, unfold thinking and calls (Ctrl-O)"},
		{"/details", "", "fold or unfold thinking and calls as they come (Ctrl-T)"},
		{"/export", "[FILE]", "write the session to a Markdown file"},
		{"/quit", "", "leave (Ctrl-D does too); a turn that runs goes on"},
	}
}

const keysHelp = `Enter sends · Alt-Enter, Ctrl-J, or \ at the end: a new line · Up and Down: what was typed before
Ctrl-X answers what waits for your approval · Ctrl-C or Esc stops the turn; Ctrl-C once more leaves · // at the start sends a slash
Ctrl-W, Ctrl-U, Ctrl-K cut, Ctrl-Y puts back · Ctrl-L draws anew · Ctrl-Z suspends`

func (m *Model) command(line string) []Effect {
	name, arg, _ := strings.Cut(line, " ")
	arg = strings.TrimSpace(arg)
	session := m.cfg.Session
	switch name {
	case "/quit", "/exit":
		m.leaving = true
		return []Effect{Leave{}}
	case "/help", "/?":
		m.help()
	case "/stop":
		if len(m.jobs) == 0 {
			m.say1("(no turn runs)")
			return nil
		}
		m.stopping = true
		return []Effect{StopTurn{session}}
	case "/approvals":
		m.showAll()
	case "/approve", "/deny":
		return m.answerCommand(name, arg)
	case "/status":
		return []Effect{Query{AskStatus, session, ""}}
	case "/sessions":
		return []Effect{Query{AskSessions, session, ""}}
	case "/context":
		return []Effect{Query{AskContext, session, ""}}
	case "/export":
		return []Effect{Query{AskExport, session, arg}}
	case "/transcript":
		return []Effect{Transcript{session}}
	case "/details":
		m.toggle()
	case "/new", "/resume":
		return m.change(name, arg)
	default:
		m.say("")
		m.warn("there is no command " + term.Clip(term.Line(name), 40) + "; /help lists them, and // at the start sends a slash")
		m.say("")
	}
	return nil
}

// change leaves the session for another one.
func (m *Model) change(name, arg string) []Effect {
	if slices.ContainsFunc(m.jobs, func(t *turn) bool { return !t.other }) {
		m.warn("a turn runs in this session; wait for it, or /stop it first")
		return nil
	}
	if name == "/new" {
		return m.fresh()
	}
	return []Effect{Query{AskTail, m.cfg.Session, arg}}
}

func (m *Model) help() {
	m.say("")
	for _, c := range commands() {
		head := c.name
		if c.arg != "" {
			head += " " + c.arg
		}
		for i, l := range wrapText(c.does, m.room()-17) {
			if i > 0 {
				head = ""
			}
			m.say(m.sc.Bold(head) + strings.Repeat(" ", max(17-len(head), 1)) + l)
		}
	}
	m.say("")
	m.text(keysHelp, m.sc.Dim)
	m.say("")
}

// choice is one row of the popup.
type choice struct {
	insert, show, about string
}

const maxChoices = 8

const resumeWord = "/resume "

// choices gives what the typed text may become; nil: no popup.
func (m *Model) choices() []choice {
	text := m.ed.Text()
	if m.closed || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.Contains(text, "\n") || m.ed.Before() != text {
		return nil
	}
	if prefix, ok := strings.CutPrefix(text, resumeWord); ok {
		return m.sessionChoices(strings.TrimSpace(prefix))
	}
	for _, word := range []string{"/approve ", "/deny "} {
		if prefix, ok := strings.CutPrefix(text, word); ok {
			return m.codeChoices(word, strings.TrimSpace(prefix))
		}
	}
	var out []choice
	for _, c := range commands() {
		if strings.HasPrefix(c.name, text) {
			insert := c.name
			if c.arg != "" {
				insert += " "
			}
			out = append(out, choice{insert, c.name, c.does})
		}
	}
	return out
}

func (m *Model) sessionChoices(prefix string) []choice {
	var out []choice
	for _, s := range m.known {
		id := term.Line(s.Session)
		if id == m.cfg.Session || !strings.Contains(id, prefix) && !strings.Contains(strings.ToLower(s.Title), strings.ToLower(prefix)) {
			continue
		}
		about := term.Line(s.Title)
		if t, err := proto.ParseTime(s.Modified); err == nil {
			about = term.When(t, m.cfg.Now()) + "  " + about
		}
		out = append(out, choice{resumeWord + id, id, about})
	}
	return out
}

// popupKey handles a key for the popup; false: it is not for it.
func (m *Model) popupKey(name string) bool {
	list := m.choices()
	if name == "esc" || name == "ctrl+g" {
		m.closed = true
		return list != nil
	}
	if len(list) == 0 {
		return false
	}
	m.pick = min(m.pick, len(list)-1)
	chosen := list[m.pick]
	switch name {
	case "up", "ctrl+p":
		m.pick = (m.pick + len(list) - 1) % len(list)
	case "down", "ctrl+n":
		m.pick = (m.pick + 1) % len(list)
	case "tab":
		m.ed.Set(chosen.insert)
		m.pick = 0
	case "enter", "kpenter":
		if strings.EqualFold(strings.TrimSpace(m.ed.Text()), strings.TrimSpace(chosen.insert)) {
			return false
		}
		m.ed.Set(chosen.insert)
		m.pick = 0
		// What answers an approval wants one more Enter.
		return chosen.insert == resumeWord || strings.HasPrefix(chosen.insert, "/approve ") || strings.HasPrefix(chosen.insert, "/deny ")
	default:
		return false
	}
	return true
}
