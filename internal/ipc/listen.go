package ipc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrInUse reports that another program listens on a socket path.
var ErrInUse = errors.New("another program listens here")

// maxSocketPath is what the kernel takes: sun_path has 108 bytes, the last is zero.
const maxSocketPath = 107

// Listen listens on a Unix stream socket at path. It makes the missing folders
// above it (0700); the socket has mode 0600 from the start. A socket file that
// an ended program left is removed, but only under the lock <path>.lock and if
// nobody answers. The lock is held until the listener is closed, or the program
// ends, so a second listener is told [ErrInUse]. Close removes the socket file.
//
// The path may be longer than a socket address takes. The listener has the
// methods of *net.UnixListener, File among them; Addr gives path as it is here.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, listenError(path, err)
	}
	return l, nil
}

func listenError(path string, err error) error {
	switch {
	case errors.Is(err, ErrInUse):
		return fmt.Errorf("cannot listen on %s: %w; end it first (see runbook: socket-in-use)", path, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("cannot listen on %s: %w; this user may not write there (see runbook: socket-refused)", path, err)
	default:
		return fmt.Errorf("cannot listen on %s: %w (see runbook: socket-listen)", path, err)
	}
}

func listen(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if fi, err := os.Stat(dir); err != nil {
		return nil, err
	} else if fi.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("everybody may write to the folder %s and could put another socket there", dir)
	}
	lock, err := takeLock(path + ".lock")
	if err != nil {
		return nil, err
	}
	l, err := bind(path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &listener{UnixListener: l, path: path, lock: lock}, nil
}

func takeLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// bind makes the socket. Precondition: the lock is held.
func bind(path string) (*net.UnixListener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	// Linux gives the file the mode of the unbound socket, so nobody can slip in
	// between bind and chmod.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) })
	}}
	l, err := lc.Listen(context.Background(), "unix", short)
	if err != nil {
		return nil, err
	}
	ul := l.(*net.UnixListener) // what the network "unix" gives
	ul.SetUnlinkOnClose(false)  // it would unlink the short path
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ul.Close())
	}
	return ul, nil
}

// removeStale removes a socket file that nobody listens on.
func removeStale(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("there is something that is no socket (%v); move it away", fi.Mode())
	}
	short, done, err := shortPath(path)
	if err != nil {
		return err
	}
	defer done()
	conn, err := net.Dial("unix", short)
	switch {
	case err == nil:
		conn.Close()
		return ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	default:
		// For example a full backlog: somebody is there.
		return fmt.Errorf("%w, perhaps: %w", ErrInUse, err)
	}
}

// shortPath gives a path to the same socket that fits into a socket address. It
// is good until done is called.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, fmt.Errorf("folder of %s: %w", path, err)
	}
	short = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if len(short) > maxSocketPath {
		return "", nil, errors.Join(fmt.Errorf("the name of the socket %s is too long", path), dir.Close())
	}
	return short, func() { dir.Close() }, nil
}

type listener struct {
	*net.UnixListener
	path string
	lock *os.File
	once sync.Once
	err  error
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close stops listening, removes the socket file and then drops the lock.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.err = errors.Join(os.Remove(l.path), l.UnixListener.Close(), l.lock.Close())
	})
	return l.err
}
