// Package runtime is what runnerd asks of a container runtime: a program that
// starts one box, waits for its end and gives back its exit status. crun and
// podman are such; both must pass the same conformance suite.
//
// An implementation writes what it needs into the folder of the call and starts
// nothing by itself. That nothing outlives a call is up to the caller, who kills
// by Remove, by cgroup and by pid.
package runtime

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"boxmaker/runnerd/internal/box"
)

// Runtime is one container runtime.
type Runtime interface {
	Name() string
	// Prepare writes what the box needs to its folder and says how it is started.
	Prepare(b *box.Box) (Start, error)
	// Failed tells whether it was the runtime that failed, so that the box never
	// ran, and in which words. said is what the runtime and the box wrote to
	// standard error.
	Failed(b *box.Box, exit int, said string) (words string, failed bool)
	// Remove kills a box with all that is in it. One that does not exist is no error.
	Remove(ctx context.Context, id string) error
	// Warm does once what would otherwise be part of the first call.
	Warm(ctx context.Context) error
	// Sweep removes every box that a former runnerd left behind.
	Sweep(ctx context.Context) error
}

// Start is how a box is started.
type Start struct {
	Path string
	Name string   // that the program is told; empty: Path
	Args []string // without the program's name
	Env  []string
	PID  string // file into which the runtime writes the pid of the first process; may be empty
}

// Prefix begins the id of every box.
const Prefix = "bm-"

// Find gives the absolute path of a runtime's program.
func Find(name, configured string) (string, error) {
	if configured != "" {
		name = configured
	}
	p, err := exec.LookPath(name)
	if err == nil {
		p, err = filepath.Abs(p)
	}
	if err != nil {
		return "", fmt.Errorf("the container runtime %s is not here: %w", name, err)
	}
	return p, nil
}

// Run runs a short command of a runtime and gives its words if it failed.
func Run(ctx context.Context, path string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir = env, "/"
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		words := strings.TrimSpace(said.String())
		if len(words) > 2000 {
			words = words[:2000]
		}
		return out.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err, words)
	}
	return out.String(), nil
}
