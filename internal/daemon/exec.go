package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ExecConfined confines this process as [Daemon.Confine] does and then becomes
// the program binary, which inherits it all. It is for programs that cannot
// confine themselves, and it returns only with an error.
//
// The binary is opened first, so that it can be executed though the new user
// may not enter its folder; the user must be allowed to execute the file
// itself, which must be an ELF program. A program that is not linked statically
// needs its libraries in c.Execute. Descriptors that are not closed on exec
// (LISTEN_FDS) stay open. If confinement is incomplete the program runs all the
// same; the rows are logged to stderr under its name.
func ExecConfined(binary string, argv, env []string, c Confinement) error {
	fail := func(err error) error {
		return fmt.Errorf("cannot start %s: %w (see runbook: start-confined)", binary, err)
	}
	f, err := os.Open(binary)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	dir, err := os.OpenFile(filepath.Dir(binary), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	byFile := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	byName := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(binary))
	c.Execute = append(c.Execute[:len(c.Execute):len(c.Execute)], byFile)
	logRows(newLog(filepath.Base(binary)), confine(c))
	// The kernel gives /proc/self/fd of an undumpable process to root. Linux lets
	// us through all the same, since it is our own; nothing says that it must.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return fail(err)
	}
	// By name if that works, since the process is then listed under it.
	if err = syscall.Exec(byName, argv, env); errors.Is(err, syscall.EACCES) {
		err = syscall.Exec(byFile, argv, env)
	}
	return fail(err)
}
