// Package listen opens the practice model's one listening socket.
//
// It guarantees that nothing is removed that is not a socket which nobody
// answers, and that at the end a socket file is removed only if it is still the
// one that was made here. (The real server's file stays and blocks the next
// start.) There is no lock: two starts at the same moment can both find a stale
// file, and the later one wins.
package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// handed is the first file descriptor that a supervisor hands over.
const handed = 3

// maxPath is the longest path of a Unix socket, in bytes.
const maxPath = 107

// Open listens on unix:PATH or tcp:HOST:PORT. A listener that was handed over
// (LISTEN_FDS=1, and LISTEN_PID this process or not set) wins.
func Open(address string, getenv func(string) string) (net.Listener, error) {
	if getenv("LISTEN_FDS") == "1" && (getenv("LISTEN_PID") == "" || getenv("LISTEN_PID") == strconv.Itoa(os.Getpid())) {
		return inherited(handed)
	}
	kind, where, _ := strings.Cut(address, ":")
	switch {
	case kind == "unix" && where != "":
		return unix(where)
	case kind == "tcp" && where != "":
		return net.Listen("tcp", where)
	default:
		return nil, fmt.Errorf("practice: %q is no address to listen on: write unix:PATH or tcp:HOST:PORT (see runbook: practice-listen)", address)
	}
}

func inherited(fd uintptr) (net.Listener, error) {
	syscall.CloseOnExec(int(fd))
	f := os.NewFile(fd, "listener")
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("practice: the handed-over descriptor is no listening socket: %w (see runbook: practice-listen)", err)
	}
	return l, f.Close()
}

// A socket is a Unix listener that removes its own file and no other.
type socket struct {
	net.Listener
	path string
	made fs.FileInfo
}

// Close stops listening.
func (s *socket) Close() error {
	now, err := os.Lstat(s.path)
	if err == nil && os.SameFile(now, s.made) && now.ModTime().Equal(s.made.ModTime()) { // inode numbers are used again
		err = os.Remove(s.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(s.Listener.Close(), err)
}

func unix(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("practice: cannot make the socket's folder: %w (see runbook: practice-listen)", err)
	}
	if err := clear(path); err != nil {
		return nil, err
	}
	l, err := bind(path)
	if err != nil {
		return nil, fmt.Errorf("practice: cannot listen on %s: %w (see runbook: practice-listen)", path, err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(path, 0o600)
	made, err2 := os.Lstat(path)
	if err := errors.Join(err, err2); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{Listener: l, path: path, made: made}, nil
}

// bind listens; a path that is too long for the system call goes by way of its
// open folder.
func bind(path string) (*net.UnixListener, error) {
	if len(path) <= maxPath {
		return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // read only
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	return net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
}

// clear removes a stale socket: one that refuses the connection.
func clear(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("practice: %w (see runbook: practice-listen)", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("practice: %s is in the way and is no socket; it was left alone (see runbook: practice-listen)", path)
	}
	conn, err := dial(path)
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("practice: another program answers on %s; stop it, or choose another path (see runbook: practice-listen)", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	default:
		return fmt.Errorf("practice: cannot tell whether somebody uses %s: %w (see runbook: practice-listen)", path, err)
	}
}

func dial(path string) (net.Conn, error) {
	if len(path) <= maxPath {
		return net.DialTimeout("unix", path, time.Second)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // read only
	return net.DialTimeout("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), time.Second)
}
