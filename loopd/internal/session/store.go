// Package session keeps the logs of conversations.
//
// A session is a folder, sessions/<id>/, with one append-only file per epoch,
// 0001.jsonl, 0002.jsonl, … The first record of each is the baseline: the bytes
// that stand in front of every request of that epoch. So a session is replayed
// from its files alone, whatever today's config or date says.
//
// The package guarantees: what [Session.Append] has acknowledged is there after
// any crash; a file appears under its name only with its whole baseline in it; a
// missing or unreadable baseline is an error and never made anew; an origin id
// that was ever logged stays known, over all epochs; a damaged file is not
// touched. It does not judge the order of records beyond that (package turn
// does), and it cannot notice that the newest epoch's file was taken away whole.
//
// Of one folder there is one open Store, in one process.
package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// ErrNoSession reports a session that has no folder.
var ErrNoSession = errors.New("session: there is no such session")

const (
	lockName  = ".lock"
	newPrefix = ".new-" // of the folder, or the file, in which an epoch is made
)

// Visit is given the records of a log in order. An error ends the walk.
type Visit func(epoch int, h proto.Header, r proto.Record) error

// A Store is a folder of sessions. Its methods may be called from several
// goroutines; a [Session] and its Store may be used side by side.
type Store struct {
	// Now is the clock of the records. It may be replaced before the first use.
	Now func() time.Time

	root *os.Root
	lock *os.File
}

// OpenStore takes the folder's lock and removes what an epoch that was never
// finished left behind. A second Store on the folder is an [Error] with runbook
// key second-loopd. The root stays the caller's to close, after the Store.
func OpenStore(root *os.Root) (*Store, error) {
	f, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, problem("", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = appendlog.ErrLocked
	}
	s := &Store{Now: time.Now, root: root, lock: f}
	if err == nil {
		err = s.sweep()
	}
	if err != nil {
		return nil, problem("", errors.Join(err, f.Close()))
	}
	return s, nil
}

// Close drops the folder's lock. Close the sessions first.
func (s *Store) Close() error { return s.lock.Close() }

// sweep removes the remains of sessions whose first baseline was never
// acknowledged. Those of later epochs go when their session is opened.
func (s *Store) sweep() error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) {
			if err := s.root.RemoveAll(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Exists reports whether the session has a folder.
func (s *Store) Exists(id string) (bool, error) {
	if err := proto.CheckSession(id); err != nil {
		return false, err
	}
	_, err := s.root.Lstat(id)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, problem(id, err)
}

// Size is the length in bytes of the newest epoch's file, 0 without one: what a
// replay will add to a prompt at most.
func (s *Store) Size(id string) (int64, error) {
	newest, err := s.epochs(id)
	if err != nil || newest == 0 {
		return 0, err
	}
	fi, err := s.root.Stat(epochName(id, newest))
	if err != nil {
		return 0, problem(id, err)
	}
	return fi.Size(), nil
}

// Read walks all epochs, oldest first. It takes no lock, so it may run while the
// session is open; records that are appended meanwhile may or may not be seen.
// A session that is not there is [ErrNoSession].
func (s *Store) Read(id string, visit Visit) error {
	newest, err := s.epochs(id)
	if err == nil && newest == 0 {
		err = fmt.Errorf("%w: %s", ErrNoSession, id)
	}
	if err != nil {
		return err
	}
	for epoch := 1; epoch <= newest; epoch++ {
		rec, err := appendlog.Scan(s.root, epochName(id, epoch), reader(epoch, visit))
		if err == nil && rec.Records == 0 {
			err = errNoBaseline
		}
		if err != nil {
			return problem(id, err)
		}
	}
	return nil
}

// epochs gives the number of the newest epoch, 0 if the session has no folder.
func (s *Store) epochs(id string) (int, error) {
	if err := proto.CheckSession(id); err != nil {
		return 0, err
	}
	entries, err := fs.ReadDir(s.root.FS(), id)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, problem(id, err)
	}
	found, newest := 0, 0
	for _, e := range entries {
		if n, ok := parseEpoch(e.Name()); ok {
			found, newest = found+1, max(newest, n)
		}
	}
	// A folder gets its name together with its first file, so an empty one, or
	// one with a gap, has lost something.
	switch {
	case found == 0:
		return 0, problem(id, errors.Join(errCorrupt, errors.New("its folder holds no log")))
	case found != newest:
		return 0, problem(id, errors.Join(errCorrupt, fmt.Errorf("the log of an epoch before %d is gone", newest)))
	}
	return newest, nil
}

func epochName(id string, epoch int) string { return fmt.Sprintf("%s/%04d.jsonl", id, epoch) }

func parseEpoch(name string) (int, bool) {
	var n int
	if _, err := fmt.Sscanf(name, "%d.jsonl", &n); err != nil || n < 1 || name != fmt.Sprintf("%04d.jsonl", n) {
		return 0, false
	}
	return n, true
}

// reader decodes the lines of one epoch's file for visit.
func reader(epoch int, visit Visit) func(int64, []byte) error {
	return func(n int64, line []byte) error {
		h, r, err := decodeRecord(line)
		if err != nil {
			return err
		}
		if err := checkPlace(n, h, r.Kind()); err != nil {
			return err
		}
		return visit(epoch, h, r)
	}
}

// decodeRecord may trust the line's form: its checksum says that this program,
// or an older one, wrote it.
func decodeRecord(line []byte) (proto.Header, proto.Record, error) {
	return proto.DecodeTrustedRecord(line)
}

// checkPlace finds lines that were moved, lost or doubled.
func checkPlace(n int64, h proto.Header, kind string) error {
	switch {
	case n == 0 && kind != "baseline":
		return errNoBaseline
	case h.N != n:
		return fmt.Errorf("%w: record %d stands in place %d", proto.ErrRecord, h.N, n)
	case n > 0 && kind == "baseline":
		return fmt.Errorf("%w: a second baseline", proto.ErrRecord)
	}
	return nil
}
