package forward

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	maxUnixPath = 107      // bytes that fit into a sockaddr_un
	oPath       = 0x200000 // O_PATH of Linux, which package syscall lacks
)

// Handed takes over the listening socket that the parent process passed as
// descriptor 3 (LISTEN_FDS, as systemd and bxctl up do). Without one it gives nil.
func Handed(getenv func(string) string) (*net.UnixListener, error) {
	n := getenv("LISTEN_FDS")
	if pid := getenv("LISTEN_PID"); n == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	if n != "1" {
		return nil, fmt.Errorf("LISTEN_FDS is %q, but inferproxy takes exactly one socket", n)
	}
	f := os.NewFile(3, "listener")
	defer f.Close() // FileListener makes a copy
	if on, err := syscall.GetsockoptInt(3, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN); err != nil || on != 1 {
		return nil, errors.New("LISTEN_FDS is set, but descriptor 3 is not a listening socket")
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the socket handed over as descriptor 3: %w", err)
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, errors.New("the socket handed over as descriptor 3 is not a Unix socket")
	}
	return u, nil
}

// Listen makes the socket (0600) and its folders (0700). A socket that an ended
// process left behind is replaced; a lock beside it tells whether one lives.
func Listen(path string) (*net.UnixListener, error) {
	dir, name := filepath.Split(filepath.Clean(path))
	if dir == "" {
		dir = "."
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// The lock and this handle live as long as the process: neither is closed.
	lock, err := syscall.Open(filepath.Join(dir, name+".lock"), syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path + ".lock", Err: err}
	}
	if err := syscall.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		syscall.Close(lock)
		return nil, fmt.Errorf("%s: another process listens there", path)
	}
	at := filepath.Join(dir, name)
	switch info, err := os.Lstat(at); {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there and is not a socket", path)
	case err == nil:
		if err := os.Remove(at); err != nil {
			return nil, err
		}
	}
	if len(at) > maxUnixPath {
		handle, err := syscall.Open(dir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
		}
		at = fmt.Sprintf("/proc/self/fd/%d/%s", handle, name)
	}
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
}
