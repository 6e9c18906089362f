// Package serve answers brokerd on egress.sock: it opens and closes doors.
//
// A door lives as long as the connection that asked for it at most: when
// brokerd goes away, however that happens, the kernel closes the connection
// and the door is closed. It also closes at the time that brokerd named, at
// CloseDoor, and when egressd ends. A report that nobody asked for is lost.
package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"boxmaker/egressd/internal/door"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Config is what [Serve] needs.
type Config struct {
	Door   door.Config
	Doors  int // at the same time
	Peers  []uint32
	Status func() *proto.EgressStatus // Doors is filled in
	Log    *slog.Logger
}

// Serve answers until ctx ends, and closes all doors before it returns.
func Serve(ctx context.Context, l net.Listener, cfg Config) error {
	s := &server{cfg: cfg, open: map[string]*held{}}
	srv := ipc.Server{
		Listener: l, Requests: proto.EgressRequests, Peers: cfg.Peers, Log: cfg.Log, Handle: s.handle,
		MaxConns: 2*cfg.Doors + 16, // each door holds a connection, and each can be closed by another
	}
	return srv.Serve(ctx)
}

type server struct {
	cfg Config

	mu   sync.Mutex // guards open
	open map[string]*held
}

// held is an open door; taken is closed when CloseDoor has it.
type held struct {
	door  *door.Door
	taken chan struct{}
}

func (s *server) handle(ctx context.Context, req proto.Message, st *ipc.Stream) {
	var err error
	switch m := req.(type) {
	case *proto.OpenDoor:
		err = s.openDoor(ctx, m, st)
	case *proto.CloseDoor:
		err = s.closeDoor(m, st)
	case *proto.GetEgress:
		status := s.cfg.Status()
		s.mu.Lock()
		status.Doors = len(s.open)
		s.mu.Unlock()
		err = st.Send(status)
	default:
		err = s.refuse(st, proto.ErrBadRequest, "no such request", "bad-request")
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("an answer could not be sent", "error", err.Error())
	}
}

func (s *server) refuse(st *ipc.Stream, code proto.ErrCode, text, runbook string) error {
	return st.Send(&proto.Error{Code: code, Text: text, Runbook: runbook})
}

func (s *server) openDoor(ctx context.Context, m *proto.OpenDoor, st *ipc.Stream) error {
	spec, err := door.Parse(m)
	if err != nil {
		return s.refuse(st, proto.ErrBadRequest, fmt.Sprintf("this door cannot be opened: %v", err), "bad-request")
	}
	h, err := s.add(ctx, spec)
	if err != nil {
		s.cfg.Log.Error("no door", "call", m.Call, "error", err.Error(), "runbook", "egressd-door")
		return s.refuse(st, proto.ErrNotReady, err.Error(), "egressd-door")
	}
	defer s.end(m.Call, h)
	if err := st.Send(&proto.Door{Path: h.door.Path()}); err != nil {
		return err
	}
	select {
	case <-ctx.Done(): // brokerd is gone, or we are ending
	case <-h.taken:
	}
	return nil
}

// add opens a door, if the call has none and there is room.
func (s *server) add(ctx context.Context, spec door.Spec) (*held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open[spec.Call] != nil:
		return nil, fmt.Errorf("this call has a door already")
	case len(s.open) >= s.cfg.Doors:
		return nil, fmt.Errorf("there are %d doors open already", len(s.open))
	}
	d, err := door.Open(ctx, s.cfg.Door, spec)
	if err != nil {
		return nil, err
	}
	h := &held{door: d, taken: make(chan struct{})}
	s.open[spec.Call] = h
	s.cfg.Log.Info("door opened", "call", spec.Call, "hosts", len(spec.Allow), "local", len(spec.Local))
	return h, nil
}

// end closes the door. If CloseDoor took it, that is done already.
func (s *server) end(call string, h *held) {
	s.mu.Lock()
	if s.open[call] == h {
		delete(s.open, call)
	}
	s.mu.Unlock()
	h.door.Close()
}

func (s *server) closeDoor(m *proto.CloseDoor, st *ipc.Stream) error {
	s.mu.Lock()
	h := s.open[m.Call]
	delete(s.open, m.Call)
	s.mu.Unlock()
	if h == nil {
		return s.refuse(st, proto.ErrBadRequest, "this call has no door", "egressd-door")
	}
	start := time.Now()
	report := h.door.Close()
	close(h.taken)
	s.cfg.Log.Info("door closed", "call", m.Call, "attempts", int64(len(report.Connections))+report.More, "ms", time.Since(start).Milliseconds())
	return st.Send(report)
}
