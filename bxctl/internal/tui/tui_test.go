package tui

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"

	xterm "github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// pty is a terminal that the test types into and reads from.
type pty struct {
	tb     testing.TB
	master *os.File
	slave  *os.File

	mu   sync.Mutex // guards seen
	cond *sync.Cond
	seen bytes.Buffer
}

func newPTY(tb testing.TB, width, height uint16) *pty {
	tb.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		tb.Skipf("NOT RUN: there are no pseudo-terminals here: %v", err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width})
	}
	if err != nil {
		tb.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		tb.Skipf("NOT RUN: a pseudo-terminal can't be opened here: %v", err)
	}
	p := &pty{tb: tb, master: master, slave: slave}
	p.cond = sync.NewCond(&p.mu)
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 64<<10)
		for {
			n, err := master.Read(buf)
			p.mu.Lock()
			p.seen.Write(buf[:n])
			p.cond.Broadcast()
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	tb.Cleanup(func() {
		slave.Close()
		<-read // the last one at the other end left
		master.Close()
	})
	return p
}

func (p *pty) typed(s string) {
	p.tb.Helper()
	if _, err := p.master.WriteString(s); err != nil {
		p.tb.Fatal(err)
	}
}

// wait waits until text was written, and takes all up to it away.
func (p *pty) wait(text string) {
	p.tb.Helper()
	timer := time.AfterFunc(20*time.Second, func() {
		p.mu.Lock()
		p.tb.Errorf("%q did not come; there is %q", text, p.seen.String())
		p.seen.WriteString(text)
		p.cond.Broadcast()
		p.mu.Unlock()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if i := bytes.Index(p.seen.Bytes(), []byte(text)); i >= 0 {
			p.seen.Next(i + len(text))
			return
		}
		p.cond.Wait()
	}
}

// start runs a chat on p; the function waits for its end.
func start(p *pty, l *fakeloop.Loop, dir string) func() error { return resume(p, l, dir, "") }

// resume is start with a session to go on with.
func resume(p *pty, l *fakeloop.Loop, dir, session string) func() error {
	getenv := func(string) string { return "" }
	cfg := Config{
		Client: loop.Client{Path: l.Path}, In: p.slave, Out: p.slave, Screen: term.Open(p.slave, getenv), Environ: []string{"TERM=xterm"},
		Now: time.Now, Session: session, Dir: filepath.Join(dir, "sessions"), History: filepath.Join(dir, "chat-history"),
	}
	cfg.Screen.Colour = false
	end := make(chan error, 1)
	go func() { end <- Run(context.Background(), cfg) }()
	return func() error { return <-end }
}

// answering is a loopd whose model says what turn gives.
func answering(tb testing.TB, turn func(ctx context.Context, m *proto.Submit, out *ipc.Stream)) *fakeloop.Loop {
	return fakeloop.New(tb, func(ctx context.Context, req proto.Message, out *ipc.Stream) {
		switch m := req.(type) {
		case *proto.GetStatus:
			fakeloop.Send(out, &proto.Status{State: "ready", Since: "2026-01-02T15:04:05.000Z", Server: proto.Server{Model: "fake"}, Checks: []proto.Check{}, Slots: []proto.SlotState{}, Confinement: []proto.Check{}})
		case *proto.ListSessions:
			fakeloop.Send(out, &proto.SessionList{Sessions: []proto.SessionInfo{}})
		case *proto.Stop:
			fakeloop.Send(out, &proto.Stopped{Running: true})
		case *proto.Submit:
			turn(ctx, m, out)
		case *proto.Watch:
			fakeloop.Send(out, &proto.Error{Code: proto.ErrNoSession, Text: "not yet"})
		default:
			fakeloop.Send(out, &proto.Error{Code: proto.ErrBadRequest, Text: "not here"})
		}
	})
}

func TestChatOnATerminal(t *testing.T) {
	p := newPTY(t, 80, 24)
	before, err := xterm.GetState(p.slave.Fd())
	if err != nil {
		t.Fatal(err)
	}
	l := answering(t, func(_ context.Context, m *proto.Submit, out *ipc.Stream) {
		fakeloop.Send(out, &proto.Accepted{Record: 1}, &proto.Text{Text: "You said **" + m.Text + "**, \x1b]0;evil\x07."},
			&proto.Done{Outcome: proto.TurnAnswered, Answer: "You said **" + m.Text + "**, \x1b]0;evil\x07."})
	})
	dir := t.TempDir()
	wait := start(p, l, dir)
	p.wait("model fake")
	p.typed("hi \x1b[200~there\x1b[201~\r")
	p.wait("You said hi there, ␛]0;evil␇.")
	p.typed("\x04")
	p.wait("Go on later with: bxctl chat --session chat-")
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	after, err := xterm.GetState(p.slave.Fd())
	if err != nil {
		t.Fatal(err)
	}
	if *before != *after {
		t.Error("the terminal was not given back as it was")
	}
	st, err := os.Stat(filepath.Join(dir, "chat-history"))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("history: %v, %v", st, err)
	}
}

