package tree

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// world is a granted tree with all that an attacker could plant in it, and a
// folder beside it that was not granted.
type world struct{ tree, outside string }

const secret = "the secret"

func newWorld(t *testing.T) world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := world{filepath.Join(base, "tree"), filepath.Join(base, "outside")}
	check(t, os.MkdirAll(w.tree+"/sub/deep", 0o755))
	check(t, os.MkdirAll(w.outside, 0o755))
	check(t, os.WriteFile(w.outside+"/secret", []byte(secret), 0o644))
	check(t, os.WriteFile(w.tree+"/a", []byte("hello"), 0o640))
	check(t, os.Symlink("a", w.tree+"/in"))
	check(t, os.Symlink("sub", w.tree+"/dirin"))
	check(t, os.Symlink("../outside/secret", w.tree+"/out"))
	check(t, os.Symlink(w.outside+"/secret", w.tree+"/abs"))
	check(t, os.Symlink(w.tree+"/a", w.tree+"/absin"))
	check(t, os.Symlink("../outside", w.tree+"/dirout"))
	check(t, os.Symlink("../outside/new", w.tree+"/dangling"))
	check(t, os.Symlink("nothing", w.tree+"/danglingin"))
	check(t, os.Symlink("loop", w.tree+"/loop"))
	check(t, os.Symlink("/proc/self/root", w.tree+"/proc"))
	check(t, unix.Mkfifo(w.tree+"/fifo", 0o644))
	check(t, os.Link(w.outside+"/secret", w.tree+"/hard"))
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w world) path(p string) string {
	return strings.NewReplacer("TREE", w.tree, "OUT", w.outside).Replace(p)
}

func read(s Set, p string) (string, error) {
	place, err := s.Find(p)
	if err != nil {
		return "", err
	}
	defer place.Close()
	f, _, err := place.OpenFile()
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	return string(b), err
}

func TestRead(t *testing.T) {
	w := newWorld(t)
	s := Set{Read: []string{w.tree}}
	for _, tt := range []struct{ name, path, want, refused string }{
		{"a file", "TREE/a", "hello", ""},
		{"a link inside", "TREE/in", "hello", ""},
		{"a hard link is a file like any other", "TREE/hard", secret, ""},
		{"a link out", "TREE/out", "", "leads out of the granted folder"},
		{"an absolute link", "TREE/abs", "", "leads out of the granted folder"},
		{"an absolute link inside", "TREE/absin", "", "leads out of the granted folder"},
		{"a folder's link out", "TREE/dirout/secret", "", "not followed"},
		{"a dangling link", "TREE/danglingin", "", "leads to nothing"},
		{"a dangling link out", "TREE/dangling", "", "link"},
		{"a loop", "TREE/loop", "", "link"},
		{"the root of /proc", "TREE/proc/etc/passwd", "", "not followed"},
		{"a pipe", "TREE/fifo", "", "is not a file but a pipe"},
		{"a folder", "TREE/sub", "", "is a folder"},
		{"nothing", "TREE/none", "", "there is no"},
		{"below a file", "TREE/a/b", "", "not a folder"},
		{"outside", "OUT/secret", "", "is outside of what may be read here"},
		{"a name that begins like the tree", "TREE2/a", "", "is outside of what may be read here"},
		{"above", "/", "", "is outside"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(s, w.path(tt.path))
			if got != tt.want || (tt.refused == "") != (err == nil) {
				t.Fatalf("%q, %v", got, err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%v\nwant %s", err, tt.refused)
			}
			var own *Error
			if err != nil && !errors.As(err, &own) {
				t.Errorf("%T is no sentence for a model", err)
			}
		})
	}
}

func TestSpecialFiles(t *testing.T) {
	w := newWorld(t)
	s := Set{Write: []string{w.tree}}
	l, err := net.Listen("unix", w.tree+"/sock")
	check(t, err)
	defer l.Close()
	names := map[string]string{"sock": "socket"}
	if os.Getuid() == 0 && unix.Mknod(w.tree+"/dev", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) == nil {
		names["dev"] = "device"
	}
	for name, kind := range names {
		if _, err := read(s, w.tree+"/"+name); err == nil || !strings.Contains(err.Error(), "a "+kind) {
			t.Errorf("read %s: %v", name, err)
		}
		if target, err := s.Target(w.tree + "/" + name); err == nil || !strings.Contains(err.Error(), "a "+kind) {
			t.Errorf("write %s: %v, %v", name, target, err)
		}
	}
}

