// Package cgroup bounds the memory and the number of processes of one call, and
// kills all of them.
//
// It works below a folder that was delegated to this user (see [Delegate]), in
// the unified hierarchy, in those of version 1, or in a mix. What cannot be
// enforced is an error of [Base.Make], never a limit that silently does not
// hold. A process is in its group before it executes anything.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Base is the delegated place. The zero value can do nothing.
type Base struct {
	Unified string `json:"unified,omitzero"` // folder in the unified hierarchy
	// Limits says that the unified hierarchy has memory and pids here.
	Limits bool   `json:"limits,omitzero"`
	Memory string `json:"memory,omitzero"` // folder in the memory hierarchy of version 1
	PIDs   string `json:"pids,omitzero"`   // and in that of pids
	Why    string `json:"why,omitzero"`    // what could not be had, and why
}

// self is the group of runnerd itself, beside those of the calls.
const self = "self"

// room is what the runtime and the first process need beside the tool.
const room = 16

// CanMemory reports whether a memory limit can be enforced.
func (b Base) CanMemory() bool { return b.Limits || b.Memory != "" }

// CanPIDs reports whether a limit of processes can be enforced.
func (b Base) CanPIDs() bool { return b.Limits || b.PIDs != "" }

// A Group is that of one call.
type Group struct {
	unified string
	ones    []string // folders of version 1
	back    []string // where a thread that went into ones goes back to
	memory  string   // the one with the memory limit; may be empty
}

// Make makes the group of a call. A limit of 0 is none.
func (b Base) Make(id string, memory, pids int64) (*Group, error) {
	if memory > 0 && !b.CanMemory() {
		return nil, errors.New("memory cannot be limited here: " + b.why())
	}
	if pids > 0 && !b.CanPIDs() {
		return nil, errors.New("the number of processes cannot be limited here: " + b.why())
	}
	g := &Group{}
	err := g.make(b, id, memory, pids)
	if err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

func (b Base) why() string {
	if b.Why == "" {
		return "no control group was delegated"
	}
	return b.Why
}

func (g *Group) make(b Base, id string, memory, pids int64) error {
	if b.Unified != "" {
		dir := filepath.Join(b.Unified, id)
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as all control groups
			return err
		}
		g.unified = dir
		if b.Limits {
			g.memory = dir
			if err := g.bound(dir, memory, pids); err != nil {
				return err
			}
		}
	}
	if b.Memory != "" && memory > 0 {
		dir, err := g.one(b.Memory, id)
		if err != nil {
			return err
		}
		g.memory = dir
		if err := set(dir, "memory.limit_in_bytes", memory); err != nil {
			return err
		}
		// Only kernels that count swap have it; without swap there is nothing to count.
		if err := set(dir, "memory.memsw.limit_in_bytes", memory); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
	}
	if b.PIDs != "" && pids > 0 {
		dir, err := g.one(b.PIDs, id)
		if err != nil {
			return err
		}
		return set(dir, "pids.max", pids+room)
	}
	return nil
}

// one makes a folder in a hierarchy of version 1.
func (g *Group) one(base, id string) (string, error) {
	dir := filepath.Join(base, id)
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as all control groups
		return "", err
	}
	g.ones = append(g.ones, dir)
	g.back = append(g.back, filepath.Join(base, self))
	return dir, nil
}

// bound sets the limits in the unified hierarchy.
func (g *Group) bound(dir string, memory, pids int64) error {
	if memory > 0 {
		if err := set(dir, "memory.max", memory); err != nil {
			return err
		}
		if err := set(dir, "memory.swap.max", 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := set(dir, "memory.oom.group", 1); err != nil {
			return err
		}
	}
	if pids > 0 {
		return set(dir, "pids.max", pids+room)
	}
	return nil
}

func set(dir, file string, v int64) error {
	return write(filepath.Join(dir, file), strconv.FormatInt(v, 10))
}

// write writes to a file that exists: a missing controller shows as one.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Start starts cmd inside the group. Precondition: the goroutine is locked to
// its thread. If clean is false the thread is still in the group and must end
// with the goroutine.
func (g *Group) Start(cmd *exec.Cmd) (clean bool, err error) {
	if g.unified != "" {
		dir, err := os.Open(g.unified)
		if err != nil {
			return true, err
		}
		defer dir.Close()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	// Version 1 has no way to make a process in a group. But it takes single
	// threads, and a child is made where its thread is.
	clean, tid := true, strconv.Itoa(unix.Gettid())
	for i, dir := range g.ones {
		if err := write(filepath.Join(dir, "tasks"), tid); err != nil {
			return g.leave(i, tid), fmt.Errorf("cgroup: enter: %w", err)
		}
	}
	err = cmd.Start()
	return g.leave(len(g.ones), tid), err
}

func (g *Group) leave(n int, tid string) (clean bool) {
	clean = true
	for _, dir := range g.back[:n] {
		clean = write(filepath.Join(dir, "tasks"), tid) == nil && clean
	}
	return clean
}

// OOM reports whether the kernel killed something for want of memory.
func (g *Group) OOM() bool {
	if g.memory == "" {
		return false
	}
	for _, name := range []string{"memory.events", "memory.oom_control"} {
		text, err := os.ReadFile(filepath.Join(g.memory, name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok && strings.TrimSpace(n) != "0" {
				return true
			}
		}
	}
	return false
}

// Kill kills all that is in the group. It does not wait.
func (g *Group) Kill() {
	if g.unified != "" {
		_ = write(filepath.Join(g.unified, "cgroup.kill"), "1") // since Linux 5.14; else:
		killAll(g.unified)
	}
	for _, dir := range g.ones {
		killAll(dir)
	}
}

func killAll(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for f := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 1 && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// patience is how long the kernel may take to bury what was killed.
const patience = 5 * time.Second

// Remove kills what is in the group and removes it.
func (g *Group) Remove() error {
	var errs []error
	for _, dir := range append([]string{g.unified}, g.ones...) {
		if dir != "" {
			errs = append(errs, bury(dir))
		}
	}
	return errors.Join(errs...)
}

// bury kills the processes of one folder until it can be removed.
func bury(dir string) error {
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		err := unix.Rmdir(dir)
		switch {
		case err == nil || errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, unix.EBUSY) || time.Now().After(end):
			return fmt.Errorf("cgroup: remove %s: %w", dir, err)
		}
		_ = write(filepath.Join(dir, "cgroup.kill"), "1")
		killAll(dir)
	}
}

// Sweep removes the groups that a former runnerd left, with all that is in them.
func (b Base) Sweep() error {
	var errs []error
	for _, base := range []string{b.Unified, b.Memory, b.PIDs} {
		if base == "" {
			continue
		}
		errs = append(errs, sweep(base))
	}
	return errors.Join(errs...)
}

func sweep(base string) error {
	entries, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() && e.Name() != self {
			errs = append(errs, bury(filepath.Join(base, e.Name())))
		}
	}
	return errors.Join(errs...)
}
