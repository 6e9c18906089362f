// Package loop talks to loopd over loop.sock.
//
// A [Client] makes one attempt at each request and says how it ended; to try again
// is the caller's, who has the message on disk. A message that is submitted a
// second time with the same origin joins the turn of the first.
package loop

import (
	"context"
	"errors"
	"fmt"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A Client asks the loopd that listens at Path.
type Client struct{ Path string }

// Turn submits a message and hands on the events of its turn, the last of which is
// [*proto.Done]. A refusal of loopd is a *proto.Error; any other error leaves open
// what became of the message.
func (c Client) Turn(ctx context.Context, m *proto.Submit, tell func(proto.Message)) error {
	conn, err := ipc.Dial(ctx, c.Path, proto.LoopEvents)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Send(m); err != nil {
		return err
	}
	for {
		m, err := conn.Recv()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *proto.Error:
			return m
		case *proto.Done:
			tell(m)
			return nil
		default:
			if proto.Terminal(m) {
				return odd(m)
			}
			tell(m)
		}
	}
}

// Stop ends the running turn of a session; false if none ran.
func (c Client) Stop(ctx context.Context, session string) (bool, error) {
	m, err := ask[*proto.Stopped](ctx, c, &proto.Stop{Session: session})
	return err == nil && m.Running, err
}

// Status asks for loopd's state.
func (c Client) Status(ctx context.Context) (*proto.Status, error) {
	return ask[*proto.Status](ctx, c, &proto.GetStatus{})
}

// Session asks for one session. One that is not there is a *proto.Error.
func (c Client) Session(ctx context.Context, id string) (*proto.SessionDetail, error) {
	return ask[*proto.SessionDetail](ctx, c, &proto.GetSession{Session: id})
}

// Delivered has loopd note that the answer to a message was posted under a key.
func (c Client) Delivered(ctx context.Context, session, key string) error {
	_, err := ask[*proto.Noted](ctx, c, &proto.Delivery{Session: session, Key: key})
	return err
}

func ask[T proto.Message](ctx context.Context, c Client, req proto.Message) (answer T, err error) {
	m, err := ipc.Ask(ctx, c.Path, proto.LoopEvents, req)
	if err != nil {
		return answer, err
	}
	answer, ok := m.(T)
	if !ok {
		return answer, odd(m)
	}
	return answer, nil
}

func odd(m proto.Message) error {
	return fmt.Errorf("loopd answered with %q, which is no answer to that: it is of another version (see runbook: version-mismatch)", m.Tag())
}

// Again reports whether the same request can succeed later: nobody was there, the
// connection went, or loopd said so.
func Again(err error) bool {
	var e *proto.Error
	if !errors.As(err, &e) {
		return true
	}
	return e.Code == proto.ErrNotReady || e.Code == proto.ErrSlowClient || e.Code == proto.ErrQueueFull
}
