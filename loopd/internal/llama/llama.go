// Package llama is the client of one llama-server, reached through a Unix
// socket. What it relies on was seen on build b11669; the raw streams that its
// tests replay stand in testdata.
//
// A chat is always streamed and never has a total deadline: it is alive as long
// as bytes come. [Client.Chat] returns a completion only if the stream came to
// its end mark and its parts make one usable message; anything else is an
// [Error] from a closed set, together with what had come until then. Tool-call
// markup in the content is never handed out.
//
// The package does not retry a chat that the server has begun to answer, does
// not know sessions, slots or prompts, and does not judge the names of tools.
// A Client is safe for use by several goroutines.
package llama

import (
	"context"
	"net"
	"time"
)

// Limits say how long the server may be silent. A zero value means the default.
type Limits struct {
	FirstByte time.Duration // request sent to first byte: a busy slot, or a model switch; 10 min
	Load      time.Duration // in all, for 503 "Loading model"; also the first byte of a query; 3 min
	Idle      time.Duration // between bytes, after the first; 30 s
	Reach     time.Duration // in all, for a server that cannot be connected to; 30 s
}

// Config says where the server is.
type Config struct {
	Socket string // path of inferproxy's socket, or of the server's own
	Model  string // sent with queries; a router needs it
	Limits Limits

	// Dial replaces the connection to Socket; may be nil.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Client talks to one server. Every request has a connection of its own.
type Client struct {
	model  string
	limits Limits
	dial   func(ctx context.Context) (net.Conn, error)
}

// New returns a client. It does not connect.
func New(c Config) *Client {
	l := c.Limits
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{
		{&l.FirstByte, 10 * time.Minute}, {&l.Load, 3 * time.Minute}, {&l.Idle, 30 * time.Second}, {&l.Reach, 30 * time.Second},
	} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	dial := c.Dial
	if dial == nil {
		dial = func(ctx context.Context) (net.Conn, error) { return dialUnix(ctx, c.Socket) }
	}
	return &Client{model: c.Model, limits: l, dial: dial}
}

// Model is the name that queries are sent with.
func (c *Client) Model() string { return c.model }

// For returns a client of the same server whose queries name another model.
func (c *Client) For(model string) *Client {
	other := *c
	other.model = model
	return &other
}

// Call is one tool call, whole. Arguments is one JSON object, byte for byte as
// the server sent it.
type Call struct {
	ID, Name, Arguments string
}

// Completion is what came of one chat request.
type Completion struct {
	ID        string // "chatcmpl-…"; known from the first chunk on
	Model     string // as the server names it
	Content   string
	Reasoning string
	Calls     []Call
	Finish    string // stop, length, tool_calls; empty if none came
	Complete  bool   // the end mark came, so Finish, Timings and Usage are final
	Timings   Timings
	Usage     Usage
	First     time.Duration // request sent to the first generated piece; 0 if none came
}

// Timings are the server's own figures: tokens, microseconds. The next request
// that strictly extends this one finds CacheN+PromptN+PredictedN-1 tokens in the
// cache, if the template renders the answer back to the same tokens.
type Timings struct {
	CacheN      int64 // reused
	PromptN     int64 // processed
	PredictedN  int64 // generated, thinking included
	PromptUS    int64
	PredictedUS int64
}

// Usage counts tokens. All of it is zero if the request did not ask for it.
type Usage struct {
	Prompt, Completion, Total, Cached int64
}

// Event is a sign of what the server does. Events come in order, on the
// goroutine that called Chat.
type Event interface{ event() }

// Events of a chat.
type (
	// Unreachable: the server cannot be connected to; tried again in Wait.
	Unreachable struct{ Wait time.Duration }
	// Loading: the server answers 503, as it does while it loads a model; tried
	// again in Wait.
	Loading struct{ Wait time.Duration }
	// Queued: the request is sent, nothing has come back yet.
	Queued struct{}
	// Progress of prompt processing: tokens (Processed includes Cache) and
	// milliseconds since the slot began.
	Progress struct{ Total, Cache, Processed, MS int64 }
	// Reasoning is a piece of thinking.
	Reasoning struct{ Text string }
	// Text is a piece of content, free of tool-call markup.
	Text struct{ Text string }
	// CallPart: so many bytes of a call's arguments have come.
	CallPart struct {
		Index int
		Name  string
		Bytes int
	}
	// Alive is a ping.
	Alive struct{}
)

func (Unreachable) event() {}
func (Loading) event()     {}
func (Queued) event()      {}
func (Progress) event()    {}
func (Reasoning) event()   {}
func (Text) event()        {}
func (CallPart) event()    {}
func (Alive) event()       {}
