package tui

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/talk"
	"boxmaker/bxctl/internal/tui/chat"
	"boxmaker/internal/proto"

	xterm "github.com/charmbracelet/x/term"
)

// do carries an effect out; true ends the chat.
func (s *shell) do(e chat.Effect) bool {
	switch e := e.(type) {
	case chat.Leave:
		return true
	case chat.Remember:
		if err := s.hist.Add(e.Text); err != nil && !s.told {
			s.told = true // once is enough
			s.update(chat.Failed{Err: &fault.Fault{What: "what was typed can't be kept", Err: err, Key: "chat-history"}})
		}
	case chat.Send:
		s.background(func() { s.turn(e) })
	case chat.Follow:
		s.unfollow()
		ctx, cancel := context.WithCancel(s.ctx)
		s.unfollow = cancel
		s.background(func() { s.follow(ctx, e) })
	case chat.StopTurn:
		s.aside(func(ctx context.Context) any { return s.stop(ctx, e.Session) })
	case chat.Decide:
		s.aside(func(ctx context.Context) any { return s.decide(ctx, e) })
	case chat.Query:
		s.aside(func(ctx context.Context) any { return s.query(ctx, e) })
	case chat.Transcript:
		s.page = newPage(s, e.Session)
	case chat.Redraw:
		_, _ = s.cfg.Out.WriteString("\x1b[H\x1b[2J")
		s.painter.Forget()
	case chat.Suspend:
		s.suspend()
	default:
		s.update(chat.Failed{Err: errors.New("unknown effect of the chat")})
	}
	return false
}

// aside does a request beside the turns.
func (s *shell) aside(do func(context.Context) any) {
	s.background(func() {
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
		defer cancel()
		if m := do(ctx); m != nil && s.ctx.Err() == nil {
			s.feed.put(m)
		}
	})
}

func (s *shell) stop(ctx context.Context, session string) any {
	if _, err := s.cfg.Client.Stop(ctx, session); err != nil {
		return chat.Failed{Err: err}
	}
	return nil
}

func (s *shell) decide(ctx context.Context, e chat.Decide) any {
	got, err := s.cfg.Owner.Answer(ctx, e.Approval, e.Verdict, owner.ChannelChat)
	return chat.Decided{Approval: e.Approval, Got: got, Err: err}
}

// oversee follows what waits for the owner, whatever happens to brokerd.
func (s *shell) oversee() {
	const least, most = 300 * time.Millisecond, 3 * time.Second
	pause := least
	for s.ctx.Err() == nil {
		err := s.cfg.Owner.Follow(s.ctx,
			func() { pause = least; s.feed.put(chat.OwnerBack{}) },
			func(m proto.Message) {
				switch m := m.(type) {
				case *proto.Approval:
					s.feed.put(chat.Approval{Approval: m})
				case *proto.Retracted:
					s.feed.put(chat.Retracted{Retracted: m})
				}
			})
		if s.ctx.Err() != nil {
			return
		}
		s.feed.put(chat.OwnerGone{Err: err})
		select {
		case <-s.ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, most)
		}
	}
}

// turn submits a message and follows it, whatever happens to loopd meanwhile.
func (s *shell) turn(e chat.Send) {
	text, err := talk.Check(e.Text)
	if err != nil {
		s.feed.put(chat.Ended{Job: e.Job, Err: err})
		return
	}
	c := s.cfg.Client
	c.Patience, c.Gone = 24*time.Hour, nil // the message waits here until the owner leaves
	m := &proto.Submit{Session: e.Session, Origin: e.Origin, Text: text, Surface: proto.SurfaceChat}
	hooks := loop.Hooks{
		Event: func(m proto.Message) { s.feed.event(e.Job, m) },
		Lost:  func(error) { s.feed.put(chat.Lost{Job: e.Job}) },
		Back:  func() { s.feed.put(chat.Back{Job: e.Job}) },
	}
	lost := false
	for {
		done, err := c.Turn(s.ctx, m, hooks)
		var f *fault.Fault
		if errors.As(err, &f) && f.Code == fault.NotRunning && s.ctx.Err() == nil { // not there yet: the message waits here
			if !lost {
				lost = true
				s.feed.put(chat.Lost{Job: e.Job})
			}
			select {
			case <-s.ctx.Done():
			case <-time.After(500 * time.Millisecond):
				continue
			}
		}
		if err == nil && done.Outcome != proto.TurnAnswered && done.Outcome != proto.TurnStopped {
			err = talk.Unanswered(done)
		}
		s.feed.put(chat.Ended{Job: e.Job, Err: err})
		return
	}
}

// follow hands on what happens in the session, its own turns too.
func (s *shell) follow(ctx context.Context, e chat.Follow) {
	put := func(m any) {
		if ctx.Err() == nil {
			s.feed.put(m)
		}
	}
	err := s.cfg.Client.Follow(ctx, e.Session, e.After, loop.Hooks{
		Event: func(m proto.Message) {
			f := chat.Followed{Run: e.Run, Event: m}
			if d, ok := m.(*proto.Done); ok && d.Outcome != proto.TurnAnswered && d.Outcome != proto.TurnStopped {
				f.Err = talk.Unanswered(d)
			}
			put(f)
		},
		Lost: func(error) { put(chat.FollowLost{Run: e.Run}) },
		Back: func() { put(chat.FollowBack{Run: e.Run}) },
	})
	if ctx.Err() == nil {
		put(chat.Failed{Err: err})
	}
}

// suspend gives the terminal to the shell until the owner comes back.
func (s *shell) suspend() {
	s.cooked()
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGCONT)
	defer signal.Stop(again)
	_ = syscall.Kill(0, syscall.SIGTSTP) // it may return before the process stops
	<-again
	if err := s.raw(); err != nil {
		s.err = err
		return
	}
	if w, h, err := xterm.GetSize(s.cfg.Out.Fd()); err == nil {
		s.update(resized{w, h})
	}
	s.painter.Forget()
}
