// Package crun starts boxes with crun: a bundle for each call, all namespaces,
// one user mapped, no capability, the project's own system-call profile. (runc
// has the same command line and starts nothing unless uid 0 is mapped inside.)
//
// It guarantees that the runtime's own messages are told apart from those of
// what runs inside. Limits are not its matter: runnerd starts it in a cgroup of
// the call's own, so that the runtime needs none.
package crun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"boxmaker/runnerd/internal/box"
	"boxmaker/runnerd/internal/runtime"

	"github.com/go-json-experiment/json"
)

// Runtime is crun.
type Runtime struct {
	path    string
	sealed  *program
	state   string   // folder of the runtime's own state
	global  []string // arguments before the command
	filters filters
}

// New finds the program. state is a folder that only this user can enter.
func New(configured, state string) (*Runtime, error) {
	path, err := runtime.Find("crun", configured)
	if err != nil {
		return nil, err
	}
	r := &Runtime{path: path, sealed: &program{path: path}, state: state, global: []string{"--root", state, "--cgroup-manager=disabled"}}
	return r, os.MkdirAll(state, 0o700)
}

// Name gives crun.
func (r *Runtime) Name() string { return "crun" }

const logName = "runtime.log"

// env keeps newuidmap off the PATH: one user is mapped, which needs no help.
func (r *Runtime) env() []string {
	return []string{"PATH=/nonexistent", "XDG_RUNTIME_DIR=" + r.state}
}

// Prepare writes config.json.
func (r *Runtime) Prepare(b *box.Box) (runtime.Start, error) {
	text, err := encode(b, r.filters.get(b.Door), hooks{})
	if err != nil {
		return runtime.Start{}, err
	}
	if err := os.WriteFile(filepath.Join(b.Dir, "config.json"), text, 0o600); err != nil {
		return runtime.Start{}, err
	}
	pid := filepath.Join(b.Dir, "pid")
	log := "file:" + filepath.Join(b.Dir, logName)
	args := append(append([]string{}, r.global...), "--log", log, "--log-format", "json", "run", "--bundle", b.Dir, "--pid-file", pid)
	if b.Secrets {
		args = append(args, "--preserve-fds", "1")
	}
	return runtime.Start{Path: r.sealed.current(), Name: "crun", Args: append(args, b.ID), Env: r.env(), PID: pid}, nil
}

// Failed reads the runtime's log: what runs inside cannot write there.
func (r *Runtime) Failed(b *box.Box, exit int, said string) (string, bool) {
	text, err := os.ReadFile(filepath.Join(b.Dir, logName))
	if exit == 0 || err != nil {
		return "", false
	}
	var words []string
	for line := range strings.Lines(string(text)) {
		var e struct {
			Msg   string `json:"msg"`
			Level string `json:"level"`
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Level == "error" {
			words = append(words, e.Msg)
		}
	}
	return "crun: " + explained(strings.Join(words, "; ")), len(words) > 0
}

// explained adds what crun's words about namespaces mean. The first that it makes is
// that of users, and the kernel says ENOSPC where none is left (clone(2)).
func explained(words string) string {
	if !strings.Contains(words, "clone: ") && !strings.Contains(words, "unshare: ") {
		return words
	}
	for _, s := range []string{"No space left on device", "Operation not permitted", "Permission denied"} {
		if strings.Contains(words, s) {
			return words + " (the kernel makes no user namespace here)"
		}
	}
	return words
}

// Remove kills the box's first process, and with it all others.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if _, err := os.Lstat(filepath.Join(r.state, id)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := runtime.Run(ctx, r.path, r.env(), append(append([]string{}, r.global...), "delete", "--force", id)...)
	if _, gone := os.Lstat(filepath.Join(r.state, id)); errors.Is(gone, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sweep removes all boxes in the state folder.
func (r *Runtime) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(r.state)
	if err != nil {
		return fmt.Errorf("crun: sweep: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), runtime.Prefix) {
			continue
		}
		if err := r.Remove(ctx, e.Name()); err != nil {
			// A state that the runtime cannot read any more: nothing can be done with it.
			errs = append(errs, err, os.RemoveAll(filepath.Join(r.state, e.Name())))
		}
	}
	return errors.Join(errs...)
}
