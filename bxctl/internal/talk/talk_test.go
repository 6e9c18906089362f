package talk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

func asFault(t *testing.T, err error) *fault.Fault {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Fatalf("not a fault: %v", err)
	}
	return f
}

// A screen that several goroutines write to.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func ask(l *fakeloop.Loop, out, errs *shared) Ask {
	return Ask{Client: loop.Client{Path: l.Path}, Out: term.Plain(out), Err: term.Plain(errs), Now: newClock().now}
}

func question() *proto.Submit {
	return &proto.Submit{Session: "chat-a", Origin: loop.NewOrigin(), Text: "hello", Surface: proto.SurfaceAsk}
}

func TestAsk(t *testing.T) {
	for _, c := range []struct {
		name      string
		done      *proto.Done
		out, text string
		code      int
	}{
		{"answered", &proto.Done{Outcome: proto.TurnAnswered, Answer: "hi"}, "hi\n", "", 0},
		{"failed", &proto.Done{Outcome: proto.TurnFailed, Text: "the server said no. (see runbook: up-stream)", Runbook: "up-stream"}, "", "the server said no", 4},
		{"stopped", &proto.Done{Outcome: proto.TurnStopped}, "", "stopped", 4},
		{"capped", &proto.Done{Outcome: proto.TurnCapped, Answer: "so far"}, "so far\n", "runaway", 4},
		{"context full", &proto.Done{Outcome: proto.TurnContextFull}, "", "new session", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) {
				fakeloop.Send(out, &proto.Accepted{}, &proto.Notice{Kind: proto.NoticeColdCache, Text: "cold"}, &proto.Text{Text: "h"}, c.done)
			})
			var out, errs shared
			err := ask(l, &out, &errs).Run(t.Context(), question())
			if out.String() != c.out || errs.String() != "" || fault.Code(err) != c.code {
				t.Errorf("output %q, %q, %v", out.String(), errs.String(), err)
			}
			if err != nil && !strings.Contains(fault.Text(err), c.text) {
				t.Errorf("%s", fault.Text(err))
			}
		})
	}
}

func TestAskJSON(t *testing.T) {
	l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) {
		fakeloop.Send(out, &proto.Accepted{Record: 3}, &proto.Text{Text: "a\x1b\u009b"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "a"})
	})
	var out, errs shared
	a := ask(l, &out, &errs)
	a.JSON = true
	if err := a.Run(t.Context(), question()); err != nil {
		t.Fatal(err)
	}
	want := `{"type":"accepted","record":3}` + "\n" + `{"type":"text","text":"a\u001b\u009b"}` + "\n" + `{"type":"done","outcome":"answered","answer":"a","usage":{}}` + "\n"
	if out.String() != want || errs.String() != "" {
		t.Errorf("got %q and %q", out.String(), errs.String())
	}
}

// loopd goes away in the middle: a pipe gets the whole answer once.
func TestAskSurvivesLoopd(t *testing.T) {
	var n atomic.Int64
	l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) {
		fakeloop.Send(out, &proto.Accepted{}, &proto.Text{Text: "par"})
		if n.Add(1) > 2 {
			fakeloop.Send(out, &proto.Text{Text: "t"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "part"})
		}
	})
	var out, errs shared
	err := ask(l, &out, &errs).Run(t.Context(), question())
	if err != nil || out.String() != "part\n" || !strings.Contains(errs.String(), "nothing is lost") {
		t.Errorf("%q, %q, %v", out.String(), errs.String(), err)
	}
}

