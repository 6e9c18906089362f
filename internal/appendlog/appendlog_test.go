package appendlog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAppendAndReopen(t *testing.T) {
	root, dir := tempRoot(t)
	l, rec, _ := mustOpen(t, root, "a.jsonl")
	if rec != (Recovery{}) || l.Size() != 0 || l.Last() != [32]byte{} {
		t.Fatalf("new log: %+v, size %d", rec, l.Size())
	}
	want := append(numbered(0, 5), `{"x":{"crc":"00000000"}}`, `{"x":"ü \u0000 \",\"crc\":\"00000000\"}"}`)
	for _, batch := range [][]string{want[:1], want[1:4], {}, want[4:]} {
		if err := l.Append(asBytes(batch)...); err != nil {
			t.Fatal(err)
		}
	}
	onDisk := read(t, dir, "a.jsonl")
	if !bytes.Equal(onDisk, sealed(want...)) {
		t.Fatalf("on disk:\n%s", onDisk)
	}
	lastLine := bytes.TrimSuffix(onDisk[bytes.LastIndexByte(onDisk[:len(onDisk)-1], '\n')+1:], []byte("\n"))
	check := func(l *Log) {
		t.Helper()
		if want := want[len(want)-1]; Hash([]byte(want)) != l.Last() || OnDisk([]byte(want)) != int64(len(lastLine))+1 {
			t.Errorf("Hash and OnDisk are not of the line on disk: %s", want)
		}
		if l.Len() != int64(len(want)) || l.Size() != int64(len(onDisk)) || l.Last() != sha256.Sum256(lastLine) {
			t.Errorf("Len %d, Size %d, Last %x", l.Len(), l.Size(), l.Last())
		}
	}
	check(l)
	if _, _, err := Open(Config{Root: root, Name: "a.jsonl"}); !errors.Is(err, ErrLocked) || !strings.HasSuffix(err.Error(), "(see runbook: log-locked)") {
		t.Errorf("second open: %v", err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]byte(want[0])); !errors.Is(err, os.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	l, _, got := mustOpen(t, root, "a.jsonl")
	defer l.Close()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	check(l)
	if fi, _ := os.Stat(filepath.Join(dir, "a.jsonl")); fi.Mode() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
}

// TestLockIsHeldAcrossProcesses: the other process is this test binary.
func TestLockIsHeldAcrossProcesses(t *testing.T) {
	if dir := os.Getenv("BOXMAKER_TEST_LOCKED"); dir != "" {
		root, _ := rootAt(t, dir)
		if _, _, err := Open(Config{Root: root, Name: "a"}); !errors.Is(err, ErrLocked) {
			t.Fatalf("open in another process: %v", err)
		}
		return
	}
	root, dir := tempRoot(t)
	l, _, _ := mustOpen(t, root, "a")
	defer l.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "BOXMAKER_TEST_LOCKED="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestAppendRefuses(t *testing.T) {
	root, dir := tempRoot(t)
	l, _, _ := mustOpen(t, root, "a")
	defer l.Close()
	good := []byte(`{"a":1}`)
	huge := slices.Concat([]byte(`{"a":"`), bytes.Repeat([]byte("x"), MaxRecord-8), []byte(`"}`))
	for _, tc := range []struct {
		name string
		line []byte
	}{
		{"empty", nil},
		{"no member", []byte(`{}`)},
		{"array", []byte(`["a"]`)},
		{"not closed", []byte(`{"a":1`)},
		{"white space in front", []byte(` {"a":1}`)},
		{"line break inside", []byte("{\"a\":\n1}")},
		{"line break behind", []byte("{\"a\":1}\n")},
		{"one byte too long", append(huge[:len(huge)-2:len(huge)-2], `x"}`...)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := l.Append(good, tc.line); !errors.Is(err, ErrRecord) || errors.Is(err, ErrBroken) {
				t.Errorf("%v", err)
			}
		})
	}
	if b := read(t, dir, "a"); len(b) != 0 {
		t.Errorf("%d bytes were written", len(b))
	}
	if err := l.Append(huge); err != nil { // exactly MaxRecord, and not broken
		t.Fatal(err)
	}
	if len(huge) != MaxRecord || l.Len() != 1 {
		t.Errorf("%d bytes, %d lines", len(huge), l.Len())
	}
	l.Close()
	l, rec, _ := mustOpen(t, root, "a")
	defer l.Close()
	if rec.Records != 1 || rec.Torn != 0 {
		t.Errorf("%+v", rec)
	}
	if line, err := LastLine(root, "a"); err != nil || !bytes.Equal(line, huge) {
		t.Errorf("last line: %d bytes, %v", len(line), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	root, dir := tempRoot(t)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, file, runbook string }{
		{"a folder", "folder", ""},
		{"no folder", "missing/a", "state-missing"},
		{"out of the root", "../a", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := Open(Config{Root: root, Name: tc.file})
			if err == nil || !strings.Contains(err.Error(), tc.runbook) {
				t.Errorf("open: %v", err)
			}
			if _, err := Scan(root, tc.file, nil); err == nil {
				t.Error("scan: no error")
			}
			if _, err := LastLine(root, tc.file); err == nil {
				t.Error("last line: no error")
			}
		})
	}
}

// TestScanBesideWriter: a reader without the lock sees whole lines, and leaves
// a line that is being written alone.
func TestScanBesideWriter(t *testing.T) {
	root, dir := tempRoot(t)
	l, _, _ := mustOpen(t, root, "a")
	defer l.Close()
	want := numbered(0, 3)
	if err := l.Append(asBytes(want)...); err != nil {
		t.Fatal(err)
	}
	half := sealed(numbered(3, 4)...)[:9]
	write(t, dir, "b", append(sealed(want...), half...))
	for name, torn := range map[string]int64{"a": 0, "b": 9} {
		before := read(t, dir, name)
		var got []string
		rec, err := Scan(root, name, keep(t, &got))
		if err != nil || rec != (Recovery{Records: 3, Torn: torn}) {
			t.Errorf("%s: %+v, %v", name, rec, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if !bytes.Equal(before, read(t, dir, name)) {
			t.Errorf("%s: changed by Scan", name)
		}
	}
}

func TestLastLine(t *testing.T) {
	root, dir := tempRoot(t)
	three := numbered(0, 3)
	big := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	badLast := sealed(three...)
	badLast[len(badLast)-4] ^= 1
	for _, tc := range []struct {
		name string
		file []byte
		want string
		bad  bool
	}{
		{"empty", nil, "", false},
		{"one", sealed(three[0]), three[0], false},
		{"three", sealed(three...), three[2], false},
		{"longer than a window", sealed(three[0], big), big, false},
		{"longer than a window, alone", sealed(big), big, false},
		{"before a torn tail", append(sealed(three...), `{"i":`...), three[2], false},
		{"before a long torn tail", append(sealed(three...), big...), three[2], false},
		{"before a bad last line", badLast, three[1], false},
		{"only a torn tail", []byte(`{"i":`), "", false},
		{"only a bad line", []byte("{\"i\":1}\n"), "", false},
		{"two bad lines", append(sealed(three...), "{\"i\":1}\n{\"i\":2}\n"...), "", true},
		{"bad line and torn tail", append(slices.Clone(badLast), `{"i":`...), "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			write(t, dir, "a", tc.file)
			got, err := LastLine(root, "a")
			if string(got) != tc.want || errors.Is(err, ErrCorrupt) != tc.bad || (err != nil) != tc.bad {
				t.Errorf("%.40q, %v", got, err)
			}
		})
	}
}

func TestLastOf(t *testing.T) {
	root, dir := tempRoot(t)
	three := numbered(0, 3)
	bad := sealed(three...)
	bad[len(sealed(three[0]))+4] ^= 1 // in the second line
	for _, tc := range []struct {
		name    string
		file    []byte
		wanted  string
		corrupt bool
	}{
		{"the first", sealed(three...), three[0], false},
		{"the first behind a torn end", append(sealed(three...), `{"i":`...), three[0], false},
		{"none", sealed(three[1:]...), "", false},
		{"before damage", bad, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			write(t, dir, "a", tc.file)
			got, err := LastOf(root, "a", func(line []byte) (bool, error) { return string(line) == three[0], nil })
			if string(got) != tc.wanted || errors.Is(err, ErrCorrupt) != tc.corrupt {
				t.Errorf("%.40q, %v", got, err)
			}
		})
	}
	no := errors.New("no")
	if _, err := LastOf(root, "a", func([]byte) (bool, error) { return false, no }); !errors.Is(err, no) {
		t.Error(err)
	}
}

// TestOpenStreams: what Open allocates does not grow with the file.
func TestOpenStreams(t *testing.T) {
	root, dir := tempRoot(t)
	line := `{"a":"` + strings.Repeat("x", 5000) + `"}`
	write(t, dir, "a", bytes.Repeat(sealed(line), 4000)) // 20 MB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, rec, err := Open(Config{Root: root, Name: "a", Visit: func(int64, []byte) error { return nil }})
	runtime.ReadMemStats(&after)
	if err != nil || rec.Records != 4000 {
		t.Fatal(rec, err)
	}
	defer l.Close()
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("opening 20 MB allocated %d bytes", got)
	}
}
