package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// A Session is one open conversation. Its methods may be called from several
// goroutines; the order of concurrent appends is not defined.
type Session struct {
	store *Store
	id    string

	mu        sync.Mutex // guards what follows
	log       *appendlog.Log
	file      fs.FileInfo // of log, to see whether it is still there
	epoch     int
	origins   origins
	recovered *proto.Recovered
}

// Open opens a session and gives visit the records of its newest epoch, in
// order. Older epochs are read for their origins only. A torn end is cut off,
// kept beside the log, and recorded. A session that is not there yet is opened
// too, with Epoch 0; nothing is made on disk before [Session.StartEpoch].
//
// Errors are [Error] (runbook keys session-corrupt, session-version, disk-full,
// state-read-only, second-loopd, session-io), or proto.ErrID for a bad id. If
// visit fails, its error is wrapped.
func (s *Store) Open(id string, visit Visit) (*Session, error) {
	newest, err := s.epochs(id)
	if err != nil {
		return nil, err
	}
	c := &Session{store: s, id: id, epoch: newest, origins: origins{known: map[string]Origin{}}}
	if newest == 0 {
		return c, nil
	}
	if err := s.root.RemoveAll(newName(epochName(id, newest+1))); err != nil { // never acknowledged
		return nil, problem(id, err)
	}
	if visit == nil {
		visit = func(int, proto.Header, proto.Record) error { return nil }
	}
	for epoch := 1; epoch < newest; epoch++ {
		rec, err := appendlog.Scan(s.root, epochName(id, epoch), c.origins.index(epoch))
		if err == nil && rec.Records == 0 {
			err = errNoBaseline
		}
		if err != nil {
			return nil, problem(id, err)
		}
	}
	if err := c.replay(visit); err != nil {
		return nil, problem(id, err)
	}
	return c, nil
}

// replay opens the newest epoch's file.
func (c *Session) replay(visit Visit) error {
	name := epochName(c.id, c.epoch)
	if err := c.checkBaseline(name); err != nil {
		return err
	}
	log, rec, err := appendlog.Open(appendlog.Config{Root: c.store.root, Name: name, Visit: reader(c.epoch,
		func(epoch int, h proto.Header, r proto.Record) error {
			if err := c.origins.add(epoch, h.N, r); err != nil {
				return err
			}
			return visit(epoch, h, r)
		})})
	if err != nil {
		return err
	}
	c.log = log
	if c.file, err = c.store.root.Lstat(name); err != nil {
		return errors.Join(err, log.Close())
	}
	if rec.Torn == 0 {
		return nil
	}
	c.recovered = &proto.Recovered{Bytes: rec.Torn, File: path.Base(rec.Side)}
	now := c.store.Now().Truncate(time.Millisecond)
	n, err := c.append(now, []proto.Record{c.recovered})
	if err == nil {
		err = visit(c.epoch, proto.Header{N: n, Time: now}, c.recovered)
	}
	if err != nil {
		return errors.Join(err, log.Close())
	}
	return nil
}

// checkBaseline looks at the first record before anything may be cut off: a log
// whose only line is torn has lost its baseline, and is left as it is.
func (c *Session) checkBaseline(name string) error {
	enough := errors.New("enough")
	_, err := appendlog.Scan(c.store.root, name, func(int64, []byte) error { return enough })
	switch {
	case errors.Is(err, enough):
		return nil
	case err == nil:
		return errNoBaseline
	default:
		return err
	}
}

// Append gives records the next numbers and the time, writes them in one write,
// and syncs once. first is the number of the first. It refuses a baseline, a
// record that does not validate, and a message whose origin is known already
// (except the start of a queued one); nothing is written then. Nor is it if a
// message of the owner comes and the log is no longer under its name: an [Error]
// that says Unchanged. After a failed write every later Append fails: the process
// should end, and Open recovers.
func (c *Session) Append(recs ...proto.Record) (first int64, err error) {
	return c.append(c.store.Now(), recs)
}

func (c *Session) append(now time.Time, recs []proto.Record) (first int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return 0, errors.New("session: append before the first epoch")
	}
	first = c.log.Len()
	lines := make([][]byte, 0, len(recs))
	err = c.origins.check(c.epoch, first, recs)
	for i, r := range recs {
		h := proto.Header{N: first + int64(i), Time: now}
		if err == nil {
			err = checkPlace(h.N, h, r.Kind())
		}
		if err != nil {
			return 0, fmt.Errorf("session: append: %w", err)
		}
		var line []byte
		line, err = proto.EncodeRecord(h, r)
		lines = append(lines, line)
	}
	if err != nil {
		return 0, fmt.Errorf("session: append: %w", err)
	}
	if err := c.inPlace(recs); err != nil {
		return 0, unchanged(c.id, err)
	}
	if err := c.log.Append(lines...); err != nil {
		if errors.Is(err, appendlog.ErrRecord) {
			return 0, fmt.Errorf("session: append: %w", err)
		}
		return 0, problem(c.id, err)
	}
	for i, r := range recs {
		if err := c.origins.add(c.epoch, first+int64(i), r); err != nil {
			return 0, err // ruled out by check
		}
	}
	return first, nil
}

// inPlace looks whether the open file is still the one under its name, before a
// message of the owner is taken: in a file that was moved or removed it would be
// lost. Precondition: mu is held.
func (c *Session) inPlace(recs []proto.Record) error {
	for _, r := range recs {
		switch r.(type) {
		case *proto.User, *proto.Queued:
		default:
			continue
		}
		now, err := c.store.root.Lstat(epochName(c.id, c.epoch))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, c.file) {
			err = errTaken
		}
		return err
	}
	return nil
}

// Epoch is the number of the newest epoch, from 1; 0 before the first.
func (c *Session) Epoch() int { c.mu.Lock(); defer c.mu.Unlock(); return c.epoch }

// Records is the number of records in the newest epoch, and so the number of the
// next one.
func (c *Session) Records() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return 0
	}
	return c.log.Len()
}

// Bytes is the length of the newest epoch's file.
func (c *Session) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return 0
	}
	return c.log.Size()
}

// Recovered tells whether Open cut off a torn end, and how much.
func (c *Session) Recovered() (proto.Recovered, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recovered == nil {
		return proto.Recovered{}, false
	}
	return *c.recovered, true
}

// Origin tells what is known of an origin id, over all epochs.
func (c *Session) Origin(origin string) (Origin, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.origins.known[origin]
	return o, ok
}

// Pending gives the messages that are queued and have not started, oldest
// first, over all epochs.
func (c *Session) Pending() []proto.Queued {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.origins.pending)
}

// Close closes the log. Nothing can be appended after it.
func (c *Session) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return nil
	}
	return c.log.Close()
}