// The first interrupt stops the turn.
func TestAskInterrupt(t *testing.T) {
	stop := make(chan struct{})
	signals := make(chan os.Signal, 1)
	l := fakeloop.New(t, func(_ context.Context, req proto.Message, out *ipc.Stream) {
		if _, ok := req.(*proto.Stop); ok {
			close(stop)
			fakeloop.Send(out, &proto.Stopped{Running: true})
			return
		}
		fakeloop.Send(out, &proto.Accepted{})
		signals <- syscall.SIGINT
		<-stop
		fakeloop.Send(out, &proto.Done{Outcome: proto.TurnStopped})
	})
	var out, errs shared
	a := ask(l, &out, &errs)
	a.Interrupts = signals
	if err := a.Run(t.Context(), question()); fault.Code(err) != fault.Unanswered {
		t.Errorf("%v", err)
	}
}

// The second interrupt leaves, though loopd does not stop the turn.
func TestAskSecondInterrupt(t *testing.T) {
	signals := make(chan os.Signal, 1)
	l := fakeloop.New(t, func(ctx context.Context, req proto.Message, out *ipc.Stream) {
		signals <- syscall.SIGINT
		<-ctx.Done()
	})
	var out, errs shared
	a := ask(l, &out, &errs)
	a.Interrupts = signals
	err := a.Run(t.Context(), question())
	if f := asFault(t, err); f.Key != "turn-left" || f.Code != fault.Unanswered {
		t.Errorf("%v", err)
	}
}

// conversation runs a chat against a fake loopd that answers every message
// with its text in capitals, and gives what the terminal shows.
func conversation(t *testing.T, session string, handle func(context.Context, proto.Message, *ipc.Stream), drive func(lines chan<- string, signals chan<- os.Signal, screen *shared)) string {
	t.Helper()
	l := fakeloop.New(t, func(ctx context.Context, req proto.Message, out *ipc.Stream) {
		now := proto.Time(newClock().t)
		switch req := req.(type) {
		case *proto.GetStatus:
			fakeloop.Send(out, &proto.Status{
				Version: "t", State: "ready", Since: now, Server: proto.Server{Practice: true, Context: 32768, Slots: 3},
				Checks: []proto.Check{}, Slots: []proto.SlotState{{Name: "main"}}, Confinement: []proto.Check{},
			})
		case *proto.Watch:
			if req.Follow {
				<-ctx.Done() // nothing happens
				return
			}
			fakeloop.Send(out, &proto.Past{Time: now, Role: "user", Text: "earlier"}, &proto.Past{Time: now, Role: "assistant", Text: "yes"},
				&proto.Past{Time: now, Role: "turn", Text: "answered"},
				&proto.SessionDetail{Info: proto.SessionInfo{Session: req.Session, Modified: now}})
		default:
			handle(ctx, req, out)
		}
	})
	var screen shared
	lines, signals := make(chan string), make(chan os.Signal)
	s := term.Screen{W: &screen, Terminal: true, Width: func() int { return 80 }}
	c := Chat{Client: loop.Client{Path: l.Path}, Screen: s, Lines: lines, Interrupts: signals, Now: newClock().now, Session: session, Sessions: "/s"}
	done := make(chan error, 1)
	go func() { done <- c.Run(t.Context()) }()
	drive(lines, signals, &screen)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return visible(screen.String())
}

func capitals(_ context.Context, req proto.Message, out *ipc.Stream) {
	m, ok := req.(*proto.Submit)
	if !ok {
		fakeloop.Send(out, &proto.Stopped{})
		return
	}
	text := strings.ToUpper(m.Text)
	fakeloop.Send(out, &proto.Accepted{}, &proto.Text{Text: text}, &proto.Done{Outcome: proto.TurnAnswered, Answer: text})
}

