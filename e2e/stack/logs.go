package stack

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

// A Line is one record of a session log.
type Line struct {
	proto.Header
	Record proto.Record
}

// An Epoch is one log file.
type Epoch struct {
	Session string
	Number  int
	Lines   []Line
	Torn    int64 // bytes of an unfinished last line
}

// Epochs reads every session log of the home, with every check that reading has.
func (s *Stack) Epochs() ([]Epoch, error) {
	root, err := os.OpenRoot(s.Layout.Sessions)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files, err := filepath.Glob(s.Layout.Sessions + "/*/*.jsonl")
	if err != nil {
		return nil, err
	}
	var out []Epoch
	for _, f := range files {
		e := Epoch{Session: filepath.Base(filepath.Dir(f))}
		if e.Number, err = strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".jsonl")); err != nil {
			continue // a side file
		}
		rec, err := appendlog.Scan(root, filepath.Join(e.Session, filepath.Base(f)), func(n int64, line []byte) error {
			h, r, err := proto.DecodeRecord(line)
			if err != nil {
				return err
			}
			if h.N != n {
				return fmt.Errorf("record %d is numbered %d", n, h.N)
			}
			e.Lines = append(e.Lines, Line{h, r})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		e.Torn = rec.Torn
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Epoch) int {
		if c := strings.Compare(a.Session, b.Session); c != 0 {
			return c
		}
		return a.Number - b.Number
	})
	return out, nil
}

// Messages gives the messages of an epoch as they are sent: joined by commas,
// without brackets.
func (e Epoch) Messages() []byte {
	var parts [][]byte
	add := func(m jsontext.Value) {
		if m != nil {
			parts = append(parts, m)
		}
	}
	for _, l := range e.Lines {
		if b, ok := l.Record.(*proto.Baseline); ok {
			add(b.System)
			for _, m := range b.Carry {
				add(m)
			}
			continue
		}
		add(proto.MessageOf(l.Record))
	}
	return bytes.Join(parts, []byte(","))
}
