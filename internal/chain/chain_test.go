package chain

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

func TestVerifyGood(t *testing.T) {
	for _, tc := range []struct {
		name    string
		perFile []int
	}{
		{"no file", nil},
		{"one empty file", []int{0}},
		{"one record", []int{1}},
		{"one file", []int{9}},
		{"files", []int{4, 1, 6}},
		{"an empty file between", []int{3, 0, 4}},
		{"an empty file at the end", []int{3, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, heads := write(t, tc.perFile, never)
			dir := t.TempDir()
			root := onDisk(t, dir, b.bytes())
			for _, other := range []string{"lock", "2026-01.jsonl.torn-17", "notes.txt"} {
				if err := os.WriteFile(filepath.Join(dir, other), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var got, want [][]byte
			rep, err := Verify(Config{Root: root, Anchors: anchors(heads...), Visit: func(l Line) error {
				r, err := l.Record()
				if err != nil || r.Kind() != l.Kind {
					t.Errorf("%v, %v", r, err)
				}
				if !bytes.Equal(seal(l.JSON()), b[l.File][l.Line-1]) {
					t.Errorf("%s:%d is %s", l.File, l.Line, l.JSON())
				}
				got = append(got, seal(l.JSON()))
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			var size int64
			for _, name := range b.names() {
				want = append(want, b[name]...)
				size += int64(len(bytes.Join(b[name], nil)))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if rep.Faults != nil || rep.Head != heads[len(heads)-1] || rep.Matched != len(heads) || rep.Files != len(tc.perFile) || rep.Bytes != size {
				t.Errorf("%+v", rep)
			}
			if len(want) > 0 && rep.First != time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC) {
				t.Errorf("first %v, last %v", rep.First, rep.Last)
			}
		})
	}
}

func TestVisitorEndsIt(t *testing.T) {
	b, _ := write(t, []int{3, 3}, never)
	stop := errors.New("enough")
	seen := 0
	rep, err := Verify(Config{Root: onDisk(t, t.TempDir(), b.bytes()), Visit: func(Line) error {
		if seen++; seen == 4 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) || seen != 4 || rep.Faults != nil {
		t.Errorf("%v, %d, %+v", err, seen, rep)
	}
}

func TestUnreadableIsNoFault(t *testing.T) {
	b, _ := write(t, []int{3}, never)
	dir := t.TempDir()
	root := onDisk(t, dir, b.bytes())
	if err := os.Mkdir(filepath.Join(dir, "2026-02.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	if rep, err := Verify(Config{Root: root}); err == nil {
		t.Errorf("a folder in the place of a file: %+v", rep)
	}
}

// TestFaults: every kind of harm is found, and named. Files: January has the
// records 0 to 3, February 4 to 8, March 9 to 11.
func TestFaults(t *testing.T) {
	good, heads := write(t, []int{4, 5, 3}, never)
	forked, _ := write(t, []int{4, 5, 3}, 6)
	longer, _ := write(t, []int{4, 5, 5}, 6)
	const jan, feb, mar = "2026-01.jsonl", "2026-02.jsonl", "2026-03.jsonl"
	edit := func(lines [][]byte, i int) {
		line := bytes.Replace(lines[i], []byte("chat-1"), []byte("chat-2"), 1)
		line = append(line[:bytes.LastIndex(line, []byte(`,"crc"`))], '}')
		lines[i] = seal(line)
	}
	for _, tc := range []struct {
		name    string
		spoil   func(b book, files map[string][]byte) map[string][]byte // changes b and returns nil, or gives the files
		anchors []proto.AuditHead
		want    string // beginning of the first fault
		also    string // somewhere in it
	}{
		{"a changed byte", func(b book, _ map[string][]byte) map[string][]byte {
			b[feb][1] = bytes.Replace(b[feb][1], []byte("allow"), []byte("deny!"), 1)
			return nil
		}, nil, feb + ":2: changed:", "record 5 "},
		{"a changed byte in the last line", func(b book, _ map[string][]byte) map[string][]byte {
			b[mar][2] = bytes.Replace(b[mar][2], []byte("allow"), []byte("deny!"), 1)
			return nil
		}, nil, mar + ":3: torn:", "record 11"},
		{"the last line half", func(b book, _ map[string][]byte) map[string][]byte {
			b[mar][2] = b[mar][2][:40]
			return nil
		}, nil, mar + ":3: torn:", "crash"},
		{"the last line of an older file half", func(b book, _ map[string][]byte) map[string][]byte {
			b[feb][4] = b[feb][4][:40]
			return nil
		}, nil, feb + ":5: changed:", "record 8"},
		{"a changed record with a new checksum", func(b book, _ map[string][]byte) map[string][]byte {
			edit(b[feb], 1)
			return nil
		}, nil, feb + ":2: changed:", "record 6"},
		{"the last of a file, with a new checksum", func(b book, _ map[string][]byte) map[string][]byte {
			edit(b[jan], 3)
			return nil
		}, nil, jan + ":4: changed:", feb + ":1"},
		{"the last of all, with a new checksum", func(b book, _ map[string][]byte) map[string][]byte {
			edit(b[mar], 2)
			return nil
		}, heads[12:], mar + ":3: forked:", "record 11 "},
		{"one gone", func(b book, _ map[string][]byte) map[string][]byte {
			b[feb] = slices.Delete(b[feb], 1, 2)
			return nil
		}, nil, feb + ":2: missing:", "record 5 is gone"},
		{"two gone", func(b book, _ map[string][]byte) map[string][]byte {
			b[feb] = slices.Delete(b[feb], 1, 3)
			return nil
		}, nil, feb + ":2: missing:", "records 5 to 6 are gone"},
		{"the first gone", func(b book, _ map[string][]byte) map[string][]byte {
			b[jan] = b[jan][1:]
			return nil
		}, nil, jan + ":1: missing:", "record 0 is gone"},
		{"the first file gone", func(b book, _ map[string][]byte) map[string][]byte {
			delete(b, jan)
			return nil
		}, nil, feb + ":1: missing:", "records 0 to 3 are gone, perhaps with the file"},
		{"a file gone", func(b book, _ map[string][]byte) map[string][]byte {
			delete(b, feb)
			return nil
		}, nil, mar + ":1: missing:", "records 4 to 8"},
		{"the last file gone", func(b book, _ map[string][]byte) map[string][]byte {
			delete(b, mar)
			return nil
		}, heads[:12], "cut:", "was 11 records long (2026-05-05T00:00:00.000Z, says a test), now it has 9"},
		{"all gone", func(b book, _ map[string][]byte) map[string][]byte {
			clear(b)
			return nil
		}, heads[3:5], "cut:", "was 4 records long (2026-05-05T00:00:00.000Z, says a test), now it has 0"},
		{"two swapped", func(b book, _ map[string][]byte) map[string][]byte {
			b[feb][1], b[mar][1] = b[mar][1], b[feb][1]
			return nil
		}, nil, feb + ":2: reordered:", "record 5 belongs, which is at " + mar + ":2"},
		{"two files swapped", func(b book, _ map[string][]byte) map[string][]byte {
			b[jan], b[feb] = b[feb], b[jan]
			return nil
		}, nil, jan + ":1: reordered:", feb + ":1"},
		{"one twice", func(b book, _ map[string][]byte) map[string][]byte {
			b[feb] = slices.Insert(b[feb], 2, b[feb][1])
			return nil
		}, nil, feb + ":3: repeated:", feb + ":2"},
		{"one of a fork put in the place of its twin", func(b book, _ map[string][]byte) map[string][]byte {
			b[feb][3] = forked[feb][3]
			return nil
		}, nil, feb + ":3: changed:", "one of the two"},
		{
			"a fork from a record on", func(_ book, _ map[string][]byte) map[string][]byte { return forked.bytes() },
			[]proto.AuditHead{heads[4], heads[9]},
			feb + ":5: forked:", "up to record 3 it is the same log",
		},
		{
			"a fork that is longer", func(_ book, _ map[string][]byte) map[string][]byte { return longer.bytes() },
			[]proto.AuditHead{heads[12], heads[11]},
			mar + ":2: forked:", "1 more heads do not fit",
		},
		{"a line that is no record", func(b book, _ map[string][]byte) map[string][]byte {
			b[feb] = slices.Insert(b[feb], 1, seal([]byte(`{"hello":"world"}`)))
			return nil
		}, nil, feb + ":2: foreign:", "no audit record"},
		{"a record of a newer program", func(b book, _ map[string][]byte) map[string][]byte {
			b[mar] = append(b[mar], seal([]byte(`{"v":2,"n":12}`)))
			return nil
		}, nil, mar + ":4: foreign:", "newer program"},
		{"text", func(b book, _ map[string][]byte) map[string][]byte {
			b[feb] = slices.Insert(b[feb], 1, []byte("hello\n"))
			return nil
		}, nil, feb + ":2: changed:", "bytes were put in"},
		{"a file of another name", func(_ book, files map[string][]byte) map[string][]byte {
			files["2026-13.jsonl"] = files[jan]
			return files
		}, nil, "2026-13.jsonl: foreign:", "who put it there"},
		{"the beginning of another log", func(b book, _ map[string][]byte) map[string][]byte {
			b[jan][0] = seal([]byte(`{"v":1,"n":0,"time":"2026-01-05T10:00:00.000Z","prev":"` + heads[5].Hash + `","kind":"halt","halted":true,"by":"x"}`))
			return nil
		}, nil, jan + ":1: changed:", "the first record"},
		{"damage and an old head", func(b book, _ map[string][]byte) map[string][]byte {
			b[mar] = b[mar][1:]
			return nil
		}, heads, mar + ":1: missing:", "record 9 is gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := good.clone()
			files := tc.spoil(b, good.bytes())
			if files == nil {
				files = b.bytes()
			}
			rep, err := Verify(Config{Root: onDisk(t, t.TempDir(), files), Anchors: anchors(tc.anchors...)})
			if err != nil || len(rep.Faults) == 0 {
				t.Fatalf("%+v, %v", rep, err)
			}
			if first := rep.Faults[0].Error(); !strings.HasPrefix(first, tc.want) || !strings.Contains(first, tc.also) {
				t.Errorf("%s", describe(rep))
			}
		})
	}
}

// TestWithoutAnchor documents the limit: a clean cut and a fork are whole logs.
func TestWithoutAnchor(t *testing.T) {
	cut, _ := write(t, []int{4, 2}, never)
	forked, _ := write(t, []int{4, 5}, 2)
	for name, b := range map[string]book{"cut": cut, "forked": forked} {
		if rep, err := Verify(Config{Root: onDisk(t, t.TempDir(), b.bytes())}); err != nil || rep.Faults != nil {
			t.Errorf("%s: %s, %v", name, describe(rep), err)
		}
	}
}

func TestUncheckedAnchors(t *testing.T) {
	b, heads := write(t, []int{10}, never)
	b["2026-01.jsonl"] = slices.Delete(b["2026-01.jsonl"], 4, 5)
	rep, err := Verify(Config{Root: onDisk(t, t.TempDir(), b.bytes()), Anchors: anchors(heads...)})
	if err != nil || len(rep.Faults) != 1 || rep.Head != heads[4] || rep.Matched != 5 || rep.Unchecked != 6 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// The number alone is wrong, and the hash of the line before is right: a writer
// that lost count, or somebody who made room for records to be put in later.
func TestWrongNumberWithTheRightHash(t *testing.T) {
	b, heads := write(t, []int{3}, never)
	for _, n := range []int64{0, 2, 4, 1 << 40} {
		body, err := proto.EncodeAudit(proto.AuditHeader{N: n, Time: time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC), Prev: heads[3].Hash}, record(n, ""))
		if err != nil {
			t.Fatal(err)
		}
		var w Walker
		for _, raw := range b["2026-01.jsonl"] {
			if _, _, err := w.Next(append(bytes.Clone(raw[:len(raw)-19]), '}')); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := w.Next(body); err == nil || w.Head() != heads[3] {
			t.Errorf("number %d in the place of 3 was taken", n)
		}
		dir := t.TempDir()
		root := onDisk(t, dir, b.bytes())
		log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: "2026-01.jsonl"})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(log.Append(body), log.Close()); err != nil {
			t.Fatal(err)
		}
		if rep, err := Verify(Config{Root: root}); err != nil || len(rep.Faults) == 0 {
			t.Errorf("number %d in the place of 3: %+v, %v", n, rep, err)
		}
	}
}

func TestWalker(t *testing.T) {
	b, heads := write(t, []int{3}, never)
	var w Walker
	unsealed := func(raw []byte) []byte { return append(bytes.Clone(raw[:len(raw)-19]), '}') }
	for i, raw := range b["2026-01.jsonl"] {
		if w.Head() != heads[i] {
			t.Errorf("head %v", w.Head())
		}
		if i > 0 {
			if _, _, err := w.Next(unsealed(b["2026-01.jsonl"][0])); err == nil || w.Head() != heads[i] {
				t.Errorf("took record 0 at %d: %v", i, err)
			}
		}
		if h, kind, err := w.Next(unsealed(raw)); err != nil || h.N != int64(i) || kind != record(int64(i), "").Kind() {
			t.Errorf("%v %s %v", h, kind, err)
		}
	}
	if w.Head() != heads[3] {
		t.Errorf("head %v", w.Head())
	}
}
