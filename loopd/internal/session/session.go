package session

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/durable"
	"boxmaker/internal/proto"
)

// A Session is one open conversation. Its methods may be called from several
// goroutines; the order of concurrent appends is not defined.
type Session struct {
	store *Store
	id    string

	mu        sync.Mutex // guards what follows
	log       *appendlog.Log
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

// StartEpoch starts the next epoch, of a new session the first. When it returns
// nil, the baseline is on disk and records go to the new file. A crash in it
// leaves the session as it was.
func (c *Session) StartEpoch(b *proto.Baseline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, err := proto.EncodeRecord(proto.Header{Time: c.store.Now()}, b)
	if err != nil {
		return err
	}
	log, err := c.makeEpoch(c.epoch+1, line)
	if err != nil {
		return problem(c.id, err)
	}
	if c.log != nil {
		err = c.log.Close()
	}
	c.log, c.epoch = log, c.epoch+1
	return problem(c.id, err)
}

// makeEpoch makes the file under another name and then gives it its own, so that
// under that name there is never a file without a baseline. What is renamed stays
// in its folder: a confined loopd may not move things from one to another.
func (c *Session) makeEpoch(epoch int, line []byte) (*appendlog.Log, error) {
	root, name := c.store.root, epochName(c.id, epoch)
	from, to := newPrefix+c.id, c.id // the folder appears with its first file in it
	temp := path.Join(from, path.Base(name))
	if epoch > 1 {
		temp = newName(name)
		from, to = temp, name
	}
	if err := root.RemoveAll(from); err != nil {
		return nil, err
	}
	if epoch == 1 {
		if err := durable.Mkdir(root, from, 0o700); err != nil {
			return nil, err
		}
	}
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: temp})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(log.Append(line), log.Close()); err != nil {
		return nil, err
	}
	if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is there already", errCorrupt, name)
	}
	if err := root.Rename(from, to); err != nil {
		return nil, err
	}
	if err := durable.SyncDir(root, path.Dir(to)); err != nil {
		return nil, err
	}
	log, _, err = appendlog.Open(appendlog.Config{Root: root, Name: name})
	return log, err
}

// newName is where the next epoch's file is made.
func newName(name string) string { return path.Join(path.Dir(name), newPrefix+path.Base(name)) }

// Append gives records the next numbers and the time, writes them in one write,
// and syncs once. first is the number of the first. It refuses a baseline, a
// record that does not validate, and a message whose origin is known already
// (except the start of a queued one); nothing is written then. After a failed
// write every later Append fails: the process should end, and Open recovers.
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
