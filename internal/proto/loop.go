package proto

import "errors"

// Messages of loop.sock: one request, then events until a terminal one
// ([Done], [Error], or the single answer of a query).

// LoopRequests is what a client (bxctl, gatewayd) may send to loopd.
var LoopRequests = union("loop request",
	func() Message { return new(Submit) },
	func() Message { return new(Watch) },
	func() Message { return new(Stop) },
	func() Message { return new(ListSessions) },
	func() Message { return new(GetSession) },
	func() Message { return new(GetStatus) },
	func() Message { return new(Delivery) },
)

// LoopEvents is what loopd may send back.
var LoopEvents = union("loop event",
	func() Message { return new(Accepted) },
	func() Message { return new(Past) },
	func() Message { return new(Waiting) },
	func() Message { return new(Prefill) },
	func() Message { return new(Thinking) },
	func() Message { return new(Text) },
	func() Message { return new(ToolStarted) },
	func() Message { return new(Asked) },
	func() Message { return new(Result) },
	func() Message { return new(Notice) },
	func() Message { return new(Done) },
	func() Message { return new(Error) },
	func() Message { return new(Stopped) },
	func() Message { return new(SessionList) },
	func() Message { return new(SessionDetail) },
	func() Message { return new(Status) },
	func() Message { return new(Noted) },
)

// Terminal reports whether m ends the stream of its request. Only a [Watch] that
// follows goes on after the [Done] of a turn.
func Terminal(m Message) bool {
	switch m.(type) {
	case *Done, *Error, *Stopped, *SessionList, *SessionDetail, *Status, *Noted:
		return true
	default:
		return false
	}
}

// Submit gives loopd a message of the owner. It is durable when [Accepted]
// comes back. The same Origin submitted again starts nothing: the stream then
// joins the turn that the first one started, or tells how it ended.
type Submit struct {
	Session string  `json:"session"`
	Origin  string  `json:"origin"`
	Text    string  `json:"text"`
	Surface Surface `json:"surface"`
}

// Watch follows a session: past records after After as [Past], then live events
// (Follow), or [SessionDetail] as the end. A stream that follows ends only with the
// connection or with [Error].
type Watch struct {
	Session string `json:"session"`
	After   int64  `json:"after,omitzero"` // record number in Epoch; 0 gives all
	// Follow keeps the stream open for live events. Without it the stream ends
	// with [SessionDetail] after the past records.
	Follow bool `json:"follow,omitzero"`
	Epoch  int  `json:"epoch,omitzero"` // of After: later ones are given whole; 0 is the newest
}

// Stop ends the running turn of a session. Queued messages stay queued.
type Stop struct {
	Session string `json:"session"`
}

// ListSessions asks for the newest sessions whose id has the prefix.
type ListSessions struct {
	Prefix string `json:"prefix,omitzero"`
	Limit  int    `json:"limit,omitzero"` // 0 means 100
}

// GetSession asks for one session.
type GetSession struct {
	Session string `json:"session"`
}

// GetStatus asks loopd for its state.
type GetStatus struct{}

// Delivery says that the answer to a message is in the owner's chat, under a key of
// gatewayd's. It may come twice. Answered with [Noted] once it is in the session's log.
type Delivery struct {
	Session string `json:"session"`
	Key     string `json:"key"`
}

// Accepted says that the message is on disk.
type Accepted struct {
	Record int64 `json:"record"`          // its record number
	Queued int   `json:"queued,omitzero"` // messages that go before it
	Known  bool  `json:"known,omitzero"`  // the origin was there already
}

