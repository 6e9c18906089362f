package ipc

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"boxmaker/internal/proto"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Mode()
}

func TestListenModes(t *testing.T) {
	old := syscall.Umask(0) // the modes must not depend on it
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "run", "loopd", "bxctl", "loop.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if m := mode(t, path); m != fs.ModeSocket|0o600 {
		t.Errorf("socket: %v", m)
	}
	for dir := filepath.Dir(path); filepath.Base(dir) != "run"; dir = filepath.Dir(dir) {
		if m := mode(t, dir); m != fs.ModeDir|0o700 {
			t.Errorf("%s: %v", dir, m)
		}
	}
	if m := mode(t, path+".lock"); m != 0o600 {
		t.Errorf("lock: %v", m)
	}
	f, err := l.(interface{ File() (*os.File, error) }).File() // to hand the socket over
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if l.Addr().String() != path {
		t.Errorf("address %v", l.Addr())
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}

// leaveSocket leaves a socket file as a killed program does.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func putFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestListenAgain(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		want    string // "" means that Listen works
		inUse   bool
	}{
		{"nothing there", func(*testing.T, string) {}, "", false},
		{"a stale socket", leaveSocket, "", false},
		{"a stale socket and lock file", func(t *testing.T, path string) { leaveSocket(t, path); putFile(t, path+".lock") }, "", false},
		{"a second listener", func(t *testing.T, path string) {
			l, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "socket-in-use", true},
		{"somebody who answers and holds no lock", func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "socket-in-use", true},
		{"a file", putFile, "no socket", false},
		{"a link to a socket", func(t *testing.T, path string) {
			leaveSocket(t, path+"2")
			if err := os.Symlink(path+"2", path); err != nil {
				t.Fatal(err)
			}
		}, "no socket", false},
		{"a link as lock", func(t *testing.T, path string) {
			if err := os.Symlink("elsewhere", path+".lock"); err != nil {
				t.Fatal(err)
			}
		}, "socket-listen", false},
		{"a folder that everybody may write to", func(t *testing.T, path string) {
			if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
		}, "everybody may write", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.sock")
			tc.prepare(t, path)
			before, _ := os.Lstat(path)
			l, err := Listen(path)
			if err == nil {
				defer l.Close()
			}
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || errors.Is(err, ErrInUse) != tc.inUse {
				t.Fatalf("listen: %v", err)
			}
			after, _ := os.Lstat(path)
			if err != nil && before != nil && !os.SameFile(before, after) {
				t.Error("the file was touched")
			}
		})
	}
}

// TestListenRace: of many at once, one wins, and the socket works.
func TestListenRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	leaveSocket(t, path)
	var won atomic.Pointer[net.Listener]
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			l, err := Listen(path)
			switch {
			case err == nil && !won.CompareAndSwap(nil, &l):
				t.Error("two listeners")
			case err != nil && !errors.Is(err, ErrInUse):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	l := *won.Load()
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestLongPaths(t *testing.T) {
	base := t.TempDir()
	for _, n := range []int{maxSocketPath - 1, maxSocketPath, maxSocketPath + 1, 300, 1000} {
		dir := base
		for len(dir) < n-60 {
			dir = filepath.Join(dir, strings.Repeat("d", min(40, n-60-len(dir)+1)))
		}
		path := filepath.Join(dir, strings.Repeat("s", n-len(dir)-1))
		if len(path) != n {
			t.Fatalf("%d bytes, want %d", len(path), n)
		}
		for range 2 { // the second time over a stale socket
			l, err := Listen(path)
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			s := &Server{Listener: l, Requests: proto.LoopRequests, Handle: echo}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- s.Serve(ctx) }()
			if _, err := Ask(within(t), path, proto.LoopEvents, &proto.Watch{Session: "s"}); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
			if _, err := Listen(path); !errors.Is(err, ErrInUse) {
				t.Errorf("%d bytes: second listener: %v", n, err)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				t.Errorf("%d bytes: the socket file is still there", n)
			}
			staleAt(t, path)
		}
		os.Remove(path)
	}
	name := filepath.Join(base, strings.Repeat("n", 100))
	if _, err := Listen(name); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a name that cannot fit: %v", err)
	}
}

// staleAt leaves a socket file also where the path is long.
func staleAt(t *testing.T, path string) {
	t.Helper()
	short, done, err := shortPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	leaveSocket(t, short)
}

func TestDialErrors(t *testing.T) {
	dir := t.TempDir()
	leaveSocket(t, filepath.Join(dir, "stale"))
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ path, want string }{
		{filepath.Join(dir, "nothing"), "socket-nobody"},
		{filepath.Join(dir, "stale"), "socket-nobody"},
		{filepath.Join(dir, "file"), "socket-nobody"},
		{filepath.Join(dir, "no", "folder"), "socket-nobody"},
		{filepath.Join(dir, strings.Repeat("no-folder", 20), "x"), "socket-nobody"},
	} {
		if _, err := Dial(within(t), tc.path, proto.LoopEvents); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.path, err)
		}
	}
}

// TestConnEndsWithItsContext: also a Recv that waits.
func TestConnEndsWithItsContext(t *testing.T) {
	path, _, _ := serve(t, &Server{Handle: func(ctx context.Context, _ proto.Message, s *Stream) {
		_ = s.Send(&proto.Accepted{})
		<-ctx.Done()
	}})
	errEnough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(within(t))
	c, err := Dial(ctx, path, proto.LoopEvents)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(&proto.GetStatus{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Recv(); err != nil {
		t.Fatal(err)
	}
	go cancel(errEnough)
	if _, err := c.Recv(); !errors.Is(err, errEnough) {
		t.Errorf("recv: %v", err)
	}
	if err := c.Send(&proto.GetStatus{}); !errors.Is(err, errEnough) {
		t.Errorf("send: %v", err)
	}
}
