package conform

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

func mounts(t *testing.T, w *World) {
	ro, rw := filepath.Dir(w.File(t, "ro/a", "one")), filepath.Dir(w.File(t, "rw/a", "two"))
	below := filepath.Dir(w.File(t, "ro/below/a", "three"))
	single := w.File(t, "single=file:1", "four")
	w.File(t, "other", "not granted")
	l := Launch("cat "+ro+"/a "+rw+"/a "+below+"/a "+single+" "+w.Data+"/other",
		"write "+ro+"/a "+ro+"/b "+rw+"/a "+rw+"/b "+below+"/b "+single, "ls "+w.Data)
	if w.runtime == "podman" { // it cannot take a colon in a path
		single = w.File(t, "single=file", "four")
		l.Input = strings.ReplaceAll(l.Input, "single=file:1", "single=file")
	}
	l.Mounts = []proto.Mount{{Path: below, Write: true}, {Path: rw, Write: true}, {Path: ro}, {Path: single}}
	said := w.Says(t, l)
	expect(t, said, map[string]string{
		"cat " + ro + "/a": `"one" ok`, "cat " + rw + "/a": `"two" ok`, "cat " + below + "/a": `"three" ok`, "cat " + single: `"four" ok`,
		"cat " + w.Data + "/other": `"" ENOENT`,
		"write " + ro + "/a":       "EROFS", "write " + ro + "/b": "EROFS", "write " + single: "EROFS",
		"write " + rw + "/a": "ok", "write " + rw + "/b": "ok", "write " + below + "/b": "ok",
		"ls " + w.Data: "ro rw " + filepath.Base(single) + " <nil>",
	})
	var st unix.Stat_t
	if err := unix.Stat(rw+"/b", &st); err != nil || int(st.Uid) != w.UID {
		t.Errorf("what was written belongs to %d, %v", st.Uid, err)
	}
	if b, err := os.ReadFile(ro + "/a"); err != nil || string(b) != "one" {
		t.Errorf("%q %v", b, err)
	}
}

func refusals(t *testing.T, w *World) {
	real := filepath.Dir(w.File(t, "real/deep/a", "one"))
	link, mid := filepath.Join(w.Data, "link"), filepath.Join(w.Data, "mid")
	for name, to := range map[string]string{link: real, mid: filepath.Dir(real), filepath.Join(w.Data, "dangling"): "/nowhere"} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(w.Data, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, path, want string }{
		{"a link", link, "symbolic link"},
		{"a link on the way", mid + "/deep", "symbolic link"},
		{"a dangling link", filepath.Join(w.Data, "dangling"), "symbolic link"},
		{"nothing there", filepath.Join(w.Data, "none"), "does not exist"},
		{"a file as a folder", filepath.Join(real, "a", "b"), "does not exist"},
		{"a fifo", filepath.Join(w.Data, "fifo"), "neither a file nor a folder"},
		{"a device", "/dev/null", "the container's own"},
		{"everything", "/", "as a whole"},
		{"all of run", "/run", "as a whole"},
		{"proc", "/proc", "the container's own"},
		{"a process", "/proc/1/root", "the container's own"},
		{"sys", "/sys/kernel", "the container's own"},
		{"the toolkit", "/tool", "the container's own"},
		{"the door", "/run/egress.sock", "the container's own"},
		{"not clean", w.Data + "/../x", "no absolute, clean path"},
		{"the sockets of Boxmaker", filepath.Join(w.Home, "run"), "Boxmaker's own"},
		{"other calls", filepath.Join(w.Home, "run", "bundles", "bm-other"), "Boxmaker's own"},
		{"what has them inside", w.Home, "Boxmaker's own"},
		{"relative", "etc", "no absolute, clean path"},
		{"shadow", "/etc/shadow/x", "does not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Launch("echo ran")
			l.Mounts = []proto.Mount{{Path: tc.path}}
			e := w.Run(t, l)
			ended(t, e, proto.EndMount, tc.want)
			if len(e.Output) > 0 {
				t.Errorf("it ran: %s", e.Output)
			}
		})
	}
	l := Launch("echo ran")
	l.Mounts = []proto.Mount{{Path: real}, {Path: real, Write: true}}
	ended(t, w.Run(t, l), proto.EndMount, "twice")
	l = Launch("echo ran")
	for _, door := range []string{"../../etc/passwd", "runner.sock", "doors/../runner.sock", "doors"} {
		l.Door = door
		ended(t, w.Run(t, l), proto.EndInternal, "door")
	}
	enemy(t, w)
}

