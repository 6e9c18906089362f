package chain

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// An Anchor is a head of the log that was kept outside of it.
type Anchor struct {
	proto.AuditHead
	From string // where it was kept, for people
	Time string // when, as far as is known
	Own  bool   // kept by who writes the log: compared, and not counted
}

func (a Anchor) String() string {
	if a.Time == "" {
		return a.From
	}
	return a.Time + ", says " + a.From
}

// Config says what to verify.
type Config struct {
	Root    *os.Root // the folder of the log
	Anchors []Anchor // in any order; read them before the log, which may grow
	// Visit, if set, is given each record in order. An error ends Verify, which
	// returns it.
	Visit func(Line) error
}

// A Line is one record. It is valid only during the visit.
type Line struct {
	File   string
	Line   int64 // in the file, from 1
	Header proto.AuditHeader
	Kind   string
	body   []byte
}

// Record decodes the line. The result may be kept.
func (l Line) Record() (proto.AuditRecord, error) {
	_, r, err := proto.DecodeTrustedAudit(l.body)
	return r, err
}

// JSON gives the record as it is in the log, less its checksum.
func (l Line) JSON() []byte { return l.body }

// A Report says what was found.
type Report struct {
	Head        proto.AuditHead // of the records that are right
	Files       int             // that were read, the one with the fault included
	Bytes       int64
	First, Last time.Time // as their records say
	Matched     int       // anchors that fit
	Unchecked   int       // anchors behind the fault
	// Faults is empty if all is well. The first is the first in the log; a
	// broken chain has one, and anchors that do not fit may add one each of
	// Forked and Cut.
	Faults []*Fault
}

// Verify reads the whole log. An error means that it could not be read, or is
// the visitor's; what is wrong with the log is in the report.
func Verify(c Config) (Report, error) {
	v := verifier{Config: c, anchors: slices.Clone(c.Anchors)}
	slices.SortStableFunc(v.anchors, func(a, b Anchor) int { return cmp.Compare(a.N, b.N) })
	err := v.all()
	var fault *Fault
	if errors.As(err, &fault) {
		v.rep.Faults, err = append(v.rep.Faults, fault), nil
	}
	v.rep.Head = v.walk.Head()
	v.finish(fault != nil)
	return v.rep, err
}

type verifier struct {
	Config
	rep     Report
	walk    Walker
	anchors []Anchor // those to come, by number
	fit     *Anchor  // newest that fits
	fork    *Fault   // of the oldest that does not
	forks   int
}

func (v *verifier) all() error {
	v.atHead("", 0) // an anchor of the empty log
	files, err := Files(v.Root)
	if err != nil {
		return err
	}
	for i, name := range files {
		v.rep.Files++
		if err := v.file(name, i == len(files)-1); err != nil {
			return err
		}
	}
	return nil
}

// file reads one file.
func (v *verifier) file(name string, newest bool) error {
	var own error
	rec, err := appendlog.Scan(v.Root, name, func(i int64, line []byte) error {
		own = v.line(name, i+1, line)
		return own
	})
	if own != nil {
		return own
	}
	if line, _, cause, ok := appendlog.Where(err); ok {
		return &Fault{Changed, name, line, v.walk.n, fmt.Sprintf("record %d was changed, or bytes were put in its way: %s", v.walk.n, cause)}
	}
	if err != nil {
		return err
	}
	switch {
	case rec.Torn == 0:
		return nil
	case newest:
		return &Fault{
			Torn, name, rec.Records + 1, v.walk.n,
			fmt.Sprintf("the last line, of record %d, is not whole: it was changed, or a crash or a full disk cut it short. "+
				"After a crash brokerd puts it aside when it starts, and a \"recovered\" record says so", v.walk.n),
		}
	default:
		return &Fault{
			Changed, name, rec.Records + 1, v.walk.n,
			fmt.Sprintf("the last line of the file, of record %d, was changed or cut; no crash does that to a file that has a later one", v.walk.n),
		}
	}
}

func (v *verifier) line(name string, number int64, line []byte) error {
	h, kind, err := v.walk.Next(line)
	switch {
	case errors.Is(err, errLink):
		return v.explain(name, number, h)
	case errors.Is(err, proto.ErrVersion):
		return &Fault{Foreign, name, number, v.walk.n, "the record is of a newer program: " + err.Error()}
	case err != nil:
		return &Fault{Foreign, name, number, v.walk.n, "the line has a good checksum and is no audit record: " + err.Error()}
	}
	if v.walk.n == 1 {
		v.rep.First = h.Time
	}
	v.rep.Last = h.Time
	v.rep.Bytes += appendlog.OnDisk(line)
	v.atHead(name, number)
	if v.Visit == nil {
		return nil
	}
	return v.Visit(Line{name, number, h, kind, line})
}

// atHead compares the anchors of where the walker stands.
func (v *verifier) atHead(name string, line int64) {
	for len(v.anchors) > 0 && v.anchors[0].N <= v.walk.n {
		a := v.anchors[0]
		v.anchors = v.anchors[1:]
		if a.AuditHead == v.walk.Head() {
			if !a.Own {
				v.rep.Matched++
			}
			v.fit = &a
			continue
		}
		v.forks++
		if v.fork == nil {
			since := "no earlier head is known"
			if v.fit != nil {
				since = fmt.Sprintf("up to record %d it is the same log", v.fit.N-1)
			}
			v.fork = &Fault{
				Forked, name, line, v.walk.n - 1,
				fmt.Sprintf("record %d is not the one that was there (%v): the log was written anew; %s", a.N-1, a, since),
			}
		}
	}
}

// finish adds what only the end shows.
func (v *verifier) finish(broken bool) {
	if v.fork != nil {
		if v.forks > 1 {
			v.fork.Text += fmt.Sprintf("; %d more heads do not fit", v.forks-1)
		}
		v.rep.Faults = append([]*Fault{v.fork}, v.rep.Faults...)
	}
	if broken {
		for _, a := range v.anchors {
			if !a.Own {
				v.rep.Unchecked++
			}
		}
		return
	}
	if len(v.anchors) > 0 {
		a := v.anchors[len(v.anchors)-1]
		text := fmt.Sprintf("the log was %d records long (%v), now it has %d: its end was cut off", a.N, a, v.walk.n)
		if len(v.anchors) > 1 {
			text += fmt.Sprintf("; %d more heads are behind its end", len(v.anchors)-1)
		}
		v.rep.Faults = append(v.rep.Faults, &Fault{Cut, "", 0, v.walk.n, text})
	}
}
