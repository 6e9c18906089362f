package audit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/filestamp"

	"golang.org/x/sys/unix"
)

// A disk is what a Log needs of its folder; tests put one there whose steps fail.
type disk interface {
	lock() (io.Closer, error)
	files() ([]string, error)
	scan(name string, visit func(int64, []byte) error) (appendlog.Recovery, error)
	open(name string, visit func(int64, []byte) error) (month, appendlog.Recovery, error)
	stamp(name string) (filestamp.Stamp, error)
}

// A month is one file.
type month interface {
	Append(lines ...[]byte) error
	Last() [sha256.Size]byte // of the newest line, as package appendlog has it
	Close() error
}

type rootDisk struct{ root *os.Root }

// lock is for the folder: between two files there is none of a file.
func (d rootDisk) lock() (io.Closer, error) {
	f, err := d.root.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = appendlog.ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d rootDisk) files() ([]string, error) { return chain.Files(d.root) }

func (d rootDisk) scan(name string, visit func(int64, []byte) error) (appendlog.Recovery, error) {
	return appendlog.Scan(d.root, name, visit)
}

func (d rootDisk) open(name string, visit func(int64, []byte) error) (month, appendlog.Recovery, error) {
	l, rec, err := appendlog.Open(appendlog.Config{Root: d.root, Name: name, Visit: visit})
	if err != nil {
		return nil, rec, err
	}
	return l, rec, nil
}

// damaged says what to do about a log that cannot be read to its end. An error
// of the disk says so itself.
func damaged(root *os.Root, err error) error {
	var fault *chain.Fault
	if !errors.As(err, &fault) && !errors.Is(err, appendlog.ErrCorrupt) {
		return fmt.Errorf("audit: %w%s", err, advice(err))
	}
	if rep, err := chain.Verify(chain.Config{Root: root}); err == nil && len(rep.Faults) > 0 {
		fault = rep.Faults[0] // which tells changed from missing and reordered
	}
	if fault != nil {
		err = fault
	}
	return fmt.Errorf("audit: the audit log is not as it was written, and nothing is allowed until it is: %w; "+
		"bxctl audit verify says more; put the file back from a backup, or move the whole folder away to begin a new log, "+
		"and say so with: bxctl audit accept (see runbook: audit-damaged)", err)
}

// advice says what to do, unless the error does.
func advice(err error) string {
	switch {
	case strings.Contains(err.Error(), "(see runbook: "):
		return ""
	case errors.Is(err, appendlog.ErrLocked):
		return "; another brokerd writes to it: end that first (see runbook: log-locked)"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "; the disk is full: free some space and start again (see runbook: disk-full)"
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return "; its folder or a file in it cannot be written by this user (see runbook: state-read-only)"
	default:
		return " (see runbook: log-write-failed)"
	}
}