// TestSingleFile: a grant of one file opens its folder for nothing else.
func TestSingleFile(t *testing.T) {
	w := newWorld(t)
	s := Set{Read: []string{w.tree + "/a"}, Write: []string{w.tree + "/hard"}}
	if got, err := read(s, w.tree+"/a"); got != "hello" {
		t.Error(got, err)
	}
	for _, p := range []string{w.tree + "/in", w.tree, w.tree + "/a/b", w.tree + "/sub"} {
		if got, err := read(s, p); err == nil {
			t.Errorf("%s: %q", p, got)
		}
	}
	target, err := s.Target(w.tree + "/hard")
	check(t, err)
	defer target.Close()
	before := target.Old
	check(t, target.Replace([]byte("short")))
	after, err := os.Stat(w.tree + "/hard")
	check(t, err)
	if b, _ := os.ReadFile(w.tree + "/hard"); string(b) != "short" || !os.SameFile(before, after) {
		t.Errorf("%q, same file %v", b, os.SameFile(before, after))
	}
	if err := target.Replace([]byte("again")); err == nil {
		t.Error("a file that was changed meanwhile was written")
	}
	check(t, target.look())
	check(t, target.Replace([]byte("a much longer text than before")))
	if b, _ := os.ReadFile(w.tree + "/hard"); string(b) != "a much longer text than before" {
		t.Errorf("%q", b)
	}
	if _, err := s.Target(w.tree + "/a"); err == nil || !strings.Contains(err.Error(), "may be written") {
		t.Errorf("a file for reading: %v", err)
	}
}

// TestTreeThroughLink: a granted path that became a link is not the folder that
// was granted.
func TestTreeThroughLink(t *testing.T) {
	w := newWorld(t)
	link := filepath.Join(filepath.Dir(w.tree), "link")
	check(t, os.Symlink("outside", link))
	for _, s := range []Set{{Read: []string{link}}, {Read: []string{w.tree + "/dirout"}}, {Read: []string{w.tree + "/out"}}, {Read: []string{link + "/secret"}}} {
		if got, err := read(s, s.Read[0]); err == nil {
			t.Errorf("%q: %q", s.Read, got)
		}
		if got, err := read(s, s.Read[0]+"/secret"); err == nil {
			t.Errorf("%q: %q", s.Read, got)
		}
	}
}

// TestLongest: the innermost grant counts, and what may be written may be read.
func TestLongest(t *testing.T) {
	w := newWorld(t)
	s := Set{Read: []string{w.tree, w.tree + "/sub/deep"}, Write: []string{w.tree + "/sub"}}
	for p, want := range map[string]string{"": w.tree, "/a": w.tree, "/sub": w.tree + "/sub", "/sub/x": w.tree + "/sub", "/sub/deep/y": w.tree + "/sub/deep"} {
		place, err := s.Find(w.tree + p)
		check(t, err)
		if place.Root.Name() != want {
			t.Errorf("%s: %s", p, place.Root.Name())
		}
		place.Close()
	}
	if _, err := s.Target(w.tree + "/a"); err == nil {
		t.Error("a path that may only be read is written")
	}
	if _, err := (Set{}).Target("/x"); err == nil || err.Error() != "nothing was granted to write" {
		t.Error(err)
	}
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	w := newWorld(t)
	check(t, os.Chmod(w.tree+"/a", 0))
	check(t, os.Chmod(w.tree+"/sub", 0))
	defer os.Chmod(w.tree+"/sub", 0o755)
	s := Set{Read: []string{w.tree}, Write: []string{w.tree}}
	for _, p := range []string{"/a", "/sub/deep/x"} {
		if _, err := read(s, w.tree+p); err == nil || !strings.Contains(err.Error(), "may not be opened") {
			t.Errorf("%s: %v", p, err)
		}
	}
	target, err := s.Target(w.tree + "/a")
	check(t, err)
	defer target.Close()
	if err := target.Replace(nil); err == nil || !strings.Contains(err.Error(), "may not be opened") {
		t.Errorf("a file that may not be written was replaced: %v", err)
	}
}
