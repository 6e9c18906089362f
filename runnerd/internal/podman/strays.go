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
// not enough: as root it is the same in each home, in another mount namespace.
func (r *Runtime) stray(proc string, own *unix.Stat_t) bool {
	args, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil || !bytes.Contains(args, []byte(r.state+"/")) {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(filepath.Join(proc, "root", r.state), &st) == nil && st.Dev == own.Dev && st.Ino == own.Ino
}
