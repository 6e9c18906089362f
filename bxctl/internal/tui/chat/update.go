package chat

import (
	"fmt"
	"strings"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/tui/markdown"
	"boxmaker/internal/proto"

	tea "charm.land/bubbletea/v2"
)

// Update takes a message and gives what is to be done.
func (m *Model) Update(msg any) []Effect {
	effects := append(m.take(msg), m.after...)
	m.after = nil
	if resume := strings.HasPrefix(m.ed.Text(), resumeWord); resume != m.choosing {
		if m.choosing = resume; resume {
			effects = append(effects, Query{AskList, m.cfg.Session, ""})
		}
	}
	return effects
}

func (m *Model) take(msg any) []Effect {
	if m.approvalEvent(msg) {
		return nil
	}
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		m.over.focus, m.over.note = "", "" // a paste answers nothing
		m.ed.Insert(msg.Content)
		m.typed()
	case Events:
		if t := m.job(msg.Job); t != nil {
			for _, e := range msg.Events {
				m.later(t, e)
			}
		}
	case Lost:
		m.laterFor(msg.Job, msg)
	case Back:
		m.laterFor(msg.Job, msg)
	case Ended:
		m.laterFor(msg.Job, msg)
	case Said:
		m.say("")
		for _, l := range strings.Split(strings.TrimRight(msg.Text, "\n"), "\n") {
			m.text(l, func(s string) string { return s })
		}
		m.say("")
	case Failed:
		m.say("")
		m.text(strings.TrimRight(fault.Text(msg.Err), "\n"), m.sc.Warn)
		m.say("")
	case Tail:
		return m.resumed(msg)
	case Result:
		m.resultText(msg)
	case Listed:
		m.known = msg.Sessions
	case Health:
		m.health(msg)
	case Tick:
		m.frame++
		m.forget()
	}
	return nil
}

func (m *Model) resize(width, height int) {
	m.width, m.height = max(width, 20), max(height, 6)
	for _, t := range m.jobs {
		if t.md != nil {
			t.md.Resize(m.room())
		}
	}
}

func (m *Model) job(id int) *turn {
	for _, t := range m.jobs {
		if t.job == id {
			return t
		}
	}
	return nil
}

func (m *Model) laterFor(job int, e any) {
	if t := m.job(job); t != nil {
		m.later(t, e)
	}
}

// later handles what came for a turn, or keeps it while another one is shown.
func (m *Model) later(t *turn, e any) {
	if t != m.jobs[0] || t.asked != "" {
		if _, ok := e.(*proto.Accepted); ok {
			t.taken = true
		}
		t.held = append(t.held, e)
		return
	}
	switch e := e.(type) {
	case Lost:
		if !t.lost {
			m.say("")
			m.warn("loopd is away; the message goes on as soon as it is back, nothing is lost")
		}
		t.lost = true
	case Back:
		m.say(m.sc.Dim("(loopd is back; going on)"), "")
		t.lost, t.wait, t.read, t.calls = false, nil, nil, nil
		t.again = &again{old: append(append([]string{}, t.segs...), t.part.String())}
		for k := range t.known { // calls that had no result yet are shown again
			if id, ok := strings.CutPrefix(k, "call "); ok && !t.known["result "+id] {
				delete(t.known, k)
			}
		}
	case Ended:
		m.end(t, e.Err)
	case proto.Message:
		m.event(t, e)
	}
}

// showNext begins to show the turn that is first now.
func (m *Model) showNext() {
	if len(m.jobs) == 0 || m.jobs[0].shown {
		return
	}
	t := m.jobs[0]
	t.shown, t.began = true, m.cfg.Now()
	if t.text != "" {
		m.user(t.text)
	}
	m.release(t)
}

// release handles what was kept back.
func (m *Model) release(t *turn) {
	held := t.held
	t.held = nil
	for i, e := range held {
		if len(m.jobs) == 0 || m.jobs[0] != t || t.asked != "" {
			t.held = append(t.held, held[i:]...)
			return
		}
		m.later(t, e)
	}
}

