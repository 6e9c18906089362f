package tree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// put writes as write_file with mode overwrite does.
func put(s Set, p, data string) error {
	t, err := s.Target(p)
	if err != nil {
		return err
	}
	defer t.Close()
	if t.Old == nil {
		return t.Create([]byte(data))
	}
	return t.Replace([]byte(data))
}

func TestWrite(t *testing.T) {
	for _, tt := range []struct{ name, path, refused string }{
		{"a new file", "TREE/new", ""},
		{"an old file", "TREE/a", ""},
		{"in new folders", "TREE/x/y/z", ""},
		{"a hard link", "TREE/hard", ""},
		{"a link inside", "TREE/in", "never written through a link"},
		{"a link out", "TREE/out", "never written through a link"},
		{"a dangling link", "TREE/danglingin", "never written through a link"},
		{"a dangling link out", "TREE/dangling", "never written through a link"},
		{"through a folder's link inside", "TREE/dirin/new", "never written through a link"},
		{"through a folder's link out", "TREE/dirout/new", "never written through a link"},
		{"through a dangling link", "TREE/dangling/new", "never written through a link"},
		{"through /proc", "TREE/proc/tmp/x", "never written through a link"},
		{"a pipe", "TREE/fifo", "is not a file but a pipe"},
		{"a folder", "TREE/sub", "is a folder"},
		{"the tree", "TREE", "is a folder"},
		{"below a file", "TREE/a/b", "is not a folder"},
		{"outside", "OUT/new", "is outside of what may be written here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			err := put(Set{Write: []string{w.tree}, Read: []string{w.outside}}, w.path(tt.path), "new text")
			if tt.refused == "" {
				if b, rerr := os.ReadFile(w.path(tt.path)); err != nil || string(b) != "new text" {
					t.Errorf("%q, %v, %v", b, err, rerr)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%v\nwant %s", err, tt.refused)
			}
			w.untouched(t)
		})
	}
}

// untouched: outside there is what was there, and no temporary file is left.
func (w world) untouched(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(w.outside)
	if b, _ := os.ReadFile(w.outside + "/secret"); err != nil || len(entries) != 1 || string(b) != secret {
		t.Fatalf("outside: %v, %q, %v", entries, b, err)
	}
	left, err := filepath.Glob(w.tree + "/.boxmaker-*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestKeepsMode(t *testing.T) {
	w := newWorld(t)
	s := Set{Write: []string{w.tree}}
	for _, mode := range []os.FileMode{0o600, 0o640, 0o755, 0o666} {
		check(t, os.Chmod(w.tree+"/a", mode))
		check(t, put(s, w.tree+"/a", "x"))
		if info, err := os.Stat(w.tree + "/a"); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%v became %v", mode, info.Mode())
		}
	}
	check(t, os.Chmod(w.tree+"/a", 0o755|os.ModeSetuid))
	check(t, put(s, w.tree+"/a", "x"))
	if info, _ := os.Stat(w.tree + "/a"); info.Mode()&os.ModeSetuid != 0 {
		t.Error("a text of the model runs as its owner")
	}
}

func TestCreateExists(t *testing.T) {
	w := newWorld(t)
	s := Set{Write: []string{w.tree}}
	target, err := s.Target(w.tree + "/new")
	check(t, err)
	defer target.Close()
	check(t, os.WriteFile(w.tree+"/new", []byte("first"), 0o644)) // somebody else, meanwhile
	if err := target.Create([]byte("second")); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(w.tree + "/new"); string(b) != "first" {
		t.Errorf("%q", b)
	}
	w.untouched(t)
}

