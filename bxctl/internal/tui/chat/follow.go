package chat

import (
	"errors"
	"slices"
	"strings"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/internal/proto"
)

// Messages about the session as a whole, whoever talks in it. Its own turns come
// by Events, and are passed over here.
type (
	// Followed is one event of the session.
	Followed struct {
		Run   int
		Event proto.Message
		Err   error // of a Done: what the owner is told of it
	}
	// FollowLost says that the connection went, and is tried again.
	FollowLost struct{ Run int }
	// FollowBack says that it is there again: a turn that is under way comes once more.
	FollowBack struct{ Run int }
)

// Follow hands on what happens in a session, behind a place, instead of what was
// followed before. It gives Followed, FollowLost and FollowBack.
type Follow struct {
	Run     int
	Session string
	After   loop.Place
}

func (Follow) effect() {}

// pastEnd is the end of a turn, as the session's history has it.
type pastEnd struct{ outcome string }

// following is what the chat knows of turns that others began.
type following struct {
	run  int             // of the newest Follow
	cur  *turn           // that is under way
	mine map[string]bool // origins of what was sent here
}

func (f *following) ours(origin string) {
	if f.mine == nil {
		f.mine = map[string]bool{}
	}
	f.mine[origin] = true
}

// Follow is the effect that a chat with a new session begins with.
func (m *Model) Follow() Effect { return m.follow(loop.Place{}) }

func (m *Model) follow(after loop.Place) Effect {
	m.others.run++
	return Follow{Run: m.others.run, Session: m.cfg.Session, After: after}
}

// followEvent takes what concerns the session; false: something else.
func (m *Model) followEvent(msg any) bool {
	f := &m.others
	switch msg := msg.(type) {
	case Followed:
		if msg.Run == f.run {
			m.followed(msg)
		}
	case FollowLost:
		switch {
		case msg.Run != f.run:
		case f.cur != nil:
			m.later(f.cur, Lost{})
		default:
			m.gone()
		}
	case FollowBack:
		if msg.Run == f.run {
			m.back()
			if f.cur != nil {
				m.later(f.cur, Back{})
			}
		}
	default:
		return false
	}
	return true
}

func (m *Model) followed(msg Followed) {
	f := &m.others
	if p, ok := msg.Event.(*proto.Past); ok {
		if p.Role == "user" {
			m.turnBegan(p)
		} else if f.cur != nil {
			m.passed(f.cur, p)
		}
		return
	}
	t := f.cur
	if t == nil { // of a turn of our own
		return
	}
	_, done := msg.Event.(*proto.Done)
	if done {
		f.cur = nil
	}
	m.later(t, msg.Event)
	if done {
		m.later(t, Ended{Err: msg.Err})
	}
}

// turnBegan says that loopd begins with a message.
func (m *Model) turnBegan(p *proto.Past) {
	f := &m.others
	if t := f.cur; t != nil { // its end was not told
		f.cur = nil
		m.later(t, Ended{})
	}
	if f.mine[p.Origin] {
		for _, t := range m.jobs {
			if t.origin == p.Origin {
				t.started = true
				m.showNext()
			}
		}
		return
	}
	t := m.newTurn(p.Text)
	t.from = from(p.Surface, m.clock(p.Time))
	m.insert(t)
}

// insert puts a turn that loopd is at before those that wait for it.
func (m *Model) insert(t *turn) {
	t.other, t.started, t.taken = true, true, true
	i := slices.IndexFunc(m.jobs, func(o *turn) bool { return !o.started })
	if i < 0 {
		i = len(m.jobs)
	}
	m.jobs = slices.Insert(m.jobs, i, t)
	m.others.cur = t
	m.showNext()
}

// from says where a message was sent.
func from(s proto.Surface, when string) string {
	where := loop.Where(s)
	switch {
	case when == "" && (where == "" || where == "from elsewhere"): // past: who knows from which
		return ""
	case where == "":
		where = "from another chat"
	}
	if when != "" {
		where += " · " + when
	}
	return where
}

