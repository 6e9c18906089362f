package grant

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A watch tells whether anything in a folder may have changed, without looking
// at each file. The kernel queues an event before the system call that changed
// something returns, so that a change that was finished before [watch.quiet] is
// never missed. What it does not see makes it be left out: see [watchable], and
// files that have a second name elsewhere.
type watch struct {
	file *os.File // closed when the watch is forgotten
	conn syscall.RawConn
	id   identity // of the folder that is watched
	full time.Time
	set  Set
}

// identity tells one folder from another.
type identity struct{ dev, ino uint64 }

// recheck is when the files are looked at although no event came: a program
// that writes to a file by mapping it into its memory makes none.
const recheck = 5 * time.Second

const events = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// watchable reports whether the folder is on a local file system whose every
// change passes through this kernel.
func watchable(dir int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(dir, &st) != nil {
		return false
	}
	switch int64(st.Type) { //nolint:unconvert // another type elsewhere
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC, 0x2fc12fc1: // the last is ZFS
		return true
	}
	return false
}

// newWatch begins to watch the folder that path names now; nil if it can't.
func newWatch(path string, dir int) *watch {
	if !watchable(dir) {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil // the user has as many as may be
	}
	w := &watch{file: os.NewFile(uintptr(fd), "inotify")}
	id, ok := identityOf(dir)
	_, err = unix.InotifyAddWatch(fd, path, events)
	if again, okToo := identityAt(path); err != nil || !ok || !okToo || id != again {
		_ = w.file.Close()
		return nil
	}
	if w.conn, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close()
		return nil
	}
	w.id = id
	return w
}

// quiet takes the events that came, and reports whether there was none.
func (w *watch) quiet() bool {
	var buf [4096]byte
	none := true
	for {
		var n int
		var err error
		if w.conn.Read(func(fd uintptr) bool { n, err = unix.Read(int(fd), buf[:]); return true }) != nil { //nolint:gosec // a descriptor fits
			return false
		}
		switch {
		case err == unix.EINTR: //nolint:errorlint // a plain number
		case err == unix.EAGAIN: //nolint:errorlint // a plain number
			return none
		case err != nil || n <= 0:
			return false
		default:
			none = false
		}
	}
}

// fresh reports whether the set that was read last is what is there now.
func (w *watch) fresh(path string, now time.Time) bool {
	id, ok := identityAt(path)
	age := now.Sub(w.full)
	return w.quiet() && ok && id == w.id && age >= 0 && age < recheck
}

func identityOf(fd int) (identity, bool) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return identity{uint64(st.Dev), st.Ino}, err == nil //nolint:unconvert // another type elsewhere
}

func identityAt(path string) (identity, bool) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return identity{uint64(st.Dev), st.Ino}, err == nil //nolint:unconvert // another type elsewhere
}