// enemy: launches that brokerd never makes end as calls, and runnerd goes on.
func enemy(t *testing.T, w *World) {
	many := make([]proto.Mount, 20_000)
	for i := range many {
		many[i] = proto.Mount{Path: fmt.Sprintf("%s/%d", w.Data, i)}
	}
	for name, change := range map[string]func(l *proto.Launch){
		"many mounts":       func(l *proto.Launch) { l.Mounts = many },
		"much to hide":      func(l *proto.Launch) { l.Hide = slices.Repeat([]string{w.Data}, 100_000) },
		"a time that wraps": func(l *proto.Launch) { l.Limits.MS = 1<<63 - 1 },
		"pids that wrap":    func(l *proto.Launch) { l.Limits.PIDs = 1<<63 - 1 },
		"memory that wraps": func(l *proto.Launch) { l.Limits.Memory = 1<<63 - 1 },
		"no memory at all":  func(l *proto.Launch) { l.Limits.Memory = 1 },
		"much output":       func(l *proto.Launch) { l.Limits.Output = 1<<63 - 1 },
		"the root as root":  func(l *proto.Launch) { l.Userland, l.Root = proto.UserlandRoot, "/" },
		"a root above":      func(l *proto.Launch) { l.Userland, l.Root = proto.UserlandRoot, w.Data+"/../.." },
		"many secrets": func(l *proto.Launch) {
			for i := range 5_000 {
				l.Secrets = append(l.Secrets, proto.LaunchSecret{Name: fmt.Sprint(i), Value: strings.Repeat("x", 100)})
			}
		},
	} {
		l := Launch("echo ran")
		change(l)
		if e := w.Run(t, l); e.Reason.Validate() != nil || e.Reason == proto.EndTimeout || name == "the root as root" && e.Reason == proto.EndExit {
			t.Errorf("%s: %s %s", name, e.Reason, e.Detail)
		}
		if e := w.Run(t, Launch("echo ran")); string(e.Output) != "ran\n" {
			t.Fatalf("after %s: %s %s", name, e.Reason, e.Detail)
		}
	}
}

func hidden(t *testing.T, w *World) {
	tree := filepath.Dir(w.File(t, "tree/a", "one"))
	w.File(t, "tree/private/b", canary)
	single := w.File(t, "tree/key", canary)
	l := Launch("cat "+tree+"/a "+tree+"/private/b "+single, "ls "+tree+"/private", "write "+tree+"/private/c "+single+" "+tree+"/d")
	l.Mounts, l.Hide = []proto.Mount{{Path: tree, Write: true}}, []string{tree + "/private", single, tree + "/not-there"}
	said := w.Says(t, l)
	expect(t, said, map[string]string{"cat " + tree + "/a": `"one" ok`, "cat " + tree + "/private/b": `"" ENOENT`, "ls " + tree + "/private": "<nil>", "write " + tree + "/d": "ok"})
	if strings.Contains(said["cat "+single], canary) {
		t.Error("a hidden file can be read")
	}
	if b, err := os.ReadFile(single); err != nil || string(b) != canary {
		t.Errorf("a hidden file was changed: %q %v", b, err)
	}
	if _, err := os.Stat(tree + "/private/c"); err == nil {
		t.Error("something was written to a hidden folder")
	}
	l.Hide = []string{"/etc"}
	ended(t, w.Run(t, l), proto.EndInternal, "in nothing that was granted")
}

// swapped exchanges a granted folder with a link to another one, all the time:
// what is mounted is the granted one, or nothing runs.
func swapped(t *testing.T, w *World) {
	granted := filepath.Dir(w.File(t, "swap/a", "granted"))
	other := filepath.Dir(w.File(t, "elsewhere/a", canary))
	link := filepath.Join(w.Data, "swap-link")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, granted, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
					t.Errorf("exchange: %v", err)
					return
				}
				time.Sleep(200 * time.Microsecond)
			}
		}
	}()
	end := sync.OnceFunc(func() { close(stop); <-stopped })
	defer end()
	rounds := 40
	if w.runtime == "podman" {
		rounds = 10
	}
	for range rounds {
		l := Launch("cat "+granted+"/a", "write "+granted+"/b")
		l.Mounts = []proto.Mount{{Path: granted, Write: true}}
		e := w.Run(t, l)
		if bytes.Contains(e.Output, []byte(canary)) {
			t.Fatal("another folder than the granted one was mounted")
		}
		if e.Reason != proto.EndExit && e.Reason != proto.EndMount && e.Reason != proto.EndNoRuntime {
			t.Errorf("%s: %s", e.Reason, e.Detail)
		}
	}
	end()
	if _, err := os.Stat(filepath.Join(other, "b")); err == nil {
		t.Error("something was written to another folder than the granted one")
	}
}
