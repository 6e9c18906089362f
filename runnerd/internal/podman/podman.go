// Package podman starts boxes with `podman run`, rootless and with one user
// mapped, for hosts whose owner wants it. It is several times slower than
// package crun and passes the same conformance suite. It needs a runnerd that
// was started as root: `bxctl up` of an ordinary user puts it into a user
// namespace, and there rootless podman takes over a mapping that has no root.
//
// Its storage, locks and sockets lie in a folder of runnerd's own, so that it
// shares nothing with other uses of podman by the same user. podman keeps one
// process of its own alive between calls; Sweep ends it. Limits are not its
// matter: it is started in a control group of the call's own.
package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxmaker/runnerd/internal/box"
	"boxmaker/runnerd/internal/runtime"
	"boxmaker/runnerd/internal/seccomp"

	"golang.org/x/sys/unix"
)

// Runtime is podman.
type Runtime struct {
	path, state string
	global      []string // arguments before the command
}

// label marks containers of ours.
const label = "boxmaker=call"

// New finds podman and its helpers. state is a folder that only this user can
// enter.
func New(configured, state string) (*Runtime, error) {
	path, err := runtime.Find("podman", configured)
	if err != nil {
		return nil, err
	}
	if nested() {
		return nil, errors.New(`podman cannot be started from inside a user namespace, where "bxctl up" of an ordinary user puts runnerd; use crun, or start "bxctl up" as root`)
	}
	r := &Runtime{path: path, state: state}
	r.global = []string{
		"--root", r.in("storage"), "--runroot", r.in("run"), "--tmpdir", r.in("tmp"), "--storage-driver", "vfs",
		"--cgroup-manager", "cgroupfs", "--events-backend", "none", "--log-level", "fatal",
	}
	if p, err := runtime.Find("crun", ""); err == nil { // runc wants uid 0 mapped inside
		r.global = append(r.global, "--runtime", p)
	}
	if p, err := runtime.Find("conmon", ""); err == nil { // else podman looks for it in its usual places
		r.global = append(r.global, "--conmon", p)
	}
	err = os.MkdirAll(r.in("xdg"), 0o700)
	// Locks in files: those in shared memory would be the user's, and not this folder's.
	err = errors.Join(err, os.WriteFile(r.in("containers.conf"), []byte("[engine]\nlock_type = \"file\"\n"), 0o600),
		os.WriteFile(r.in(profileName(true)), seccomp.Profile(true), 0o600), os.WriteFile(r.in(profileName(false)), seccomp.Profile(false), 0o600))
	return r, err
}

// nested reports whether this process is in another user namespace than the
// machine's first one, which maps all ids.
func nested() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(text))
	return err == nil && (len(f) != 3 || f[2] != "4294967295")
}

func profileName(door bool) string { return "seccomp-door-" + strconv.FormatBool(door) + ".json" }

func (r *Runtime) in(name string) string { return filepath.Join(r.state, name) }

// Name gives podman.
func (r *Runtime) Name() string { return "podman" }

// env keeps newuidmap off the PATH: one user is mapped, which needs no help.
func (r *Runtime) env() []string {
	return []string{"PATH=/nonexistent", "HOME=" + r.state, "XDG_RUNTIME_DIR=" + r.in("xdg"), "CONTAINERS_CONF=" + r.in("containers.conf")}
}

// Prepare makes the command line.
func (r *Runtime) Prepare(b *box.Box) (runtime.Start, error) {
	pid := filepath.Join(b.Dir, "pid")
	args := append(append([]string{}, r.global...), "run", "--name", b.ID, "--label", label, "--rm", "--interactive", "--pidfile", pid,
		"--uidmap", "1000:0:1", "--gidmap", "1000:0:1", "--user", "1000:1000",
		"--network", "none", "--no-hosts", "--http-proxy=false", "--hostname", "box", "--cgroups", "disabled", "--cgroupns", "private",
		"--cap-drop", "all", "--security-opt", "no-new-privileges", "--security-opt", "seccomp="+r.in(profileName(b.Door)),
		"--security-opt", "mask="+strings.Join(box.Masked(), ":")+":/sys",
		"--read-only", "--read-only-tmpfs=false", "--pull", "never", "--log-driver", "none", "--systemd=false", "--sdnotify", "ignore",
		"--unsetenv-all", "--workdir", "/", "--shm-size", "64m", "--stop-timeout", "0",
		"--ulimit", "core=0:0", "--ulimit", "nofile=1024:1024", "--ulimit", limit("fsize", 1<<30))
	if b.Limits.NProc > 0 {
		args = append(args, "--ulimit", limit("nproc", b.Limits.NProc))
	}
	if b.Limits.Data > 0 {
		args = append(args, "--ulimit", limit("data", b.Limits.Data))
	}
	if b.Secrets {
		args = append(args, "--preserve-fds", "1")
	}
	for _, e := range b.Env {
		args = append(args, "--env", e)
	}
	for _, m := range b.Mounts {
		more, err := flags(m)
		if err != nil {
			return runtime.Start{}, err
		}
		args = append(args, more...)
	}
	args = append(append(args, "--rootfs", b.RootFS), b.Argv...)
	return runtime.Start{Path: r.path, Args: args, Env: r.env(), PID: pid}, nil
}

