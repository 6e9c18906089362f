package talk

import (
	"context"
	"errors"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/internal/proto"
)

// send submits what was typed, as a job of its own.
func (s *chatState) send(ctx context.Context, text string) {
	text, err := Check(text)
	if err != nil {
		s.line(s.Screen.Warn(strings.TrimRight(fault.Text(err), "\n")))
		return
	}
	j := &job{origin: loop.NewOrigin()}
	s.mine[j.origin] = true
	s.jobs, s.used = append(s.jobs, j), true
	s.running++
	m := &proto.Submit{Session: s.Session, Origin: j.origin, Text: text, Surface: proto.SurfaceChat}
	show := func(f func(*View)) { s.events <- chatEvent{job: j, show: f} }
	event := func(m proto.Message) {
		a, ok := m.(*proto.Accepted)
		s.events <- chatEvent{job: j, show: func(v *View) { v.Event(m) }, now: ok && a.Queued > 0}
	}
	gone := func() {
		show(func(v *View) { v.Note(v.Notes.Warn("! loopd is not there; the message waits here for it")) })
	}
	go func() {
		done, err := s.turn(ctx, m, gone, loop.Hooks{
			Event: event,
			Lost: func(error) {
				show(func(v *View) { v.Note(v.Notes.Warn("! loopd went away; joining the turn again (nothing is lost)")) })
			},
			Back: func() { show((*View).Rejoined) },
		})
		if err == nil && done.Outcome != proto.TurnAnswered {
			err = Unanswered(done)
		}
		s.events <- chatEvent{job: j, ended: true, err: err}
	}()
}

// turn submits a message, and waits for loopd until the owner leaves. gone is told
// once that it waits.
func (s *chatState) turn(ctx context.Context, m *proto.Submit, gone func(), h loop.Hooks) (*proto.Done, error) {
	c := s.Client
	c.Patience, c.Gone = 24*time.Hour, nil
	for told := false; ; told = true {
		done, err := c.Turn(ctx, m, h)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Code != fault.NotRunning || ctx.Err() != nil {
			return done, err
		}
		if !told {
			gone()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}
