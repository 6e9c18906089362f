package stack

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

// RoleUID is what a role runs as: one of its own if the test is root.
func RoleUID(role string) int {
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	return map[string]int{"inferproxy": 62101, "loopd": 62102, "brokerd": 62105, "egressd": 62108, "runnerd": toolUID}[role]
}

// DialAs connects to a socket with another uid. The kernel takes the peer's
// identity from the thread that connects, so only that thread changes.
func DialAs(path string, uid int) (net.Conn, error) {
	var conn net.Conn
	err := OnThread(uid, func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			return err
		}
		conn, err = net.FileConn(f)
		return err
	})
	return conn, err
}

// OnThread runs f on a thread of its own with another uid, which is given up
// after it. Children that f starts, and waits for, have that uid.
func OnThread(uid int, f func() error) error {
	end := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		err := Become(uid)
		if err == nil {
			err = f()
		}
		end <- err
	}()
	return <-end
}

// Become gives the calling thread another uid, if the test is root. It must never
// be given back to the Go runtime.
func Become(uid int) error {
	if os.Geteuid() != 0 || uid == 0 {
		return nil
	}
	u := uintptr(uid)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, u, u, u); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, u, u, u); e != 0 {
		return e
	}
	return nil
}

// AsLoopd sends one message on broker.sock with loopd's identity and gives the
// last answer. asked, if set, is called with each [proto.Asked] on the way.
func (s *Stack) AsLoopd(ctx context.Context, m proto.Message, asked func(*proto.Asked)) (proto.Message, error) {
	conn, err := s.DialBroker()
	if err != nil {
		return nil, err
	}
	return Exchange(ctx, conn, m, asked)
}

// DialBroker opens a connection to broker.sock with loopd's identity: its uid,
// and the key of the socket where all roles are one user. It is good for one
// [Exchange] or [Send].
func (s *Stack) DialBroker() (net.Conn, error) {
	path := s.Layout.Socket("brokerd", "loopd", "broker")
	conn, err := DialAs(path, RoleUID("loopd"))
	if err != nil {
		return nil, err
	}
	if err := PresentKey(conn, path); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// PresentKey sends the key of the socket at path, if it has one, as every client
// does first.
func PresentKey(conn net.Conn, path string) error {
	key, err := os.ReadFile(path + ".key")
	if err == nil {
		err = frame.Write(conn, key)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) { // closed already: whoever uses it learns why
		return nil
	}
	return err
}

// Exchange sends a request to brokerd, gives the last answer and closes conn.
// An answer that is an error is given as both.
func Exchange(ctx context.Context, conn net.Conn, m proto.Message, asked func(*proto.Asked)) (proto.Message, error) {
	b, err := proto.Encode(m)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return Send(ctx, conn, b, asked)
}

// Send is [Exchange] with a frame of any bytes.
func Send(ctx context.Context, conn net.Conn, body []byte, asked func(*proto.Asked)) (proto.Message, error) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := frame.Write(conn, body); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	for {
		b, err := frame.Read(in)
		if err != nil {
			return nil, err
		}
		m, err := proto.BrokerEvents.Decode(b)
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *proto.Asked:
			if asked != nil {
				asked(m)
			}
		case *proto.Error:
			return m, m
		default:
			return m, nil
		}
	}
}
