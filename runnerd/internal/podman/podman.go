// Package podman starts boxes with `podman run`, rootless and with one user
// mapped, for hosts whose owner wants it. It is several times slower than
// package crun and passes the same conformance suite.
//
// Each podman gets a user namespace in which it is 0, and nothing outside of it.
// Left alone it would make one with all further ids of the user, by the help of
// set-user-id programs, or fail where runnerd is in a namespace that has no 0; and
// it would keep a process alive between calls. No tool is 0 anywhere.
//
// Its storage, locks and sockets lie in a folder of runnerd's own (or, for a path that podman finds too long, in one
// of this user's, see runroot), so that it
// shares nothing with other uses of podman by the same user. It takes no bound
// for the number of files in a file system in memory (nr_inodes is "unknown mount
// option" to it), so that only the memory limit of a call bounds those. Limits are not its
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
)

// Runtime is podman.
type Runtime struct {
	path, state string
	unshare     string
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
	unshare, err := runtime.Find("unshare", "")
	if err != nil {
		return nil, fmt.Errorf("podman needs the program unshare, of util-linux: %w", err)
	}
	r := &Runtime{path: path, unshare: unshare, state: state}
	run, err := runroot(r.in("run"), places()...)
	if err != nil {
		return nil, err
	}
	r.global = []string{
		"--user", "--map-root-user", "--mount", "--", path,
		"--root", r.in("storage"), "--runroot", run, "--tmpdir", r.in("tmp"), "--storage-driver", "vfs",
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

func profileName(door bool) string { return "seccomp-door-" + strconv.FormatBool(door) + ".json" }

func (r *Runtime) in(name string) string { return filepath.Join(r.state, name) }

// Name gives podman.
func (r *Runtime) Name() string { return "podman" }

// env keeps newuidmap off the PATH: one user is mapped, which needs no help. It
// says that this is done, and who the user is.
func (r *Runtime) env() []string {
	return []string{
		"PATH=/nonexistent", "HOME=" + r.state, "XDG_RUNTIME_DIR=" + r.in("xdg"), "CONTAINERS_CONF=" + r.in("containers.conf"),
		"_CONTAINERS_USERNS_CONFIGURED=done", fmt.Sprint("_CONTAINERS_ROOTLESS_UID=", os.Getuid()), fmt.Sprint("_CONTAINERS_ROOTLESS_GID=", os.Getgid()),
	}
}

// podman runs a short command.
func (r *Runtime) podman(ctx context.Context, args ...string) (string, error) {
	return runtime.Run(ctx, r.unshare, r.env(), append(append([]string{}, r.global...), args...)...)
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
	return runtime.Start{Path: r.unshare, Args: args, Env: r.env(), PID: pid}, nil
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
	_, err := r.podman(ctx, "rm", "--force", "--ignore", "--time", "0", id)
	return err
}

// Warm has podman make its storage.
func (r *Runtime) Warm(ctx context.Context) error {
	_, err := r.podman(ctx, "ps", "--quiet")
	return err
}

// Sweep removes all containers of ours.
func (r *Runtime) Sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := r.strays(ctx); err != nil {
		return err
	}
	out, err := r.podman(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+label)
	errs := []error{err}
	for id := range strings.FieldsSeq(out) {
		errs = append(errs, r.Remove(ctx, id))
	}
	if err := errors.Join(errs...); err != nil {
		// A storm of kills can leave a store that podman itself refuses: it holds
		// nothing that is needed, so that a new one is as good.
		return errors.Join(err, os.RemoveAll(r.in("storage")), os.RemoveAll(r.in("run")), os.RemoveAll(r.in("tmp")))
	}
	return nil
}
