package up

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"boxmaker/internal/config"

	"golang.org/x/sys/unix"
)

// The lock of a home is run/up.lock, held twice by the running up: flock keeps
// others out; a record lock tells who holds it, by the kernel's word and not by
// a number in a file that may be stale.

const lockName = "up.lock"

// errLocked reports that another up runs for this home.
var errLocked = errors.New("up: locked")

type lock struct{ f *os.File }

// take gets the lock, or errLocked.
func take(l config.Layout) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(l.Run, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	}
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EACCES) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// For people; nothing reads it.
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return &lock{f}, nil
}

func (l *lock) release() error {
	return errors.Join(l.f.Truncate(0), l.f.Close())
}

// Holder gives the pid of the up that runs for this home; 0 if none does. It
// is -1 if one runs that this process cannot see, in another container.
func Holder(l config.Layout) (int, error) {
	f, err := os.OpenFile(filepath.Join(l.Run, lockName), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	ask := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &ask); err != nil {
		return 0, err
	}
	switch {
	case ask.Type == unix.F_UNLCK:
		return 0, nil
	case ask.Pid <= 0:
		return -1, nil
	default:
		return int(ask.Pid), nil
	}
}
