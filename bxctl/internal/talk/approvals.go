package talk

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"boxmaker/bxctl/internal/approval"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// Approvals in the plain chat. They come from brokerd; what loopd says of one is
// never shown as one.

// oversee follows what waits until ctx ends. The goroutine is counted like those
// of turns.
func (s *chatState) oversee(ctx context.Context) {
	if s.Owner.Path == "" {
		return
	}
	s.running++
	go func() {
		defer func() { s.owns <- nil }() // it has ended
		pause := 300 * time.Millisecond
		for ctx.Err() == nil {
			err := s.Owner.Follow(ctx, func() { s.tell(ctx, func() { s.gone, s.asks = nil, nil }) }, func(m proto.Message) { s.tell(ctx, func() { s.approvalEvent(m) }) })
			if ctx.Err() != nil {
				return
			}
			s.tell(ctx, func() { s.gone = err })
			select {
			case <-ctx.Done():
			case <-time.After(pause):
				pause = min(2*pause, 3*time.Second)
			}
		}
	}()
}

// tell runs f on the goroutine of Run.
func (s *chatState) tell(ctx context.Context, f func()) {
	select {
	case s.owns <- f:
	case <-ctx.Done():
	}
}

func (s *chatState) approvalEvent(m proto.Message) {
	switch m := m.(type) {
	case *proto.Approval:
		s.asks = append(s.asks, m)
		if m.Session == s.Session && !slices.Contains(s.shown, m.Approval) {
			s.showApproval(m)
		}
	case *proto.Retracted:
		i := slices.IndexFunc(s.asks, func(a *proto.Approval) bool { return a.Approval == m.Approval })
		if i < 0 {
			return
		}
		a := s.asks[i]
		s.asks = slices.Delete(s.asks, i, i+1)
		if slices.Contains(s.shown, a.Approval) {
			s.line(s.Screen.Warn("· " + term.Line(a.Tool) + " (" + term.Line(a.Code) + "): " + owner.Ending(m.Verdict, m.By, m.Channel)))
		}
	}
}

func (s *chatState) showApproval(a *proto.Approval) {
	s.shown = append(s.shown, a.Approval)
	s.view.clear()
	for _, l := range approval.Lines(a, approval.Options{
		Width: s.Screen.Width() - 1, Screen: s.Screen, Now: s.Now(), Hint: "answer with /approve " + a.Code + " or /deny " + a.Code,
	}) {
		s.line(l)
	}
}

// approvals shows what waits, in other sessions too.
func (s *chatState) approvals() {
	switch {
	case s.gone != nil:
		s.line(s.Screen.Warn(strings.TrimRight(fault.Text(s.gone), "\n")))
	case len(s.asks) == 0:
		s.line(s.Screen.Dim("(nothing waits for your approval)"))
	}
	for _, a := range s.asks {
		s.showApproval(a)
	}
}

// answer is /approve and /deny. What was not shown is shown and not answered.
func (s *chatState) answer(ctx context.Context, v proto.Verdict, code string) {
	i := slices.IndexFunc(s.asks, func(a *proto.Approval) bool { return code != "" && strings.EqualFold(a.Code, code) })
	if i < 0 {
		s.line(s.Screen.Dim("(no approval with that code waits; /approvals shows what does)"))
		return
	}
	a := s.asks[i]
	if !slices.Contains(s.shown, a.Approval) {
		s.showApproval(a)
		s.line(s.Screen.Dim("(look at it, and answer again)"))
		return
	}
	s.aside(ctx, func(ctx context.Context) string {
		got, err := s.Owner.Answer(ctx, a, v, owner.ChannelChat)
		switch {
		case err != nil && !errors.Is(err, context.Canceled):
			return s.Screen.Warn(fault.Text(err))
		case err == nil && got.Verdict != v:
			return s.Screen.Warn("! somebody answered before you: " + owner.Ending(got.Verdict, got.By, got.Channel))
		default:
			return ""
		}
	})
}
