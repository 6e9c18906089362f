package box

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

func TestPins(t *testing.T) {
	w := func(p string) proto.Mount { return proto.Mount{Path: p, Write: true} }
	for _, tc := range []struct {
		name   string
		mounts []proto.Mount
		covers []string
		want   string
	}{
		{"nothing hidden", []proto.Mount{w("/w")}, nil, ""},
		{"at the top", []proto.Mount{w("/w")}, []string{"/w/a"}, ""},
		{"deep", []proto.Mount{w("/w")}, []string{"/w/a/b/c", "/w/a/d"}, "/w/a /w/a/b"},
		{"only to read", []proto.Mount{{Path: "/r"}}, []string{"/r/a/b/c"}, ""},
		{"to read within what may be written", []proto.Mount{w("/w"), {Path: "/w/a/r"}}, []string{"/w/a/r/x/y"}, "/w/a"},
		{"to be written within what is read", []proto.Mount{{Path: "/r"}, w("/r/a/w")}, []string{"/r/a/w/x/y"}, "/r/a/w/x"},
		{"the granted one itself", []proto.Mount{w("/w/a")}, []string{"/w/a"}, ""},
	} {
		var covers []Mount
		for _, c := range tc.covers {
			covers = append(covers, Mount{Dest: c})
		}
		var got []string
		for _, p := range pins(tc.mounts, covers) {
			got = append(got, p.Path)
			if !p.Write {
				t.Errorf("%s: %s cannot be written", tc.name, p.Path)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Always: however somebody who took brokerd over fills a launch in, the box has
// no more than the launch names, each where it is named, never with a link
// followed, each checked inside; and nothing covers the container's own.
func TestALaunchFromAnEnemy(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(dir+"/a/b/c", 0o700), os.WriteFile(dir+"/a/f", nil, 0o600), os.Symlink("/etc", dir+"/link"), os.Symlink("a", dir+"/also"), os.Mkdir(dir+"/doors", 0o700), os.WriteFile(dir+"/doors/file", nil, 0o600), os.Symlink("../owner.sock", dir+"/doors/link"), os.MkdirAll(dir+"/mine/run", 0o700)); err != nil {
		t.Fatal(err)
	}
	paths := []string{
		dir, dir + "/a", dir + "/a/b", dir + "/a/b/c", dir + "/a/f", dir + "/link", dir + "/link/ssl", dir + "/also/b", dir + "/a/../..", dir + "/a/", dir + "//a", dir + "/none", "/", "/proc", "/proc/1/root",
		"/proc/self/fd/0", "/dev", "/dev/null", "/dev/shm/x", "/sys", "/run", "/run/egress.sock", "/tool", "/tmp", "", ".", "..", "etc", "/etc/passwd", "/etc\x00/passwd", dir + "/a=1:2", "/run/../proc", "-check", dir + "/mine", dir + "/mine/run", dir + "/mine/run/bm-x",
	}
	other, err := net.Listen("unix", dir+"/owner.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	rapid.Check(t, func(rt *rapid.T) {
		path := rapid.SampledFrom(paths)
		l := &proto.Launch{
			Call: "s/1/1/1", Entry: rapid.SampledFrom([]string{"run", "../run", "-check", "probe"}).Draw(rt, "entry"),
			Hide: rapid.SliceOfN(path, 0, 4).Draw(rt, "hide"), Door: rapid.SampledFrom([]string{"", "", "../x", "/etc/passwd", "x/../../y", "link", ".", "owner.sock", "brokerd/owner.sock", "doors/../owner.sock", "doors/none", "doors/file", "doors/link", "brokerd/doors/x/y"}).Draw(rt, "door"),
			Userland: rapid.SampledFrom([]proto.Userland{proto.UserlandNone, proto.UserlandUsr, proto.UserlandRoot, "other"}).Draw(rt, "userland"), Root: path.Draw(rt, "root"),
		}
		for range rapid.IntRange(0, 4).Draw(rt, "mounts") {
			l.Mounts = append(l.Mounts, proto.Mount{Path: path.Draw(rt, "path"), Write: rapid.Bool().Draw(rt, "write")})
		}
		b, err := made(t, l, Host{Hidden: "/dev/shm", Run: dir, Own: []string{dir + "/mine/run"}})
		if err != nil {
			var no *Refused
			if !errors.As(err, &no) || no.Reason.Validate() != nil {
				rt.Fatalf("%v", err)
			}
			return
		}
		if l.Door != "" {
			rt.Fatalf("the door %q is taken", l.Door)
		}
		for _, m := range l.Mounts {
			if strings.HasPrefix(m.Path, dir+"/mine") || m.Path == dir {
				rt.Fatalf("%s is Boxmaker's own, or has it inside", m.Path)
			}
		}
		for _, m := range b.Mounts {
			named := slices.ContainsFunc(l.Mounts, func(g proto.Mount) bool { return g.Path == m.Dest && g.Write == m.Write })
			pinned := m.Write && slices.ContainsFunc(l.Mounts, func(g proto.Mount) bool { return g.Write && strings.HasPrefix(m.Dest, g.Path+"/") })
			if m.Kind != Bind || m.File && filepath.Dir(m.Source) == b.Dir {
				continue
			}
			if m.Write && !named && !pinned {
				rt.Fatalf("%s can be written, and the launch does not say so: %+v", m.Dest, l.Mounts)
			}
			if !named && !pinned {
				continue // of the userland; it is never written
			}
			if m.Source != m.Dest || m.Dev {
				rt.Fatalf("%+v", m)
			}
			if i := slices.IndexFunc(b.Argv, func(a string) bool { return strings.HasPrefix(a, m.Dest+"=") }); i < 1 || b.Argv[i-1] != "-check" {
				rt.Fatalf("%s is not checked inside: %q", m.Dest, b.Argv)
			}
		}
		for _, c := range l.Hide {
			if _, _, err := open(c); err != nil {
				continue
			}
			last := -1 // of what is mounted there, or above it after all that was granted
			for i, m := range b.Mounts {
				if m.Dest == c || m.Kind == Tmpfs && strings.HasPrefix(c, m.Dest+"/") {
					last = i
				}
			}
			if last < 0 || b.Mounts[last].Write || b.Mounts[last].Source == c {
				rt.Fatalf("%s is not hidden: %+v", c, b.Mounts)
			}
		}
	})
}

func TestNumberOfPaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	deep := dir
	for range 60 {
		deep += "/d"
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	var no *Refused
	if _, err := made(t, launch(slices.Repeat([]proto.Mount{{Path: dir}}, 100_000)...), Host{}); !errors.As(err, &no) || !strings.Contains(no.Detail, "there may be") {
		t.Errorf("many mounts: %v", err)
	}
	l := launch(proto.Mount{Path: dir, Write: true})
	l.Hide = []string{deep}
	if b, err := made(t, l, Host{}); err != nil || len(b.Mounts) < 60 {
		t.Errorf("deep: %v", err)
	}
	for i := range 10 {
		p := dir + strings.Repeat("/e"+string(rune('0'+i)), 60)
		if err := os.MkdirAll(p, 0o700); err != nil {
			t.Fatal(err)
		}
		l.Hide = append(l.Hide, p)
	}
	if _, err := made(t, l, Host{}); !errors.As(err, &no) || !strings.Contains(no.Detail, "too deep") {
		t.Errorf("many and deep: %v", err)
	}
}
