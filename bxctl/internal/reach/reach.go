// Package reach tells, as root, what another user can get at. It guarantees that
// the kernel itself is asked; it says nothing about that user's other groups.
package reach

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"boxmaker/bxctl/internal/fault"

	"golang.org/x/sys/unix"
)

// MayUse asks the kernel whether a user without other groups may use path, on
// a thread that takes that user's place for file access and is then thrown away.
// mode is unix.R_OK, W_OK, X_OK or several. For a user other than this program's
// own it needs root.
func MayUse(path string, uid, mode uint32) error {
	answer := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		_, _, no := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
		_, gidErr := unix.SetfsgidRetGid(int(uid))
		_, uidErr := unix.SetfsuidRetUid(int(uid))
		err := errors.Join(gidErr, uidErr)
		if no != 0 {
			err = no
		}
		if err == nil {
			err = unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
		}
		answer <- err
	}()
	return <-answer
}

// Home checks, as root, that a role can pass through the folders above the home:
// brokerd and the tools find their files by path. The home itself is up's to
// open, and a folder that is not there yet is passed over.
func Home(home string, uid uint32) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var closed error // of the uppermost that is: what is below can't be asked for
	for dir := filepath.Dir(home); ; dir = filepath.Dir(dir) {
		if err := MayUse(dir, uid, unix.X_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
			closed = &fault.Fault{
				What: fmt.Sprintf("uid %d, as which a part of Boxmaker runs, can't pass through %s", uid, dir), Err: err,
				Means: "as root, bxctl up runs each part as a user of its own and never as root, and so " + home + " is out of their reach",
				Do:    "use a home in an open place, such as /var/lib/boxmaker (--home or BOXMAKER_HOME), or chmod o+x " + dir + ", which lets nobody list it", Key: "home-out-of-reach",
			}
		}
		if dir == filepath.Dir(dir) {
			return closed
		}
	}
}