func limit(name string, v int64) string {
	n := strconv.FormatInt(v, 10)
	return name + "=" + n + ":" + n
}

// flags gives the flags for one mount. /proc, /dev and /dev/shm are podman's own.
func flags(m box.Mount) ([]string, error) {
	switch {
	case m.Kind == box.Proc || m.Dest == "/dev" || m.Dest == "/dev/shm":
		return nil, nil
	case strings.ContainsAny(m.Source+m.Dest, ",:\"\n"):
		return nil, &box.Refused{Reason: "mount", Detail: fmt.Sprintf("%q has a character that podman cannot take in a path; use crun", m.Dest)}
	case m.Kind == box.Tmpfs:
		o := fmt.Sprintf("%s:rw,nosuid,nodev,size=%d,mode=%o,notmpcopyup", m.Dest, m.Size, m.Mode)
		if !m.Exec {
			o += ",noexec"
		} else {
			o += ",exec"
		}
		return []string{"--tmpfs", o}, nil
	case m.Kind == box.Bind:
		if !m.Write && mountedBelow(m.Source) {
			return nil, &box.Refused{Reason: "mount", Detail: m.Source + " has other file systems below it, which podman cannot show read-only; use crun"}
		}
		o := "nosuid,nodev,rprivate"
		if !m.Write {
			o += ",ro"
		}
		if !m.Exec {
			o += ",noexec"
		}
		return []string{"--volume", m.Source + ":" + m.Dest + ":" + o}, nil
	default:
		return nil, fmt.Errorf("podman: a mount of unknown kind %d", m.Kind)
	}
}

// mountedBelow reports whether something is mounted below p.
func mountedBelow(p string) bool {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], p+"/") {
			return true
		}
	}
	return false
}

// Failed: podman ends with 125 if it failed itself, and with 126 or 127 if the
// command could not be started.
func (r *Runtime) Failed(b *box.Box, exit int, said string) (string, bool) {
	i := strings.Index(said, "Error: ")
	if i < 0 || exit < 125 || exit > 127 {
		return "", false
	}
	return "podman: " + said[i:], true
}

// Remove kills a container and forgets it.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err := runtime.Run(ctx, r.path, r.env(), append(append([]string{}, r.global...), "rm", "--force", "--ignore", "--time", "0", id)...)
	return err
}

// Warm has podman start its own process. If a call did, that would die with the
// call's control group, and podman cannot tell its remains from the living.
func (r *Runtime) Warm(ctx context.Context) error {
	if r.resting() == 0 {
		_ = os.Remove(r.pause())
	}
	_, err := runtime.Run(ctx, r.path, r.env(), append(append([]string{}, r.global...), "ps", "--quiet")...)
	return err
}

func (r *Runtime) pause() string { return filepath.Join(r.in("tmp"), "pause.pid") }

// Sweep removes all containers of ours and ends podman's own process.
func (r *Runtime) Sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := runtime.Run(ctx, r.path, r.env(), append(append([]string{}, r.global...), "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+label)...)
	errs := []error{err}
	for id := range strings.FieldsSeq(out) {
		errs = append(errs, r.Remove(ctx, id))
	}
	if err := errors.Join(errs...); err != nil {
		// A storm of kills can leave a store that podman itself refuses: it holds
		// nothing that is needed, so that a new one is as good.
		r.rest()
		return errors.Join(err, os.RemoveAll(r.in("storage")), os.RemoveAll(r.in("run")), os.RemoveAll(r.in("tmp")))
	}
	r.rest()
	return nil
}

// rest ends the process that keeps podman's user namespace.
func (r *Runtime) rest() {
	if pid := r.resting(); pid > 1 {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	_ = os.Remove(r.pause())
}

// resting gives the pid of that process, or 0.
func (r *Runtime) resting() int {
	text, err := os.ReadFile(r.pause())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !strings.HasPrefix(string(status), "Name:\tcatatonit\n") || strings.Contains(string(status), "\nState:\tZ") {
		return 0
	}
	return pid
}
