// Package chat is the chat as a state machine: keys, events of turns and answers
// of requests in; lines for the terminal and effects out.
//
// It guarantees that it does no input or output of its own and waits for
// nothing: [Model.Update] gives the effects that its driver (package tui) has to
// carry out, and [Model.Frame] what is to be seen. Text of the model, of tools
// and of logs reaches a line only through packages term and markdown. A message
// is never lost: it is shown as waiting until its turn began.
package chat

import (
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/tui/editor"
	"boxmaker/bxctl/internal/tui/history"
	"boxmaker/bxctl/internal/tui/markdown"
	"boxmaker/internal/proto"
)

// Config is what a Model starts with.
type Config struct {
	Screen  term.Screen // for its colours only; nothing is written to it
	Now     func() time.Time
	Session string
	History *history.History // read here; written by the driver
	NewID   func() string    // makes the id of a session
	// NewOrigin makes the id of a message.
	NewOrigin func() string
}

// Messages that a driver gives to Update, beside those of the terminal.
type (
	// Events are events of the turn of one message, oldest first.
	Events struct {
		Job    int
		Events []proto.Message
	}
	// Lost says that the connection of a turn went, and is tried again.
	Lost struct{ Job int }
	// Back says that a turn is joined again: its events come once more.
	Back struct{ Job int }
	// Ended says that no event of this message's turn follows.
	Ended struct {
		Job int
		Err error
	}
	// Said is the answer of a request, as lines that are safe for a terminal.
	Said struct{ Text string }
	// Failed is a request that did not work.
	Failed struct{ Err error }
	// Tail is the end of a session that is gone on with.
	Tail struct {
		Session string
		Items   []archive.Item
		More    bool // there are older ones
		Context int64
		Window  int64
	}
	// NoTail says why there is none; the chat stays where it is.
	NoTail struct {
		Text string
		Err  error
	}
	// Result is the text of a tool's result.
	Result struct{ Call, Text string }
	// Listed is the sessions that there are, newest first.
	Listed struct{ Sessions []proto.SessionInfo }
	// Health is the answer to a look at loopd, or why there is none.
	Health struct {
		Status *proto.Status
		Err    error
	}
	// Tick moves what is animated.
	Tick struct{}
)

// An Effect is something that the driver has to do.
type Effect interface{ effect() }

// Effects.
type (
	// Send submits a message and gives Events, Lost, Back, and at last Ended.
	Send struct {
		Job           int
		Session, Text string
		Origin        string
	}
	// StopTurn ends the running turn.
	StopTurn struct{ Session string }
	// Query asks for something and gives Said, Tail, NoTail, Listed or Failed.
	Query struct {
		What    What
		Session string
		Arg     string
	}
	// Remember adds a text to the history.
	Remember struct{ Text string }
	// Transcript shows the whole session.
	Transcript struct{ Session string }
	// Leave ends the chat.
	Leave struct{}
	// Suspend stops the process, as the shell's job control does.
	Suspend struct{}
	// Redraw draws everything anew.
	Redraw struct{}
)

func (Send) effect()       {}
func (StopTurn) effect()   {}
func (Query) effect()      {}
func (Remember) effect()   {}
func (Transcript) effect() {}
func (Leave) effect()      {}
func (Suspend) effect()    {}
func (Redraw) effect()     {}

// What says what a Query asks for.
type What int

// Queries.
const (
	AskStatus   What = iota // Said
	AskContext              // Said
	AskSessions             // Said
	AskList                 // Listed
	AskTail                 // Tail or NoTail
	AskExport               // Said; Arg is the file
	AskResult               // Result; Arg is the call
)

// A Model is the state of one chat. Make it with [New].
type Model struct {
	cfg    Config
	sc     term.Screen
	theme  markdown.Theme
	width  int
	height int

	after    []Effect // of what was handled just now
	out      []string // finished lines, not drawn yet
	blank    bool     // the last finished line is empty
	ed       editor.Editor
	pick     int // chosen row of the popup
	closed   bool
	known    []proto.SessionInfo // for the completion of /resume
	choosing bool                // that was asked for

	jobs     []*turn // the first one is shown
	nextJob  int
	details  bool // thinking and tool calls are unfolded
	stopping bool
	used     bool // something was sent in this session
	leaving  bool
	frame    int // of the animation

	over   oversight
	others following
	status *proto.Status
	away   bool
	told   bool // a line says so
	usage  proto.Usage
}

// New makes a chat of width and height 80 by 24; a WindowSizeMsg tells better.
func New(cfg Config) *Model {
	if cfg.History == nil {
		cfg.History = &history.History{}
	}
	return &Model{cfg: cfg, sc: cfg.Screen, theme: markdown.Theme{Colour: cfg.Screen.Colour}, width: 80, height: 24, blank: true, nextJob: 1}
}

// Session gives the id of the session that is talked in.
func (m *Model) Session() string { return m.cfg.Session }

// Used reports whether something was sent in it.
func (m *Model) Used() bool { return m.used }

// Busy reports whether a turn runs or something waits: ticks are wanted.
func (m *Model) Busy() bool { return len(m.jobs) > 0 || m.away || len(m.over.asks) > 0 }

// Take gives the finished lines that were not taken yet.
func (m *Model) Take() []string {
	out := m.out
	m.out = nil
	return out
}

// say finishes lines.
func (m *Model) say(lines ...string) {
	for _, l := range lines {
		if l == "" && m.blank {
			continue
		}
		m.blank = l == ""
		m.out = append(m.out, l)
	}
}

// room is how many columns text may take. The last one stays free: some
// terminals break the line there.
func (m *Model) room() int { return max(m.width-1, 8) }

// text finishes a text of several lines that is safe already.
func (m *Model) text(s string, paint func(string) string) {
	for _, l := range wrapText(s, m.room()) {
		m.say(paint(l))
	}
}

func (m *Model) warn(s string) { m.text("! "+s, m.sc.Warn) }
