package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A hierarchy is one of those that are mounted here.
type hierarchy struct {
	controllers []string // of version 1; none for the unified one
	dir         string   // of this process
}

// hierarchies finds them from /proc/self/mountinfo and /proc/self/cgroup; see
// proc(5) and cgroups(7).
func hierarchies(mountinfo, groups string) []hierarchy {
	var found []hierarchy
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 || r[0] != "cgroup" && r[0] != "cgroup2" {
			continue
		}
		root, at := l[3], l[4]
		for group := range strings.Lines(groups) {
			f := strings.SplitN(strings.TrimSpace(group), ":", 3)
			if len(f) != 3 {
				continue
			}
			var controllers []string
			if f[1] != "" {
				controllers = strings.Split(f[1], ",")
			}
			if (r[0] == "cgroup2") != (f[1] == "") || !has(strings.Split(r[2], ","), controllers) {
				continue
			}
			rel, err := filepath.Rel(root, f[2])
			if err != nil || !filepath.IsLocal(rel) {
				rel = "." // the mount shows only a part; its top is as near as can be
			}
			found = append(found, hierarchy{controllers, filepath.Join(at, rel)})
		}
	}
	return found
}

func has(all, some []string) bool {
	for _, s := range some {
		if !slices.Contains(all, s) {
			return false
		}
	}
	return true
}

// Hybrid reports whether /sys/fs/cgroup is not the unified hierarchy though
// there is one: some runtimes refuse to start then.
func Hybrid() bool {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	one, top := false, false
	for line := range strings.Lines(string(text)) {
		left, right, _ := strings.Cut(line, " - ")
		f := strings.Fields(left)
		if len(f) < 5 {
			continue
		}
		one = one || strings.HasPrefix(right, "cgroup ")
		if f[4] == "/sys/fs/cgroup" {
			top = strings.HasPrefix(right, "cgroup2 ")
		}
	}
	return one && !top
}

// Delegate makes a folder called name in each hierarchy that allows it, gives
// it to uid, and moves this process below it. It is called before root is given
// up; an ordinary user gets what systemd or the administrator delegated.
func Delegate(name string, uid int) Base {
	var b Base
	mounts, err1 := os.ReadFile("/proc/self/mountinfo")
	groups, err2 := os.ReadFile("/proc/self/cgroup")
	if err := errors.Join(err1, err2); err != nil {
		b.Why = err.Error()
		return b
	}
	var why []string
	for _, h := range hierarchies(string(mounts), string(groups)) {
		var err error
		switch {
		case len(h.controllers) == 0 && b.Unified == "":
			err = b.unified(h.dir, name, uid)
		case slices.Contains(h.controllers, "memory") && b.Memory == "":
			if err = delegate(h.dir, name, uid); err == nil {
				b.Memory = filepath.Join(h.dir, name)
			}
		case slices.Contains(h.controllers, "pids") && b.PIDs == "":
			if err = delegate(h.dir, name, uid); err == nil {
				b.PIDs = filepath.Join(h.dir, name)
			}
		}
		if err != nil {
			why = append(why, err.Error())
		}
	}
	if b.Limits { // version 1 cannot have what the unified hierarchy has
		b.Memory, b.PIDs = "", ""
	}
	b.Why = strings.Join(why, "; ")
	return b
}

// unified tries this process's own group and then the one above: a group that
// has processes cannot hand on controllers, but the one above may do so already.
func (b *Base) unified(dir, name string, uid int) error {
	var errs []error
	for _, at := range []string{dir, filepath.Dir(dir)} {
		if _, err := os.Stat(filepath.Join(at, "cgroup.controllers")); err != nil {
			break
		}
		if err := delegate(at, name, uid); err != nil {
			errs = append(errs, err)
			continue
		}
		_ = write(filepath.Join(at, "cgroup.subtree_control"), "+memory +pids") // if it is not so already
		base := filepath.Join(at, name)
		err := write(filepath.Join(base, "cgroup.subtree_control"), "+memory +pids")
		if err == nil {
			if b.Unified != "" {
				_ = bury(filepath.Join(b.Unified, self))
				_ = bury(b.Unified)
			}
			b.Unified, b.Limits = base, true
			return nil
		}
		errs = append(errs, err)
		if b.Unified == "" {
			b.Unified = base // good enough to kill by
		} else {
			_ = write(filepath.Join(b.Unified, self, "cgroup.procs"), "0")
			_ = bury(filepath.Join(base, self))
			_ = bury(base)
		}
	}
	return errors.Join(errs...)
}

// delegate makes dir/name and dir/name/self, gives them to uid and moves this
// process there, so that it and its children are inside what is delegated.
func delegate(dir, name string, uid int) error {
	prune(dir, name)
	base := filepath.Join(dir, name)
	for _, d := range []string{base, filepath.Join(base, self)} {
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // as all control groups
			return err
		}
		for _, f := range []string{"", "cgroup.procs", "tasks", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Lchown(filepath.Join(d, f), uid, -1); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	if err := write(filepath.Join(base, self, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
		_ = bury(filepath.Join(base, self))
		_ = bury(base)
		return fmt.Errorf("cgroup: this process may not move to %s: %w", base, err)
	}
	return nil
}

// old is the age from which the empty folder of another home is taken for one
// that nobody uses: a younger one may be about to be.
const old = 5 * time.Minute

// prune removes the folders of homes that are gone. One with a process in it
// cannot be removed, so that nothing that is used is lost.
func prune(dir, name string) {
	all, _ := filepath.Glob(filepath.Join(dir, "boxmaker-*"))
	for _, base := range all {
		info, err := os.Stat(base)
		if filepath.Base(base) == name || err != nil || time.Since(info.ModTime()) < old {
			continue
		}
		_ = unix.Rmdir(filepath.Join(base, self))
		_ = unix.Rmdir(base)
	}
}

// Paths gives the folders that have to stay visible, by name.
func (b *Base) Paths() map[string]*string {
	all := map[string]*string{"unified": &b.Unified, "memory": &b.Memory, "pids": &b.PIDs}
	for k, p := range all {
		if *p == "" {
			delete(all, k)
		}
	}
	return all
}
