package session

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

// maxTitle bounds a title, in characters.
const maxTitle = 80

// List gives all sessions, newest first. It reads the ends of the files only.
// A session that cannot be read has a row too, without figures.
func (s *Store) List() ([]proto.SessionInfo, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	list := make([]proto.SessionInfo, 0, len(ids))
	for _, id := range ids {
		info, err := s.Info(id)
		if err != nil {
			fi, statErr := s.root.Stat(id)
			if statErr != nil {
				continue // taken away since
			}
			info = proto.SessionInfo{Session: id, Modified: proto.Time(fi.ModTime()), Title: "(cannot be read)"}
		}
		list = append(list, info)
	}
	slices.SortStableFunc(list, func(a, b proto.SessionInfo) int { return strings.Compare(b.Modified, a.Modified) })
	return list, nil
}

// Info gives the row of one session. Records and Bytes count all epochs; Open is
// set if the log does not end in a resting state. A session that is not there is
// [ErrNoSession].
func (s *Store) Info(id string) (proto.SessionInfo, error) {
	info := proto.SessionInfo{Session: id}
	newest, err := s.epochs(id)
	if err == nil && newest == 0 {
		err = ErrNoSession
	}
	if err != nil {
		return info, err
	}
	info.Epoch = newest
	for epoch := 1; epoch <= newest; epoch++ {
		name := epochName(id, epoch)
		fi, err := s.root.Stat(name)
		if err != nil {
			return info, problem(id, err)
		}
		h, _, err := s.last(name)
		if err != nil {
			return info, problem(id, err)
		}
		info.Records += h.N + 1
		info.Bytes += fi.Size()
		info.Modified = proto.Time(fi.ModTime())
	}
	info.Open = !s.rests(id, newest)
	info.Title, err = s.title(id)
	return info, problem(id, err)
}

// Unfinished gives the sessions whose log does not end in a resting state, those
// that cannot be read included, in the order of their ids. Resting is a turn's
// end with nothing queued, or a baseline on top of such.
func (s *Store) Unfinished() ([]string, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var open []string
	for _, id := range ids {
		newest, err := s.epochs(id)
		if err != nil || !s.rests(id, newest) {
			open = append(open, id)
		}
	}
	return open, nil
}

// ids lists the folders that are sessions, sorted.
func (s *Store) ids() ([]string, error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, problem("", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && proto.CheckSession(e.Name()) == nil {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// rests looks at last records, newest epoch first, until one decides. What is no
// part of a turn decides nothing.
func (s *Store) rests(id string, newest int) bool {
	for epoch := newest; epoch > 0; epoch-- {
		_, r, err := s.last(epochName(id, epoch), "recovered", "delivered")
		if err != nil {
			return false
		}
		switch r := r.(type) {
		case *proto.Baseline:
			continue
		case *proto.TurnEnd:
			return r.Queued == 0
		default:
			return false
		}
	}
	return true
}

// last reads the last record of a log, but for those of some kinds.
func (s *Store) last(name string, but ...string) (proto.Header, proto.Record, error) {
	line, err := appendlog.LastOf(s.root, name, func(line []byte) (bool, error) {
		_, kind, err := proto.RecordKind(line)
		return !slices.Contains(but, kind), err
	})
	if err == nil && line == nil {
		err = errNoBaseline
	}
	if err != nil {
		return proto.Header{}, nil, err
	}
	return decodeRecord(line)
}

// title makes a title of the first message of a session, "" if there is none yet.
func (s *Store) title(id string) (string, error) {
	f, err := s.root.Open(epochName(id, 1))
	if err != nil {
		return "", err
	}
	defer f.Close()
	// The first message stands behind the baseline. It may be long, and its start
	// is enough, so the line need not be whole.
	for _, size := range []int64{32 << 10, 1 << 20} {
		head := make([]byte, size)
		n, err := f.ReadAt(head, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		for line := range bytes.Lines(head[:n]) {
			_, kind, err := proto.RecordKind(line)
			if err == nil && (kind == "user" || kind == "queued") {
				return titleOf(line), nil
			}
		}
		if n < len(head) {
			break
		}
	}
	return "", nil
}

// titleOf reads the start of the content of the message in a line that may be
// cut off.
func titleOf(line []byte) string {
	_, text, ok := bytes.Cut(line, []byte(`"message":{"role":"user","content":`))
	if !ok {
		return ""
	}
	text = text[:min(len(text), 8*maxTitle)]
	end := 1
	for end < len(text) && text[end] != '"' {
		if text[end] == '\\' {
			end++
		}
		end++
	}
	for end = min(end, len(text)); end > 0; end-- { // back over an escape or rune that is cut
		b, err := jsontext.AppendUnquote(nil, append(text[:end:end], '"'))
		if err == nil {
			return shorten(string(b))
		}
	}
	return ""
}

// shorten makes one short line of a text, without anything that does not print.
func shorten(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= maxTitle {
		return s
	}
	r := []rune(s)
	return strings.TrimSpace(string(r[:maxTitle-1])) + "…"
}
