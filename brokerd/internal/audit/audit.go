// Package audit writes the audit log (docs/formats/audit-log.md).
//
// What it guarantees: a record is on disk when [Log.Append] gives an OK [Ref],
// and only then; the log that it goes on with is whole, from the first record
// on, and its newest file is as this program left it. After a failed write, or
// once somebody else has written there, nothing can be appended any more: the
// program should end, and [Open] is the way back. The clock only names files and
// times; it never decides what follows on what.
//
// A log that lacks a head which was noted or is given to [Open] is not gone on
// with. Each record is noted; a power cut may lose the newest notes, though not
// those of the start, the end and the checkpoints. Whoever can change the note
// too is found out by other heads, kept elsewhere. Files of former months are
// looked at when the log is opened, and not again.
package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/filestamp"
	"boxmaker/internal/proto"
)

// Config says what to open.
type Config struct {
	Root    *os.Root // the folder; nobody else writes there
	Version string   // of the program, for the start record
	Now     func() time.Time
	// Visit, if set, is given each record that is there, in order. An error
	// ends Open.
	Visit func(proto.AuditHeader, proto.AuditRecord) error

	State  *os.Root          // where its length is noted; nil: nowhere
	Known  []proto.AuditHead // heads that were kept elsewhere
	Accept *proto.AuditHead  // the owner goes on with a log of just this end, whatever it lacks
}

// A Ref stands for one record that is on disk. Only a [Log] makes one that is
// OK; the zero value stands for nothing.
type Ref struct{ head proto.AuditHead }

// OK reports whether there is such a record.
func (r Ref) OK() bool { return r.head.N > 0 }

// Head is that of the log with the record as its last.
func (r Ref) Head() proto.AuditHead { return r.head }

// A Log appends to the newest file. Its methods may be called from several
// goroutines.
type Log struct {
	now   func() time.Time
	disk  disk
	root  *os.Root
	lock  io.Closer
	known []*known // until it is loaded

	mu   sync.Mutex // guards what follows
	err  error      // why nothing more can be appended
	file month
	name string
	seen filestamp.Stamp // of the file, as this program left it
	walk chain.Walker

	note    note
	noted   bool       // its length is this program's to note
	given   proto.Head // newest checkpoint
	givenAt int64      // how long the log was with its record
}

// Open takes the log's lock, verifies and visits all of it, and appends a
// record that it was opened; before that, one that the end was torn, if it was.
// A log that is not whole is left as it is, and the error says what is wrong.
func Open(c Config) (*Log, error) { return open(c, rootDisk{c.Root}) }

