// Package broker is loopd's side of broker.sock: it asks, brokerd decides.
//
// Every method gives an answer that a model can read; that there is no brokerd
// is one of them. Nothing is ever sent twice by itself: a call whose connection
// broke is looked up by its id.
package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Client talks to brokerd. Each request is a connection of its own.
type Client struct {
	Socket string // empty: there is none
	// Grace is how long [Client.Fate] waits for a brokerd that is starting.
	Grace time.Duration
}

// Call asks for one tool call. onAsked is called if the owner has to approve.
// If the connection breaks after the request was sent, the fate is looked up;
// the result is then perhaps unknown-fate. ctx ends the wait, not the call.
func (c *Client) Call(ctx context.Context, call *proto.Call, onAsked func(*proto.Asked)) *proto.CallResult {
	if err := call.Validate(); err != nil { // or it would look like a connection that broke
		return failure(call.ID, proto.CallFailed, proto.CodeInvalidArguments, err.Error())
	}
	conn, err := ipc.Dial(ctx, c.Socket, proto.BrokerEvents)
	if err != nil {
		return NoBroker(call.ID)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var no *proto.Error
	switch err := conn.Send(call); {
	case errors.As(err, &no): // said without reading the call
		return refused(call.ID, no)
	case err != nil:
		return c.Fate(ctx, call.ID)
	}
	return c.result(ctx, conn, call.ID, onAsked)
}

func (c *Client) result(ctx context.Context, conn *ipc.Conn, id string, onAsked func(*proto.Asked)) *proto.CallResult {
	for {
		m, err := conn.Recv()
		switch {
		case ctx.Err() != nil:
			return Unknown(id, "the wait for its result was ended")
		case err != nil:
			return c.Fate(ctx, id)
		}
		switch m := m.(type) {
		case *proto.Asked:
			if onAsked != nil && m.Call == id {
				onAsked(m)
			}
		case *proto.CallResult:
			if m.ID != id {
				return failure(id, proto.CallUnknown, proto.CodeUnknownFate, "brokerd answered for another call")
			}
			return m
		case *proto.Error:
			return refused(id, m)
		default:
			return Unknown(id, "brokerd gave an answer that does not fit")
		}
	}
}

// Fate asks how a call ended that was under way before.
func (c *Client) Fate(ctx context.Context, id string) *proto.CallResult {
	deadline := time.Now().Add(c.Grace)
	for {
		m, err := ipc.Ask(ctx, c.Socket, proto.BrokerEvents, &proto.Fate{ID: id})
		if r := said(m, id, "brokerd has no result", failure(id, proto.CallFailed, proto.CodeInternal, "the call was interrupted before it started; it did not run")); r != nil {
			return r
		}
		if err == nil {
			return Unknown(id, "brokerd gave an answer that does not fit")
		}
		if c.Socket == "" || errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			return Unknown(id, "brokerd cannot be asked")
		}
		select {
		case <-ctx.Done():
			return Unknown(id, "the wait for its result was ended")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Stop has brokerd end a call whose turn the owner stopped, as soon as there is a
// brokerd, and tells what came of it: that it had not begun, say, or what it had done
// already. Without an answer until ctx ends its fate is unknown.
func (c *Client) Stop(ctx context.Context, id string) *proto.CallResult {
	const why = "the turn was stopped"
	m, _ := c.tell(ctx, &proto.Cancel{ID: id})
	if r := said(m, id, why, failure(id, proto.CallDenied, proto.CodeStopped, "the turn was stopped before this call began; it did not run")); r != nil {
		return r
	}
	return Unknown(id, why)
}

// said is what brokerd's answer says of a call: its result; never, if it certainly did
// not start; or that nobody knows, and why. nil: nothing of that call.
func said(m proto.Message, id, why string, never *proto.CallResult) *proto.CallResult {
	switch m := m.(type) {
	case *proto.CallResult:
		if m.ID == id {
			return m
		}
	case *proto.Unknown:
		if m.Never {
			return never
		}
		return Unknown(id, why)
	}
	return nil
}

// Find asks for tools. A missing brokerd is an error whose text the model reads.
func (c *Client) Find(ctx context.Context, session, query string) ([]proto.ToolInfo, *proto.CallResult) {
	m, err := ipc.Ask(ctx, c.Socket, proto.BrokerEvents, &proto.FindTools{Session: session, Query: query})
	if list, ok := m.(*proto.ToolList); ok {
		return list.Tools, nil
	}
	var no *proto.Error
	if errors.As(err, &no) {
		return nil, refused("", no)
	}
	return nil, NoBroker("")
}

// Confirm tells brokerd that the result of a call is in the log, as soon as there is
// a brokerd, until ctx ends. It is safe to repeat.
func (c *Client) Confirm(ctx context.Context, id string) error {
	_, err := c.tell(ctx, &proto.Confirm{ID: id})
	return err
}

// tell sends a request that may be repeated until somebody takes it.
func (c *Client) tell(ctx context.Context, req proto.Message) (proto.Message, error) {
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		m, err := ipc.Ask(ctx, c.Socket, proto.BrokerEvents, req)
		var no *proto.Error
		if err == nil || c.Socket == "" || errors.As(err, &no) && no.Code != proto.ErrNotReady {
			return m, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// busy is the section of the runbook that brokerd names when it has no room for a
// call. Nothing was decided on that.
const busy = "brokerd-busy"

// NoBroker is the result of any call while no brokerd runs.
func NoBroker(id string) *proto.CallResult {
	return failure(id, proto.CallDenied, proto.CodeNoBroker,
		"denied: no broker is running, so no tool can be used now. Tell the owner; do not try again")
}

// Unknown is the result of a call of which nobody can say whether it ran.
func Unknown(id, why string) *proto.CallResult {
	return failure(id, proto.CallUnknown, proto.CodeUnknownFate,
		"it is not known whether this call ran: "+why+". Do not repeat it; check its effect another way, or tell the owner")
}

func refused(id string, e *proto.Error) *proto.CallResult {
	if e.Code == proto.ErrNotReady && e.Runbook == busy {
		return failure(id, proto.CallDenied, proto.CodeRateLimited, e.Text+". Wait for the calls that go on, or tell the owner")
	}
	return failure(id, proto.CallFailed, proto.CodeInternal, "brokerd refused the request: "+e.Text)
}

func failure(id string, o proto.CallOutcome, code proto.Code, text string) *proto.CallResult {
	return &proto.CallResult{ID: id, Outcome: o, Code: code, Class: proto.ClassPublic, Text: fmt.Sprintf("%s: %s.", code, text)}
}
