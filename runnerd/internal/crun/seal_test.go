package crun

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func copyOf(t *testing.T, program string) []byte {
	t.Helper()
	at, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func place(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestSealed: what is started is a copy that crun takes for its own, of the
// program that is there now.
func TestSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crun")
	p := &program{path: path}
	if got := p.current(); got != path {
		t.Errorf("no program: %s", got)
	}
	place(t, path, copyOf(t, "echo"))
	first := p.current()
	if first != p.current() || !strings.HasPrefix(first, "/proc/self/fd/") {
		t.Fatalf("%s, then %s", first, p.current())
	}
	f, err := os.OpenFile(first, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || got != 0xf { // as crun compares it
		t.Errorf("seals %#x, %v", got, err)
	}
	if f, err := os.OpenFile(first, os.O_WRONLY, 0); err == nil {
		if _, err := f.Write([]byte("x")); err == nil {
			t.Error("the copy can be written")
		}
		f.Close()
	}
	if out, err := exec.Command(first, "hello").CombinedOutput(); err != nil || string(out) != "hello\n" {
		t.Errorf("%q, %v", out, err)
	}

	place(t, path, copyOf(t, "true"))
	second := p.current()
	if out, err := exec.Command(second, "hello").CombinedOutput(); second == first || err != nil || len(out) != 0 {
		t.Errorf("a new program: %s, %q, %v", second, out, err)
	}

	place(t, path, []byte("#!/bin/sh\necho script\n"))
	if got := p.current(); got != path {
		t.Errorf("a script: %s", got)
	}
	if out, err := exec.Command(p.current()).CombinedOutput(); err != nil || string(out) != "script\n" {
		t.Errorf("%q, %v", out, err)
	}
}
