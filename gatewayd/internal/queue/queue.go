// Package queue keeps what the bot has heard and what it has still to post, over
// every restart.
//
// It guarantees that a record is on disk when [Queue.Put] returns nil, so that a
// message which was taken is never forgotten and never taken twice, and that the
// ids of posts are on disk before anybody can post under them. At the start the
// log is read back, and written anew when most of it is done with. After a failed
// write nothing more is taken: the program should end, and [Open] is the way back.
//
// It does not post, and does not know what the server has: an answer is exactly
// once because whoever posts it looks for its id first when in doubt.
package queue

import (
	"errors"
	"fmt"
	"os"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/durable"
)

const (
	name     = "queue.jsonl"
	nextName = "queue.jsonl.new" // a shorter log that was not put in place
	// worth is how many records must be in the way before a log is written anew.
	worth = 200
)

// A Queue is the log and what it adds up to. Its methods are not for several
// goroutines.
type Queue struct {
	*State
	log *appendlog.Log
}

// Open reads the log in a folder, or makes one.
func Open(root *os.Root) (*Queue, appendlog.Recovery, error) {
	if err := root.Remove(nextName); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, appendlog.Recovery{}, fmt.Errorf("queue: %w (see runbook: gatewayd-state)", err)
	}
	q, rec, err := open(root, name)
	if err != nil {
		return nil, rec, err
	}
	short := q.records()
	if q.log.Len() < worth || int64(len(short))*2 > q.log.Len() {
		return q, rec, nil
	}
	if err := rewrite(root, short); err != nil {
		return nil, rec, errors.Join(err, q.log.Close())
	}
	if err := q.log.Close(); err != nil {
		return nil, rec, err
	}
	q, _, err = open(root, name)
	return q, rec, err
}

func open(root *os.Root, at string) (*Queue, appendlog.Recovery, error) {
	q := &Queue{State: NewState()}
	log, rec, err := appendlog.Open(appendlog.Config{Root: root, Name: at, Visit: func(_ int64, line []byte) error {
		r, err := decode(line)
		if err != nil {
			return err
		}
		return q.Apply(r)
	}})
	if err != nil {
		return nil, rec, fmt.Errorf("the queue of messages: %w", err)
	}
	q.log = log
	return q, rec, nil
}

// rewrite puts a log of these records in the place of the old one, whole or not at
// all.
func rewrite(root *os.Root, records []Record) error {
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: nextName})
	if err != nil {
		return err
	}
	var lines [][]byte
	for _, r := range records {
		line, err := encode(r)
		if err != nil {
			return errors.Join(err, log.Close())
		}
		lines = append(lines, line)
	}
	if err := errors.Join(log.Append(lines...), log.Close()); err != nil {
		return err
	}
	if err := root.Rename(nextName, name); err != nil {
		return fmt.Errorf("queue: %w (see runbook: gatewayd-state)", err)
	}
	return durable.SyncDir(root, ".")
}

// Put adds records, in one write. When it returns nil they are on disk. After an
// error the queue is of no more use.
func (q *Queue) Put(records ...Record) error {
	var lines [][]byte
	for _, r := range records {
		if err := q.Apply(r); err != nil {
			return err // the caller has made a mistake: it would not be read back
		}
		line, err := encode(r)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	if err := q.log.Append(lines...); err != nil {
		return fmt.Errorf("the queue of messages: %w", err)
	}
	return nil
}

// Close closes the log.
func (q *Queue) Close() error { return q.log.Close() }
