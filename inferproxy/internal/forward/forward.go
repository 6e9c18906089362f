// Package forward passes bytes between clients on a Unix socket and one fixed
// upstream, in both directions, half-closes included.
//
// It guarantees that the bytes arrive as they were sent, that only the allowed
// users get through, and that there are never more than Config.Conns
// connections at once. It knows nothing of what the bytes mean: no content is
// parsed or logged, and an idle connection is left alone, since a stream of
// tokens can be silent for minutes while a prompt is processed.
//
// The one thing that it says itself is a fixed HTTP answer, when there is no
// upstream to talk to.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Unreachable is the answer when the upstream cannot be reached.
const Unreachable = "HTTP/1.1 502 Bad Gateway\r\n" +
	"X-Boxmaker: upstream-unreachable\r\n" +
	"Content-Type: text/plain\r\n" +
	"Content-Length: 43\r\n" +
	"Connection: close\r\n\r\n" +
	"inferproxy cannot reach its upstream server"

// Config is what a forwarder needs to know.
type Config struct {
	Network, Address string        // the upstream: "tcp" and host:port, or "unix" and a path
	DialTimeout      time.Duration // until the upstream counts as unreachable
	Linger           time.Duration // for the other way after one has failed, and for a client to hear of it
	Conns            int           // connections at once; more wait in the socket's queue
	Rate             float64       // connections accepted in a second, bursts of as many included
	Peers            []uint32      // user ids that may connect
	Log              *slog.Logger
}

// Counts sums up a run.
type Counts struct{ Accepted, Refused, Unreachable, Broken atomic.Int64 }

// Serve accepts from l until ctx ends; it then closes everything and returns
// when all is closed. An error means that it could not go on accepting.
func (c Config) Serve(ctx context.Context, l *net.UnixListener, n *Counts) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Both are needed: the first ends a waiting accept, the second closes when
	// the loop sees the end of ctx before the first has run.
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer l.Close()
	defer stop()
	slots, tokens := make(chan struct{}, c.Conns), newBucket(c.Rate)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if !tokens.take(ctx) {
			return nil
		}
		client, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if client != nil {
				client.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // out of descriptors or memory, or the client gave up: it passes
			c.Log.Warn("accept failed", "kind", Kind(err))
			pause(ctx, 100*time.Millisecond)
			<-slots
			continue
		}
		n.Accepted.Add(1)
		wg.Go(func() {
			defer func() { <-slots }()
			c.serve(ctx, client, n)
		})
	}
}

// stream is what Unix and TCP connections have in common.
type stream interface {
	net.Conn
	CloseWrite() error
}

func (c Config) serve(ctx context.Context, client *net.UnixConn, n *Counts) {
	defer client.Close()
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	if uid, err := peer(client); err != nil || !slices.Contains(c.Peers, uid) {
		n.Refused.Add(1)
		c.Log.Warn("peer refused", "uid", uid)
		return
	}
	start := time.Now()
	conn, err := c.dial(ctx)
	if err != nil {
		if ctx.Err() == nil {
			n.Unreachable.Add(1)
			c.Log.Warn("upstream unreachable", "kind", Kind(err), "ms", time.Since(start).Milliseconds())
			c.refuse(client)
		}
		return
	}
	defer conn.Close()
	stopUp := context.AfterFunc(ctx, func() { conn.Close() })
	defer stopUp()
	up, ok := conn.(stream)
	if !ok { // cannot be: see Config.Network
		return
	}
	in, out, err := c.pass(client, up)
	if err != nil && ctx.Err() == nil {
		n.Broken.Add(1)
		level := slog.LevelInfo
		if errors.Is(err, errLeft) { // loopd hangs up when it has seen enough, as in its self-test
			level = slog.LevelDebug
		}
		c.Log.Log(ctx, level, "connection broke", "kind", Kind(err), "in", in, "out", out, "ms", time.Since(start).Milliseconds())
	}
}

// dial connects to the upstream. A Unix path that does not fit into a socket
// address is reached through a handle of its folder.
func (c Config) dial(ctx context.Context) (net.Conn, error) {
	address := c.Address
	if c.Network == "unix" && len(address) > maxUnixPath {
		dir, name := filepath.Split(address)
		handle, err := syscall.Open(dir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer syscall.Close(handle)
		address = fmt.Sprintf("/proc/self/fd/%d/%s", handle, name)
	}
	return (&net.Dialer{Timeout: c.DialTimeout}).DialContext(ctx, c.Network, address)
}

// errLeft says that the client closed its connection before the answer's end.
var errLeft = errors.New("forward: the client left")

// pass copies both ways until both ways have ended.
func (c Config) pass(client, up stream) (in, out int64, err error) {
	first := make(chan error, 1)
	go func() {
		var err error
		in, err = c.half(up, client)
		first <- err
	}()
	out, err = c.half(client, up)
	if errors.Is(err, syscall.EPIPE) { // of the two only the client is written to
		err = errors.Join(errLeft, err)
	}
	err = errors.Join(<-first, err)
	return in, out, err
}

// half copies one way. io.Copy moves the bytes inside the kernel where one side
// is TCP, hence no wrapper around either. After an error the other way gets a
// little time, and what still comes is thrown away meanwhile: a server may
// answer before it has read everything, and a client that writes must not be
// kept from reading that.
func (c Config) half(dst, src stream) (int64, error) {
	n, err := io.Copy(dst, src)
	dst.CloseWrite()
	if err != nil {
		end := time.Now().Add(c.Linger)
		dst.SetDeadline(end)
		src.SetDeadline(end)
		io.Copy(io.Discard, src)
	}
	return n, err
}

// refuse answers for a missing upstream. It waits for the client to speak
// first, because HTTP clients take an answer without a question for a fault,
// and it reads what else comes, because closing on unread bytes would make the
// client's kernel throw the answer away.
func (c Config) refuse(client *net.UnixConn) {
	client.SetDeadline(time.Now().Add(c.Linger))
	if _, err := client.Read(make([]byte, 512)); err != nil {
		return
	}
	if _, err := io.WriteString(client, Unreachable); err != nil {
		return
	}
	client.CloseWrite()
	io.Copy(io.Discard, client)
}

// peer is the user at the other end when the connection was made.
func peer(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	ctlErr := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(ctlErr, err); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// Kind names an error without its text, which may hold addresses.
func Kind(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	for _, k := range []struct {
		name string
		is   bool
	}{
		{"no-such-host", errors.As(err, &dns)},
		{"refused", errors.Is(err, syscall.ECONNREFUSED)},
		{"no-such-socket", errors.Is(err, syscall.ENOENT)},
		{"not-permitted", errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)},
		{"reset", errors.Is(err, syscall.ECONNRESET)},
		{"closed-early", errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)},
		{"no-route", errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)},
		{"too-many-files", errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)},
		{"timeout", errors.As(err, &timeout) && timeout.Timeout()},
	} {
		if k.is {
			return k.name
		}
	}
	return "other"
}
