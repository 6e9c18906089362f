package llama

import (
	"context"
	"io"
	"net"
	"strings"
	"time"
)

// canned is a connection whose other side has said all that it will say.
type canned struct {
	net.Conn // nil: the methods below are all that is called
	r        *strings.Reader
	wrote    strings.Builder
}

func (c *canned) Read(p []byte) (int, error)       { return c.r.Read(p[:min(len(p), 256)]) }
func (c *canned) Write(p []byte) (int, error)      { return c.wrote.Write(p) }
func (c *canned) Close() error                     { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }

var _ io.ReadWriteCloser = (*canned)(nil)

// unread gives a connection whose other side never reads or writes.
func unread(context.Context) (net.Conn, error) {
	ours, _ := net.Pipe()
	return ours, nil
}