func open(c Config, d disk) (*Log, error) {
	lock, err := d.lock()
	if err != nil {
		return nil, fmt.Errorf("audit: cannot take the lock of the audit log: %w%s", err, advice(err))
	}
	l := &Log{now: c.Now, disk: d, root: c.Root, lock: lock, note: note{root: c.State}}
	var rec appendlog.Recovery
	if l.known, err = expect(c); err == nil {
		rec, err = l.load(c)
	}
	var lost []proto.AuditHead
	if err == nil {
		lost, err = missed(l.known, l.walk.Head(), c.Accept)
	}
	if err == nil {
		err = l.begin(&proto.AuditStart{Version: c.Version, PID: os.Getpid(), Lost: lost}, rec)
	}
	if err == nil {
		l.noted = true
		err = l.note.keep(l.walk.Head())
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// load reads all files and leaves the newest open.
func (l *Log) load(c Config) (appendlog.Recovery, error) {
	files, err := l.disk.files()
	if err != nil {
		return appendlog.Recovery{}, damaged(c.Root, err)
	}
	if len(files) == 0 {
		// Nothing is made in the place of a log that is missed.
		if _, err := missed(l.known, l.walk.Head(), c.Accept); err != nil {
			return appendlog.Recovery{}, err
		}
		files = []string{chain.FileOf(l.now())}
	}
	var refused error
	visit := func(_ int64, line []byte) error {
		var err error
		err, refused = l.visit(c.Visit, line)
		return errors.Join(err, refused)
	}
	older, newest := files[:len(files)-1], files[len(files)-1]
	for _, name := range older {
		rec, err := l.disk.scan(name, visit)
		if err == nil && rec.Torn > 0 {
			err = &chain.Fault{
				What: chain.Changed, File: name, Line: rec.Records + 1, N: l.walk.Head().N,
				Text: "the last line was changed or cut, and a later file is there",
			}
		}
		if refused != nil {
			return rec, refused
		}
		if err != nil {
			return rec, damaged(c.Root, err)
		}
	}
	file, rec, err := l.disk.open(newest, visit)
	if refused != nil {
		return rec, refused
	}
	if err != nil {
		return rec, damaged(c.Root, err)
	}
	l.file, l.name = file, newest
	if err := l.mark(0); err != nil {
		return rec, fmt.Errorf("audit: %w%s", err, advice(err))
	}
	return rec, nil
}

// visit takes one line: err says that the log is bad, refused is the visitor's.
func (l *Log) visit(each func(proto.AuditHeader, proto.AuditRecord) error, line []byte) (err, refused error) {
	h, _, err := l.walk.Next(line)
	if err == nil {
		meet(l.known, l.walk.Head())
	}
	if err != nil || each == nil {
		return err, nil
	}
	_, r, err := proto.DecodeTrustedAudit(line)
	if err != nil {
		return err, nil
	}
	return nil, each(h, r)
}

// begin writes the first records of this opening.
func (l *Log) begin(start *proto.AuditStart, rec appendlog.Recovery) error {
	if rec.Torn > 0 {
		if _, err := l.Append(&proto.AuditRecovered{Bytes: rec.Torn, File: rec.Side}); err != nil {
			return err
		}
	}
	_, err := l.Append(start)
	return err
}

// Append writes one record and syncs it. A record that is not valid, or too
// long, is refused with nothing written, and the log stays good. Any other
// error breaks it, and may have left the record on disk.
func (l *Log) Append(r proto.AuditRecord) (Ref, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(r)
}

// append does it. Precondition: mu is held.
func (l *Log) append(r proto.AuditRecord) (Ref, error) {
	if l.err != nil {
		return Ref{}, l.err
	}
	now, head := l.now(), l.walk.Head()
	line, err := proto.EncodeAudit(proto.AuditHeader{N: head.N, Time: now, Prev: head.Hash}, r)
	if err != nil {
		return Ref{}, fmt.Errorf("audit: %w", err)
	}
	if err := l.untouched(); err != nil {
		return Ref{}, err
	}
	if name := chain.FileOf(now); name > l.name {
		if err := l.turn(name); err != nil {
			return Ref{}, l.fail(err)
		}
	}
	if err := l.file.Append(line); err != nil {
		if errors.Is(err, appendlog.ErrRecord) {
			return Ref{}, fmt.Errorf("audit: %w", err)
		}
		return Ref{}, l.fail(err)
	}
	l.walk.Wrote(l.file.Last())
	err = l.mark(appendlog.OnDisk(line))
	if err == nil && l.noted {
		err = l.note.follow(l.walk.Head())
	}
	if err != nil {
		return Ref{}, l.fail(err)
	}
	return Ref{l.walk.Head()}, nil
}

// turn begins the file of a new month.
func (l *Log) turn(name string) error {
	file, rec, err := l.disk.open(name, nil)
	if err != nil {
		return err
	}
	if rec.Records > 0 || rec.Torn > 0 {
		return errors.Join(fmt.Errorf("file %s of the audit log was put there by somebody else", name), file.Close())
	}
	old := l.file
	l.file, l.name = file, name
	return errors.Join(old.Close(), l.mark(0))
}

// fail breaks the log. Precondition: mu is held.
func (l *Log) fail(err error) error {
	l.err = fmt.Errorf("audit: %w (see runbook: log-write-failed)", appendlog.ErrBroken)
	if !errors.Is(err, appendlog.ErrBroken) {
		err = fmt.Errorf("%w: %w", appendlog.ErrBroken, err)
	}
	return fmt.Errorf("audit: cannot write to the audit log; nothing is allowed until it can be: %w%s", err, advice(err))
}

// Err says why nothing more can be appended; nil if all is well.
func (l *Log) Err() error { l.mu.Lock(); defer l.mu.Unlock(); return l.err }

// Head is the newest record on disk.
func (l *Log) Head() proto.AuditHead { l.mu.Lock(); defer l.mu.Unlock(); return l.walk.Head() }

// Checkpoint signs the head and records that it did. If nothing was appended
// since the last time, it gives the same again.
func (l *Log) Checkpoint(s *Signer) (proto.Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return proto.Head{}, l.err
	}
	if err := l.untouched(); err != nil { // no signature for a log that is not there
		return proto.Head{}, err
	}
	head := l.walk.Head()
	if head.N == l.givenAt {
		return l.given, nil
	}
	checkpoint, signature, err := s.sign(head)
	if err != nil {
		return proto.Head{}, err
	}
	if _, err := l.append(&proto.AuditCheckpoint{Head: head, Signature: signature}); err != nil {
		return proto.Head{}, err
	}
	l.given, l.givenAt = proto.Head{Head: head, Checkpoint: checkpoint}, l.walk.Head().N
	return l.given, l.note.keep(l.walk.Head())
}

// Close closes the file and drops the lock. Append fails from then on.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.err, os.ErrClosed) {
		return nil
	}
	var err error
	if l.noted && l.err == nil {
		err = l.note.keep(l.walk.Head())
	}
	err = errors.Join(err, l.note.close())
	l.err = fmt.Errorf("audit: the log: %w", os.ErrClosed)
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return errors.Join(err, l.lock.Close())
}
