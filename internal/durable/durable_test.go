package durable_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"boxmaker/internal/durable"
)

func tempRoot(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

// names lists all below dir, so that a test sees temporary files left behind.
func names(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if p != dir {
			rel, _ := filepath.Rel(dir, p)
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWriteFile(t *testing.T) {
	root, dir := tempRoot(t)
	old := syscall.Umask(0o077) // the mode must not depend on it
	defer syscall.Umask(old)
	for i, tc := range []struct {
		name string
		data []byte
		perm fs.FileMode
	}{
		{"new", []byte("one"), 0o600},
		{"replaced, shorter, other mode", []byte("2"), 0o644},
		{"empty", nil, 0o400},
		{"over a read-only file", bytes.Repeat([]byte("x"), 1<<20), 0o640},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := durable.WriteFile(root, "f", tc.data, tc.perm); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, "f"))
			if err != nil || !bytes.Equal(got, tc.data) {
				t.Fatalf("row %d: %d bytes, %v", i, len(got), err)
			}
			if fi, _ := os.Stat(filepath.Join(dir, "f")); fi.Mode() != tc.perm {
				t.Errorf("mode %v, want %v", fi.Mode(), tc.perm)
			}
			if n := names(t, dir); len(n) != 1 {
				t.Errorf("left behind: %q", n)
			}
		})
	}
}

func TestCreateIsExclusive(t *testing.T) {
	root, dir := tempRoot(t)
	if err := durable.Mkdir(root, "sub", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Create(root, "sub/f", []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.Create(root, "sub/f", []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second create: %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "sub/f")); string(got) != "first" {
		t.Fatalf("content %q", got)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	if err := durable.Create(root, "dangling", []byte("x"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("create over a dangling link: %v", err)
	}
	if n := names(t, dir); len(n) != 3 { // sub, sub/f, dangling
		t.Errorf("left behind: %q", n)
	}
}

func TestFailuresLeaveNothing(t *testing.T) {
	root, dir := tempRoot(t)
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(name string) error { return durable.WriteFile(root, name, []byte("x"), 0o600) }
	for _, tc := range []struct {
		name string
		err  error
	}{
		{"a folder in the way", write("d")},
		{"no such folder", write("missing/f")},
		{"out of the root", write("../f")},
		{"absolute", write("/tmp/f")},
		{"a file as a folder", write("d/x/f")},
		{"mkdir over a file", durable.Mkdir(root, "d/x", 0o700)},
		{"mkdir without parent", durable.Mkdir(root, "no/d", 0o700)},
		{"mkdir out of the root", durable.Mkdir(root, "../d", 0o700)},
		{"sync of nothing", durable.SyncDir(root, "missing")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.err == nil {
				t.Error("no error")
			}
		})
	}
	if n := names(t, dir); len(n) != 2 {
		t.Errorf("left behind: %q", n)
	}
}

func TestMkdir(t *testing.T) {
	root, dir := tempRoot(t)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	for _, perm := range []fs.FileMode{0o750, 0o700} { // the second call keeps the mode
		if err := durable.Mkdir(root, "d", perm); err != nil {
			t.Fatal(err)
		}
	}
	if fi, err := os.Stat(filepath.Join(dir, "d")); err != nil || fi.Mode().Perm() != 0o750 {
		t.Fatalf("%v, %v", fi.Mode(), err)
	}
}

// TestWriteFileAs: the file belongs to whom it is for from its first moment.
func TestWriteFileAs(t *testing.T) {
	uid := os.Geteuid()
	if uid == 0 {
		uid = 65534
	}
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, content := range []string{"first", "second"} {
		if err := durable.WriteFileAs(root, "f", []byte(content), 0o600, uid); err != nil {
			t.Fatal(err)
		}
		fi, err := root.Stat("f")
		if err != nil {
			t.Fatal(err)
		}
		got, err := root.ReadFile("f")
		if st, ok := fi.Sys().(*syscall.Stat_t); err != nil || !ok || int(st.Uid) != uid || fi.Mode() != 0o600 || string(got) != content {
			t.Errorf("%q of uid %d, mode %v, %v", got, st.Uid, fi.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != 0 {
		t.Errorf("left behind %q", left)
	}
}
