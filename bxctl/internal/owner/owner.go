// Package owner talks to brokerd over owner.sock: approvals, halt and resume,
// what is granted, the head of the audit log.
//
// A [Client] guarantees that an answer to an approval carries the digest of what
// was given to it, and so can't be spent on another call. It holds no state, and
// passes on what brokerd says unchanged: making it fit for a terminal is the
// caller's (package approval).
package owner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/config"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Channels say where an answer was given.
const (
	ChannelChat = "chat"
	ChannelCLI  = "cli"
)

// A Client asks the brokerd that listens at Path.
type Client struct{ Path string }

// At gives the client of an installation.
func At(l config.Layout) Client { return Client{Path: l.Socket("brokerd", "bxctl", "owner")} }

// Approvals lists what waits, the oldest first.
func (c Client) Approvals(ctx context.Context) ([]proto.Approval, error) {
	m, err := ask[*proto.ApprovalList](ctx, c, &proto.ListApprovals{})
	if err != nil {
		return nil, err
	}
	return m.Approvals, nil
}

// Follow hands on each approval that waits or comes to wait (*[proto.Approval])
// and each that ends (*[proto.Retracted]), until ctx or the connection ends. At
// the end of ctx the error is its cause. connected, which may be nil, is called
// before the first of them.
func (c Client) Follow(ctx context.Context, connected func(), event func(proto.Message)) error {
	conn, err := ipc.Dial(ctx, c.Path, proto.OwnerEvents)
	if err != nil {
		return Explain(err)
	}
	defer conn.Close()
	if err := conn.Send(&proto.ListApprovals{Follow: true}); err != nil {
		return Explain(err)
	}
	if connected != nil {
		connected()
	}
	for {
		m, err := conn.Recv()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Explain(err)
		}
		switch m := m.(type) {
		case *proto.Approval, *proto.Retracted:
			event(m)
		case *proto.Error:
			return Explain(m)
		default:
			return odd(m)
		}
	}
}

// Find gives the approval with that code or id. Codes are taken in either case.
func (c Client) Find(ctx context.Context, word string) (*proto.Approval, error) {
	all, err := c.Approvals(ctx)
	if err != nil {
		return nil, err
	}
	for i, a := range all {
		if a.Approval == word || strings.EqualFold(a.Code, word) {
			return &all[i], nil
		}
	}
	return nil, &fault.Fault{
		Code: fault.Usage, What: "no approval with that code waits", Means: "it was answered, has expired, or its turn was stopped",
		Do: "bxctl approvals lists what waits; bxctl audit show tells what became of it", Key: "approval-gone",
	}
}

// Answer gives the owner's word on the call that was shown. The answer that
// came first holds, and is what comes back.
func (c Client) Answer(ctx context.Context, shown *proto.Approval, v proto.Verdict, channel string) (*proto.Answered, error) {
	return ask[*proto.Answered](ctx, c, &proto.Answer{Approval: shown.Approval, Digest: shown.Digest, Verdict: v, Channel: channel})
}

// Explain tells which grant would decide on a call.
func (c Client) Explain(ctx context.Context, session, tool, args string) (*proto.Explained, error) {
	return ask[*proto.Explained](ctx, c, &proto.Explain{Session: session, Tool: tool, Args: args})
}

// Tools lists all tools with what is granted of each.
func (c Client) Tools(ctx context.Context) ([]proto.ToolRow, error) {
	m, err := ask[*proto.ToolTable](ctx, c, &proto.ListTools{})
	if err != nil {
		return nil, err
	}
	return m.Tools, nil
}

// Head gives the head of the audit log, signed.
func (c Client) Head(ctx context.Context) (*proto.Head, error) {
	return ask[*proto.Head](ctx, c, &proto.GetHead{})
}

// Status tells how brokerd is.
func (c Client) Status(ctx context.Context) (*proto.BrokerStatus, error) {
	return ask[*proto.BrokerStatus](ctx, c, &proto.GetBroker{})
}

// Halt makes brokerd deny everything and kill what runs.
func (c Client) Halt(ctx context.Context, reason string) (*proto.BrokerStatus, error) {
	return ask[*proto.BrokerStatus](ctx, c, &proto.Halt{Reason: reason})
}

// Resume ends a halt.
func (c Client) Resume(ctx context.Context) (*proto.BrokerStatus, error) {
	return ask[*proto.BrokerStatus](ctx, c, &proto.Resume{})
}

// ask sends a request that one event answers.
func ask[T proto.Message](ctx context.Context, c Client, req proto.Message) (answer T, err error) {
	m, err := ipc.Ask(ctx, c.Path, proto.OwnerEvents, req)
	if err != nil {
		return answer, Explain(err)
	}
	answer, ok := m.(T)
	if !ok {
		return answer, odd(m)
	}
	return answer, nil
}

func odd(m proto.Message) error {
	return &fault.Fault{
		What:  fmt.Sprintf("brokerd answered with %q, which is no answer to that", m.Tag()),
		Means: "bxctl and brokerd are of different versions", Do: "build both anew (make build) and restart: bxctl down; bxctl up", Key: "version-mismatch",
	}
}

// Ending says how an approval ended, in words that are safe for a terminal.
func Ending(v proto.Verdict, by, channel string) string {
	s := "it ended"
	switch v {
	case proto.VerdictApproved, proto.VerdictDenied, proto.VerdictWithdrawn:
		s = "it was " + string(v)
	case proto.VerdictExpired:
		s = "it has expired, and was denied"
	}
	if by != "" {
		s += " by " + term.Line(by)
	}
	if channel != "" {
		s += " in " + term.Line(channel)
	}
	return s
}

// Away reports whether err says that nobody listens on owner.sock.
func Away(err error) bool {
	var f *fault.Fault
	return errors.As(err, &f) && f.Key == "brokerd-away"
}

// Explain makes a fault of an error of ipc, or of brokerd's own.
func Explain(err error) error {
	var e *proto.Error
	var f *fault.Fault
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &e):
		return refused(e)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return &fault.Fault{
			Code: fault.NotRunning, What: "brokerd does not listen here",
			Do: "start Boxmaker with bxctl up --detach; if it runs, bxctl status tells what became of brokerd", Key: "brokerd-away",
		}
	case errors.Is(err, fs.ErrPermission):
		return &fault.Fault{
			What: "the owner's socket of brokerd can't be opened", Err: err, Means: "Boxmaker runs as another user",
			Do: "run bxctl as the user that ran bxctl up", Key: "socket-permission",
		}
	default:
		return &fault.Fault{
			What: "the connection to brokerd broke", Err: err,
			Do: "try again; bxctl status and bxctl logs brokerd tell more", Key: "brokerd-connection",
		}
	}
}

func refused(e *proto.Error) error {
	f := &fault.Fault{What: strings.TrimSuffix(e.Text, "."), Key: e.Runbook}
	switch e.Code {
	case proto.ErrBadRequest:
		f.Code = fault.Usage
	case proto.ErrNoApproval:
		f.Code, f.Key, f.Do = fault.Usage, "approval-gone", "bxctl approvals lists what waits"
	case proto.ErrWrongDigest:
		f.Key, f.Do = "approval-changed", "look at it anew: bxctl approvals"
	}
	return f
}