func TestChat(t *testing.T) {
	got := conversation(t, "chat-old", capitals, func(lines chan<- string, _ chan<- os.Signal, _ *shared) {
		for _, l := range []string{"one", "two\\", "lines", "//slash", "/nonsense", "", "bad\x1b"} {
			lines <- l + "\n"
		}
		close(lines)
	})
	for _, want := range []string{
		"Boxmaker · practice model (rules, not a language model) · /help lists the commands\n",
		"session chat-old · log /s/chat-old\n", "> earlier\n  yes\n", "ONE\n", "TWO\nLINES\n", "/SLASH\n",
		"! there is no command /nonsense;", "control character U+001B", "Go on later with: bxctl chat --session chat-old\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestChatCommands(t *testing.T) {
	got := conversation(t, "", capitals, func(lines chan<- string, _ chan<- os.Signal, screen *shared) {
		lines <- "/help\n"
		lines <- "/status\n"
		await(t, screen, "slot main (id 0): free")
		lines <- "/stop\n"
		await(t, screen, "(no turn runs)")
		lines <- "/new\n"
		lines <- "/quit\n"
	})
	if n := strings.Count(got, "session chat-20260102-"); n < 3 { // at the start, in the status, after /new
		t.Errorf("%d sessions in\n%s", n, got)
	}
	if !strings.Contains(got, "/stop          end") || strings.Contains(got, "Go on later") {
		t.Errorf("%s", got)
	}
}

// await returns when the screen shows the text.
func await(t *testing.T, screen *shared, text string) {
	t.Helper()
	for range 2000 {
		if strings.Contains(screen.String(), text) {
			return
		}
		time.Sleep(5 * time.Millisecond) // a screen has no wait
	}
	t.Fatalf("the screen does not show %q:\n%s", text, screen.String())
}

// A message that is typed during a turn is sent at once and shown in its turn.
func TestChatQueues(t *testing.T) {
	both := make(chan struct{})
	handle := func(_ context.Context, req proto.Message, out *ipc.Stream) {
		m := req.(*proto.Submit)
		if m.Text == "first" {
			fakeloop.Send(out, &proto.Accepted{}, &proto.Text{Text: "FIR"})
			<-both // the screen tells of the second one
			fakeloop.Send(out, &proto.Text{Text: "ST"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "FIRST"})
			return
		}
		fakeloop.Send(out, &proto.Accepted{Queued: 1}, &proto.Text{Text: "SECOND"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "SECOND"})
	}
	got := conversation(t, "", handle, func(lines chan<- string, _ chan<- os.Signal, screen *shared) {
		lines <- "first\n"
		await(t, screen, "FIR")
		lines <- "second\n"
		await(t, screen, "(queued behind 1)")
		close(both)
		close(lines)
	})
	queued, first, second := strings.Index(got, "(queued behind 1)"), strings.Index(got, "ST\n"), strings.Index(got, "SECOND\n")
	if queued < 0 || first < queued || second < first {
		t.Errorf("%s", got)
	}
}

// Ctrl-C stops the turn; at the prompt it leaves.
func TestChatInterrupts(t *testing.T) {
	stop := make(chan struct{})
	handle := func(_ context.Context, req proto.Message, out *ipc.Stream) {
		if _, ok := req.(*proto.Stop); ok {
			close(stop)
			fakeloop.Send(out, &proto.Stopped{Running: true})
			return
		}
		fakeloop.Send(out, &proto.Accepted{}, &proto.Text{Text: "begun"})
		<-stop
		fakeloop.Send(out, &proto.Done{Outcome: proto.TurnStopped})
	}
	got := conversation(t, "", handle, func(lines chan<- string, signals chan<- os.Signal, screen *shared) {
		lines <- "go\n"
		await(t, screen, "begun")
		signals <- syscall.SIGINT
		await(t, screen, "the turn was stopped")
		signals <- syscall.SIGINT
	})
	if !strings.Contains(got, "Go on later") {
		t.Errorf("%s", got)
	}
}

func TestChatNotRunning(t *testing.T) {
	l := fakeloop.New(t, capitals)
	l.Stop()
	defer l.Start() // for the cleanup
	err := Chat{Client: loop.Client{Path: l.Path}, Screen: term.Plain(&shared{}), Now: newClock().now}.Run(t.Context())
	if fault.Code(err) != fault.NotRunning {
		t.Errorf("%v", err)
	}
}
