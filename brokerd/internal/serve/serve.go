// Package serve answers broker.sock (loopd) and owner.sock (bxctl): it maps each
// request to the driver, the desk of approvals and the grants. It holds no state
// of its own; a connection that drops costs nothing but its stream.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/brokerd/internal/driver"
	"boxmaker/internal/grant"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Config is what a server works with.
type Config struct {
	Driver     *driver.Driver
	Desk       *approval.Desk
	Grants     func() (grant.Set, error)
	Taint      func(session string) (proto.Class, bool, error) // with an error the worst
	Explain    func(m *proto.Explain) (*proto.Explained, error)
	Checkpoint func() (*proto.Head, error)
	Status     func() *proto.BrokerStatus
	Name       func(uid uint32) string // of a user, for records
	Now        func() time.Time
	Log        *slog.Logger
}

// maxConns bounds the clients of one socket.
const maxConns = 256

// Broker answers loopd until ctx ends.
func Broker(ctx context.Context, ln net.Listener, peers []uint32, cfg Config) error {
	return serve(ctx, ln, peers, cfg, proto.BrokerRequests, (&server{cfg}).broker)
}

// Owner answers the owner's tools until ctx ends.
func Owner(ctx context.Context, ln net.Listener, peers []uint32, cfg Config) error {
	return serve(ctx, ln, peers, cfg, proto.OwnerRequests, (&server{cfg}).owner)
}

type server struct{ cfg Config }

type handler func(ctx context.Context, req proto.Message, out *ipc.Stream) error

func serve(ctx context.Context, ln net.Listener, peers []uint32, cfg Config, requests proto.Union, h handler) error {
	srv := ipc.Server{Listener: ln, Requests: requests, Peers: peers, MaxConns: maxConns, Log: cfg.Log, Handle: func(ctx context.Context, req proto.Message, out *ipc.Stream) {
		err := h(ctx, req, out)
		if err == nil || ctx.Err() != nil || errors.Is(err, driver.ErrEnding) {
			return // nobody is there to hear it; or brokerd ends, and says nothing that it may not keep
		}
		var e *proto.Error
		if !errors.As(err, &e) {
			e = &proto.Error{Code: proto.ErrInternal, Text: err.Error(), Runbook: "brokerd-internal"}
		}
		if err := out.Send(e); err != nil {
			cfg.Log.Debug("a client left before its error", "error", err.Error())
		}
	}}
	return srv.Serve(ctx)
}

func (s *server) broker(ctx context.Context, req proto.Message, out *ipc.Stream) error {
	d := s.cfg.Driver
	var answer proto.Message
	var err error
	switch m := req.(type) {
	case *proto.Call:
		answer, err = message(d.Call(ctx, m, func(a *proto.Asked) { _ = out.Send(a) })) // who is gone asks for the fate
	case *proto.Fate:
		answer, err = d.Fate(ctx, m.ID)
	case *proto.Cancel:
		answer, err = d.Cancel(ctx, m.ID)
	case *proto.Confirm:
		answer, err = &proto.Confirmed{ID: m.ID}, d.Confirm(m.ID)
	case *proto.FindTools:
		answer, err = s.find(m)
	default:
		err = noAnswer()
	}
	if err != nil {
		return err
	}
	return out.Send(answer)
}

// message keeps a nil result from becoming a message.
func message(r *proto.CallResult, err error) (proto.Message, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func noAnswer() error {
	return &proto.Error{Code: proto.ErrBadRequest, Text: "brokerd has no answer to this request", Runbook: "bad-request"}
}

func (s *server) owner(ctx context.Context, req proto.Message, out *ipc.Stream) error {
	var answer proto.Message
	var err error
	switch m := req.(type) {
	case *proto.ListApprovals:
		if m.Follow {
			return s.follow(ctx, out)
		}
		answer = &proto.ApprovalList{Approvals: s.cfg.Desk.List()}
	case *proto.Answer:
		answer, err = s.answer(ctx, m, out.Peer())
	case *proto.Explain:
		answer, err = s.cfg.Explain(m)
	case *proto.ListTools:
		answer, err = s.tools()
	case *proto.GetHead:
		answer, err = s.cfg.Checkpoint()
	case *proto.GetBroker:
		answer = s.cfg.Status()
	case *proto.Halt:
		if err = s.cfg.Driver.Halt(m.Reason, s.cfg.Name(out.Peer())); err == nil {
			answer = s.cfg.Status()
		}
	case *proto.Resume:
		if err = s.cfg.Driver.Resume(s.cfg.Name(out.Peer())); err == nil {
			answer = s.cfg.Status()
		}
	default:
		err = noAnswer()
	}
	if err != nil {
		return err
	}
	return out.Send(answer)
}

func (s *server) answer(ctx context.Context, m *proto.Answer, peer uint32) (proto.Message, error) {
	by := s.cfg.Name(peer)
	a, err := s.cfg.Desk.Answer(ctx, m, by)
	if err != nil {
		s.cfg.Log.Warn("an answer to an approval was refused", "approval", m.Approval, "by", by, "channel", m.Channel, "error", err.Error())
		return nil, err
	}
	if !a.First {
		s.cfg.Log.Info("an answer came after the end of its approval", "approval", m.Approval, "by", by, "channel", m.Channel, "stands", string(a.Verdict))
	}
	return a, nil
}

// follow streams approvals until the client leaves.
func (s *server) follow(ctx context.Context, out *ipc.Stream) error {
	f := s.cfg.Desk.Follow()
	defer f.Close()
	for {
		m, err := f.Next(ctx)
		if errors.Is(err, approval.ErrSlow) {
			return &proto.Error{Code: proto.ErrSlowClient, Text: "events were lost because this client does not read them; ask again", Runbook: "slow-client"}
		}
		if err != nil {
			return err
		}
		if err := out.Send(m); err != nil {
			return err
		}
	}
}
