package listen

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func none(string) string { return "" }

func open(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := Open(address, none)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestUnix(t *testing.T) {
	for _, name := range []string{"s.sock", strings.Repeat("long", 30) + "/deep/s.sock"} {
		path := filepath.Join(t.TempDir(), name)
		l := open(t, "unix:"+path)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if dir, err := os.Stat(filepath.Dir(path)); name != "s.sock" && (err != nil || dir.Mode().Perm() != 0o700) {
			t.Errorf("the folder: %v, %v", dir, err)
		}
		if c, err := dial(path); err != nil {
			t.Error(err)
		} else if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := Open("unix:"+path, none); err == nil || !strings.Contains(err.Error(), "another program answers") {
			t.Errorf("a second one: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket is left behind: %v", err)
		}
	}
}

func TestStaleSocketIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	old := open(t, "unix:"+path).(*socket)
	if err := old.Listener.Close(); err != nil { // as if the process had been killed: the file stays
		t.Fatal(err)
	}
	l := open(t, "unix:"+path)
	if err := old.Close(); err == nil {
		t.Error("the old listener closed twice without a word")
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the old listener removed the new one's file: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestNothingElseIsRemoved(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link, dir} {
		if _, err := Open("unix:"+path, none); err == nil || !strings.Contains(err.Error(), "see runbook: practice-listen") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "unix:", "tcp:", "/tmp/x.sock", "http://x", "tcp:nonsense"} {
		if l, err := Open(bad, none); err == nil {
			t.Errorf("%q was taken", bad)
			_ = l.Close()
		}
	}
	l := open(t, "tcp:127.0.0.1:0")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestInherited(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := first.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(f.Fd())) // the code under test closes what it is given
	if err != nil {
		t.Fatal(err)
	}
	l, err := inherited(uintptr(fd))
	if err != nil {
		t.Fatal(err)
	}
	if l.Addr().String() != first.Addr().String() {
		t.Errorf("listens on %v, want %v", l.Addr(), first.Addr())
	}
	for _, c := range []interface{ Close() error }{l, f, first} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd, err = syscall.Dup(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inherited(uintptr(fd)); err == nil || !strings.Contains(err.Error(), "see runbook: practice-listen") {
		t.Errorf("a pipe: %v", err)
	}
	_, _ = r.Close(), w.Close()
}

// A descriptor for another process is left alone.
func TestHandedToAnother(t *testing.T) {
	env := map[string]string{"LISTEN_FDS": "1", "LISTEN_PID": "1"}
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := Open("unix:"+path, func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
