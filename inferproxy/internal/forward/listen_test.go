package forward

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListen(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "a", "b", "in.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path string
		mode os.FileMode
	}{{path, os.ModeSocket | 0o600}, {filepath.Dir(path), os.ModeDir | 0o700}, {filepath.Join(dir, "a"), os.ModeDir | 0o700}} {
		if info, err := os.Stat(tc.path); err != nil || info.Mode() != tc.mode {
			t.Errorf("%s: %v %v, want %v", tc.path, info.Mode(), err, tc.mode)
		}
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("a second listener: %v", err)
	}
	l.Close()
}

func TestListenReplacesAStaleSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "in.sock")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	old.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal("no stale socket to begin with")
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestListenLeavesOtherFilesAlone(t *testing.T) {
	path := filepath.Join(shortDir(t), "in.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Error(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("%q", b)
	}
}

func TestLongPaths(t *testing.T) {
	dir := shortDir(t)
	long := filepath.Join(dir, strings.Repeat("long/", 40))
	up, err := Listen(filepath.Join(long, "up.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	go func() {
		c, err := up.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		echo(c)
	}()
	p := start(t, "unix", filepath.Join(long, "up.sock"), nil)
	c := p.dial(t)
	io.WriteString(c, "x")
	c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "x" {
		t.Errorf("%q %v", got, err)
	}
}

func TestHandedIgnoresWhatIsForOthers(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing":      {},
		"only names":   {"LISTEN_FDNAMES": "infer"},
		"another pid":  {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
		"a broken pid": {"LISTEN_FDS": "1", "LISTEN_PID": "x"},
	} {
		if l, err := Handed(func(k string) string { return env[k] }); l != nil || err != nil {
			t.Errorf("%s: %v %v", name, l, err)
		}
	}
	if _, err := Handed(func(k string) string { return map[string]string{"LISTEN_FDS": "2"}[k] }); err == nil {
		t.Error("two descriptors")
	}
}
