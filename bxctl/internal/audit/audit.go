// Package audit reads the audit log for the owner: shows, follows, exports and
// verifies it, and keeps heads of it where brokerd cannot write.
//
// It takes no lock on the log and changes nothing in it, so that it works with
// and without a brokerd that runs. Text of models and tools is made harmless
// before it goes to a terminal. What it shows was verified up to there.
package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/config"
	"boxmaker/internal/proto"
)

// A Log is the audit log of an installation.
type Log struct {
	Dir      string // of the log
	Sessions string // session logs, which hold heads
	Anchors  string // heads that bxctl keeps
	State    string // brokerd's own folder, with the public key
}

// At gives the log of an installation.
func At(l config.Layout) Log {
	return Log{Dir: l.Audit, Sessions: l.Sessions, Anchors: l.Anchors, State: l.Broker}
}

// All stands for no limit in [Query.Last].
const All = -1

// A Query says which records are wanted. Empty members want all.
type Query struct {
	Session string
	Tool    string
	Call    string
	Verdict string // of a decision or approval, or outcome of a call
	Kind    string
	Number  int64 // that record alone; negative wants all
	Since   time.Time
	Until   time.Time
	Last    int // only so many, the newest; All
}

// An Entry is one record, with what it is about: an outcome names no tool, but
// its decision did.
type Entry struct {
	File    string
	Line    int64
	Header  proto.AuditHeader
	Record  proto.AuditRecord
	Call    string
	Session string
	Tool    string
	JSON    []byte // as in the log, less its checksum
}

func (l Log) open() (*os.Root, error) {
	root, err := os.OpenRoot(l.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fault.Fault{
			What: "there is no audit log at " + l.Dir, Means: "brokerd has not run here yet, or the folder was moved away",
			Do: "start Boxmaker with bxctl up --detach", Key: "audit-missing",
		}
	case err != nil:
		return nil, unreadable(err)
	}
	return root, nil
}

func unreadable(err error) error {
	return &fault.Fault{What: "the audit log can't be read", Err: err, Do: "run bxctl as the user that ran bxctl up", Key: "audit-unreadable"}
}

// reader makes entries of lines.
type reader struct {
	q     Query
	tools map[string]string // of the calls that have no outcome yet
}

func newReader(q Query) *reader { return &reader{q: q, tools: map[string]string{}} }

// take gives the entry of a record, and whether it is wanted. The entry
// shares no memory with the line.
func (r *reader) take(file string, line int64, h proto.AuditHeader, rec proto.AuditRecord, body []byte) (Entry, bool) {
	e := Entry{File: file, Line: line, Header: h, Record: rec}
	switch rec := rec.(type) {
	case *proto.AuditDecision:
		e.Call, e.Tool = rec.ID, rec.Tool
		r.tools[rec.ID] = rec.Tool
	case *proto.AuditApproval:
		e.Call, e.Tool = rec.ID, r.tools[rec.ID]
	case *proto.AuditOutcome:
		e.Call, e.Tool = rec.ID, r.tools[rec.ID]
		delete(r.tools, rec.ID)
	}
	e.Session, _, _ = strings.Cut(e.Call, "/")
	if !r.q.wants(e) {
		return e, false
	}
	e.JSON = bytes.Clone(body)
	return e, true
}

func (q Query) wants(e Entry) bool {
	word, _ := result(e.Record)
	switch {
	case q.Session != "" && e.Session != q.Session,
		q.Tool != "" && e.Tool != q.Tool,
		q.Call != "" && e.Call != q.Call,
		q.Kind != "" && e.Record.Kind() != q.Kind,
		q.Verdict != "" && word != q.Verdict,
		q.Number >= 0 && e.Header.N != q.Number,
		!q.Since.IsZero() && e.Header.Time.Before(q.Since),
		!q.Until.IsZero() && !e.Header.Time.Before(q.Until):
		return false
	}
	return true
}

// Each hands on the records that are wanted, the oldest first, and with a poll
// channel those that come, until ctx ends. If the log is not whole, it hands
// on what stands before the fault and then gives an error that says what it is.
func (l Log) Each(ctx context.Context, q Query, poll <-chan time.Time, visit func(Entry) error) error {
	root, err := l.open()
	if err != nil {
		return err
	}
	defer root.Close()
	r := newReader(q)
	var last []Entry // the newest, if only some are wanted
	rep, err := chain.Verify(chain.Config{Root: root, Visit: func(line chain.Line) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rec, err := line.Record()
		if err != nil {
			return fmt.Errorf("%s:%d: %w", line.File, line.Line, err)
		}
		e, ok := r.take(line.File, line.Line, line.Header, rec, line.JSON())
		switch {
		case !ok || q.Last == 0:
			return nil
		case q.Last < 0:
			return visit(e)
		}
		if last = append(last, e); len(last) > q.Last {
			last = last[1:]
		}
		return nil
	}})
	for _, e := range last {
		if err == nil {
			err = visit(e)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case len(rep.Faults) > 0 && (poll == nil || rep.Faults[0].What != chain.Torn): // a follower waits for the rest of the line
		return damaged(rep.Faults)
	case poll == nil:
		return nil
	}
	return follow(ctx, root, rep.Head.N, poll, r, visit)
}

// follow hands on what is behind record next-1. It does not verify the chain,
// only checksums and numbers.
func follow(ctx context.Context, root *os.Root, next int64, poll <-chan time.Time, r *reader, visit func(Entry) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll:
		}
		fresh, err := since(root, next)
		if err != nil {
			return err
		}
		for _, f := range fresh {
			h, rec, err := proto.DecodeTrustedAudit(f.body)
			if err != nil {
				return err
			}
			next = h.N + 1
			if e, ok := r.take(f.file, 0, h, rec, f.body); ok {
				if err := visit(e); err != nil {
					return err
				}
			}
		}
	}
}

type freshLine struct {
	file string
	body []byte
}

// since reads from the end, so that its cost does not grow with the log.
func since(root *os.Root, next int64) ([]freshLine, error) {
	files, err := chain.Files(root)
	if err != nil {
		return nil, err
	}
	enough := errors.New("enough")
	var fresh []freshLine
	for i := len(files) - 1; i >= 0; i-- {
		err := appendlog.Back(root, files[i], -1, func(_ int64, line []byte) error {
			h, _, err := proto.AuditKind(line)
			if err != nil {
				return err
			}
			if h.N < next {
				return enough
			}
			fresh = append(fresh, freshLine{files[i], bytes.Clone(line)})
			return nil
		})
		if errors.Is(err, enough) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	for i, j := 0, len(fresh)-1; i < j; i, j = i+1, j-1 {
		fresh[i], fresh[j] = fresh[j], fresh[i]
	}
	return fresh, nil
}

// damaged is the error of a log that is not whole.
func damaged(faults []*chain.Fault) error {
	var texts []string
	for _, f := range faults {
		texts = append(texts, f.Error())
	}
	return &fault.Fault{
		What: "the audit log is not as it was written", Err: errors.New(strings.Join(texts, "\n")), Means: "brokerd never does that itself, so that it was a failing disk, a partly restored backup, or somebody who can write there",
		Do: "copy the folder away before anything else", Key: "audit-damaged",
	}
}
