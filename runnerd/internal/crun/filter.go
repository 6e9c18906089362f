package crun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"boxmaker/runnerd/internal/box"
	"boxmaker/runnerd/internal/runtime"
)

// filters are the two system-call profiles as crun compiled them.
//
// crun makes the filter's program anew for each container, which takes as long as
// a fifth of the whole start, and leaves it as seccomp.bpf in the container's
// state. Handed back in this annotation (crun(1)), it is used as it is:
//
//	run.oci.seccomp_bpf_data
//
// The profile stands in the description as well, for a crun that does not know the
// annotation. It is never another filter: the data came out of this profile, by
// this runtime, for a container that ran nothing.
type filters struct {
	mu   sync.Mutex // guards what follows
	data map[bool][]byte
}

const filterAnnotation = "run.oci.seccomp_bpf_data"

// Sizes of a filter's program: one instruction (struct sock_filter of
// linux/filter.h), and what the kernel takes (BPF_MAXINSNS).
const (
	instruction = 8
	maxProgram  = 4096 * instruction
)

// get gives the program for boxes with or without a door; nil if there is none.
func (f *filters) get(door bool) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.data[door]
}

// Warm has crun compile the filters once. Without them each call takes longer,
// and nothing else.
func (r *Runtime) Warm(ctx context.Context) error {
	r.filters.mu.Lock()
	defer r.filters.mu.Unlock()
	if r.filters.data != nil {
		return nil
	}
	data := map[bool][]byte{}
	for _, door := range []bool{false, true} {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the next Warm tries again
		}
		if program, err := r.compile(ctx, door); err == nil {
			data[door] = program
		}
	}
	r.filters.data = data
	return nil
}

// filterID is the container in which a filter is made. Sweep knows it by its
// beginning, if this program ends in between.
const filterID = runtime.Prefix + "filter"

// compile makes a container, in which nothing runs, for the sake of its filter: its
// program is none, and while crun finds that out a hook copies the filter. So
// nothing is left to wait for this program, whenever it ends.
func (r *Runtime) compile(ctx context.Context, door bool) (program []byte, err error) {
	dir := filepath.Join(r.state, "filter")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, out := filepath.Join(dir, "rootfs"), filepath.Join(dir, "filter.bpf")
	b := &box.Box{
		ID: filterID, Dir: dir, RootFS: root, Argv: []string{"/none"}, Env: []string{}, Door: door,
		Mounts: []box.Mount{{Kind: box.Proc, Dest: "/proc"}, {Kind: box.Tmpfs, Dest: "/dev", Size: 64 << 10, Mode: 0o755}}, UID: os.Geteuid(), GID: os.Getegid(),
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(root, 0o700)); err != nil {
		return nil, err
	}
	// crun looks for the program beforehand: a file that the kernel does not start.
	if err := os.WriteFile(filepath.Join(root, "none"), nil, 0o700); err != nil { //nolint:gosec // a program
		return nil, err
	}
	cp, err := exec.LookPath("cp")
	if err != nil {
		return nil, err
	}
	text, err := encode(b, nil, hooks{Poststart: []hook{{Path: cp, Args: []string{"cp", filepath.Join(r.state, b.ID, "seccomp.bpf"), out}}}})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		return nil, err
	}
	// crun is let come to its end, which takes some hundredths of a second, also if
	// this program ends meanwhile: killed at the wrong moment it leaves a container.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	defer func() { err = errors.Join(err, r.Remove(context.WithoutCancel(ctx), b.ID)) }()
	// No pipes: the container's first process would hold them open.
	cmd := exec.CommandContext(ctx, r.path, append(append([]string{}, r.global...), "run", "--bundle", dir, b.ID)...)
	cmd.Env, cmd.Dir = r.env(), "/"
	failed := cmd.Run() // as it has to
	program, err = os.ReadFile(out)
	if err != nil {
		return nil, fmt.Errorf("crun: no filter: %w", errors.Join(failed, err))
	}
	if len(program) == 0 || len(program)%instruction != 0 || len(program) > maxProgram {
		return nil, fmt.Errorf("crun: a filter has %d bytes", len(program))
	}
	return program, nil
}