func TestReplaceChanged(t *testing.T) {
	w := newWorld(t)
	s := Set{Write: []string{w.tree}}
	for name, spoil := range map[string]func() error{
		"other text":   func() error { return os.WriteFile(w.tree+"/a", []byte("longer than before"), 0o640) },
		"another file": func() error { return os.Rename(w.tree+"/b", w.tree+"/a") },
		"a link":       func() error { _ = os.Remove(w.tree + "/a"); return os.Symlink("../outside/secret", w.tree+"/a") },
		"nothing":      func() error { return os.Remove(w.tree + "/a") },
	} {
		_ = os.Remove(w.tree + "/a")
		check(t, os.WriteFile(w.tree+"/a", []byte("hello"), 0o640))
		check(t, os.WriteFile(w.tree+"/b", []byte("hello"), 0o640))
		target, err := s.Target(w.tree + "/a")
		check(t, err)
		check(t, spoil())
		if err := target.Replace([]byte("mine")); err == nil {
			t.Errorf("%s: written all the same", name)
		}
		target.Close()
		w.untouched(t)
	}
}

// TestForeign: a file of somebody else stays theirs.
func TestForeign(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make a file of another user")
	}
	w := newWorld(t)
	check(t, os.Chown(w.tree+"/a", 12345, 12345))
	check(t, put(Set{Write: []string{w.tree}}, w.tree+"/a", "x"))
	var st unix.Stat_t
	check(t, unix.Stat(w.tree+"/a", &st))
	if st.Uid != 12345 || st.Size != 1 {
		t.Errorf("uid %d, %d bytes", st.Uid, st.Size)
	}
}

func TestDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	check(t, os.WriteFile(dir+"/a", []byte("old"), 0o644))
	big := strings.Repeat("x", 200<<10)
	for _, s := range []Set{{Write: []string{dir}}, {Write: []string{dir + "/a"}}} {
		err := put(s, dir+"/a", big)
		if err == nil || err.Error() != "the disk is full; nothing was changed" {
			t.Errorf("%q: %v", s.Write, err)
		}
		if b, _ := os.ReadFile(dir + "/a"); string(b) != "old" {
			t.Errorf("%q: %d bytes now", s.Write, len(b))
		}
	}
	if err := put(Set{Write: []string{dir}}, dir+"/new", big); err == nil {
		t.Error("written beyond the end of the disk")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestCaseP48: a link, a dangling link or a folder is put in the place of a name
// and taken away again all the time, while the tools open that name. Whatever
// they find, nothing outside is read, changed or made.
func TestCaseP48(t *testing.T) {
	w := newWorld(t)
	check(t, os.Mkdir(w.tree+"/real", 0o755))
	check(t, os.WriteFile(w.tree+"/real/secret", []byte("inside"), 0o644))
	check(t, os.WriteFile(w.tree+"/file", []byte("inside"), 0o644))
	check(t, os.Symlink("../outside", w.tree+"/l1"))
	check(t, os.Symlink("../outside/secret", w.tree+"/l2"))
	check(t, os.Symlink("../outside/new", w.tree+"/l3"))
	s := Set{Write: []string{w.tree}}
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); swaps.Wait() })
	defer end()
	for _, pair := range [][2]string{{"real", "l1"}, {"file", "l2"}, {"free", "l3"}} {
		swaps.Go(func() {
			a, b := w.tree+"/"+pair[0], w.tree+"/"+pair[1]
			for {
				select {
				case <-stop:
					return
				default:
				}
				if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) != nil {
					_ = os.Rename(b, a)
					_ = os.Rename(a, b)
				}
			}
		})
	}
	read1, wrote := 0, 0
	for i := range 400 {
		for _, name := range []string{"/real/secret", "/file", "/free"} {
			got, err := read(s, w.tree+name)
			if got == secret {
				t.Fatalf("%s: read outside in round %d", name, i)
			}
			if err == nil {
				read1++
			}
			if i%4 > 0 { // a write waits for the disk
				continue
			}
			var own *Error
			if err := put(s, w.tree+name, "inside"); err == nil {
				wrote++
			} else if !errors.As(err, &own) {
				t.Fatalf("%s: %T %v", name, err, err)
			}
		}
	}
	end()
	if read1 == 0 || wrote == 0 {
		t.Errorf("%d read, %d written: the race was not run", read1, wrote)
	}
	w.untouched(t)
}