// Past is one message of a session's history.
type Past struct {
	Record   int64  `json:"record"`
	Epoch    int    `json:"epoch"`
	Time     string `json:"time"`
	Role     string `json:"role"` // user, assistant, tool, or turn (Text is the outcome)
	Text     string `json:"text,omitzero"`
	Thinking string `json:"thinking,omitzero"`
	Tool     string `json:"tool,omitzero"` // of a call or a result
	Args     string `json:"args,omitzero"`
	// Origin and Surface say whose message, or the end of whose turn, it is.
	Origin  string  `json:"origin,omitzero"`
	Surface Surface `json:"surface,omitzero"`
	// Call is set for a call and for its result, the others for a result.
	Call    string      `json:"call,omitzero"`
	Outcome CallOutcome `json:"outcome,omitzero"`
	Code    Code        `json:"code,omitzero"`
	Class   Class       `json:"class,omitzero"`
	MS      int64       `json:"ms,omitzero"`
}

// Waiting says that the turn waits, and for what.
type Waiting struct {
	Reason WaitReason `json:"reason"`
	Ahead  int        `json:"ahead,omitzero"` // requests or messages in front
}

// Prefill is the progress of prompt processing, in tokens and milliseconds.
type Prefill struct {
	Total  int64 `json:"total"`
	Cached int64 `json:"cached"`
	Done   int64 `json:"done"` // processed, the cached ones included
	MS     int64 `json:"ms"`
}

// Thinking is a piece of the model's reasoning.
type Thinking struct {
	Text string `json:"text"`
}

// Text is a piece of the answer.
type Text struct {
	Text string `json:"text"`
}

// ToolStarted says that a call was asked for.
type ToolStarted struct {
	Call string `json:"call"`
	Tool string `json:"tool"`
	Args string `json:"args"` // JSON text as the model wrote it, cut to 16 KiB
}

// Result is how a call ended. The text of the result is in the log.
type Result struct {
	Call      string      `json:"call"`
	Outcome   CallOutcome `json:"outcome"`
	Code      Code        `json:"code,omitzero"`
	Class     Class       `json:"class"`
	Untrusted bool        `json:"untrusted,omitzero"`
	Bytes     int64       `json:"bytes"`
	MS        int64       `json:"ms"`
}

// Notice tells of something unusual that is not an error.
type Notice struct {
	Kind NoticeKind `json:"kind"`
	Text string     `json:"text"` // one sentence for the owner
	// Lost and MS are the cost of a cold cache: tokens that had to be processed
	// again, and the time it took.
	Lost int64 `json:"lost,omitzero"`
	MS   int64 `json:"ms,omitzero"`
}

// Usage sums up a turn: tokens and milliseconds over all its completions.
type Usage struct {
	Completions int   `json:"completions,omitzero"`
	Prompt      int64 `json:"prompt,omitzero"`    // processed
	Cached      int64 `json:"cached,omitzero"`    // reused
	Generated   int64 `json:"generated,omitzero"` // thinking included
	PromptMS    int64 `json:"prompt_ms,omitzero"`
	GenerateMS  int64 `json:"generate_ms,omitzero"`
	Context     int64 `json:"context,omitzero"` // tokens in the window now
	Window      int64 `json:"window,omitzero"`  // n_ctx
}

// Done ends the stream of a turn.
type Done struct {
	Outcome TurnOutcome `json:"outcome"`
	Text    string      `json:"text,omitzero"`    // why, if not answered: a sentence for the owner
	Runbook string      `json:"runbook,omitzero"` // key in docs/runbook.md
	Answer  string      `json:"answer,omitzero"`  // the final answer, whole
	Usage   Usage       `json:"usage"`
}

// Error ends a stream that could not go on.
type Error struct {
	Code    ErrCode `json:"code"`
	Text    string  `json:"text"`
	Runbook string  `json:"runbook,omitzero"`
}

// Error makes an Error event usable as a Go error.
func (e *Error) Error() string {
	if e.Runbook == "" {
		return e.Text
	}
	return e.Text + " (see runbook: " + e.Runbook + ")"
}

// Stopped answers [Stop].
type Stopped struct {
	Running bool `json:"running"` // there was a turn to stop
}

