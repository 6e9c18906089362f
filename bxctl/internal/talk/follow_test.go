package talk

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A session is a loopd with one session, chat-a: what its log has, and who follows it.
type session struct {
	mu   sync.Mutex // guards what follows
	past []*proto.Past
	live []chan proto.Message
}

func (s *session) tell(events ...proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range events {
		if p, ok := m.(*proto.Past); ok {
			p.Record, p.Time = int64(len(s.past)+1), proto.Time(newClock().t)
			s.past = append(s.past, p)
		}
		for _, c := range s.live {
			c <- m
		}
	}
}

func (s *session) followers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

func (s *session) handle(ctx context.Context, req proto.Message, out *ipc.Stream) {
	switch req := req.(type) {
	case *proto.GetStatus:
		fakeloop.Send(out, &proto.Status{
			Version: "t", State: "ready", Since: proto.Time(newClock().t), Server: proto.Server{Practice: true},
			Checks: []proto.Check{}, Slots: []proto.SlotState{}, Confinement: []proto.Check{},
		})
	case *proto.Watch:
		if req.Session != "chat-a" {
			fakeloop.Send(out, &proto.Error{Code: proto.ErrNoSession, Text: "there is no such session"})
			return
		}
		s.watch(ctx, req, out)
	case *proto.Submit:
		s.tell(&proto.Past{Role: "user", Text: req.Text, Origin: req.Origin, Surface: req.Surface})
		answer := strings.ToUpper(req.Text)
		fakeloop.Send(out, &proto.Accepted{}, &proto.Text{Text: answer}, &proto.Done{Outcome: proto.TurnAnswered, Answer: answer})
		s.tell(&proto.Text{Text: answer}, &proto.Done{Outcome: proto.TurnAnswered, Answer: answer})
		s.mu.Lock()
		s.past = append(s.past, &proto.Past{Role: "assistant", Text: answer}, &proto.Past{Role: "turn", Text: "answered"})
		s.mu.Unlock()
	}
}

func (s *session) watch(ctx context.Context, m *proto.Watch, out *ipc.Stream) {
	s.mu.Lock()
	live := make(chan proto.Message, 100)
	for i, p := range s.past {
		p.Record, p.Time = int64(i+1), proto.Time(newClock().t)
		if p.Record > m.After {
			fakeloop.Send(out, p)
		}
	}
	if m.Follow {
		s.live = append(s.live, live)
	}
	s.mu.Unlock()
	if !m.Follow {
		fakeloop.Send(out, &proto.SessionDetail{Info: proto.SessionInfo{Session: m.Session, Modified: proto.Time(newClock().t)}})
		return
	}
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.live = nil
			s.mu.Unlock()
			return
		case m := <-live:
			fakeloop.Send(out, m)
		}
	}
}

// A chat shows what others ask in its session, says when loopd is away, and then
// what was missed; its own turns are shown once.
func TestChatFollows(t *testing.T) {
	ses := &session{}
	l := fakeloop.New(t, ses.handle)
	ses.tell(&proto.Past{Role: "user", Text: "of old", Origin: "o0"}, &proto.Past{Role: "assistant", Text: "long ago"}, &proto.Past{Role: "turn", Text: "answered"})
	lines, screen := make(chan string), &shared{}
	c := Chat{
		Client: loop.Client{Path: l.Path}, Screen: term.Screen{W: screen, Terminal: true, Width: func() int { return 80 }},
		Lines: lines, Interrupts: make(chan os.Signal), Now: newClock().now, Session: "chat-a", Sessions: "/s",
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(t.Context()) }()
	following := func() {
		for range 2000 {
			if ses.followers() == 1 {
				return
			}
			time.Sleep(5 * time.Millisecond) // as await
		}
		t.Fatal("nobody follows")
	}
	following()
	ses.tell(&proto.Past{Role: "user", Text: "what\x1b[2J now?", Origin: "o1", Surface: proto.SurfaceAsk}, &proto.Text{Text: "NOTHING"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "NOTHING"})
	await(t, screen, "NOTHING\n")
	lines <- "mine\n"
	await(t, screen, "MINE\n(0 ms)\n> ") // it is idle

	l.Stop()
	await(t, screen, "! loopd went away; what you type is sent when it is back")
	ses.tell(&proto.Past{Role: "user", Text: "missed", Origin: "o9", Surface: proto.SurfaceChat}, &proto.Past{Role: "assistant", Text: "you were away"},
		&proto.Past{Role: "turn", Text: "failed"})
	l.Start()
	following()
	await(t, screen, "(loopd is back)")
	await(t, screen, "see bxctl sessions show chat-a")

	// A turn is cut by an end of loopd, and comes again from its start.
	ses.tell(&proto.Past{Role: "user", Text: "cut", Origin: "o10", Surface: proto.SurfaceAsk}, &proto.Text{Text: "half of"})
	await(t, screen, "half of")
	l.Stop()
	await(t, screen, "joining the turn again")
	l.Start()
	following()
	ses.tell(&proto.Text{Text: "half of it"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "half of it"})
	await(t, screen, "half of it")
	lines <- "/new\n"
	lines <- "last\n"
	await(t, screen, "LAST")
	close(lines)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got := visible(screen.String())
	for _, want := range []string{
		"> of old\n  long ago\n", "── from bxctl ask · 15:04\n> what␛[2J now?\nNOTHING\n",
		"── from another chat · 15:04\n> missed\nyou were away\nbxctl: the turn ended while it was not followed: failed\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, once := range []string{"NOTHING", "MINE", "LAST", "of old", "missed"} {
		if strings.Count(got, once) != 1 {
			t.Errorf("%q is there %d times in\n%s", once, strings.Count(got, once), got)
		}
	}
}
