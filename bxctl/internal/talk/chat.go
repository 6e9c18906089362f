package talk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// Chat is a conversation in plain lines on a terminal. A line that comes while
// a turn runs is sent at once, and loopd queues it. What others ask in the session
// is shown too, marked with where it came from.
type Chat struct {
	Client     loop.Client
	Owner      owner.Client // without a path: approvals are not shown
	Screen     term.Screen
	Lines      <-chan string // what the owner types; closed at its end
	Interrupts <-chan os.Signal
	Now        func() time.Time
	Session    string // to go on with; empty: a new one
	Sessions   string // folder of the session logs, to be named
}

// chatState is owned by the goroutine of Run.
type chatState struct {
	Chat
	view     *View
	jobs     []*job // the first one is shown
	events   chan chatEvent
	says     chan string // lines from requests on the side
	running  int         // goroutines
	leave    context.CancelFunc
	used     bool // something was sent in this session
	stopping bool
	pending  string // lines that end in a backslash so far
	prompted bool   // the prompt stands at the cursor

	owns  chan func()       // what came from brokerd; nil: nothing will come any more
	asks  []*proto.Approval // that wait
	shown []string          // ids of those that were shown
	gone  error             // why brokerd can't be asked

	mine     map[string]bool // origins of what was sent here
	other    *job            // of somebody else, under way
	unfollow context.CancelFunc
	away     bool // loopd, and that was told
}

// A job is one message under way.
type job struct {
	origin  string
	other   bool        // it did not begin here
	started bool        // loopd is at it
	held    []chatEvent // events that came while another job was shown
	ended   *chatEvent  // it has ended; shown once it is the first
}

type chatEvent struct {
	job   *job
	show  func(*View)
	now   bool // show it though another job is shown
	ended bool
	err   error
}

// Run talks until the owner leaves. The error is a fault of the start; a turn
// that fails is shown and does not end the chat.
func (c Chat) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	status, err := c.Client.Status(ctx)
	if err != nil {
		return err
	}
	s := &chatState{Chat: c, events: make(chan chatEvent), says: make(chan string), owns: make(chan func()), leave: cancel, mine: map[string]bool{}, unfollow: func() {}}
	s.view = &View{Answer: c.Screen, Notes: c.Screen, Stream: true, Chat: true, Now: c.Now, Owner: c.Owner.Path != ""}
	resumed := s.Session != ""
	if !resumed {
		s.Session = loop.NewSession(c.Now())
	}
	after := s.greet(ctx, status, resumed)
	s.oversee(ctx)
	s.follow(ctx, after)
	s.loop(ctx)
	cancel()
	s.unfollow()
	for s.running > 0 { // their hooks may be at a send
		select {
		case e := <-s.events:
			s.countEnd(e)
		case <-s.says:
			s.running--
		case f := <-s.owns:
			if f == nil {
				s.running--
			}
		}
	}
	if s.used || resumed {
		s.line(s.Screen.Dim("Go on later with: bxctl chat --session " + s.Session))
	}
	return nil
}

func (s *chatState) loop(ctx context.Context) {
	lines := s.Lines
	s.prompt(lines)
	for {
		if lines == nil && s.ours() == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case line, ok := <-lines:
			s.prompted = s.prompted && !ok // the line's own end took it away
			if !ok {
				lines = nil
				s.unprompt()
				continue
			}
			if !s.typed(ctx, line) {
				return
			}
			s.prompt(lines)
		case <-s.Interrupts:
			if !s.interrupt(ctx) {
				return
			}
		case e := <-s.events:
			if s.take(e) {
				s.prompt(lines)
			}
		case text := <-s.says:
			s.running--
			if text = strings.TrimRight(text, "\n"); text != "" {
				s.line(text)
			}
			s.prompt(lines)
		case f := <-s.owns:
			if f == nil {
				s.running--
				continue
			}
			if f(); !s.prompted {
				s.prompt(lines)
			}
		}
	}
}