// SessionInfo is one row of [SessionList].
type SessionInfo struct {
	Session  string `json:"session"`
	Epoch    int    `json:"epoch"`
	Records  int64  `json:"records"`
	Bytes    int64  `json:"bytes"`
	Modified string `json:"modified"`
	Title    string `json:"title,omitzero"` // the start of the first message
	Open     bool   `json:"open,omitzero"`  // a turn runs or waits
}

// SessionList answers [ListSessions], newest first.
type SessionList struct {
	Sessions []SessionInfo `json:"sessions"`
	More     bool          `json:"more,omitzero"`
}

// SessionDetail answers [GetSession].
type SessionDetail struct {
	Info   SessionInfo `json:"info"`
	Model  string      `json:"model"`
	Slot   int         `json:"slot"`
	Queued int         `json:"queued,omitzero"`
	Turns  int         `json:"turns"`
	Usage  Usage       `json:"usage"`
}

// Check is one line of the self-test.
type Check struct {
	Name    string `json:"name"`
	State   string `json:"state"` // ok, failed, skipped, pending
	Detail  string `json:"detail,omitzero"`
	Runbook string `json:"runbook,omitzero"`
}

// SlotState is one slot of the gate.
type SlotState struct {
	Name    string `json:"name"`
	ID      int    `json:"id"`
	Session string `json:"session,omitzero"` // who holds it now
	Waiting int    `json:"waiting,omitzero"`
}

// Server is what loopd knows of the inference server.
type Server struct {
	Model    string `json:"model,omitzero"`
	Build    string `json:"build,omitzero"`
	Context  int64  `json:"context,omitzero"` // n_ctx of one slot
	Slots    int    `json:"slots,omitzero"`
	Template string `json:"template,omitzero"` // SHA-256 of the chat template, hex
	Practice bool   `json:"practice,omitzero"` // it says that it is the practice model
}

// Status answers [GetStatus].
type Status struct {
	Version     string      `json:"version"`
	State       string      `json:"state"` // starting, waiting, ready
	Detail      string      `json:"detail,omitzero"`
	Since       string      `json:"since"`
	Server      Server      `json:"server"`
	Baseline    int64       `json:"baseline,omitzero"` // tokens of system prompt and tools
	Checks      []Check     `json:"checks"`
	Slots       []SlotState `json:"slots"`
	OpenTurns   int         `json:"open_turns,omitzero"`
	Confinement []Check     `json:"confinement"`
}

var errNegative = errors.New("proto: negative number")

func nonNegative(v ...int64) error {
	for _, n := range v {
		if n < 0 {
			return errNegative
		}
	}
	return nil
}

// Tags.

func (*Submit) Tag() string        { return "submit" }
func (*Watch) Tag() string         { return "watch" }
func (*Stop) Tag() string          { return "stop" }
func (*ListSessions) Tag() string  { return "sessions" }
func (*GetSession) Tag() string    { return "session" }
func (*GetStatus) Tag() string     { return "status" }
func (*Delivery) Tag() string      { return "delivered" }
func (*Accepted) Tag() string      { return "accepted" }
func (*Past) Tag() string          { return "past" }
func (*Waiting) Tag() string       { return "waiting" }
func (*Prefill) Tag() string       { return "prefill" }
func (*Thinking) Tag() string      { return "thinking" }
func (*Text) Tag() string          { return "text" }
func (*ToolStarted) Tag() string   { return "tool" }
func (*Asked) Tag() string         { return "asked" }
func (*Result) Tag() string        { return "result" }
func (*Notice) Tag() string        { return "notice" }
func (*Done) Tag() string          { return "done" }
func (*Error) Tag() string         { return "error" }
func (*Stopped) Tag() string       { return "stopped" }
func (*SessionList) Tag() string   { return "sessions" }
func (*SessionDetail) Tag() string { return "session" }
func (*Status) Tag() string        { return "status" }
