// Package tui runs the chat on a terminal: it carries out the effects of package
// chat, which holds all of its behaviour, and draws with package paint.
//
// It guarantees that the terminal is given back as it was found, however the
// chat ends short of SIGKILL, and that what is finished stands in the terminal's
// own scrollback. It needs a terminal for input and output; package talk is for
// all else.
package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/tui/chat"
	"boxmaker/bxctl/internal/tui/history"
	"boxmaker/bxctl/internal/tui/paint"

	tea "charm.land/bubbletea/v2"
	xterm "github.com/charmbracelet/x/term"
)

// Config is what a chat works with.
type Config struct {
	Client  loop.Client
	Owner   owner.Client
	In, Out *os.File
	Screen  term.Screen // of Out
	Environ []string
	Now     func() time.Time
	Session string // to go on with; empty: a new one
	Latest  bool   // go on with the newest session instead
	Dir     string // folder of the session logs
	Files   bool   // that folder can be read
	History string // file of what was typed
}

// Run talks until the owner leaves. The error is a fault of the start; a turn
// that fails is shown and does not end the chat.
func Run(ctx context.Context, cfg Config) error {
	status, err := cfg.Client.Status(ctx)
	if err != nil {
		return err
	}
	hist, histErr := history.Open(cfg.History)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &shell{cfg: cfg, ctx: ctx, feed: newFeed(), hist: hist, unfollow: func() {}}
	id := cfg.Session
	if id == "" {
		id = loop.NewSession(cfg.Now())
	}
	newID := func() string { return loop.NewSession(cfg.Now()) }
	s.chat = chat.New(chat.Config{Screen: cfg.Screen, Now: cfg.Now, Session: id, History: hist, NewID: newID, NewOrigin: loop.NewOrigin})
	s.painter = &paint.Painter{W: cfg.Out}
	if err := s.raw(); err != nil {
		return &fault.Fault{What: "the terminal can't be prepared", Err: err, Do: "try bxctl chat --plain", Key: "terminal"}
	}
	defer s.cooked()
	s.begin(histErr)
	s.update(chat.Health{Status: status})
	s.prog = tea.NewProgram(s, tea.WithContext(ctx), tea.WithoutRenderer(), tea.WithoutSignalHandler(), tea.WithoutCatchPanics(), tea.WithFPS(1),
		tea.WithInput(cfg.In), tea.WithOutput(cfg.Out), tea.WithEnvironment(cfg.Environ))
	s.background(func() { s.feed.run(ctx, func(b batch) { s.prog.Send(b) }) })
	s.background(s.signals)
	s.background(s.watch)
	s.background(s.oversee)
	_, err = s.prog.Run()
	cancel()
	s.wait.Wait()
	s.cooked()
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, tea.ErrProgramKilled) {
		return &fault.Fault{What: "the chat broke off", Err: err, Do: "try bxctl chat --plain", Key: "terminal"}
	}
	if s.chat.Used() {
		fmt.Fprintln(cfg.Out, cfg.Screen.Dim("Go on later with: bxctl chat --session "+s.chat.Session()))
	}
	return nil
}

// shell is the driver. Update and what it calls run on one goroutine, which
// owns all but what is said otherwise.
type shell struct {
	cfg      Config
	ctx      context.Context
	chat     *chat.Model
	painter  *paint.Painter
	page     *page // the transcript, while it is shown
	hist     *history.History
	feed     *feed          // safe for all
	prog     *tea.Program   // safe for all
	wait     sync.WaitGroup // safe for all
	state    *xterm.State
	unfollow context.CancelFunc // ends the following of a session
	ticking  bool
	told     bool // that the history can't be kept
	width    int
	err      error
}

func (s *shell) begin(histErr error) {
	if w, h, err := xterm.GetSize(s.cfg.Out.Fd()); err == nil {
		s.update(resized{w, h})
	}
	if histErr != nil {
		s.told = true
		s.update(chat.Failed{Err: &fault.Fault{What: "what was typed before can't be read", Err: histErr, Key: "chat-history"}})
	}
}

