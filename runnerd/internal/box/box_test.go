package box

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func launch(mounts ...proto.Mount) *proto.Launch {
	return &proto.Launch{Call: "s/1/1/1", Entry: "t", Userland: proto.UserlandNone, Mounts: mounts}
}

// made makes a box in a folder of its own.
func made(t testing.TB, l *proto.Launch, h Host) (*Box, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "bxb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h.Dir, h.Toolkit = dir, "/opt/toolkit"
	return Make("bm-x", l, h)
}

func find(b *Box, dest string) (Mount, int) {
	i := slices.IndexFunc(b.Mounts, func(m Mount) bool { return m.Dest == dest })
	if i < 0 {
		return Mount{}, i
	}
	return b.Mounts[i], i
}

func TestGrantsGoWithWhatTheyAre(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a", "a/b", "a-b"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b, err := made(t, launch(proto.Mount{Path: dir + "/a/b", Write: true}, proto.Mount{Path: dir + "/a-b"}, proto.Mount{Path: dir + "/a"}), Host{})
	if err != nil {
		t.Fatal(err)
	}
	outer, i := find(b, dir+"/a")
	inner, j := find(b, dir+"/a/b")
	if i < 0 || j < i || outer.Write || !inner.Write || outer.Exec || inner.Exec {
		t.Errorf("%d %+v, %d %+v", i, outer, j, inner)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir+"/a/b", &st); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%s/a/b=%d:%d", dir, st.Dev, st.Ino); !slices.Contains(b.Argv, want) || b.Argv[len(b.Argv)-1] != "t" || b.Argv[0] != Tool {
		t.Errorf("%q lacks %s", b.Argv, want)
	}
	if info, err := os.Stat(b.RootFS + Tool); err != nil || info.IsDir() {
		t.Errorf("no place to mount on: %v", err)
	}
}

func TestProgramsMayBeExecutedOnlyWhereThereAreSome(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for u, want := range map[proto.Userland]bool{proto.UserlandNone: false, proto.UserlandUsr: true} {
		l := launch(proto.Mount{Path: dir, Write: true})
		l.Userland = u
		b, err := made(t, l, Host{})
		if err != nil {
			t.Fatal(err)
		}
		for _, dest := range []string{dir, "/tmp"} {
			if m, _ := find(b, dest); m.Exec != want {
				t.Errorf("%s with userland %s: exec %v", dest, u, m.Exec)
			}
		}
		if _, i := find(b, "/usr"); (i >= 0) != want {
			t.Errorf("/usr with userland %s: %d", u, i)
		}
	}
}

func TestHiddenPathsComeLast(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/private/pub", 0o700); err != nil {
		t.Fatal(err)
	}
	l := launch(proto.Mount{Path: dir}, proto.Mount{Path: dir + "/private/pub"})
	l.Hide = []string{dir + "/private", dir + "/none"}
	b, err := made(t, l, Host{})
	if err != nil {
		t.Fatal(err)
	}
	if m := b.Mounts[len(b.Mounts)-1]; m.Dest != dir+"/private" || m.Kind != Tmpfs {
		t.Errorf("last is %+v", m)
	}
	if err := os.Symlink("/etc", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	l.Hide = []string{dir + "/link"}
	var no *Refused
	if _, err := made(t, l, Host{}); !errors.As(err, &no) || no.Reason != proto.EndMount {
		t.Errorf("a hidden link: %v", err)
	}
}

func TestAPlaceInTheOwnersRoot(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := filepath.EvalSymlinks(t.TempDir()) // below /tmp, which is the container's own
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(root+"/opt/full", 0o700); err != nil {
		t.Fatal(err)
	}
	l := launch(proto.Mount{Path: data})
	l.Userland, l.Root = proto.UserlandRoot, root
	if _, err := made(t, l, Host{}); err != nil {
		t.Error(err)
	}
	s := &skeleton{whole: map[string]string{"opt": root + "/opt"}}
	if err := s.room([]proto.Mount{{Path: "/opt/full"}, {Path: "/srv/x"}, {Path: "/opt"}}); err != nil {
		t.Error(err)
	}
	if err := s.room([]proto.Mount{{Path: "/opt/none"}}); err == nil || !strings.Contains(err.Error(), "has no place in the container") {
		t.Error(err)
	}
}

// Never: a path that covers the container's own, or is not what it says.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"proc", "dev", "sys", "run", "tool", "egress.sock", "tmp", "home", "..", ".", "", "a"}), 0, 4).Draw(t, "parts")
		p := rapid.SampledFrom([]string{"/", ""}).Draw(t, "start") + strings.Join(parts, "/")
		if fit(p, "/dev/shm") != nil {
			return
		}
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			t.Fatalf("%q is taken", p)
		}
		for _, own := range []string{"/proc", "/sys", "/dev", "/tool", "/run/egress.sock"} {
			if p == own || strings.HasPrefix(p, own+"/") || strings.HasPrefix(own, p+"/") || p == "/" {
				t.Fatalf("%q would cover %s", p, own)
			}
		}
	})
}

func FuzzFit(f *testing.F) {
	f.Add("/home/me", "/dev/shm")
	f.Add("/proc/self/../1", "")
	f.Fuzz(func(t *testing.T, p, hidden string) {
		if fit(p, hidden) == nil && (!strings.HasPrefix(p, "/") || strings.Contains(p, "//") || strings.ContainsRune(p, 0) || strings.HasPrefix(p, "/proc/") || p == "/proc") {
			t.Errorf("%q is taken", p)
		}
	})
}
