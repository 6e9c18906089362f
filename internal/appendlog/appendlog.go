// Package appendlog writes files of one JSON object a line that only grow.
//
// A line is on disk when [Log.Append] returns nil: one write, then fdatasync,
// for all lines of the call. On disk every line ends in a member that this
// package adds and checks, the CRC-32C of all bytes before it:
//
//	{"n":7,"text":"…","crc":"1a2b3c4d"}
//
// So a changed byte, a hole or a joined pair of lines is found, and a line that
// a crash cut short ("torn") is told from one that was damaged later. A torn
// tail can only be the end of the file: it is kept in a side file and cut off.
// Anything bad before the end stops [Open], which then changes nothing.
//
// It does not notice that whole lines are missing or reordered; the visitor
// does, by the record numbers, or a hash chain over [Log.Last]. It can not know
// what a failed fsync left on disk: after a failed write or sync the log is
// broken for good, the program should end, and Open is the way back.
package appendlog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"
)

// MaxRecord caps one line in bytes, its checksum not counted.
const MaxRecord = 8 << 20

var (
	// ErrBroken is what Append gives for good once a write or sync has failed,
	// that first failure included.
	ErrBroken = errors.New("the log takes nothing more until the program is started again")
	// ErrLocked reports that the log is open already, here or in another process.
	ErrLocked = errors.New("the log is open in another program")
	// ErrCorrupt reports a log that cannot be read to its end. The file was
	// left as it is. If the visitor refused a line whose checksum is good, the
	// visitor's error is wrapped too.
	ErrCorrupt = errors.New("damaged log")
	// ErrRecord reports that Append was given something that is no line: not
	// {"…}, too long, or with a line break in it. Nothing was written.
	ErrRecord = errors.New("appendlog: not a log line")
)

// Config says what to open.
type Config struct {
	Root *os.Root
	Name string // slash-separated, relative to Root; its folder must be there
	// Visit, if set, is given each line in order, n from 0, without its crc
	// member and line break. The bytes are valid only during the call. An
	// error ends Open with ErrCorrupt and that error.
	Visit func(n int64, line []byte) error
}

// Recovery says what was found in a log.
type Recovery struct {
	Records int64  // whole lines
	Torn    int64  // bytes after them: cut off by Open, left alone by Scan
	Side    string // where Open keeps the torn bytes, relative to Root
}

// A Log appends to one file. Its methods may be called from several goroutines.
type Log struct {
	name string
	file file

	mu   sync.Mutex // guards what follows
	err  error      // why nothing more can be appended
	n    int64
	size int64
	last [sha256.Size]byte
	buf  []byte // one batch, kept for the next
}

// Open opens or creates a log (mode 0600), takes its lock, visits each line,
// cuts off a torn tail, and syncs what it found, so that the caller may act on
// it. It streams: memory is bounded by the longest line, not by the file.
func Open(c Config) (*Log, Recovery, error) {
	return open(c, rootDisk{c.Root})
}

func open(c Config, d disk) (*Log, Recovery, error) {
	f, err := d.open(c.Name)
	if err != nil {
		return nil, Recovery{}, ownerError("open", c.Name, err)
	}
	l, rec, err := load(c, d, f)
	if err != nil {
		return nil, rec, errors.Join(err, f.Close())
	}
	return l, rec, nil
}

// load reads and mends an open, locked file.
func load(c Config, d disk, f file) (*Log, Recovery, error) {
	size, err := f.Size()
	if err != nil {
		return nil, Recovery{}, ownerError("read", c.Name, err)
	}
	got, err := scan(f, size, c.Name, c.Visit)
	if err != nil {
		return nil, Recovery{}, err
	}
	rec := Recovery{Records: got.records, Torn: size - got.good}
	if rec.Torn > 0 {
		if rec.Side, err = saveTail(d, f, c.Name, got.good, size); err != nil {
			return nil, rec, ownerError("keep the torn end of", c.Name, err)
		}
		if err := f.Truncate(got.good); err != nil {
			return nil, rec, ownerError("cut the torn end of", c.Name, err)
		}
	}
	// A program that was killed between write and sync left lines that are
	// readable and yet not on disk. They count from now on, so they must be.
	if err := f.Sync(); err != nil {
		return nil, rec, ownerError("sync", c.Name, err)
	}
	if err := d.syncDir(path.Dir(c.Name)); err != nil {
		return nil, rec, ownerError("sync the folder of", c.Name, err)
	}
	l := &Log{name: c.Name, file: f, n: got.records, size: got.good}
	if got.records > 0 {
		raw := make([]byte, got.good-1-got.lastStart)
		if _, err := f.ReadAt(raw, got.lastStart); err != nil {
			return nil, rec, ownerError("read", c.Name, err)
		}
		l.last = sha256.Sum256(raw)
	}
	return l, rec, nil
}

// Append writes lines, each one JSON object with at least one member and no
// line break in it, and syncs them: one write and one sync for all. A torn
// write keeps a beginning of the lines, so of a batch the first lines may
// survive a crash without the others.
//
// Errors: [ErrRecord] if a line cannot be one, with nothing written; otherwise
// [ErrBroken] together with the cause, and every later Append fails.
func (l *Log) Append(lines ...[]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	buf, last := l.buf[:0], 0
	for _, line := range lines {
		if err := checkLine(line); err != nil {
			return err
		}
		last = len(buf)
		buf = appendSealed(buf, line)
	}
	if len(buf) == 0 {
		return nil
	}
	if _, err := l.file.Write(buf); err != nil {
		return l.fail("write to", err)
	}
	if err := l.file.Sync(); err != nil {
		return l.fail("sync", err)
	}
	l.n += int64(len(lines))
	l.size += int64(len(buf))
	l.last = sha256.Sum256(buf[last : len(buf)-1])
	l.buf = buf
	if cap(buf) > 1<<20 { // one huge line should not stay in memory for years
		l.buf = nil
	}
	return nil
}

// fail breaks the log. Precondition: mu is held.
func (l *Log) fail(op string, err error) error {
	l.err = fmt.Errorf("appendlog: %s: %w (see runbook: log-write-failed)", l.name, ErrBroken)
	return fmt.Errorf("%w: %w", ErrBroken, ownerError(op, l.name, err))
}

// Len returns the number of lines on disk.
func (l *Log) Len() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.n }

// Size returns the length of the file in bytes.
func (l *Log) Size() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.size }

// Last returns the SHA-256 of the last line as it stands on disk, with its crc
// and without its line break; all zero for an empty log.
func (l *Log) Last() [sha256.Size]byte { l.mu.Lock(); defer l.mu.Unlock(); return l.last }

// Close closes the file, and so drops the lock. Append fails from then on.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.err, os.ErrClosed) {
		return nil
	}
	l.err = fmt.Errorf("appendlog: %s: %w", l.name, os.ErrClosed)
	return l.file.Close()
}
