package ipc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

// A Stream carries the events of one request to its client. Its methods may be
// called from several goroutines, until the handler returns.
type Stream struct {
	conn interface {
		Write([]byte) (int, error)
		SetWriteDeadline(time.Time) error
	}
	timeout time.Duration
	cancel  context.CancelCauseFunc // ends the handler's context
	peer    uint32

	mu  sync.Mutex // guards what follows
	err error      // why nothing more can be sent
	buf []byte
}

// Peer is the user id of the client, as the kernel told it when the connection
// was made.
func (s *Stream) Peer() uint32 { return s.peer }

// Send sends one event, with one write. A message that cannot be encoded or is
// over [frame.MaxBytes] is an error and leaves the stream as it was. After any
// other error the stream is over, and so is the handler's context.
func (s *Stream) Send(m proto.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.send(m)
}

// send is Send. Precondition: mu is held.
func (s *Stream) send(m proto.Message) error {
	if s.err != nil {
		return s.err
	}
	buf, err := appendFrame(s.buf[:0], m)
	if err != nil {
		return err
	}
	if cap(buf) <= 64<<10 { // a large one should not stay with a long stream
		s.buf = buf
	}
	if err = s.conn.SetWriteDeadline(time.Now().Add(s.timeout)); err == nil {
		_, err = s.conn.Write(buf)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("ipc: the client does not read: %w", err)
	default:
		err = fmt.Errorf("ipc: send: %w", err)
	}
	s.over(err)
	return err
}

// over ends the stream. Precondition: mu is held.
func (s *Stream) over(err error) {
	if s.err == nil {
		s.err = err
	}
	if s.cancel != nil {
		s.cancel(err)
	}
}

// refuse sends an Error as the last event. That it cannot be sent is no matter.
func (s *Stream) refuse(code proto.ErrCode, text, runbook string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.send(&proto.Error{Code: code, Text: text, Runbook: runbook})
}

// busy refuses for want of a place.
func (s *Stream) busy() {
	s.refuse(proto.ErrNotReady, "too many connections at once; try again in a moment", "too-many-connections")
}

// watch reads until the client sends more, goes away, or the read deadline is
// set. It ends the context before it waits for a Send that may be stuck.
func (s *Stream) watch(conn net.Conn) {
	var more [1]byte
	n, err := conn.Read(more[:])
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return // the handler has returned
	}
	cause := ErrGone
	if n > 0 {
		cause = ErrSecond
	}
	s.cancel(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 {
		_ = s.send(&proto.Error{Code: proto.ErrBadRequest, Text: "one request per connection", Runbook: "bad-request"})
	}
	s.over(cause)
}

// end makes a Send after the handler's return an error.
func (s *Stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over(net.ErrClosed)
}

// appendFrame appends m as one frame.
func appendFrame(dst []byte, m proto.Message) ([]byte, error) {
	at := len(dst)
	buf, err := proto.Append(append(dst, 0, 0, 0, 0), m)
	if err != nil {
		return dst, err
	}
	n := len(buf) - at - 4
	if n > frame.MaxBytes {
		return dst, fmt.Errorf("ipc: %s of %d bytes: %w", m.Tag(), n, frame.ErrTooLarge)
	}
	binary.BigEndian.PutUint32(buf[at:], uint32(n))
	return buf, nil
}
