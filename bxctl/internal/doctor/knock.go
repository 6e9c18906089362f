package doctor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// knock connects to a socket as its client would, and sends nothing: as root the
// client has a uid of its own, to whom the socket's folder belongs.
func (x *exam) knock(path string) error {
	if !x.Root() {
		return knock(path)
	}
	st, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Uid == 0 {
		return knock(path)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		const keep = ^uintptr(0)
		uid := uintptr(sys.Uid)
		if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uid, keep); no != 0 {
			done <- no
			return
		}
		done <- knockHere(path)
	}()
	return <-done
}

// knock connects to a socket and sends nothing.
func knock(path string) error {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	c, err := net.DialTimeout("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), 2*time.Second)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			return op.Err
		}
		return err
	}
	return c.Close()
}

// knockHere is knock on this very thread: package net may use another one.
func knockHere(path string) error {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	return unix.Connect(s, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path))})
}
