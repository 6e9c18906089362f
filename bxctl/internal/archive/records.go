package archive

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// Unread is a log that could not be read, or not to its end.
type Unread struct {
	File string `json:"file"` // within the folder of the session logs
	Why  string `json:"why"`
	err  error
}

func unread(file string, err error) Unread {
	why := err.Error()
	if !strings.Contains(why, file) {
		why = file + ": " + why
	}
	return Unread{file, why, err}
}

// Incomplete is the fault of figures or hits that leave such logs out; nil if
// there are none.
func Incomplete(all []Unread) error {
	if len(all) == 0 {
		return nil
	}
	f := &fault.Fault{
		What: "not all of the session logs could be read", Means: "what is shown leaves out what stands in them behind the damage",
		Do: "see bxctl doctor", Key: "log-damaged",
	}
	var why []string
	for _, u := range all {
		why = append(why, u.Why)
		if errors.Is(u.err, fs.ErrPermission) {
			f.Means, f.Do, f.Key = "what is shown leaves them out", "run bxctl as the user that ran bxctl up", "sessions-unreadable"
		}
	}
	f.Err = errors.New(strings.Join(why, "; "))
	return f
}

// Records reads every record of a session, oldest first. A file that can't be
// read to its end is told of, and the next one is gone on with.
func (f Files) Records(ctx context.Context, id string, visit func(epoch int, h proto.Header, r proto.Record) error) ([]Unread, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	all, err := epochs(root, id)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(all) == 0:
		return nil, NoSession(id)
	case err != nil:
		return []Unread{unread(id, err)}, nil
	}
	var bad []Unread
	for _, n := range all {
		name := id + "/" + fileName(n)
		var stop error // of the visitor
		_, err := appendlog.Scan(root, name, func(_ int64, line []byte) error {
			if stop = ctx.Err(); stop != nil {
				return stop
			}
			h, r, err := proto.DecodeTrustedRecord(line)
			if err != nil {
				return err
			}
			stop = visit(n, h, r)
			return stop
		})
		switch {
		case stop != nil:
			return bad, stop
		case err != nil:
			bad = append(bad, unread(name, err))
		}
	}
	return bad, nil
}

// hidden finds the sessions that a list leaves out because they can't be looked
// at.
func hidden(root *os.Root) []Unread {
	dirs, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return []Unread{unread(".", err)}
	}
	var bad []Unread
	for _, d := range dirs {
		if !d.IsDir() || proto.CheckSession(d.Name()) != nil {
			continue
		}
		if _, err := about(root, d.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			bad = append(bad, unread(d.Name(), err))
		}
	}
	return bad
}
