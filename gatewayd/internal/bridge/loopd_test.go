package bridge

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"boxmaker/internal/proto"
)

// A fakeLoop is a loopd: it knows messages by their origin, answers those of a
// session one after the other, and remembers its answers.
type fakeLoop struct {
	mu        sync.Mutex // guards what follows
	away      bool
	refuse    *proto.Error
	reply     func(text string) string
	turns     map[string]*turn
	free      map[string]bool // texts that are not held any more
	order     []string        // origins, as they came first
	submits   int
	delivered []string
	stopped   []string
}

type turn struct {
	text, session string
	held          chan struct{} // closed when it may go on
	done          *proto.Done
	followers     int
}

func newLoop() *fakeLoop {
	return &fakeLoop{turns: map[string]*turn{}, free: map[string]bool{}, reply: func(text string) string { return "answer to " + text }}
}

// goodbye sets whether it is away; those who follow lose it.
func (l *fakeLoop) goodbye(away bool) { l.mu.Lock(); defer l.mu.Unlock(); l.away = away }

func (l *fakeLoop) take(m *proto.Submit) (*turn, int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.submits++
	switch {
	case l.away:
		return nil, 0, errors.New("nobody is there")
	case l.refuse != nil:
		return nil, 0, l.refuse
	}
	t := l.turns[m.Origin]
	if t == nil {
		t = &turn{text: m.Text, session: m.Session, held: make(chan struct{})}
		l.turns[m.Origin] = t
		l.order = append(l.order, m.Origin)
		if !strings.HasPrefix(m.Text, "hold") || l.free[m.Text] {
			close(t.held)
		}
	}
	before := 0
	for _, o := range l.order {
		if o == m.Origin {
			break
		}
		if other := l.turns[o]; other.session == t.session && other.done == nil {
			before++
		}
	}
	t.followers++
	return t, before, nil
}

func (l *fakeLoop) Turn(ctx context.Context, m *proto.Submit, tell func(proto.Message)) error {
	t, before, err := l.take(m)
	if err != nil {
		return err
	}
	defer func() { l.mu.Lock(); t.followers--; l.mu.Unlock() }()
	tell(&proto.Accepted{Queued: before})
	if strings.HasPrefix(m.Text, "hold and think") {
		tell(&proto.Thinking{Text: "hm"})
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.held:
		case <-time.After(5 * time.Millisecond):
		}
		if done, err := l.finish(t); err != nil {
			return err
		} else if done != nil {
			tell(&proto.Text{Text: "x"})
			tell(done)
			return nil
		}
	}
}

// finish ends a turn that may end.
func (l *fakeLoop) finish(t *turn) (*proto.Done, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return nil, errors.New("it went away")
	}
	select {
	case <-t.held:
	default:
		return nil, nil
	}
	for _, o := range l.order {
		other := l.turns[o]
		if other == t {
			break
		}
		if other.session == t.session && other.done == nil {
			return nil, nil
		}
	}
	if t.done == nil {
		t.done = &proto.Done{Outcome: proto.TurnAnswered, Answer: l.reply(t.text)}
	}
	return t.done, nil
}

// release lets a held message go on.
func (l *fakeLoop) release(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free[text] = true
	for _, t := range l.turns {
		if t.text == text {
			select {
			case <-t.held:
			default:
				close(t.held)
			}
		}
	}
}

func (l *fakeLoop) Stop(_ context.Context, session string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return false, errors.New("nobody is there")
	}
	l.stopped = append(l.stopped, session)
	for _, o := range l.order {
		t := l.turns[o]
		if t.session != session || t.done != nil {
			continue
		}
		t.done = &proto.Done{Outcome: proto.TurnStopped, Text: "the owner stopped it"}
		select {
		case <-t.held:
		default:
			close(t.held)
		}
		return true, nil
	}
	return false, nil
}

func (l *fakeLoop) Status(context.Context) (*proto.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return nil, errors.New("nobody is there")
	}
	return &proto.Status{State: "ready", Server: proto.Server{Model: "tiny"}, OpenTurns: 1}, nil
}

func (l *fakeLoop) Session(_ context.Context, id string) (*proto.SessionDetail, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.turns {
		if t.session == id {
			return &proto.SessionDetail{Turns: 1, Usage: proto.Usage{Context: 250, Window: 1000}}, nil
		}
	}
	return nil, &proto.Error{Code: proto.ErrNoSession, Text: "there is no such session"}
}

func (l *fakeLoop) Delivered(_ context.Context, _, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return errors.New("nobody is there")
	}
	l.delivered = append(l.delivered, key)
	return nil
}
