// Package door is the way out for one call: a Unix socket that speaks HTTP
// proxy, for the targets that the call may reach and until the call ends.
//
// It guarantees that a name is looked up only if it is allowed, that every
// address of the answer is checked and exactly a checked one is dialled, that
// the bytes of all connections together never exceed the cap, and that after
// [Door.Close] no connection is left. Each attempt ends up in the report. What
// passes through is neither kept nor logged.
//
// It does not look into tunnels: what an allowed server is sent over TLS, it
// gets. And it does not check who connects: the socket file and its folder do.
package door

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/proxyreq"

	"golang.org/x/sys/unix"
)

// suffix of the sockets' names.
const suffix = ".sock"

// Config is what all doors have in common.
type Config struct {
	Dir    string // where the sockets are made
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Here gives the networks of this machine, whose addresses are no public ones.
	Here func() ([]netip.Prefix, error)
	// Connections at the same time, and attempts in all, of one door.
	Connections, Attempts int
	Bytes                 int64         // cap of a door that has none of its own, and the most that counts
	Idle                  time.Duration // a connection without a byte ends
	Head                  time.Duration // for the client to say what it wants
	Dial                  time.Duration // for the name and all its addresses
	Log                   *slog.Logger
}

// A Spec is what one call may do.
type Spec struct {
	Call  string
	Allow []proxyreq.Rule
	Local []proxyreq.Target // may have a private address
	Bytes int64             // 0 means that of Config
	Until time.Time
}

// maxRules bounds an allow list.
const maxRules = 1000

// Parse checks a request.
func Parse(m *proto.OpenDoor) (Spec, error) {
	s := Spec{Call: m.Call, Bytes: m.Bytes}
	var err error
	if s.Until, err = proto.ParseTime(m.Until); err != nil {
		return s, err
	}
	if len(m.Allow) == 0 || len(m.Allow) > maxRules || len(m.Local) > maxRules {
		return s, errors.New("the list of hosts is empty or too long")
	}
	for _, text := range m.Allow {
		r, err := proxyreq.ParseRule(text)
		if err != nil {
			return s, fmt.Errorf("allow %q: %w", text, err)
		}
		s.Allow = append(s.Allow, r)
	}
	for _, text := range m.Local {
		t, err := proxyreq.ParseTarget(text)
		if err != nil {
			return s, fmt.Errorf("local %q: %w", text, err)
		}
		if !slices.ContainsFunc(s.Allow, func(r proxyreq.Rule) bool { return !r.Wild() && r.Allows(t) }) {
			return s, fmt.Errorf("local %q is not among the hosts that are allowed", text)
		}
		s.Local = append(s.Local, t)
	}
	return s, nil
}

// A Door is open from [Open] to [Door.Close].
type Door struct {
	cfg      Config
	spec     Spec
	path     string
	listener *net.UnixListener
	ctx      context.Context
	cancel   context.CancelCauseFunc
	left     atomic.Int64 // bytes
	places   chan struct{}
	all      sync.WaitGroup
	book     ledger
}

var (
	errClosed = errors.New("door: closed")
	errTime   = errors.New("door: the time of the call is over")
	errCap    = errors.New("door: the call has no bytes left")
	errIdle   = errors.New("door: nothing was sent for too long")
)

// Open makes the socket and serves it. When ctx ends the door closes as if by
// itself, but Close must still be called.
func Open(ctx context.Context, cfg Config, spec Spec) (*Door, error) {
	path := filepath.Join(cfg.Dir, strings.ToLower(rand.Text())+suffix)
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("door: %w", err)
	}
	d := &Door{cfg: cfg, spec: spec, path: path, listener: l, places: make(chan struct{}, cfg.Connections)}
	limit := cfg.Bytes
	if spec.Bytes > 0 {
		limit = min(limit, spec.Bytes)
	}
	d.left.Store(limit)
	ctx, stop := context.WithDeadlineCause(ctx, spec.Until, errTime)
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	d.all.Go(func() {
		<-d.ctx.Done()
		stop()
		os.Remove(path) // first: nobody shall find a socket that refuses
		l.Close()
	})
	d.all.Go(d.accept)
	return d, nil
}

// listen makes the socket for the group of the folder, with its mode from the
// start.
func listen(path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o660) })
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	ul := l.(*net.UnixListener) // what the network "unix" gives
	ul.SetUnlinkOnClose(false)  // the file goes before the listener
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, ul.Close(), os.Remove(path))
	}
	return ul, nil
}

// Path is the socket.
func (d *Door) Path() string { return d.path }

// Close ends every connection at once, removes the socket, and tells what was
// attempted. It can be called again.
func (d *Door) Close() *proto.EgressReport {
	d.cancel(errClosed)
	d.all.Wait()
	return d.book.report()
}

func (d *Door) accept() {
	for {
		client, err := d.listener.AcceptUnix()
		switch {
		case d.ctx.Err() != nil:
			if err == nil {
				client.Close()
			}
			return
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, or the client gave up
			d.cfg.Log.Warn("a connection to a door failed", "error", err.Error())
			select {
			case <-time.After(50 * time.Millisecond):
			case <-d.ctx.Done():
			}
			continue
		}
		n, ok := d.book.another(d.cfg.Attempts)
		if !ok || !d.place() {
			d.all.Go(func() { d.tooMany(n, client) })
			continue
		}
		d.all.Go(func() {
			defer func() { <-d.places }()
			d.serve(n, client)
		})
	}
}

func (d *Door) place() bool {
	select {
	case d.places <- struct{}{}:
		return true
	default:
		return false
	}
}

// Sweep removes the sockets that an earlier process left in the folder, and
// says how many.
func Sweep(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range entries {
		if e.Type() != fs.ModeSocket || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if c, err := net.Dial("unix", path); err == nil {
			c.Close() // somebody serves it: not ours
			continue
		}
		if err := os.Remove(path); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
