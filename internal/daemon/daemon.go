// Package daemon is what every daemon does at its start and its end: a context
// that ends with SIGTERM, a JSON log on stderr, sockets that the parent hands
// over, word to the parent when it is ready, and confinement of the process by
// itself.
//
// It guarantees that a second signal ends the process at once, and that what
// [Daemon.Confine] reports has been read back from the kernel or tried out,
// not concluded from calls that went well. It does not guarantee that the
// kernel can do everything that was asked for: each row of the report says
// what is missing. Nothing here is an error that stops a daemon; a daemon that
// must not run unconfined looks at the rows.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"boxmaker/internal/ipc"
)

// Version is set by the linker: -ldflags "-X boxmaker/internal/daemon.Version=…".
var Version = "dev"

// A Daemon is this process. There is one.
type Daemon struct {
	ctx     context.Context
	cancel  context.CancelFunc
	log     *slog.Logger
	signals chan os.Signal
	done    sync.WaitGroup
	notify  net.Conn // nil if nobody waits for readiness

	mu     sync.Mutex
	handed []handedFD // guarded by mu; those that no Listener call took
}

// New catches signals, and takes over what the parent handed over in the
// environment (it is removed there, so that no child takes it for its own).
func New(name string) *Daemon {
	d := &Daemon{
		log:     newLog(name),
		signals: make(chan os.Signal, 2),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	signal.Notify(d.signals, syscall.SIGTERM, syscall.SIGINT)
	d.done.Go(d.watch)
	handed, err := handedFDs(os.Getenv, os.Getpid())
	if err != nil {
		d.log.Warn("sockets handed over are ignored", "error", err.Error())
	}
	d.handed = handed
	if at := os.Getenv("NOTIFY_SOCKET"); at != "" {
		// Connected now, because confinement forbids it later.
		if d.notify, err = net.Dial("unixgram", at); err != nil {
			d.log.Warn("readiness cannot be told", "error", err.Error())
		}
	}
	for _, k := range []string{"LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "NOTIFY_SOCKET"} {
		os.Unsetenv(k)
	}
	return d
}

func newLog(name string) *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("daemon", name)
}

func (d *Daemon) watch() {
	for ended := false; ; {
		s, ok := <-d.signals
		switch {
		case !ok:
			return
		case ended:
			d.log.Warn("second signal, ending at once", "signal", s.String())
			code := 1
			if n, ok := s.(syscall.Signal); ok {
				code = 128 + int(n)
			}
			os.Exit(code)
		default:
			d.log.Info("ending", "signal", s.String())
			ended = true
			d.cancel()
		}
	}
}

// Context ends at the first SIGTERM or SIGINT, or with Close.
func (d *Daemon) Context() context.Context { return d.ctx }

// Log is the daemon's log: JSON lines on stderr.
func (d *Daemon) Log() *slog.Logger { return d.log }

// Close ends the context and lets go of signals, and of sockets that were
// handed over and not asked for. Listeners belong to those who asked for them.
func (d *Daemon) Close() {
	d.cancel()
	signal.Stop(d.signals)
	close(d.signals)
	d.done.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.handed {
		syscall.Close(h.fd)
	}
	d.handed = nil
	if d.notify != nil {
		d.notify.Close()
	}
}

// Ready tells the parent, if it asked (NOTIFY_SOCKET, see sd_notify(3)), that
// the daemon serves.
func (d *Daemon) Ready() {
	if d.notify == nil {
		return
	}
	if _, err := d.notify.Write([]byte("READY=1\n")); err != nil {
		d.log.Warn("readiness cannot be told", "error", err.Error())
	}
}

// Listener gives the listening Unix socket called name: the one that the
// parent handed over under this name, or one made at path. A daemon that is not
// root asks its clients for the key of the socket (see ipc.Keyed): the other
// roles may run as the same user.
func (d *Daemon) Listener(name, path string) (net.Listener, error) {
	ln, err := d.listener(name, path)
	if err != nil || os.Geteuid() == 0 || path == "" {
		return ln, err
	}
	k, err := ipc.Keyed(ln, path)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return k, nil
}

func (d *Daemon) listener(name, path string) (net.Listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, h := range d.handed {
		// Without names, a single socket is for whoever asks first.
		if h.name == name || h.name == "" && len(d.handed) == 1 {
			d.handed = append(d.handed[:i:i], d.handed[i+1:]...)
			l, err := h.listener()
			if err != nil {
				return nil, fmt.Errorf("the socket %q, handed over as descriptor %d, is not usable: %w; start this program with bxctl up, or without LISTEN_FDS (see runbook: socket-handed-over)", name, h.fd, err)
			}
			return l, nil
		}
	}
	return ipc.Listen(path)
}
