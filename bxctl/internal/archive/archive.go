// Package archive reads session logs for the owner: from the files where they
// can be read, else through loopd.
//
// It never writes, takes no lock, and may read beside a loopd that appends. A
// damaged log is an error that says where; nothing is repaired here.
package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// A Source can list sessions and read one. loop.Client is the other one.
type Source interface {
	Sessions(ctx context.Context, prefix string, limit int) (*proto.SessionList, error)
	Past(ctx context.Context, session string, visit func(*proto.Past) error) (*proto.SessionDetail, error)
}

// Files is the folder of the session logs as a Source.
type Files struct{ Dir string }

// maxTitle bounds the title of a session, in characters.
const maxTitle = 80

// errEnough ends the reading of a log.
var errEnough = errors.New("archive: enough")

func (f Files) open() (*os.Root, error) {
	root, err := os.OpenRoot(f.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fault.Fault{What: "there is no folder of session logs at " + f.Dir, Do: "run bxctl init first", Key: "not-set-up", Err: fs.ErrNotExist}
	case err != nil:
		return nil, &fault.Fault{What: "the session logs can't be read", Err: err, Do: "run bxctl as the user that ran bxctl up", Key: "sessions-unreadable"}
	}
	return root, nil
}

// Sessions lists the newest sessions whose id has the prefix. A session whose
// log can't be read is listed all the same.
func (f Files) Sessions(ctx context.Context, prefix string, limit int) (*proto.SessionList, error) {
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dirs, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, &fault.Fault{What: "the session logs can't be read", Err: err, Key: "sessions-unreadable"}
	}
	list := &proto.SessionList{Sessions: []proto.SessionInfo{}}
	for _, d := range dirs {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !d.IsDir() || proto.CheckSession(d.Name()) != nil || !strings.HasPrefix(d.Name(), prefix) {
			continue
		}
		if info, err := about(root, d.Name()); err == nil {
			list.Sessions = append(list.Sessions, info)
		}
	}
	slices.SortFunc(list.Sessions, func(a, b proto.SessionInfo) int {
		return cmp.Or(strings.Compare(b.Modified, a.Modified), strings.Compare(a.Session, b.Session))
	})
	if limit > 0 && len(list.Sessions) > limit {
		list.Sessions, list.More = list.Sessions[:limit], true
	}
	for i := range list.Sessions { // only of those that are shown
		sumUp(root, &list.Sessions[i])
	}
	return list, nil
}

// epochs lists a session's log files, oldest first.
func epochs(root *os.Root, id string) ([]int, error) {
	files, err := fs.ReadDir(root.FS(), id)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range files {
		n, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".jsonl"))
		if err == nil && n > 0 && fileName(n) == e.Name() && e.Type().IsRegular() {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// fileName: see docs/formats/session-log.md.
func fileName(epoch int) string { return fmt.Sprintf("%04d.jsonl", epoch) }

// about looks at the files of a session without reading them.
func about(root *os.Root, id string) (proto.SessionInfo, error) {
	info := proto.SessionInfo{Session: id}
	all, err := epochs(root, id)
	if err == nil && len(all) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return info, err
	}
	info.Epoch = all[len(all)-1]
	for _, n := range all {
		st, err := root.Stat(id + "/" + fileName(n))
		if err != nil {
			return info, err
		}
		info.Bytes += st.Size()
		if m := proto.Time(st.ModTime()); m > info.Modified {
			info.Modified = m
		}
	}
	return info, nil
}

// sumUp adds what stands in the logs, as far as they can be read: the number
// of records of all epochs and the start of the first message.
func sumUp(root *os.Root, info *proto.SessionInfo) {
	for n := 1; n <= info.Epoch; n++ {
		if last, err := appendlog.LastLine(root, info.Session+"/"+fileName(n)); err == nil && last != nil {
			if h, _, err := proto.RecordKind(last); err == nil {
				info.Records += h.N + 1
			}
		}
	}
	_, _ = appendlog.Scan(root, info.Session+"/"+fileName(1), func(_ int64, line []byte) error {
		_, r, err := proto.DecodeRecord(line)
		if err != nil {
			return err
		}
		switch r := r.(type) {
		case *proto.User:
			info.Title = title(parse(r.Message).Content)
		case *proto.Queued:
			info.Title = title(parse(r.Message).Content)
		default:
			return nil
		}
		return errEnough
	})
}

func title(text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) <= maxTitle {
		return string(line)
	}
	return string(line[:maxTitle]) + "…"
}

// Past reads all epochs of a session.
func (f Files) Past(ctx context.Context, id string, visit func(*proto.Past) error) (*proto.SessionDetail, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var sum proto.Summary
	d := &sum.Detail
	if d.Info, err = about(root, id); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, NoSession(id)
		}
		return nil, &fault.Fault{What: "the log of " + id + " can't be read", Err: err, Key: "sessions-unreadable"}
	}
	all, err := epochs(root, id)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		_, err := appendlog.Scan(root, id+"/"+fileName(n), func(_ int64, line []byte) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			h, r, err := proto.DecodeRecord(line)
			if err != nil {
				return err
			}
			sum.Add(r)
			for _, p := range past(id, n, h, r) {
				if err := visit(p); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	sumUp(root, &d.Info)
	return d, nil
}

// CheckID refuses what is no session id, before anything is opened.
func CheckID(id string) error {
	if err := proto.CheckSession(id); err != nil {
		return &fault.Fault{
			Code: fault.Usage, What: fmt.Sprintf("%q is no session id", clip(id, 80)),
			Means: "an id has 1 to 64 characters out of a-z, 0-9 and -", Do: "bxctl sessions list shows the ids", Key: "bad-session",
		}
	}
	return nil
}

// NoSession is the fault of an id that no session has.
func NoSession(id string) error {
	return &fault.Fault{What: "there is no session " + id, Do: "bxctl sessions list shows the ids", Key: "no-session"}
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
