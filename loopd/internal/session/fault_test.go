package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// damaged makes a closed session of two epochs, lets f change its files, and
// opens it again.
func damaged(t *testing.T, f func(dir string)) (*Session, string, error) {
	t.Helper()
	dir := t.TempDir()
	s, shut := openStore(t, dir)
	c := conversation(t, s, "chat-1")
	startEpoch(t, c, baseline("second"))
	appendTo(t, c, user("o2", "more"), assistant("some"))
	c.Close()
	shut()
	f(dir)
	s = storeAt(t, dir)
	before := tree(t, dir)
	c, err := s.Open("chat-1", func(int, proto.Header, proto.Record) error { return nil })
	if err != nil {
		if after := tree(t, dir); after != before {
			t.Errorf("a refused session was changed from\n%s\nto\n%s", before, after)
		}
	} else {
		t.Cleanup(func() { c.Close() })
	}
	return c, dir, err
}

// edit replaces bytes of a file of the session.
func edit(t *testing.T, epoch, old, new string) func(dir string) {
	return func(dir string) {
		b := readFile(t, dir, "chat-1", epoch)
		if !bytes.Contains(b, []byte(old)) {
			t.Fatalf("no %q in %s", old, b)
		}
		writeFile(t, bytes.Replace(b, []byte(old), []byte(new), 1), dir, "chat-1", epoch)
	}
}

func remove(t *testing.T, name string) func(dir string) {
	return func(dir string) {
		if err := os.Remove(filepath.Join(dir, "chat-1", name)); err != nil {
			t.Fatal(err)
		}
	}
}

func keepLines(t *testing.T, epoch string, from, to int) func(dir string) {
	return func(dir string) {
		lines := bytes.SplitAfter(readFile(t, dir, "chat-1", epoch), []byte("\n"))
		writeFile(t, bytes.Join(lines[from:to], nil), dir, "chat-1", epoch)
	}
}

// A log without its baseline is refused and left alone; the epoch is never made
// anew behind the owner's back.
func TestCase_P07_MissingBaselineIsRefused(t *testing.T) {
	for name, f := range map[string]func(string){
		"the only line is cut": func(dir string) {
			b := readFile(t, dir, "chat-1/0002.jsonl")
			writeFile(t, b[:bytes.IndexByte(b, '\n')/2], dir, "chat-1/0002.jsonl")
		},
		"the only line is damaged": func(dir string) {
			b := readFile(t, dir, "chat-1/0002.jsonl")
			b = b[:bytes.IndexByte(b, '\n')+1]
			b[30] ^= 1
			writeFile(t, b, dir, "chat-1/0002.jsonl")
		},
		"the file is empty":                  func(dir string) { writeFile(t, nil, dir, "chat-1/0002.jsonl") },
		"the older file is empty":            func(dir string) { writeFile(t, nil, dir, "chat-1/0001.jsonl") },
		"the first line is gone":             keepLines(t, "0002.jsonl", 1, 3),
		"the older one's first line is gone": keepLines(t, "0001.jsonl", 1, 5),
		"the baseline is twice": func(dir string) {
			b := readFile(t, dir, "chat-1/0002.jsonl")
			writeFile(t, append(b[:bytes.IndexByte(b, '\n')+1:bytes.IndexByte(b, '\n')+1], b...), dir, "chat-1/0002.jsonl")
		},
		"the older file is gone": remove(t, "0001.jsonl"),
		"all files are gone": func(dir string) {
			remove(t, "0001.jsonl")(dir)
			remove(t, "0002.jsonl")(dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := damaged(t, f)
			if err == nil {
				t.Fatalf("opened at epoch %d with %d records", c.Epoch(), c.Records())
			}
			wantError(t, err, "chat-1", "session-corrupt", "damaged", "Nothing was changed")
		})
	}
}

func TestDamagedLogs(t *testing.T) {
	for _, tt := range []struct {
		name, key string
		change    func(dir string)
		says      string
	}{
		{"flipped bit", "session-corrupt", edit(t, "0002.jsonl", `"more"`, `"mora"`), "line 2"},
		{"flipped bit in an older epoch", "session-corrupt", edit(t, "0001.jsonl", `"hello there"`, `"hello thera"`), "line 2"},
		{"hole", "session-corrupt", func(dir string) {
			b := readFile(t, dir, "chat-1/0002.jsonl")
			i := bytes.IndexByte(b, '\n') + 20
			clear(b[i : i+40])
			writeFile(t, b, dir, "chat-1/0002.jsonl")
		}, "line 2"},
		{"lost line", "session-corrupt", func(dir string) {
			lines := bytes.SplitAfter(readFile(t, dir, "chat-1/0002.jsonl"), []byte("\n"))
			writeFile(t, append(lines[0:1:1][0], lines[2]...), dir, "chat-1/0002.jsonl")
		}, "record 2 stands in place 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := damaged(t, tt.change)
			wantError(t, err, "chat-1", tt.key, tt.says)
		})
	}
}

