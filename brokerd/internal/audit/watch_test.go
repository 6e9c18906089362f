package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/proto"
)

// A log that somebody else changes while it is open gets no further record, and
// no signature. What changes nothing in it stops nothing.
func TestChangedWhileOpen(t *testing.T) {
	const file = "2026-03.jsonl"
	edit := func(f func(b []byte) []byte) func(t *testing.T, root *os.Root) {
		return func(t *testing.T, root *os.Root) {
			b, err := root.ReadFile(file)
			try(t, err)
			try(t, root.WriteFile(file, f(b), 0o600)) // in place
		}
	}
	again := func(b []byte) []byte { return b[:len(b)-len(lastLine(b))] }
	for _, tc := range []struct {
		name string
		harm func(t *testing.T, root *os.Root)
		what chain.What // empty: it goes on
	}{
		{"not at all", func(*testing.T, *os.Root) {}, ""},
		{"other rights", func(t *testing.T, root *os.Root) { try(t, root.Chmod(file, 0o640)) }, ""},
		{"other times", func(t *testing.T, root *os.Root) { try(t, root.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0))) }, ""},
		{"the same bytes anew", edit(bytes.Clone), ""},
		{"a byte", edit(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), chain.Changed},
		{"a byte of the last line", edit(func(b []byte) []byte { b[len(b)-9] ^= 1; return b }), chain.Torn},
		{"the last line cut", edit(again), chain.Cut},
		{"a torn line behind it", edit(func(b []byte) []byte { return append(b, `{"v":1,`...) }), chain.Torn},
		{"the last line twice", edit(func(b []byte) []byte { return append(b, lastLine(b)...) }), chain.Repeated},
		{"emptied", edit(func([]byte) []byte { return nil }), chain.Cut},
		{"moved away", func(t *testing.T, root *os.Root) { try(t, root.Rename(file, "away")) }, chain.Missing},
		{"a copy in its place", func(t *testing.T, root *os.Root) {
			b, err := root.ReadFile(file)
			try(t, err)
			try(t, root.Remove(file))
			try(t, root.WriteFile(file, b, 0o600))
		}, chain.Changed},
		{"its folder moved away", func(t *testing.T, root *os.Root) { try(t, os.Rename(root.Name(), root.Name()+".away")) }, chain.Missing},
		{"a copy in its folder's place", func(t *testing.T, root *os.Root) {
			try(t, os.Rename(root.Name(), root.Name()+".away"))
			try(t, os.CopyFS(root.Name(), os.DirFS(root.Name()+".away")))
		}, chain.Changed},
		{"a link in its place", func(t *testing.T, root *os.Root) {
			try(t, root.Rename(file, "away"))
			try(t, root.Symlink("away", file))
		}, chain.Changed},
		{"records of another writer", func(t *testing.T, root *os.Root) { // who takes no lock
			copied := tempRoot(t)
			b, err := root.ReadFile(file)
			try(t, err)
			try(t, copied.WriteFile(file, b, 0o600))
			other := mustOpen(t, copied, &clock{march})
			try(t, other.Close())
			b, err = copied.ReadFile(file)
			try(t, err)
			try(t, root.WriteFile(file, b, 0o600))
		}, chain.Changed},
	} {
		for _, first := range []string{"append", "checkpoint", "look"} {
			t.Run(tc.name+"/"+first, func(t *testing.T) {
				root, state := tempRoot(t), tempRoot(t)
				l, err := Open(Config{Root: root, State: state, Version: "v", Now: (&clock{march}).now})
				try(t, err)
				defer l.Close()
				s, err := OpenSigner(state)
				try(t, err)
				for range 4 {
					mustAppend(t, l, halt("x"))
				}
				tc.harm(t, root)
				before := tree(t, root)
				do := map[string]func() error{
					"append":     func() error { _, err := l.Append(halt("more")); return err },
					"checkpoint": func() error { _, err := l.Checkpoint(s); return err },
					"look":       l.Look,
				}
				for _, step := range []string{first, "append", "checkpoint", "look"} {
					err = do[step]()
					var fault *chain.Fault
					switch {
					case tc.what == "" && err != nil:
						t.Fatalf("%s: %v", step, err)
					case tc.what == "":
					case !errors.As(err, &fault) || fault.What != tc.what || !errors.Is(err, appendlog.ErrBroken) || !strings.Contains(err.Error(), "(see runbook: audit-damaged)"):
						t.Errorf("%s: %v; want %s", step, err, tc.what)
					}
				}
				if tc.what != "" && tree(t, root) != before {
					t.Error("something was written all the same")
				}
			})
		}
	}
}

// A new month is the file to look at from then on.
func TestChangedInANewMonth(t *testing.T) {
	root, c := tempRoot(t), &clock{march}
	l := mustOpen(t, root, c)
	c.at = march.AddDate(0, 1, 0)
	mustAppend(t, l, halt("x"))
	mustAppend(t, l, halt("y"))
	try(t, root.WriteFile(chain.FileOf(c.at), nil, 0o600))
	if _, err := l.Append(halt("z")); !errors.Is(err, appendlog.ErrBroken) {
		t.Errorf("%v", err)
	}
}

// A kill loses no note: whatever is cut off the log then is missed at the start.
func TestEachRecordIsNoted(t *testing.T) {
	for cut := range 5 {
		root, state := tempRoot(t), tempRoot(t)
		cfg := Config{Root: root, State: state, Version: "v", Now: (&clock{march}).now}
		l, err := Open(cfg)
		try(t, err)
		for range 4 {
			mustAppend(t, l, halt("x"))
		}
		end := l.Head()
		try(t, errors.Join(l.lock.Close(), l.file.Close())) // as a kill does it
		cutTo(t, root, int(end.N)-cut)
		l, err = Open(cfg)
		var fault *chain.Fault
		if cut == 0 && err != nil || cut > 0 && (!errors.As(err, &fault) || fault.What != chain.Cut) {
			t.Errorf("%d records cut off: %v", cut, err)
		}
		if err == nil {
			try(t, l.Close())
		}
	}
}

// The note never changes its length in place, whatever the number.
func TestNoteIsOfOneLength(t *testing.T) {
	for _, n := range []int64{0, 9, 10, 1<<63 - 1} {
		h := proto.AuditHead{N: n, Hash: strings.Repeat("a", 64)}
		if b := noteOf(h); len(b) != noteLen || !bytes.HasPrefix(b, []byte(FormatHead(h)+" ")) {
			t.Errorf("%d: %q", n, b)
		}
	}
}

func lastLine(b []byte) []byte {
	lines := bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	return append(bytes.Clone(lines[len(lines)-1]), '\n')
}

// tree is all that the folder holds.
func tree(t *testing.T, root *os.Root) string {
	t.Helper()
	files, err := filepath.Glob(root.Name() + "/*")
	try(t, err)
	var out strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		try(t, err)
		out.WriteString(f + "\n" + string(b))
	}
	return out.String()
}
