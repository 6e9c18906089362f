package chat

import (
	"fmt"
	"strings"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
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
	if m.approvalEvent(msg) || m.followEvent(msg) {
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
	case NoTail:
		return m.noTail(msg)
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
	t.note(e)
	if t != m.jobs[0] || t.asked != "" || !t.shown {
		t.held = append(t.held, e)
		m.showNext()
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
	case pastEnd:
		m.endedBefore(t, e)
	case proto.Message:
		m.event(t, e)
	}
}

// showNext begins to show the turn that is first now. One of the owner's own that
// stands in loopd's queue is shown when it begins: a message from elsewhere may
// come before it.
func (m *Model) showNext() {
	if len(m.jobs) == 0 {
		return
	}
	t := m.jobs[0]
	if !t.shown {
		if t.queued && !t.started {
			return
		}
		t.shown, t.began = true, m.cfg.Now()
		if t.text != "" {
			m.user(t.text, t.from)
		}
	}
	if t.asked == "" {
		m.release(t)
	}
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

// user finishes the lines of a message of the owner; from says where it was sent,
// if not here.
func (m *Model) user(text, from string) {
	m.say("")
	if from != "" {
		m.say(m.sc.Dim(term.Clip(from, m.room())))
	}
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
	t := m.newTurn(text)
	t.origin = m.cfg.NewOrigin()
	m.others.ours(t.origin)
	m.jobs = append(m.jobs, t)
	m.showNext()
	return []Effect{Remember{text}, Send{Job: t.job, Session: m.cfg.Session, Text: text, Origin: t.origin}}
}

func (m *Model) newTurn(text string) *turn {
	t := &turn{job: m.nextJob, text: text, known: map[string]bool{}}
	m.nextJob++
	m.used = true
	return t
}

func (m *Model) health(h Health) {
	if h.Err != nil {
		m.gone()
		return
	}
	if m.status == nil {
		m.greet(h.Status)
	}
	m.back()
	m.status = h.Status
}

// gone says that loopd is away, unless a turn does.
func (m *Model) gone() {
	if !m.away && !m.told && len(m.jobs) == 0 {
		m.say("")
		m.warn("loopd does not answer; what you send waits until it is back")
		m.told = true
	}
	m.away = true
}

func (m *Model) back() {
	if m.told {
		m.say(m.sc.Dim("(loopd is back)"))
	}
	m.away, m.told = false, false
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

func (m *Model) past(it archive.Item) {
	switch it.Role {
	case "user":
		m.user(it.Text, from(it.Surface, ""))
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

func (m *Model) fresh() []Effect {
	m.leaveOthers()
	m.cfg.Session, m.used, m.usage = m.cfg.NewID(), false, proto.Usage{}
	m.say("", m.sc.Dim("── new session "+m.cfg.Session+" ──"), "")
	m.showAsks()
	return []Effect{m.follow(loop.Place{})}
}

func (m *Model) say1(format string, args ...any) {
	m.say("")
	m.text(fmt.Sprintf(format, args...), m.sc.Dim)
	m.say("")
}
