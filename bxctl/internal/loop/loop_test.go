package loop

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

func submit() *proto.Submit {
	return &proto.Submit{Session: "chat-a", Origin: NewOrigin(), Text: "hello", Surface: proto.SurfaceAsk}
}

func answered(text string) *proto.Done {
	return &proto.Done{Outcome: proto.TurnAnswered, Answer: text}
}

func faultOf(t *testing.T, err error) *fault.Fault {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Fatalf("not a fault: %v", err)
	}
	return f
}

func TestIDs(t *testing.T) {
	one, other := NewOrigin(), NewOrigin()
	if err := proto.CheckToken(one); err != nil || one == other {
		t.Errorf("origins %q and %q: %v", one, other, err)
	}
	id := NewSession(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	if err := proto.CheckSession(id); err != nil || !strings.HasPrefix(id, "chat-20260102-") {
		t.Errorf("session %q: %v", id, err)
	}
}

func TestTurn(t *testing.T) {
	l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) {
		fakeloop.Send(out, &proto.Accepted{Record: 1}, &proto.Text{Text: "hi"}, answered("hi"))
	})
	var tags []string
	done, err := Client{Path: l.Path}.Turn(t.Context(), submit(), Hooks{Event: func(m proto.Message) { tags = append(tags, m.Tag()) }})
	if err != nil || done.Answer != "hi" || strings.Join(tags, " ") != "accepted text done" {
		t.Errorf("%v, %v, %v", done, err, tags)
	}
}

// The stream is cut, then loopd is away, then it is back: the same origin is
// submitted again, and the answer comes.
func TestTurnIsJoinedAgain(t *testing.T) {
	var n atomic.Int64
	lost := make(chan struct{}, 9)
	l := fakeloop.New(t, func(ctx context.Context, _ proto.Message, out *ipc.Stream) {
		if n.Add(1) == 1 {
			fakeloop.Send(out, &proto.Accepted{Record: 1}, &proto.Text{Text: "ha"})
			return
		}
		fakeloop.Send(out, &proto.Accepted{Record: 1, Known: true}, &proto.Text{Text: "half"}, answered("half"))
	})
	var log []string
	go func() { // away for a moment after the cut
		<-lost
		l.Stop()
		l.Start()
	}()
	done, err := Client{Path: l.Path}.Turn(t.Context(), submit(), Hooks{
		Event: func(m proto.Message) { log = append(log, m.Tag()) },
		Lost:  func(error) { log = append(log, "lost"); lost <- struct{}{} },
		Back:  func() { log = append(log, "back") },
	})
	if err != nil || done.Answer != "half" {
		t.Fatalf("%v, %v", done, err)
	}
	if got := strings.Join(log, " "); got != "accepted text lost back accepted text done" {
		t.Errorf("events: %s", got)
	}
	reqs := l.Requests()
	first := reqs[0].(*proto.Submit)
	for _, r := range reqs {
		if *r.(*proto.Submit) != *first {
			t.Errorf("submitted %+v, then %+v", first, r)
		}
	}
}

func TestTurnTriesAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		err  *proto.Error
	}{
		{"loopd is ending", &proto.Error{Code: proto.ErrNotReady, Text: "ending"}},
		{"this client was slow", &proto.Error{Code: proto.ErrSlowClient, Text: "slow"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int64
			l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) {
				if n.Add(1) == 1 {
					fakeloop.Send(out, &proto.Accepted{}, c.err)
					return
				}
				fakeloop.Send(out, answered("yes"))
			})
			done, err := Client{Path: l.Path}.Turn(t.Context(), submit(), Hooks{})
			if err != nil || done.Answer != "yes" || n.Load() != 2 {
				t.Errorf("%v, %v, %d requests", done, err, n.Load())
			}
		})
	}
}

func TestTurnErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		code proto.ErrCode
		want int
	}{
		{"too large", proto.ErrMessageLarge, fault.Usage},
		{"bad session", proto.ErrBadSession, fault.Usage},
		{"upstream", proto.ErrUpstream, fault.Unanswered},
		{"log", proto.ErrSessionLog, fault.Failed},
		{"queue", proto.ErrQueueFull, fault.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) {
				fakeloop.Send(out, &proto.Error{Code: c.code, Text: "It can't be. (see runbook: x-y)", Runbook: "x-y"})
			})
			_, err := Client{Path: l.Path}.Turn(t.Context(), submit(), Hooks{})
			f := faultOf(t, err)
			if f.Code != c.want || f.Key != "x-y" || len(l.Requests()) != 1 || strings.Count(fault.Text(err), "runbook") != 1 {
				t.Errorf("%q after %d requests", fault.Text(err), len(l.Requests()))
			}
		})
	}
}

