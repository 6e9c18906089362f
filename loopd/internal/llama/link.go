package llama

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

var (
	errStalled = errors.New("no byte within the limit")
	errHead    = errors.New("response head too large")
)

// link is a connection that does not wait for ever. Every read may last as long
// as the limit that holds at that moment; a byte of any kind starts it anew.
// There is no deadline for the whole.
type link struct {
	net.Conn
	first time.Duration // the limit until a byte has come
	idle  time.Duration // the limit from then on
	heard bool          // a byte has come
	ended bool          // no more will come
	head  int           // bytes that may still come before the head is complete; -1: it is
}

func (l *link) limit() time.Duration {
	if l.heard {
		return l.idle
	}
	return l.first
}

func (l *link) Read(p []byte) (int, error) {
	if l.head == 0 {
		return 0, errHead
	}
	if l.head > 0 && len(p) > l.head {
		p = p[:l.head]
	}
	if err := l.SetReadDeadline(time.Now().Add(l.limit())); err != nil {
		return 0, err
	}
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.heard = true
	}
	if l.head > 0 {
		l.head -= n
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errStalled
	case err != nil:
		l.ended = true
	}
	return n, err
}

// dialUnix connects to a Unix socket. A path that does not fit a socket address
// (107 bytes) is reached through a descriptor of its folder.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	if len(path) <= 107 {
		return d.DialContext(ctx, "unix", path)
	}
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