// background runs f until the chat ends; Run waits for it.
func (s *shell) background(f func()) {
	s.wait.Add(1)
	go func() {
		defer s.wait.Done()
		f()
	}()
}

func (s *shell) raw() error {
	state, err := xterm.MakeRaw(s.cfg.In.Fd())
	if err != nil {
		return err
	}
	s.state = state
	return s.painter.Enter()
}

// cooked gives the terminal back; a second call does nothing.
func (s *shell) cooked() {
	if s.state == nil {
		return
	}
	if s.page != nil {
		s.page.leave(s.cfg.Out)
		s.page = nil
	}
	_ = s.painter.Leave() // a terminal that is gone needs nothing
	_ = xterm.Restore(s.cfg.In.Fd(), s.state)
	s.state = nil
}

// Init starts with the session that is gone on with.
func (s *shell) Init() tea.Cmd {
	if s.cfg.Latest || s.cfg.Session != "" {
		s.do(chat.Query{What: chat.AskTail, Arg: s.cfg.Session})
	} else {
		s.do(s.chat.Follow())
	}
	s.do(chat.Query{What: chat.AskList})
	return nil
}

// View is empty: package paint draws.
func (s *shell) View() tea.View { return tea.View{} }

// Update takes one message, or a batch, and draws once.
func (s *shell) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var quit bool
	switch msg := msg.(type) {
	case batch:
		for _, one := range msg {
			quit = s.update(one) || quit
		}
	default:
		quit = s.update(msg)
	}
	if quit || s.draw() != nil {
		return s, tea.Quit
	}
	if s.chat.Busy() && !s.ticking {
		s.ticking = true
		return s, tea.Tick(100*time.Millisecond, func(time.Time) tea.Msg { return chat.Tick{} })
	}
	return s, nil
}

// update hands a message on; true ends the chat.
func (s *shell) update(msg any) (quit bool) {
	switch msg := msg.(type) {
	case chat.Tick:
		s.ticking = false
	case tea.WindowSizeMsg:
		return false // the library's, which has no size without its renderer
	case resized:
		s.width = msg.w
		if s.page == nil {
			s.painter.Resize(msg.w)
		} else {
			s.page.resize(msg.w, msg.h)
		}
		s.chat.Update(tea.WindowSizeMsg{Width: msg.w, Height: msg.h})
		return false
	case tea.KeyPressMsg:
		if s.page != nil {
			if s.page.key(msg) {
				s.page.leave(s.cfg.Out)
				s.page = nil
				s.painter.Resize(s.width)
			}
			return false
		}
	case older:
		if s.page != nil {
			s.page.older(msg)
		}
		return false
	case hangup:
		return true
	}
	for _, e := range s.chat.Update(msg) {
		if s.do(e) {
			quit = true
		}
	}
	return quit
}

func (s *shell) draw() error {
	if s.page != nil {
		return s.page.draw(s.cfg.Out)
	}
	return s.painter.Paint(s.chat.Frame())
}

// hangup ends the chat from outside.
type hangup struct{}

// resized is the size of the terminal.
type resized struct{ w, h int }

func (s *shell) signals() {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, syscall.SIGWINCH, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	defer signal.Stop(ch)
	for {
		select {
		case <-s.ctx.Done():
			return
		case sig := <-ch:
			if sig != syscall.SIGWINCH {
				s.prog.Send(hangup{})
				continue
			}
			if w, h, err := xterm.GetSize(s.cfg.Out.Fd()); err == nil {
				s.prog.Send(resized{w, h})
			}
		}
	}
}

// watch looks whether loopd is there.
func (s *shell) watch() {
	every := time.NewTimer(0)
	defer every.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-every.C:
		}
		short, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		st, err := s.cfg.Client.Status(short)
		cancel()
		if s.ctx.Err() != nil {
			return
		}
		s.prog.Send(chat.Health{Status: st, Err: err})
		if err != nil {
			every.Reset(500 * time.Millisecond)
		} else {
			every.Reset(3 * time.Second)
		}
	}
}

func (s *shell) files() archive.Files { return archive.Files{Dir: s.cfg.Dir} }