func TestNotRunning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.sock")
	lost := false
	_, err := Client{Path: path}.Turn(t.Context(), submit(), Hooks{Lost: func(error) { lost = true }})
	if f := faultOf(t, err); f.Code != fault.NotRunning || f.Key != "not-running" || lost {
		t.Errorf("turn: %v", err)
	}
	if _, err := (Client{Path: path}).Status(t.Context()); fault.Code(err) != fault.NotRunning {
		t.Errorf("status: %v", err)
	}
	if _, err := (Client{Path: path}).Past(t.Context(), "a", nil); fault.Code(err) != fault.NotRunning {
		t.Errorf("past: %v", err)
	}
}

// loopd goes away for good: the fault says what became of the message.
func TestTurnGivesUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []proto.Message
		means  string
	}{
		{"accepted", []proto.Message{&proto.Accepted{}}, "on disk"},
		{"not accepted", nil, "not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stop := make(chan struct{})
			l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) {
				fakeloop.Send(out, c.events...)
				close(stop)
			})
			go func() {
				<-stop
				l.Stop()
			}()
			_, err := Client{Path: l.Path, Patience: 200 * time.Millisecond}.Turn(t.Context(), submit(), Hooks{})
			f := faultOf(t, err)
			if f.Code != fault.NotRunning || !strings.Contains(f.Means, c.means) {
				t.Errorf("%q", fault.Text(err))
			}
		})
	}
}

// TestTurnGivesUpWithoutUp: where nothing starts loopd again, two minutes are not
// waited out; where something does, or it is not known, they are.
func TestTurnGivesUpWithoutUp(t *testing.T) {
	for _, c := range []struct {
		name string
		gone func() bool
		want time.Duration
	}{
		{"nothing starts it", func() bool { return true }, restart},
		{"something starts it", func() bool { return false }, patience},
		{"unknown", nil, patience},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, asked := time.Now(), 0
				tr := tries{client: Client{Patience: patience, Gone: c.gone}}
				for !tr.over(true, fs.ErrNotExist) {
					time.Sleep(100 * time.Millisecond)
					asked++
				}
				if took := time.Since(began); took < c.want || took > c.want+time.Second {
					t.Errorf("given up after %v, %d tries", took, asked)
				}
			})
		})
	}
}

func TestTurnEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := fakeloop.New(t, func(ctx context.Context, _ proto.Message, out *ipc.Stream) {
		fakeloop.Send(out, &proto.Accepted{})
		<-ctx.Done()
	})
	_, err := Client{Path: l.Path}.Turn(ctx, submit(), Hooks{Event: func(proto.Message) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestForeignAnswers(t *testing.T) {
	l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) {
		fakeloop.Send(out, &proto.Stopped{})
	})
	c := Client{Path: l.Path}
	_, e1 := c.Turn(t.Context(), submit(), Hooks{})
	_, e2 := c.Status(t.Context())
	_, e3 := c.Past(t.Context(), "a", nil)
	for _, err := range []error{e1, e2, e3} {
		if f := faultOf(t, err); f.Key != "version-mismatch" {
			t.Errorf("%v", err)
		}
	}
}

func TestPast(t *testing.T) {
	l := fakeloop.New(t, func(_ context.Context, req proto.Message, out *ipc.Stream) {
		if req.(*proto.Watch).Session == "none" {
			fakeloop.Send(out, &proto.Error{Code: proto.ErrNoSession, Text: "there is no such session"})
			return
		}
		now := proto.Time(time.Now())
		fakeloop.Send(out, &proto.Past{Time: now, Role: "user", Text: "a"}, &proto.Past{Time: now, Role: "assistant", Text: "b"},
			&proto.SessionDetail{Info: proto.SessionInfo{Session: "chat-a", Modified: now}, Turns: 1})
	})
	var got string
	d, err := Client{Path: l.Path}.Past(t.Context(), "chat-a", func(p *proto.Past) error { got += p.Text; return nil })
	if err != nil || d.Turns != 1 || got != "ab" {
		t.Errorf("%v, %v, %q", d, err, got)
	}
	if _, err := (Client{Path: l.Path}).Past(t.Context(), "none", nil); fault.Code(err) != fault.Failed {
		t.Errorf("%v", err)
	}
}

func TestTooLargeToSend(t *testing.T) {
	l := fakeloop.New(t, func(context.Context, proto.Message, *ipc.Stream) {})
	m := submit()
	m.Text = strings.Repeat("x", 5<<20)
	_, err := Client{Path: l.Path}.Turn(t.Context(), m, Hooks{})
	if f := faultOf(t, err); f.Key != "message-too-large" {
		t.Errorf("%v", err)
	}
}
