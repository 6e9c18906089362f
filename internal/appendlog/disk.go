package appendlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"boxmaker/internal/durable"

	"golang.org/x/sys/unix"
)

// A disk is what Open needs of the file system; tests put one there whose
// steps fail.
type disk interface {
	open(name string) (file, error) // to append, locked
	create(name string, data []byte) error
	read(name string) ([]byte, error)
	syncDir(name string) error
}

// A file is what a Log needs of its file.
type file interface {
	io.ReaderAt
	io.Writer
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	Sync() error
}

type rootDisk struct{ root *os.Root }

func (d rootDisk) open(name string) (file, error) {
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := regularSize(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// The lock belongs to the open file, so it ends with the process however
	// that ends.
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return logFile{f}, nil
}

func (d rootDisk) create(name string, data []byte) error {
	return durable.Create(d.root, name, data, 0o600)
}

func (d rootDisk) read(name string) ([]byte, error) { return d.root.ReadFile(name) }

func (d rootDisk) syncDir(name string) error { return durable.SyncDir(d.root, name) }

type logFile struct{ *os.File }

func (f logFile) Size() (int64, error) { return regularSize(f.File) }

// Sync is fdatasync: the data and the size reach the disk, times may lag behind.
func (f logFile) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func regularSize(f *os.File) (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !fi.Mode().IsRegular() {
		return 0, fmt.Errorf("not a regular file but %v", fi.Mode().Type())
	}
	return fi.Size(), nil
}

// saveTail copies what stands between good and size to a side file and gives
// its name: <log>.torn-<good>, with a number behind it if an earlier crash at
// the same place left other bytes there.
func saveTail(d disk, f file, name string, good, size int64) (string, error) {
	tail := make([]byte, size-good) // at most a line long: scan refuses more
	if _, err := f.ReadAt(tail, good); err != nil {
		return "", err
	}
	for i := 1; ; i++ {
		side := fmt.Sprintf("%s.torn-%d", name, good)
		if i > 1 {
			side = fmt.Sprintf("%s.%d", side, i)
		}
		err := d.create(side, tail)
		if err == nil {
			return side, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		// It is there already, perhaps from a recovery that itself was cut short.
		old, err := d.read(side)
		if err != nil {
			return "", err
		}
		if bytes.Equal(old, tail) {
			return side, d.syncDir(path.Dir(side))
		}
	}
}

// ownerError says what to do about a failed step.
func ownerError(op, name string, err error) error {
	advice := "the disk may be failing: look at the kernel log (see runbook: log-write-failed)"
	switch {
	case errors.Is(err, ErrLocked):
		advice = "end the other one first (see runbook: log-locked)"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		advice = "the disk is full; what was acknowledged is safe; free some space and start again (see runbook: disk-full)"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		advice = "the folder or file cannot be written by this user (see runbook: state-read-only)"
	case errors.Is(err, fs.ErrNotExist):
		advice = "its folder or file is not there (see runbook: state-missing)"
	}
	return fmt.Errorf("cannot %s log %s: %w; %s", op, name, err, advice)
}
