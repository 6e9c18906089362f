package conform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// killedAtEveryStep kills runnerd at moments from before the first step of a call
// to behind its last one. The next start finds nothing of it, or removes it.
func killedAtEveryStep(t *testing.T, w *World) {
	rounds := 8
	if w.runtime == "podman" {
		rounds = 3
	}
	began := time.Now()
	w.Run(t, Launch("echo"))
	one := time.Since(began)
	for i := range rounds {
		c := w.Begin(t, Launch("deaf", "echo", "stay"))
		d := w.Begin(t, Launch("echo"))
		time.Sleep(one * time.Duration(i) / time.Duration(rounds-2)) // the moment is the test
		w.Kill(t)
		c.Close()
		d.Close()
		w.Start(t)
		w.Status(t) // its own first containers are gone by then
		w.clean(t, fmt.Sprintf("killed in round %d of %d, %v a call", i, rounds, one))
	}
	w.empty(t)
}

// killedAtFirst kills runnerd while it has its runtime make filters of system
// calls. Of those containers nothing is left, even if there is no next start.
func killedAtFirst(t *testing.T, w *World) {
	for i := range 12 {
		w.Kill(t)
		w.Start(t)
		c, err := ipc.Dial(t.Context(), w.Socket(), proto.RunnerEvents)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(&proto.GetRunner{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 6 * time.Millisecond) // the moment is the test
		w.Kill(t)
		c.Close()
		deadline(t, func() error { return w.inside("/crun/filter/") })
		w.Start(t)
	}
	w.empty(t)
}

// inside looks for a process that has a mount of something in the folder of the calls.
func (w *World) inside(path string) error {
	tables, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, p := range tables {
		table, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(table), filepath.Join(w.Home, "run", "bundles")+path) {
			return fmt.Errorf("a process is left in %s: %s", path, p)
		}
	}
	return err
}

// clean waits until no process, mount or control group of a call is there.
func (w *World) clean(t *testing.T, when string) {
	t.Helper()
	deadline(t, func() error {
		for _, look := range []func() error{w.processes, w.groups, w.mounts} {
			if err := look(); err != nil {
				return fmt.Errorf("%s: %w", when, err)
			}
		}
		return nil
	})
}

// processes looks for a process in a call's root file system, and for a runtime
// that makes one.
func (w *World) processes() error {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	bundles := filepath.Join(w.Home, "run", "bundles")
	for _, p := range all {
		table, err := os.ReadFile(filepath.Join(p, "mountinfo"))
		if err != nil {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		words := strings.ReplaceAll(string(args), "\x00", " ")
		ours := strings.Contains(words, bundles) || strings.Contains(string(table), bundles)
		if strings.Contains(string(table), bundles+"/bm-") || ours && strings.Contains(words, "/bm-") {
			return errors.New("a process is left: " + words)
		}
	}
	return nil
}

// groups looks for a call's control group.
func (w *World) groups() error {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(w.Home, "run", "bundles"), &st); err != nil {
		return err
	}
	name := fmt.Sprintf("boxmaker-%d-%x-%x", w.UID, st.Dev, st.Ino)
	for _, at := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/", "/sys/fs/cgroup/*/*/", "/sys/fs/cgroup/*/*/*/", "/sys/fs/cgroup/*/*/*/*/"} {
		left, err := filepath.Glob(at + name + "/bm-*")
		if err != nil || len(left) > 0 {
			return fmt.Errorf("control groups are left: %q %w", left, err)
		}
	}
	return nil
}

// mounts looks for mounts of runnerd in the machine's own namespace.
func (w *World) mounts() error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && strings.Contains(string(table), filepath.Join(w.Home, "run")) {
		err = errors.New("a mount is left")
	}
	return err
}