// prompt shows that the owner may type, where nothing else is under way.
func (s *chatState) prompt(lines <-chan string) {
	if len(s.jobs) > 0 || lines == nil {
		return
	}
	mark := "> "
	if s.pending != "" {
		mark = ". "
	}
	s.unprompt()
	s.prompted = true
	fmt.Fprint(s.Screen.W, s.Screen.Bold(mark))
}

// unprompt makes room for what comes by itself while the owner may type.
func (s *chatState) unprompt() {
	if !s.prompted {
		return
	}
	s.prompted = false
	if s.Screen.InPlace() {
		fmt.Fprint(s.Screen.W, s.Screen.Erase())
	} else {
		fmt.Fprintln(s.Screen.W)
	}
}

func (s *chatState) line(text string) {
	s.unprompt()
	s.view.Note(text)
}

// greet says who answers, and gives the place behind which the session goes on.
func (s *chatState) greet(ctx context.Context, st *proto.Status, resumed bool) loop.Place {
	s.line(s.Screen.Bold("Boxmaker") + " · " + report.Model(st.Server) + " · /help lists the commands")
	if st.State != "ready" {
		s.line(s.Screen.Warn("loopd is " + st.State + ": " + term.Line(st.Detail) + ". What you type is answered as soon as it is ready."))
	}
	s.place()
	if resumed {
		return s.recent(ctx)
	}
	return loop.Place{}
}

func (s *chatState) place() {
	s.line(s.Screen.Dim("session " + s.Session + " · log " + s.Sessions + "/" + s.Session))
}

// recent shows how the session ended last time, without a turn that still runs,
// which is then followed from its start. It gives the place to follow behind.
func (s *chatState) recent(ctx context.Context) loop.Place {
	const rows = 6
	var last, open []*proto.Past // open: since the last turn's end
	var at, ended loop.Place
	_, err := s.Client.Past(ctx, s.Session, func(p *proto.Past) error {
		if p.Role == "user" {
			ended, last, open = at, append(last, open...), nil
		}
		at = loop.Place{Epoch: p.Epoch, Record: p.Record}
		if p.Text != "" && (p.Role == "user" || p.Role == "assistant") {
			open = append(open, p)
		}
		if p.Role == "turn" {
			ended, last, open = at, append(last, open...), nil
		}
		last = last[max(0, len(last)-rows):]
		return nil
	})
	s.used = true
	var f *fault.Fault
	switch {
	case errors.As(err, &f) && f.Key == "no-session":
		s.line(s.Screen.Warn("! " + term.Line(err.Error())))
		return loop.Place{}
	case err != nil:
		s.line(s.Screen.Warn("! " + term.Line(err.Error())))
		return loop.Place{Record: loop.BehindAll} // what is past can't be told
	}
	for _, p := range last {
		mark := "  "
		if p.Role == "user" {
			mark = "> "
		}
		s.line(s.Screen.Dim(term.Clip(mark+term.Line(p.Text), s.Screen.Width()-1)))
	}
	return ended
}

// take shows an event, or holds it back while another turn is shown. It
// reports whether a turn's end was shown.
func (s *chatState) take(e chatEvent) (ended bool) {
	s.unprompt()
	s.countEnd(e)
	switch {
	case e.ended:
		e.job.ended = &e
	case e.job != s.jobs[0] && !e.now:
		e.job.held = append(e.job.held, e)
	default:
		e.show(s.view)
	}
	for len(s.jobs) > 0 && s.jobs[0].ended != nil {
		s.end(s.jobs[0].ended.err)
		ended = true
		if s.jobs = s.jobs[1:]; len(s.jobs) > 0 {
			for _, h := range s.jobs[0].held {
				h.show(s.view)
			}
		}
	}
	return ended
}

// end shows how a turn ended.
func (s *chatState) end(err error) {
	s.stopping = false
	if err != nil && !isCancel(err) {
		s.view.clear()
		s.view.Note(s.Screen.Warn(strings.TrimRight(fault.Text(err), "\n")))
	}
}

func (s *chatState) countEnd(e chatEvent) {
	if e.ended {
		s.running--
	}
}
