package ipc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

// A Conn is a client's connection: one Send, then Recv until io.EOF or the event
// that ends the stream.
type Conn struct {
	ctx    context.Context
	conn   net.Conn
	in     *bufio.Reader
	events proto.Union
	key    []byte // goes in front of the request
	stop   func() bool
}

// Dial connects to the socket at path. ctx is the connection's life: when it
// ends, Send and Recv fail with its cause.
func Dial(ctx context.Context, path string, events proto.Union) (*Conn, error) {
	short, done, err := shortPath(path)
	if err != nil {
		return nil, dialError(path, err)
	}
	defer done()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", short)
	if err != nil {
		return nil, dialError(path, err)
	}
	key, err := preface(path)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := &Conn{ctx: ctx, conn: conn, in: bufio.NewReader(conn), events: events, key: key}
	c.stop = context.AfterFunc(ctx, func() { conn.SetDeadline(past()) })
	return c, nil
}

func dialError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("nobody listens on %s: %w; is the program up? (see runbook: socket-nobody)", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not use %s: %w (see runbook: socket-refused)", path, err)
	default:
		return fmt.Errorf("ipc: dial %s: %w", path, err)
	}
}

// Send sends the request. If the server closed the connection with an Error
// instead of reading it, that *proto.Error is what Send returns.
func (c *Conn) Send(m proto.Message) error {
	buf, err := appendFrame(c.key, m)
	if err != nil {
		return err
	}
	if _, err := c.conn.Write(buf); err != nil {
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			if e, ok := c.left(); ok {
				return e
			}
		}
		return c.because("send", err)
	}
	return nil
}

// left reads what a server that closed the connection left behind.
func (c *Conn) left() (*proto.Error, bool) {
	m, err := c.Recv()
	e, ok := m.(*proto.Error)
	return e, ok && err == nil
}

// Recv receives one event. At the end of the stream the error is io.EOF.
func (c *Conn) Recv() (proto.Message, error) {
	body, err := frame.Read(c.in)
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, c.because("receive", err)
	}
	return c.events.Decode(body)
}

func (c *Conn) because(op string, err error) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return fmt.Errorf("ipc: %s: %w", op, err)
}

// Leave ends the handler's context on the other side. Recv gives io.EOF once the
// handler has returned.
func (c *Conn) Leave() error {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("ipc: a %T has no half to close", c.conn)
	}
	return half.CloseWrite()
}

// Close ends the connection, and with it the handler's context on the other side.
func (c *Conn) Close() error {
	c.stop()
	return c.conn.Close()
}

// Ask sends one request and returns the first event. A *proto.Error comes back
// as the error.
func Ask(ctx context.Context, path string, events proto.Union, req proto.Message) (proto.Message, error) {
	c, err := Dial(ctx, path, events)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Send(req); err != nil {
		return nil, err
	}
	m, err := c.Recv()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("ipc: %s closed the connection without an answer: %w", path, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, err
	}
	if e, ok := m.(*proto.Error); ok {
		return nil, e
	}
	return m, nil
}
