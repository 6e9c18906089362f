package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/filestamp"
)

// stamp looks at the file by its path: what is held open stays the same where its
// folder was moved away, and the owner reads the one that stands there now. Where
// the path can't be looked at, the open folder has to do.
func (d rootDisk) stamp(name string) (filestamp.Stamp, error) {
	fi, err := os.Lstat(filepath.Join(d.root.Name(), name))
	if errors.Is(err, fs.ErrPermission) {
		fi, err = d.root.Lstat(name)
	}
	if err != nil {
		return filestamp.Stamp{}, err
	}
	st, ok := filestamp.OfInfo(fi)
	if !ok {
		return st, fmt.Errorf("no such status: %w", errors.ErrUnsupported)
	}
	return st, nil
}

// mark remembers how this program left the newest file, which must have grown by
// so many bytes. Precondition: mu is held, or nobody else has the log.
func (l *Log) mark(grown int64) error {
	now, err := l.disk.stamp(l.name)
	if err == nil && grown > 0 && now.Size() != l.seen.Size()+grown {
		err = &chain.Fault{What: chain.Changed, File: l.name, N: l.walk.Head().N, Text: "it was changed just when brokerd wrote a record"}
	}
	l.seen = now
	return err
}

// untouched looks whether the newest file is as this program left it: else a
// record would go behind bytes that nobody verified, or into a file that is not
// the log any more. Where rights or times alone have changed, all is read again
// and the log goes on. Precondition: mu is held.
func (l *Log) untouched() error {
	now, err := l.disk.stamp(l.name)
	if err == nil && now == l.seen {
		return nil
	}
	fault := &chain.Fault{What: chain.Changed, File: l.name, N: -1, Text: "another file stands in its place"}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fault.What, fault.Text = chain.Missing, "it was removed, or moved away"
	case err != nil:
		return l.fail(err)
	case now.SameFile(l.seen):
		head := l.walk.Head()
		rep, err := chain.Verify(chain.Config{Root: l.root, Anchors: []chain.Anchor{{AuditHead: head, From: "brokerd"}}})
		switch {
		case err != nil:
			return l.fail(err)
		case len(rep.Faults) > 0:
			fault = rep.Faults[0]
		case rep.Head != head:
			fault.N, fault.Text = head.N, "records were added that brokerd did not write"
		default:
			l.seen = now
			return nil
		}
	}
	l.err = fmt.Errorf("audit: the audit log was changed while brokerd wrote to it, and nothing is allowed until it is as it was: %w; %w; "+
		"copy the folder away, then see bxctl audit verify (see runbook: audit-damaged)", fault, appendlog.ErrBroken)
	return l.err
}

// Look finds out whether somebody else changed the log's newest file since the
// last record, and breaks the log if so. It gives what [Log.Err] gives.
func (l *Log) Look() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	return l.untouched()
}
