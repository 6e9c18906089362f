package stack

import (
	"context"
	"errors"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Submit sends a message once and gives every event to each until the last one
// (Done or Error, also returned), the end of the connection or of ctx.
func (s *Stack) Submit(ctx context.Context, m *proto.Submit, each func(proto.Message)) (proto.Message, error) {
	conn, err := ipc.Dial(ctx, s.Socket(), proto.LoopEvents)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.Send(m); err != nil {
		return nil, err
	}
	for {
		e, err := conn.Recv()
		if err != nil {
			return nil, err
		}
		if each != nil {
			each(e)
		}
		if proto.Terminal(e) {
			return e, nil
		}
	}
}

// Deliver submits m until its turn has ended, however often loopd goes away in
// between, as a client has to. accepted is called at the first Accepted.
func (s *Stack) Deliver(ctx context.Context, m *proto.Submit, accepted func()) (*proto.Done, error) {
	seen := false
	for {
		end, err := s.Submit(ctx, m, func(e proto.Message) {
			if _, ok := e.(*proto.Accepted); ok && !seen {
				seen = true
				if accepted != nil {
					accepted()
				}
			}
		})
		switch e := end.(type) {
		case *proto.Done:
			return e, nil
		case *proto.Error:
			if e.Code != proto.ErrNotReady {
				return nil, e
			}
		}
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		select {
		case <-time.After(20 * time.Millisecond): // loopd starts again
		case <-ctx.Done():
		}
	}
}

// Say sends a message in a session and gives the turn's end. It has to go well.
func (s *Stack) Say(session, origin, text string) *proto.Done {
	s.TB.Helper()
	ctx, cancel := context.WithTimeout(s.TB.Context(), Patience)
	defer cancel()
	end, err := s.Submit(ctx, &proto.Submit{Session: session, Origin: origin, Text: text, Surface: proto.SurfaceAsk}, nil)
	if err != nil {
		s.TB.Fatalf("submit to %s: %v", session, err)
	}
	done, ok := end.(*proto.Done)
	if !ok {
		s.TB.Fatalf("submit to %s: %v", session, end)
	}
	return done
}

// Ask sends one request that has one answer.
func (s *Stack) Ask(ctx context.Context, m proto.Message) (proto.Message, error) {
	return ipc.Ask(ctx, s.Socket(), proto.LoopEvents, m)
}