// A line of a later version, written as that version would: with a good checksum.
func TestForeignVersion(t *testing.T) {
	_, _, err := damaged(t, func(dir string) {
		foreign(t, dir, "chat-1/0002.jsonl", `{"v":2,"n":3,"mood":"new"}`)
	})
	wantError(t, err, "chat-1", "session-version", "another version", "2")
	if !errors.Is(err, proto.ErrVersion) {
		t.Errorf("cause: %v", err)
	}
}

// foreign appends a line with its checksum, as appendlog does.
func foreign(t *testing.T, dir, name, line string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Append([]byte(line)), log.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestTornTail(t *testing.T) {
	var whole []byte
	c, dir, err := damaged(t, func(dir string) {
		whole = readFile(t, dir, "chat-1/0002.jsonl")
		writeFile(t, whole[:len(whole)-30], dir, "chat-1/0002.jsonl")
	})
	if err != nil {
		t.Fatal(err)
	}
	rec, ok := c.Recovered()
	lines := bytes.SplitAfter(whole, []byte("\n"))
	torn := lines[2][:len(lines[2])-30]
	if !ok || rec.Bytes != int64(len(torn)) {
		t.Fatalf("recovered %+v, %v; want %d bytes", rec, ok, len(torn))
	}
	if side := readFile(t, dir, "chat-1", rec.File); !bytes.Equal(side, torn) {
		t.Errorf("the side file %s holds %q", rec.File, side)
	}
	if c.Records() != 3 {
		t.Errorf("%d records; want baseline, user, recovered", c.Records())
	}
	c.Close()
	var again []seen
	if err := c.store.Read("chat-1", collect(&again)); err != nil {
		t.Fatal(err)
	}
	if last := again[len(again)-1]; !strings.Contains(last.line, `"kind":"recovered"`) || !strings.Contains(last.line, rec.File) {
		t.Errorf("the last record is %s", last.line)
	}
	c2, got := opened(t, c.store, "chat-1")
	if _, ok := c2.Recovered(); ok || len(got) != 3 {
		t.Errorf("opened again: recovered %v, records %v", ok, got)
	}
	startEpoch(t, c2, baseline("third")) // and it goes on
}

// The visitor of Open sees the record of the recovery, as a later replay does.
func TestRecoveryIsVisited(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, dir)
	conversation(t, s, "chat-1").Close()
	writeFile(t, append(readFile(t, dir, "chat-1/0001.jsonl"), `{"v":1,"n":5,"ti`...), dir, "chat-1/0001.jsonl")
	c, first := open(t, s, "chat-1")
	c.Close()
	_, second := opened(t, s, "chat-1")
	if len(first) != 6 || fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("first\n%v\nthen\n%v", first, second)
	}
}

// Crashes between the steps of StartEpoch leave the session as it was.
func TestUnfinishedEpochIsSweptAway(t *testing.T) {
	dir := t.TempDir()
	s, shut := openStore(t, dir)
	conversation(t, s, "chat-1").Close()
	shut()
	whole := readFile(t, dir, "chat-1/0001.jsonl")
	line := whole[:bytes.IndexByte(whole, '\n')+1]
	for id, name := range map[string]string{"chat-1": "chat-1/.new-0002.jsonl", "chat-2": ".new-chat-2/0001.jsonl"} { // a next epoch, and a first one
		for cut := 0; cut <= len(line); cut += 7 {
			temp := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(temp), 0o700); err != nil {
				t.Fatal(err)
			}
			writeFile(t, line[:cut], temp)
			s, shut := openStore(t, dir)
			c, _ := open(t, s, id)
			if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("%s is left: %v", temp, err)
			}
			if want := map[string]int{"chat-1": 1, "chat-2": 0}[id]; c.Epoch() != want {
				t.Fatalf("%s is at epoch %d", id, c.Epoch())
			}
			c.Close()
			shut()
		}
	}
}

// A start of an epoch that failed can be tried again by the same process.
func TestEpochAfterAFailedOne(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, dir)
	c, _ := opened(t, s, "chat-1")
	for epoch, temp := range []string{".new-chat-1", "chat-1/.new-0002.jsonl"} {
		temp := filepath.Join(dir, temp)
		if err := os.Mkdir(temp, 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, []byte(`{"v":1,"n":0,`), temp, "0001.jsonl")
		writeFile(t, nil, temp, "other")
		startEpoch(t, c, baseline("x"))
		if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) || c.Epoch() != epoch+1 {
			t.Errorf("epoch %d; %s is left: %v", c.Epoch(), temp, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "chat-1"))
	if err != nil || len(entries) != 2 || c.Epoch() != 2 {
		t.Errorf("epoch %d, files %v, %v", c.Epoch(), entries, err)
	}
}
