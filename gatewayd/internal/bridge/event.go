package bridge

import (
	"time"

	"boxmaker/gatewayd/internal/queue"
	"boxmaker/internal/proto"
)

// An Event is what the machine is told. The set is closed.
type Event interface{ event() }

// Heard is a message that the owner may have an answer to. One that is known is
// passed over.
type Heard struct{ queue.Heard }

// Gone is a post that was deleted.
type Gone struct{ Post string }

// Turn is an event of loopd on the turn of a message.
type Turn struct {
	Post string
	M    proto.Message
}

// Lost is the end of a stream of loopd without the end of the turn. Final: asking
// again cannot help, and Text is for the owner.
type Lost struct {
	Post  string
	Final bool
	Text  string
}

// Said is the answer to a command, which is gatewayd's own.
type Said struct {
	Post string
	Text string
	Top  bool // as a thread of its own, for a new conversation
}

// Did is how a [Do] ended.
type Did struct {
	Do
	ID    string // of the post; "" after a search that found none
	Fault Fault
	After time.Duration // the pause that the server wants
	Root  bool          // with Refused: the thread's first post is gone
	// Closed, with Refused: the channel is archived, or the bot is not in it any more.
	Closed bool
}

// Told is the end of a [Tell]; not ok is tried again.
type Told struct {
	Post string
	OK   bool
}

// Caught says that all of a channel up to a time was passed on as Heard.
type Caught struct {
	Channel string
	At      int64
}

// Opened says that a channel may take posts again.
type Opened struct{ Channel string }

// Up says that the server is there.
type Up struct{}

// Tick says that time has passed.
type Tick struct{}

func (Heard) event()  {}
func (Gone) event()   {}
func (Turn) event()   {}
func (Lost) event()   {}
func (Said) event()   {}
func (Did) event()    {}
func (Told) event()   {}
func (Caught) event() {}
func (Opened) event() {}
func (Up) event()     {}
func (Tick) event()   {}

// A Fault says how a request to the server failed.
type Fault int

// Faults.
const (
	None    Fault = iota
	Away          // not done: it can be asked again
	Unsure        // maybe done: it must be looked for
	Refused       // not done, and asking again changes nothing
)

// An Effect is what the machine wants to be done. The set is closed.
type Effect interface{ effect() }

// Kind is what is to be done with a post.
type Kind int

// Kinds.
const (
	Find   Kind = iota // by its key
	Create             //
	Patch              // its text
)

// Do is a request to the server. Each is answered with a [Did].
type Do struct {
	Kind    Kind
	Post    string // the message that it is about
	Key     string
	ID      string // of the post to patch
	Channel string
	Root    string // "" for a thread of its own
	Since   int64  // the post cannot be older
	Text    string
	File    string // content
	Final   bool   // Text is the last
}

// Submit brings a message to loopd, and follows its turn: Turn events, then Lost
// unless the last of them was the turn's end.
type Submit struct{ Post, Session, Text string }

// Command asks for the answer to a command: one Said.
type Command struct {
	Post, Command string
	Sessions      []string // that it is about
	Waiting       int      // messages that are not done with
}

// Stop ends the turn of a session; nothing is told.
type Stop struct{ Session string }

// Tell lets loopd note that an answer is posted: one Told.
type Tell struct{ Post, Session, Key string }

// Typing shows that the bot is at work.
type Typing struct{ Channel, Root string }

// Warn is for the log: constant words, and the post that it is about.
type Warn struct{ What, Post string }

func (Do) effect()      {}
func (Submit) effect()  {}
func (Command) effect() {}
func (Stop) effect()    {}
func (Tell) effect()    {}
func (Typing) effect()  {}
func (Warn) effect()    {}