// TestWaitsForLoopd: what is sent while loopd is away is sent once, when it is
// back.
func TestWaitsForLoopd(t *testing.T) {
	p := newPTY(t, 80, 24)
	l := answering(t, func(_ context.Context, m *proto.Submit, out *ipc.Stream) {
		fakeloop.Send(out, &proto.Accepted{Record: 1}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "here I am"})
	})
	wait := start(p, l, t.TempDir())
	p.wait("model fake")
	l.Stop()
	p.typed("are you there?\r")
	p.wait("loopd is away")
	l.Start()
	p.wait("here I am")
	p.typed("\x04")
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	origins := map[string]int{}
	for _, r := range l.Requests() {
		if m, ok := r.(*proto.Submit); ok {
			origins[m.Origin]++
		}
	}
	if len(origins) != 1 {
		t.Errorf("submitted as %v", origins)
	}
}

// TestResumesOverTheSocket: where the logs can't be read, loopd tells what was
// said; of all of it only the end is shown.
func TestResumesOverTheSocket(t *testing.T) {
	p := newPTY(t, 80, 24)
	l := answering(t, nil)
	ask := l.Handle
	l.Handle = func(ctx context.Context, req proto.Message, out *ipc.Stream) {
		w, ok := req.(*proto.Watch)
		switch {
		case !ok:
			ask(ctx, req, out)
			return
		case w.Follow:
			if w.Epoch != 1 || w.After != 1500 {
				t.Errorf("followed behind %d of epoch %d", w.After, w.Epoch)
			}
			fakeloop.Send(out, &proto.Past{Record: 1501, Epoch: 1, Time: "2026-01-02T15:04:05.000Z", Role: "user", Text: "from afar", Origin: "x", Surface: proto.SurfaceAsk},
				&proto.Text{Text: "It arrives."}, &proto.Done{Outcome: proto.TurnFailed, Text: "it broke", Runbook: "upstream-unreachable"})
			<-ctx.Done()
			return
		}
		for i := range int64(500) {
			fakeloop.Send(out, &proto.Past{Record: 3*i + 1, Epoch: 1, Time: "2026-01-02T15:04:05.000Z", Role: "user", Text: fmt.Sprintf("question %d.", i)},
				&proto.Past{Record: 3*i + 2, Epoch: 1, Time: "2026-01-02T15:04:05.000Z", Role: "assistant", Text: fmt.Sprintf("answer %d.", i)},
				&proto.Past{Record: 3*i + 3, Epoch: 1, Time: "2026-01-02T15:04:05.000Z", Role: "turn", Text: "answered"})
		}
		fakeloop.Send(out, &proto.SessionDetail{Info: proto.SessionInfo{Session: "chat-old", Epoch: 1, Modified: "2026-01-02T15:04:05.000Z"}, Usage: proto.Usage{Context: 500, Window: 1000}})
	}
	wait := resume(p, l, t.TempDir(), "chat-old")
	p.wait("(older messages: Ctrl-O)")
	p.wait("answer 499.")
	p.wait("context 50% of 1,000")
	p.wait("from bxctl ask")
	p.wait("> from afar")
	p.wait("It arrives.")
	p.wait("upstream-unreachable")
	p.typed("\x0f") // Ctrl-O
	p.wait("question 499.")
	p.typed("g")
	p.wait("question 0.")
	p.typed("q\x04")
	p.wait("Go on later")
	if err := wait(); err != nil {
		t.Fatal(err)
	}
}

func TestNotRunning(t *testing.T) {
	p := newPTY(t, 80, 24)
	l := answering(t, nil)
	l.Stop()
	if err := start(p, l, t.TempDir())(); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("got %v", err)
	}
	l.Start()
}

// BenchmarkTokenToPaint measures from a token's leaving loopd to its standing on
// the terminal, at 200 tokens a second.
func BenchmarkTokenToPaint(b *testing.B) {
	p := newPTY(b, 100, 30)
	ask, sent, end := make(chan int), make(chan time.Time), make(chan struct{})
	l := answering(b, func(ctx context.Context, m *proto.Submit, out *ipc.Stream) {
		fakeloop.Send(out, &proto.Accepted{Record: 1})
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case i := <-ask:
				at := time.Now()
				fakeloop.Send(out, &proto.Text{Text: fmt.Sprintf(" mark%d", i)})
				sent <- at
			case <-tick.C:
				fakeloop.Send(out, &proto.Text{Text: []string{" word", " **bold**", " and", "\n", " `code`", "\n\n"}[n%6]})
			case <-end:
				fakeloop.Send(out, &proto.Done{Outcome: proto.TurnAnswered})
				return
			}
		}
	})
	wait := start(p, l, b.TempDir())
	p.wait("model fake")
	p.typed("go\r")
	p.wait("> go")
	var all []time.Duration
	for i := 0; b.Loop(); i++ {
		ask <- i
		at := <-sent
		p.wait(fmt.Sprintf("mark%d", i))
		all = append(all, time.Since(at))
		time.Sleep(time.Duration(i%17) * time.Millisecond) // so that marks come at any time of a frame
	}
	close(end)
	p.typed("\x04\x04")
	p.wait("Go on later")
	if err := wait(); err != nil {
		b.Fatal(err)
	}
	slices.Sort(all)
	for _, q := range []struct {
		at   int
		name string
	}{{50, "ms-p50"}, {95, "ms-p95"}, {99, "ms-p99"}, {100, "ms-max"}} {
		b.ReportMetric(float64(all[(len(all)-1)*q.at/100].Microseconds())/1000, q.name)
	}
}
