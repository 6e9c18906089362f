package chain

import (
	"errors"
	"fmt"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// explain says what is wrong about a line that is not the next one. It may
// read the log once more, so it is for the first such line only.
func (v *verifier) explain(name string, number int64, h proto.AuditHeader) error {
	want := v.walk.n
	switch {
	case h.N > want:
		at, err := v.find(want)
		if err != nil {
			return err
		}
		if at.File != "" {
			return &Fault{
				Reordered, name, number, h.N,
				fmt.Sprintf("record %d stands where record %d belongs, which is at %s:%d", h.N, want, at.File, at.Line),
			}
		}
		text := fmt.Sprintf("record %d is gone", want)
		if h.N-1 > want {
			text = fmt.Sprintf("records %d to %d are gone", want, h.N-1)
		}
		if number == 1 {
			text += ", perhaps with the file that held them"
		}
		return &Fault{Missing, name, number, want, text + fmt.Sprintf("; record %d follows", h.N)}
	case h.N < want:
		at, err := v.find(h.N)
		if err != nil {
			return err
		}
		return &Fault{
			Repeated, name, number, h.N,
			fmt.Sprintf("a record with the number %d stands where record %d belongs: it was put in, or is a copy of %s:%d", h.N, want, at.File, at.Line),
		}
	case want == 0:
		return &Fault{Changed, name, number, 0, "the first record points to one before it: it was changed, or the log began elsewhere"}
	default:
		at, err := v.find(want - 1)
		if err != nil {
			return err
		}
		return &Fault{
			Changed, at.File, at.Line, want - 1,
			fmt.Sprintf("record %d is not the one that record %d (%s:%d) was written after: one of the two was changed", want-1, want, name, number),
		}
	}
}

// find looks for the first record with the number n, wherever it stands.
func (v *verifier) find(n int64) (Line, error) {
	files, err := Files(v.Root)
	if err != nil {
		return Line{}, err
	}
	var found Line
	stop := errors.New("found")
	for _, name := range files {
		_, err := appendlog.Scan(v.Root, name, func(i int64, line []byte) error {
			if h, _, err := proto.AuditKind(line); err == nil && h.N == n {
				found = Line{File: name, Line: i + 1}
				return stop
			}
			return nil
		})
		switch {
		case errors.Is(err, stop):
			return found, nil
		case err != nil && !errors.Is(err, appendlog.ErrCorrupt): // damage is for later: what is told is what comes first
			return Line{}, err
		}
	}
	return found, nil
}
