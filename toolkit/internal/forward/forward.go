// Package forward is the way out of a container as programs know it: a proxy on
// a port of the loopback device. It carries bytes to the call's door, a Unix
// socket, and back; it decides nothing and reads nothing.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Where the proxy listens, and where the door is mounted.
const (
	Address = "127.0.0.1:3128"
	Door    = "/run/egress.sock"
)

// maxConns bounds the connections at one time; more wait.
const maxConns = 64

// Env returns the variables that tell programs of the proxy.
func Env() []string {
	const url = "http://" + Address
	return []string{"HTTP_PROXY=" + url, "HTTPS_PROXY=" + url, "http_proxy=" + url, "https_proxy=" + url, "ALL_PROXY=" + url, "all_proxy=" + url, "NO_PROXY=", "no_proxy="}
}

// Start listens on address and forwards until stop is called, which waits for
// all connections to end.
func Start(ctx context.Context, address, door string) (stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &forwarder{door: door, slots: make(chan struct{}, maxConns)}
	f.wg.Go(func() { f.serve(ctx, l) })
	return func() {
		cancel()
		_ = l.Close()
		f.wg.Wait()
	}, nil
}

type forwarder struct {
	door  string
	slots chan struct{}
	wg    sync.WaitGroup
}

func (f *forwarder) serve(ctx context.Context, l net.Listener) {
	for {
		select {
		case f.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			<-f.slots
			if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
				return
			}
			continue // out of descriptors: one of the others will end
		}
		f.wg.Go(func() {
			defer func() { <-f.slots }()
			f.carry(ctx, conn.(*net.TCPConn))
		})
	}
}

// carry passes bytes both ways. The end of one direction is passed on and
// leaves the other open.
func (f *forwarder) carry(ctx context.Context, in *net.TCPConn) {
	defer in.Close()
	out, err := new(net.Dialer).DialContext(ctx, "unix", f.door)
	if err != nil {
		return
	}
	door := out.(*net.UnixConn)
	defer door.Close()
	defer context.AfterFunc(ctx, func() { _ = in.Close(); _ = door.Close() })()
	var wg sync.WaitGroup
	wg.Go(func() { pass(door, in) })
	pass(in, door)
	wg.Wait()
}

type half interface {
	io.Writer
	CloseWrite() error
}

func pass(to half, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil { // nobody can be told more of it than that it ends
		_ = from.Close()
	}
	_ = to.CloseWrite()
}
