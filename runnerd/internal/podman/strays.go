package podman

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds how long what was killed may take to be gone.
const patience = 5 * time.Second

// strays kills processes of podman that a former runnerd left. podman itself
// knows of a container only once it is written down, and a kill can come before:
// then its monitor waits for ever, where no control group ends it.
func (r *Runtime) strays(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		found, err := r.killStrays()
		if err != nil || found == 0 {
			return err
		}
		select { // what is killed may just be starting another one
		case <-ctx.Done():
			return errors.New("podman: its processes of a former start do not end")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (r *Runtime) killStrays() (found int, err error) {
	var own unix.Stat_t
	if err := unix.Stat(r.state, &own); err != nil {
		return 0, err
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() || !r.stray(p, &own) {
			continue
		}
		found++
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return found, nil
}

// stray reports whether a process was started with our state. Its name alone is
// not enough as root, where it is the same in each home, in another mount
// namespace. For an ordinary user it is enough, and all there is: the process is in
// the user namespace of a former runnerd, into which nobody of another one sees.
func (r *Runtime) stray(proc string, own *unix.Stat_t) bool {
	args, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil || !bytes.Contains(args, []byte(r.state+"/")) {
		return false
	}
	var st unix.Stat_t
	switch err := unix.Stat(filepath.Join(proc, "root", r.state), &st); {
	case err == nil:
		return st.Dev == own.Dev && st.Ino == own.Ino
	case errors.Is(err, unix.EACCES):
		return ownNamespace() && unix.Stat(proc, &st) == nil && st.Uid == uint32(os.Getuid()) //nolint:gosec // a uid fits
	default:
		return false
	}
}

// ownNamespace reports whether this process is in a user namespace of its own: the
// first one maps all ids.
func ownNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !bytes.Contains(text, []byte(" 4294967295"))
}
