// Package serve answers the clients of loop.sock: it maps each request to the
// agent and the store, and streams events until a terminal one. It holds no
// state of its own; a connection that drops costs nothing but its stream.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/agent"
	"boxmaker/loopd/internal/session"
)

// Config is what a Server works with.
type Config struct {
	Agent  *agent.Agent
	Store  *session.Store
	Status func() *proto.Status
	Peers  []uint32 // uids that may connect
	Log    *slog.Logger
}

// maxConns bounds the clients of one socket.
const maxConns = 128

// Serve answers one listening socket until ctx ends.
func Serve(ctx context.Context, ln net.Listener, cfg Config) error {
	s := &server{cfg}
	srv := ipc.Server{Listener: ln, Requests: proto.LoopRequests, Peers: cfg.Peers, MaxConns: maxConns, Log: cfg.Log, Handle: s.handle}
	return srv.Serve(ctx)
}

type server struct{ cfg Config }

func (s *server) handle(ctx context.Context, req proto.Message, out *ipc.Stream) {
	var err error
	switch m := req.(type) {
	case *proto.Submit:
		err = s.submit(ctx, m, out)
	case *proto.Watch:
		err = s.watch(ctx, m, out)
	case *proto.Stop:
		err = s.stop(ctx, m, out)
	case *proto.ListSessions:
		err = s.list(m, out)
	case *proto.GetSession:
		err = s.detail(m.Session, out)
	case *proto.Delivery:
		err = s.delivered(ctx, m, out)
	case *proto.GetStatus:
		err = out.Send(s.cfg.Status())
	default:
		err = &proto.Error{Code: proto.ErrBadRequest, Text: "loopd has no answer to this request", Runbook: "bad-request"}
	}
	if err == nil || errors.Is(context.Cause(ctx), ipc.ErrGone) {
		return
	}
	var e *proto.Error
	switch {
	case errors.As(err, &e):
	case ctx.Err() != nil:
		e = agent.Ending()
	default:
		e = &proto.Error{Code: proto.ErrInternal, Text: err.Error(), Runbook: "loopd-internal"}
	}
	if err := out.Send(e); err != nil {
		s.cfg.Log.Debug("a client left before its error", "error", err.Error())
	}
}

func (s *server) submit(ctx context.Context, m *proto.Submit, out *ipc.Stream) error {
	if !s.cfg.Agent.Ready() {
		if err := out.Send(&proto.Waiting{Reason: proto.WaitModel}); err != nil {
			return err
		}
	}
	stream, err := s.cfg.Agent.Submit(ctx, m)
	if err != nil {
		return err
	}
	defer stream.Close()
	return pump(ctx, stream, out)
}

// pump sends events until a terminal one.
func pump(ctx context.Context, stream *agent.Stream, out *ipc.Stream) error {
	for {
		events, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		for _, m := range events {
			if err := out.Send(m); err != nil {
				return err
			}
			if proto.Terminal(m) {
				return nil
			}
		}
	}
}

func (s *server) watch(ctx context.Context, m *proto.Watch, out *ipc.Stream) error {
	if err := s.exists(m.Session); err != nil {
		return err
	}
	send := func(p *proto.Past) error { return out.Send(p) }
	if !m.Follow {
		if err := s.cfg.Agent.History(m, 0, 0, send); err != nil {
			return err
		}
		return s.detail(m.Session, out)
	}
	stream, epoch, place, err := s.cfg.Agent.Follow(ctx, m.Session)
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := s.cfg.Agent.History(m, epoch, place, send); err != nil {
		return err
	}
	for { // a turn's end does not end a watch
		events, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		for _, ev := range events {
			if err := out.Send(ev); err != nil {
				return err
			}
			if _, failed := ev.(*proto.Error); failed {
				return nil
			}
		}
	}
}

func (s *server) stop(ctx context.Context, m *proto.Stop, out *ipc.Stream) error {
	running, err := s.cfg.Agent.Stop(ctx, m.Session)
	if err != nil {
		return err
	}
	return out.Send(&proto.Stopped{Running: running})
}

func (s *server) delivered(ctx context.Context, m *proto.Delivery, out *ipc.Stream) error {
	err := s.exists(m.Session)
	if err == nil {
		err = s.cfg.Agent.Delivered(ctx, m.Session, m.Key)
	}
	if err != nil {
		return err
	}
	return out.Send(&proto.Noted{})
}

func (s *server) exists(id string) error {
	ok, err := s.cfg.Store.Exists(id)
	if err == nil && !ok {
		err = agent.NoSession(id)
	}
	return err
}
