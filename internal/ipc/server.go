// Package ipc serves and dials the Unix stream sockets between our programs.
//
// A connection carries one request and then a stream of events, each a frame
// (package frame) that holds one message (package proto). The server checks
// who the peer is before it reads a byte, bounds the number of connections, and
// answers what is no request with a [proto.Error] of code bad-request. A client
// that goes away ends the handler's context; one that does not read ends with a
// failed Send, so it can hold nothing up for ever.
//
// The rights of a socket are those of its folder and its mode: whoever may
// connect may ask for all that the socket offers. Nothing here encrypts, and
// nothing is retried.
package ipc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// Defaults of a [Server].
const (
	DefaultMaxConns = 64
	DefaultTimeout  = 10 * time.Second
	// DefaultRoom is 16 of the largest requests.
	DefaultRoom = 16 * frame.MaxBytes
)

var (
	// ErrGone is the cause of a handler's context when the client went away.
	ErrGone = errors.New("ipc: the client is gone")
	// ErrSecond is the cause when the client sent more than one request.
	ErrSecond = errors.New("ipc: more than one request on a connection")
)

// A Server answers the clients of one listening socket.
type Server struct {
	Listener net.Listener // of a Unix stream socket; Serve closes it
	Requests proto.Union
	// Peers are the user ids that may connect; without any, only that of this
	// process. Others are closed on before anything is read.
	Peers []uint32
	// MaxConns bounds the connections at one time; 0 means DefaultMaxConns. One
	// more is answered with a proto.Error of code not-ready and closed.
	MaxConns int
	// Room bounds the bytes of all requests that are read or answered at one time,
	// so that a client can't fill this program's memory; 0 means DefaultRoom. One
	// more is answered as one of too many connections.
	Room int64
	Log  *slog.Logger // may be nil
	// Handle answers one request. Its context ends when the client goes away
	// or half-closes (cause ErrGone), sends a second request (ErrSecond), does
	// not read (the error of Send), or when Serve's context ends. The stream is
	// closed when it returns. It is not shielded: a panic in it ends the
	// program with its trace, for the state that it leaves is unknown.
	Handle func(ctx context.Context, req proto.Message, s *Stream)
	// RequestTimeout bounds the wait for the request, WriteTimeout that for one
	// event to be taken; 0 means DefaultTimeout.
	RequestTimeout, WriteTimeout time.Duration

	mu   sync.Mutex
	used int64 // of Room; guarded by mu
}

// Serve accepts until ctx ends (nil) or the listener fails. It returns when all
// handlers have.
func (s *Server) Serve(ctx context.Context) error {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait
	defer s.Listener.Close()
	defer context.AfterFunc(ctx, func() { s.Listener.Close() })()

	places := make(chan struct{}, orDefault(s.MaxConns, DefaultMaxConns))
	for {
		conn, err := s.Listener.Accept()
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil && passes(err):
			s.log().Error("accept failed, waiting", "error", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		case err != nil:
			return fmt.Errorf("ipc: accept: %w", err)
		}
		peer, err := s.checkPeer(conn)
		if err != nil {
			s.log().Warn("connection refused", "error", err)
			conn.Close()
			continue
		}
		select {
		case places <- struct{}{}:
			handlers.Go(func() {
				defer func() { <-places }()
				s.answer(ctx, conn, peer)
			})
		default:
			s.log().Warn("too many connections", "limit", cap(places))
			st := &Stream{conn: conn, timeout: time.Second} // an empty socket buffer takes it at once
			st.busy()
			conn.Close()
		}
	}
}

// answer reads the request of one connection and runs the handler.
func (s *Server) answer(ctx context.Context, conn net.Conn, peer *unix.Ucred) {
	defer conn.Close()
	st := &Stream{conn: conn, timeout: orDefault(s.WriteTimeout, DefaultTimeout), peer: peer.Uid}
	var held int64
	defer func() { s.room(-held) }()
	req, err := s.request(ctx, conn, func(n int) error {
		if !s.room(int64(n)) {
			return errRoom
		}
		held += int64(n)
		return nil
	})
	switch {
	case errors.Is(err, errRoom):
		s.log().Warn("too large requests at once", "uid", peer.Uid, "pid", peer.Pid)
		st.busy()
		return
	case errors.Is(err, io.EOF) || ctx.Err() != nil:
		return // said nothing; or we are ending
	case err != nil:
		// The text may quote the request, so it goes to the peer and not to the log.
		s.log().Warn("bad request", "uid", peer.Uid, "pid", peer.Pid)
		st.refuse(proto.ErrBadRequest, fmt.Sprintf("not a request that this program takes: %v", err), "bad-request")
		return
	}
	hctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	st.cancel = cancel
	conn.SetReadDeadline(time.Time{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		st.watch(conn)
	}()
	s.Handle(hctx, req, st)
	st.end()
	conn.SetReadDeadline(past()) // ends the watcher
	<-watched
}

// room takes bytes, or gives them back. Without room for them nothing is taken.
func (s *Server) room(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > orDefault(s.Room, DefaultRoom) {
		return false
	}
	s.used += n
	return true
}

var errRoom = errors.New("ipc: no room for one more request")

func (s *Server) request(ctx context.Context, conn net.Conn, agree func(int) error) (proto.Message, error) {
	conn.SetReadDeadline(time.Now().Add(orDefault(s.RequestTimeout, DefaultTimeout)))
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(past()) })()
	err := s.checkKey(conn)
	var body []byte
	if err == nil {
		body, err = frame.ReadIf(conn, agree)
	}
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, errors.New("no whole request came in time")
		}
		return nil, err
	}
	return s.Requests.Decode(body)
}

// checkPeer asks the kernel who made the connection.
func (s *Server) checkPeer(conn net.Conn) (*unix.Ucred, error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("ipc: a %T has no peer to check", conn)
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	err = rc.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return nil, fmt.Errorf("ipc: peer: %w", err)
	}
	peers := s.Peers
	if len(peers) == 0 {
		peers = []uint32{uint32(os.Geteuid())}
	}
	if !slices.Contains(peers, cred.Uid) {
		return nil, fmt.Errorf("ipc: uid %d (pid %d) may not use this socket, only %v", cred.Uid, cred.Pid, peers)
	}
	return cred, nil
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// passes reports whether Accept may work again later.
func passes(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func past() time.Time { return time.Unix(1, 0) }

func orDefault[T int | int64 | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}