// passed takes a row of the history as the event that it was.
func (m *Model) passed(t *turn, p *proto.Past) {
	switch p.Role {
	case "assistant":
		if p.Thinking != "" {
			m.later(t, &proto.Thinking{Text: p.Thinking})
		}
		if p.Text != "" {
			m.later(t, &proto.Text{Text: p.Text})
		}
		if p.Tool != "" {
			m.later(t, &proto.ToolStarted{Call: p.Call, Tool: p.Tool, Args: p.Args})
		}
	case "tool":
		m.later(t, &proto.Result{Call: p.Call, Outcome: p.Outcome, Code: p.Code, Class: p.Class, Bytes: int64(len(p.Text)), MS: p.MS})
	default:
		m.others.cur = nil
		m.later(t, pastEnd{p.Text})
	}
}

// endedBefore shows the end of a turn that was missed.
func (m *Model) endedBefore(t *turn, e pastEnd) {
	var err error
	switch proto.TurnOutcome(e.outcome) {
	case proto.TurnAnswered:
	case proto.TurnStopped:
		m.endThinking(t)
		m.endPart(t)
		m.say("", m.sc.Warn("(stopped)"))
	default:
		err = &fault.Fault{What: "the turn ended while it was not followed: " + e.outcome, Do: "see bxctl sessions show " + m.cfg.Session, Key: "turn-left"}
	}
	m.end(t, err)
}

// leaveOthers lets the turns of others go on without being shown.
func (m *Model) leaveOthers() {
	m.others.cur = nil
	if len(m.jobs) == 0 {
		return
	}
	if t := m.jobs[0]; t.other && t.shown {
		m.endThinking(t)
		m.endPart(t)
		m.say("", m.sc.Dim("(this turn goes on, and is not shown any more)"), "")
		m.stopping = false
	}
	m.jobs = slices.DeleteFunc(m.jobs, func(t *turn) bool { return t.other })
	m.showNext()
}

// resumed shows the end of a session and goes on with it. A turn that runs there
// comes by Follow, from its start.
func (m *Model) resumed(t Tail) []Effect {
	m.leaveOthers()
	m.cfg.Session, m.used = t.Session, true
	m.usage = proto.Usage{Context: t.Context, Window: t.Window}
	m.say("", m.sc.Dim("── session "+t.Session+" ──"))
	if t.More {
		m.say(m.sc.Dim("(older messages: Ctrl-O)"))
	}
	items, runs := running(t.Items)
	for _, it := range items {
		m.past(it)
	}
	m.say("")
	m.showAsks()
	var after loop.Place
	if n := len(items); n > 0 {
		after = loop.Place{Epoch: items[n-1].Epoch, Record: items[n-1].Record}
	}
	if runs {
		m.insert(m.newTurn(""))
	}
	return []Effect{m.follow(after)}
}

// running cuts what came of a turn that has no end yet.
func running(items []archive.Item) ([]archive.Item, bool) {
	for i, it := range slices.Backward(items) {
		switch it.Role {
		case "turn":
			return items, false
		case "user":
			return items[:i+1], true
		}
	}
	return items, false
}

func (m *Model) noTail(t NoTail) []Effect {
	m.say("")
	if t.Err != nil {
		m.text(strings.TrimRight(fault.Text(t.Err), "\n"), m.sc.Warn)
	} else {
		m.text(t.Text, m.sc.Dim)
	}
	m.say("")
	if m.others.run > 0 {
		return nil
	}
	var f *fault.Fault
	if t.Err == nil || errors.As(t.Err, &f) && f.Key == "no-session" {
		return []Effect{m.follow(loop.Place{})}
	}
	return []Effect{m.follow(loop.Place{Record: loop.BehindAll})} // what is past can't be told
}
