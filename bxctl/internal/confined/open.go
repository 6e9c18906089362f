package confined

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// execOpen becomes the program without shutting it in: it only loses the way
// back to rights, and root's rights if uid is not 0. What it makes is for its
// group, which is how its client gets to its socket.
func execOpen(uid uint32, argv, env []string) error {
	syscall.Umask(0o007)
	if uid != 0 && os.Geteuid() == 0 {
		if err := dropTo(int(uid)); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return os.NewSyscallError("exec", syscall.Exec(argv[0], argv, env))
}

func dropTo(uid int) error {
	parent := os.Getppid()
	if err := syscall.Setgroups(deviceGroups()); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setresgid(uid, uid, uid); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return os.NewSyscallError("setresuid", err)
	}
	// The kernel forgets this when the uid changes. If up ended in between,
	// nobody would tell us any more.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if os.Getppid() != parent {
		os.Exit(1)
	}
	return nil
}

// deviceGroups are the groups of graphics devices.
func deviceGroups() []int {
	var out []int
	for _, pattern := range []string{"/dev/dri/render*", "/dev/kfd", "/dev/nvidia*", "/dev/accel/*"} {
		paths, _ := filepath.Glob(pattern)
		for _, p := range paths {
			if st, err := os.Stat(p); err == nil {
				if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Gid != 0 {
					out = append(out, int(s.Gid))
				}
			}
		}
	}
	return out
}