// maxOwn is how many rows of the owner's own message are repeated.
const maxOwn = 20

// user finishes the lines of a message of the owner.
func (m *Model) user(text string) {
	m.say("")
	rows := wrapText(term.Safe(strings.TrimRight(text, "\n")), m.room()-2)
	for i, l := range rows {
		if i == maxOwn && len(rows) > maxOwn+1 {
			m.say(m.sc.Dim(fmt.Sprintf("  … %d more rows (Ctrl-O)", len(rows)-i)))
			break
		}
		mark := "> "
		if i > 0 {
			mark = "  "
		}
		m.say(m.sc.Bold(mark + l))
	}
	m.say("")
}

// send makes a turn of a text.
func (m *Model) send(text string) []Effect {
	t := m.begin(text)
	return []Effect{Remember{text}, Send{Job: t.job, Session: m.cfg.Session, Text: text}}
}

func (m *Model) begin(text string) *turn {
	t := &turn{job: m.nextJob, text: text, known: map[string]bool{}}
	m.nextJob++
	m.jobs, m.used = append(m.jobs, t), true
	m.showNext()
	return t
}

func (m *Model) health(h Health) {
	if h.Err != nil {
		if !m.away && len(m.jobs) == 0 {
			m.say("")
			m.warn("loopd does not answer; what you send waits until it is back")
		}
		m.away = true
		return
	}
	if m.away && len(m.jobs) == 0 {
		m.say(m.sc.Dim("(loopd is back)"))
	}
	if m.status == nil {
		m.greet(h.Status)
	}
	m.away, m.status = false, h.Status
}

func (m *Model) greet(st *proto.Status) {
	model := report.Model(st.Server)
	if st.Server.Practice {
		model = "practice model: rules, not a language model"
	}
	m.text(m.sc.Bold("Boxmaker")+" · "+model+" · /help lists commands", func(s string) string { return s })
	if st.State != "ready" {
		m.warn("loopd is " + term.Line(st.State+" "+st.Detail) + "; what you send is answered as soon as it is ready")
	}
}

// resumed shows the end of a session and goes on with it.
func (m *Model) resumed(t Tail) []Effect {
	m.cfg.Session, m.used = t.Session, true
	m.usage = proto.Usage{Context: t.Context, Window: t.Window}
	m.say("", m.sc.Dim("── session "+t.Session+" ──"))
	if t.More {
		m.say(m.sc.Dim("(older messages: Ctrl-O)"))
	}
	for _, it := range t.Items {
		m.past(it)
	}
	m.say("")
	m.showAsks()
	if t.Open && len(m.jobs) == 0 {
		j := m.begin("")
		return []Effect{Join{Job: j.job, Session: t.Session}}
	}
	return nil
}

func (m *Model) past(it archive.Item) {
	switch it.Role {
	case "user":
		m.user(it.Text)
	case "assistant":
		if strings.TrimSpace(it.Text) != "" {
			m.say("")
			m.say(markdown.Render(m.theme, m.room(), it.Text)...)
			m.say("")
		}
	case "call":
		end := ""
		o := proto.CallOK
		if c := it.Call; c.Ended {
			o = c.Outcome
			end = " → " + outcome(c.Outcome, c.Code) + " · " + string(c.Class)
		}
		m.callRow(callLine(&proto.ToolStarted{Tool: it.Call.Tool, Args: it.Call.Args}), end, o)
	default:
		if it.Text != "" {
			m.warn("the turn ended: " + term.Line(it.Text))
		}
	}
}

func (m *Model) fresh() {
	m.cfg.Session, m.used, m.usage = m.cfg.NewID(), false, proto.Usage{}
	m.say("", m.sc.Dim("── new session "+m.cfg.Session+" ──"), "")
	m.showAsks()
}

func (m *Model) say1(format string, args ...any) {
	m.say("")
	m.text(fmt.Sprintf(format, args...), m.sc.Dim)
	m.say("")
}
