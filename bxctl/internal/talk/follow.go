package talk

import (
	"context"
	"slices"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// The session as a whole, whoever talks in it: turns that began elsewhere are jobs
// like those of this chat. Own turns come by their own connections, and are passed
// over here. What loopd told nobody while it was away comes when it is back.

// follow hands on what happens in the session behind a place, instead of what was
// followed before.
func (s *chatState) follow(ctx context.Context, after loop.Place) {
	s.unfollow()
	ctx, s.unfollow = context.WithCancel(ctx)
	session := s.Session
	tell := func(f func()) { // on the goroutine of Run, and only while this is what is followed
		s.tell(ctx, func() {
			if ctx.Err() == nil {
				f()
			}
		})
	}
	s.running++
	go func() {
		defer func() { s.owns <- nil }() // it has ended
		err := s.Client.Follow(ctx, session, after, loop.Hooks{
			Event: func(m proto.Message) { tell(func() { s.followed(m) }) },
			Lost:  func(error) { tell(s.lost) },
			Back:  func() { tell(s.back) },
		})
		tell(func() { s.line(s.Screen.Warn(strings.TrimRight(fault.Text(err), "\n"))) })
	}()
}

func (s *chatState) followed(m proto.Message) {
	p, past := m.(*proto.Past)
	if past && p.Role == "user" {
		s.began(p)
		return
	}
	j := s.other
	if j == nil { // of a turn of our own, or one whose end was shown
		return
	}
	if past {
		s.passed(j, p)
		return
	}
	d, done := m.(*proto.Done)
	s.take(chatEvent{job: j, show: func(v *View) { v.Event(m) }})
	if done {
		var err error
		if d.Outcome != proto.TurnAnswered {
			err = Unanswered(d)
		}
		s.endOther(err)
	}
}

// began says that loopd begins with a message.
func (s *chatState) began(p *proto.Past) {
	s.endOther(nil) // its end was not told
	if s.mine[p.Origin] {
		for _, j := range s.jobs {
			j.started = j.started || j.origin == p.Origin
		}
		return
	}
	j := &job{started: true, other: true}
	i := slices.IndexFunc(s.jobs, func(o *job) bool { return !o.started })
	if i < 0 {
		i = len(s.jobs)
	}
	s.jobs, s.other = slices.Insert(s.jobs, i, j), j
	s.take(chatEvent{job: j, show: func(v *View) {
		where := loop.Where(p.Surface)
		if where == "" {
			where = "from another chat"
		}
		v.Note(v.Notes.Dim("── " + where + " · " + v.clock(p.Time)))
		for line := range strings.SplitSeq(strings.TrimRight(term.Safe(p.Text), "\n"), "\n") {
			v.Note(v.Notes.Bold("> ") + line)
		}
	}})
}

// passed takes a row of the history as the event that it was.
func (s *chatState) passed(j *job, p *proto.Past) {
	event := func(m proto.Message) { s.take(chatEvent{job: j, show: func(v *View) { v.Event(m) }}) }
	switch p.Role {
	case "assistant":
		if p.Text != "" {
			event(&proto.Text{Text: p.Text})
		}
		if p.Tool != "" {
			event(&proto.ToolStarted{Call: p.Call, Tool: p.Tool, Args: p.Args})
		}
	case "tool":
		event(&proto.Result{Call: p.Call, Outcome: p.Outcome, Code: p.Code, Class: p.Class, Bytes: int64(len(p.Text)), MS: p.MS})
	default: // "turn": its end
		var err error
		switch proto.TurnOutcome(p.Text) {
		case proto.TurnAnswered:
		case proto.TurnStopped:
			s.take(chatEvent{job: j, show: func(v *View) { v.Note(v.Notes.Warn("(stopped)")) }})
		default:
			err = &fault.Fault{What: "the turn ended while it was not followed: " + p.Text, Do: "see bxctl sessions show " + s.Session, Key: "turn-left"}
		}
		s.endOther(err)
	}
}

// endOther ends the turn of somebody else that is under way.
func (s *chatState) endOther(err error) {
	j := s.other
	if j == nil {
		return
	}
	s.other = nil
	s.take(chatEvent{job: j, show: (*View).finish})
	s.take(chatEvent{job: j, ended: true, err: err})
}

// leaveOther lets the turn of somebody else go on without being shown.
func (s *chatState) leaveOther() {
	if s.other == nil {
		return
	}
	s.line(s.Screen.Dim("(the turn that runs goes on, and is not shown any more)"))
	s.view.finish()
	s.jobs = slices.DeleteFunc(s.jobs, func(j *job) bool { return j.other })
	s.other = nil
}

// lost says that loopd is away. A turn of our own tells that by itself.
func (s *chatState) lost() {
	switch {
	case s.other != nil:
		s.take(chatEvent{job: s.other, show: func(v *View) { v.Note(v.Notes.Warn("! loopd went away; joining the turn again (nothing is lost)")) }})
	case len(s.jobs) == 0 && !s.away:
		s.away = true
		s.line(s.Screen.Warn("! loopd went away; what you type is sent when it is back"))
	}
}

func (s *chatState) back() {
	if s.other != nil {
		s.take(chatEvent{job: s.other, show: (*View).Rejoined})
	}
	told := s.away
	s.away = false
	if told && len(s.jobs) == 0 { // else the turn tells
		s.line(s.Screen.Dim("(loopd is back)"))
	}
}

// ours counts the turns that began here.
func (s *chatState) ours() int {
	n := 0
	for _, j := range s.jobs {
		if !j.other {
			n++
		}
	}
	return n
}
