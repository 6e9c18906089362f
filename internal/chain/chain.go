// Package chain reads and verifies the audit log: monthly files of records
// that are numbered through and each hold the hash of the line before
// (docs/formats/audit-log.md).
//
// What it guarantees: a log in which any byte was changed, or a record removed,
// inserted, repeated or moved, does not verify, unless every later record was
// written anew. That, and a cut end, is found against an [Anchor], a head that
// was kept elsewhere; without one it is not found. It changes nothing on disk,
// takes no lock, and may run beside the program that writes.
package chain

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// What says what is wrong with a log.
type What string

// Faults.
const (
	Changed   What = "changed"   // a record is not as it was written
	Missing   What = "missing"   // records are gone from before the end
	Reordered What = "reordered" // records stand in another order
	Repeated  What = "repeated"  // a record is there twice, or one was put in
	Torn      What = "torn"      // the last line of all is not whole
	Cut       What = "cut"       // the log is shorter than it was
	Forked    What = "forked"    // another history than the one that was anchored
	Foreign   What = "foreign"   // not of this log, or of a newer program
)

// A Fault is the first thing wrong that a reader comes to.
type Fault struct {
	What What
	File string // empty if the fault is of no one file
	Line int64  // in the file, from 1; 0 if none
	N    int64  // number of the record in the log; -1 if none
	Text string
}

// Error gives the place and what is wrong there.
func (f *Fault) Error() string {
	switch {
	case f.File == "":
		return fmt.Sprintf("%s: %s", f.What, f.Text)
	case f.Line == 0:
		return fmt.Sprintf("%s: %s: %s", f.File, f.What, f.Text)
	default:
		return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.What, f.Text)
	}
}

// FileOf names the file that a first record of that time goes to.
func FileOf(t time.Time) string { return t.UTC().Format("2006-01") + ".jsonl" }

var monthly = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{4}-(0[1-9]|1[0-2])\.jsonl$`) })

// Files lists the log's files in their order. A name in .jsonl that is no
// month is a [Fault]; other names are passed over.
func Files(root *os.Root) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".jsonl") })
	slices.Sort(names)
	for _, name := range names {
		if !monthly().MatchString(name) {
			return nil, &Fault{What: Foreign, File: name, N: -1, Text: "no file of an audit log has such a name; who put it there?"}
		}
	}
	return names, nil
}

// A Walker follows the chain from its first record on. Its zero value stands
// before that.
type Walker struct {
	n    int64
	last string // hash of the newest line, hex
}

// errLink is what [Walker.Next] wraps if a line is well-formed and does not
// belong there.
var errLink = errors.New("not the next record")

// Next takes the next line, less its checksum, which was good. On an error the
// walker stays where it is.
func (w *Walker) Next(line []byte) (proto.AuditHeader, string, error) {
	h, kind, err := proto.AuditKind(line)
	if err != nil {
		return h, kind, err
	}
	if h.N != w.n || h.Prev != w.Head().Hash {
		return h, kind, fmt.Errorf("%w: number %d in the place of %d, and its hash of the line before %s",
			errLink, h.N, w.n, map[bool]string{true: "fits", false: "does not fit"}[h.Prev == w.Head().Hash])
	}
	w.Wrote(appendlog.Hash(line))
	return h, kind, nil
}

// Wrote takes a line that the caller made to follow on this head, and appended:
// sum is its hash, see [appendlog.Log.Last].
func (w *Walker) Wrote(sum [sha256.Size]byte) { w.n, w.last = w.n+1, hex.EncodeToString(sum[:]) }

// Head is where the walker stands.
func (w *Walker) Head() proto.AuditHead {
	if w.n == 0 {
		return proto.AuditHead{Hash: proto.NoHash}
	}
	return proto.AuditHead{N: w.n, Hash: w.last}
}
