package appendlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var fourLines = []string{`{"i":0,"text":"J*:"}`, `{"i":1}`, `{"i":2,"o":{"crc":"00000000"}}`, `{"i":3,"text":"last"}`}

func scanBytes(b []byte, visit func(int64, []byte) error) (Recovery, error) {
	got, err := scan(bytes.NewReader(b), int64(len(b)), "a", visit)
	return Recovery{Records: got.records, Torn: int64(len(b)) - got.good}, err
}

// untouched runs f and checks that the log's bytes and times stay as they are.
func untouched(t *testing.T, dir, name string, f func()) {
	t.Helper()
	p := filepath.Join(dir, name)
	long := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(p, long, long); err != nil {
		t.Fatal(err)
	}
	before := read(t, dir, name)
	f()
	fi, err := os.Stat(p)
	if err != nil || !fi.ModTime().Equal(long) || !bytes.Equal(before, read(t, dir, name)) {
		t.Errorf("the file was touched: %v", err)
	}
	if sides, _ := filepath.Glob(p + ".torn*"); len(sides) > 0 {
		t.Errorf("side files: %q", sides)
	}
}

// TestEveryFlippedBitIsFound flips each bit of each byte of a small log.
func TestEveryFlippedBitIsFound(t *testing.T) {
	root, dir := tempRoot(t)
	whole := sealed(fourLines...)
	lastStart := len(whole) - len(sealed(fourLines[3]))
	torn, corrupt := 0, 0
	for at := range whole {
		for bit := range 8 {
			bad := slices.Clone(whole)
			bad[at] ^= 1 << bit
			var got []string
			rec, err := scanBytes(bad, keep(t, &got))
			switch {
			case errors.Is(err, ErrCorrupt):
				corrupt++
			case err == nil && at >= lastStart && rec.Records == 3 && rec.Torn == int64(len(whole)-lastStart):
				torn++
			default:
				t.Fatalf("byte %d, bit %d: %+v, %v", at, bit, rec, err)
			}
			if !slices.Equal(got, fourLines[:len(got)]) {
				t.Fatalf("byte %d, bit %d: visited %q", at, bit, got)
			}
			if bit != at%8 {
				continue // opening is slow: one bit of each byte
			}
			write(t, dir, "a", bad)
			if errors.Is(err, ErrCorrupt) {
				untouched(t, dir, "a", func() {
					if _, _, err := Open(Config{Root: root, Name: "a"}); !errors.Is(err, ErrCorrupt) {
						t.Fatalf("byte %d: open: %v", at, err)
					}
				})
				continue
			}
			openTorn(t, root, dir, bad[lastStart:], int64(lastStart))
		}
	}
	if torn == 0 || corrupt < 8*lastStart {
		t.Errorf("%d torn, %d corrupt of %d", torn, corrupt, 8*len(whole))
	}
}

// openTorn opens the log "a" and checks that tail was saved and cut at good.
func openTorn(t *testing.T, root *os.Root, dir string, tail []byte, good int64) {
	t.Helper()
	l, rec, lines := mustOpen(t, root, "a")
	defer l.Close()
	if rec.Torn != int64(len(tail)) || l.Size() != good || int64(len(read(t, dir, "a"))) != good {
		t.Fatalf("%+v, size %d; want %d cut at %d", rec, l.Size(), len(tail), good)
	}
	if !bytes.Equal(read(t, dir, rec.Side), tail) || !strings.HasPrefix(rec.Side, fmt.Sprintf("a.torn-%d", good)) {
		t.Fatalf("side file %q", rec.Side)
	}
	if err := os.Remove(filepath.Join(dir, rec.Side)); err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]byte(`{"after":true}`)); err != nil {
		t.Fatal(err)
	}
	var again []string
	got, err := Scan(root, "a", keep(t, &again))
	if err != nil || got.Torn != 0 || !slices.Equal(again, append(lines, `{"after":true}`)) {
		t.Fatalf("after the cut: %+v, %v, %q", got, err, again)
	}
}

// TestEveryHoleIsFound writes zeros over each range of a small log.
func TestEveryHoleIsFound(t *testing.T) {
	whole := sealed(fourLines...)
	// A hole that swallows the line break before the last line makes one bad
	// last line of two; one that ends before it is never taken for a torn tail.
	lastBreak := len(whole) - len(sealed(fourLines[3])) - 1
	for from := range whole {
		for to := from + 1; to <= len(whole); to++ {
			bad := slices.Clone(whole)
			clear(bad[from:to])
			var got []string
			rec, err := scanBytes(bad, keep(t, &got))
			if to <= lastBreak && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("hole %d-%d: %+v, %v", from, to, rec, err)
			}
			if err == nil && rec.Torn == 0 || len(got) > 3 || !slices.Equal(got, fourLines[:len(got)]) {
				t.Fatalf("hole %d-%d: %+v, %v, visited %q", from, to, rec, err, got)
			}
		}
	}
}

func TestTornTail(t *testing.T) {
	four := string(sealed(fourLines...))
	flipped := func(i int) string { b := []byte(four); b[i] ^= 1; return string(b) }
	for _, tc := range []struct {
		name, file, tail string
	}{
		{"half a line", four + `{"i":4,"te`, `{"i":4,"te`},
		{"a whole line without its break", four + strings.TrimSuffix(string(sealed(`{"i":4}`)), "\n"), `{"i":4},"crc"…`},
		{"zeros", four + "\x00\x00\x00", "\x00\x00\x00"},
		{"zeros and a line break", four + "\x00\x00\n", "\x00\x00\n"},
		{"an empty last line", four + "\n", "\n"},
		{"a last line without checksum", four + "{\"i\":4}\n", "{\"i\":4}\n"},
		{"a whole line, zeros for its break", four + strings.Replace(string(sealed(`{"i":4}`)), "\n", "\x00\x00", 1), ""},
		{"other case in the checksum", four + strings.ToUpper(string(sealed(`{"I":4}`))), ""},
		{"nothing but a torn line", `{"i"`, `{"i"`},
		{"a bit in the last line", flipped(len(four) - 20), four[strings.LastIndex(four[:len(four)-1], "\n")+1:]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, dir := tempRoot(t)
			good := int64(strings.LastIndex(four[:len(four)-1], "\n") + 1)
			if strings.HasPrefix(tc.file, four) {
				good = int64(len(four))
			} else if len(tc.file) < len(four) {
				good = 0
			}
			write(t, dir, "a", []byte(tc.file))
			openTorn(t, root, dir, []byte(tc.file[good:]), good)
		})
	}
}

func TestDamage(t *testing.T) {
	four := sealed(fourLines...)
	second := len(sealed(fourLines[0]))
	third := second + len(sealed(fourLines[1]))
	fourth := third + len(sealed(fourLines[2]))
	with := func(at int, b string) []byte {
		return slices.Concat(four[:at], []byte(b), four[at:])
	}
	flip := func(at int) []byte { b := slices.Clone(four); b[at] ^= 0x10; return b }
	long := bytes.Repeat([]byte("x"), MaxRecord+100)
	for _, tc := range []struct {
		name string
		file []byte
		want string
	}{
		{"a bit in the first line", flip(4), "line 1 (at byte 0)"},
		{"a bit in the third line", flip(third + 9), fmt.Sprintf("line 3 (at byte %d)", third)},
		{"a bit in a checksum", flip(third - 5), fmt.Sprintf("line 2 (at byte %d)", second)},
		{"the last but one line break", flip(fourth - 1), fmt.Sprintf("line 3 (at byte %d)", third)},
		{"the last line break", flip(len(four) - 1), fmt.Sprintf("line 4 (at byte %d)", fourth)},
		{"an empty line", with(second, "\n"), fmt.Sprintf("line 2 (at byte %d)", second)},
		{"a line without checksum", with(third, "{\"i\":1}\n"), "line 3"},
		{"carriage return", with(second-1, "\r"), "line 1"},
		{"a hole", with(third, strings.Repeat("\x00", 4096)), "line 3"},
		{"a bad line before a torn tail", append(flip(fourth+3), `{"i"`...), "line 4"},
		{"a line longer than any", append(with(len(four), string(long)), '\n'), "line 5"},
		{"a tail longer than any line", with(len(four), string(long)), "line 5"},
		{"a byte order mark", with(0, "\ufeff"), "line 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, dir := tempRoot(t)
			write(t, dir, "a", tc.file)
			untouched(t, dir, "a", func() {
				_, _, err := Open(Config{Root: root, Name: "a"})
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("open: %v", err)
				}
				if msg := err.Error(); !strings.Contains(msg, tc.want) || !strings.HasSuffix(msg, "(see runbook: log-damaged)") {
					t.Errorf("message %q, want %q in it", msg, tc.want)
				}
				if _, err := Scan(root, "a", nil); !errors.Is(err, ErrCorrupt) {
					t.Errorf("scan: %v", err)
				}
			})
		})
	}
}

// TestVisitorRefuses: a line with a good checksum was written whole. Whatever
// the visitor has against it, it is no torn tail, wherever it stands.
func TestVisitorRefuses(t *testing.T) {
	errForeign := errors.New("foreign version")
	for at := range int64(4) {
		root, dir := tempRoot(t)
		write(t, dir, "a", sealed(fourLines...))
		visit := func(n int64, _ []byte) error {
			if n == at {
				return errForeign
			}
			return nil
		}
		untouched(t, dir, "a", func() {
			_, _, err := Open(Config{Root: root, Name: "a", Visit: visit})
			if !errors.Is(err, ErrCorrupt) || !errors.Is(err, errForeign) || !strings.Contains(err.Error(), fmt.Sprintf("line %d ", at+1)) {
				t.Errorf("line %d: %v", at, err)
			}
			if rec, err := Scan(root, "a", visit); !errors.Is(err, errForeign) || rec.Records != at {
				t.Errorf("line %d: scan: %+v, %v", at, rec, err)
			}
		})
		l, _, _ := mustOpen(t, root, "a") // the failed Open holds no lock
		l.Close()
	}
}

// TestSideFiles: a second crash at the same place does not overwrite what the
// first one left, and a recovery that died half way is gone on with.
func TestSideFiles(t *testing.T) {
	root, dir := tempRoot(t)
	one := sealed(fourLines[0])
	for _, tc := range []struct{ tail, side string }{
		{"first", "a.torn-%d"},
		{"first", "a.torn-%d"}, // the same again
		{"second", "a.torn-%d.2"},
		{"third", "a.torn-%d.3"},
		{"second", "a.torn-%d.2"},
	} {
		write(t, dir, "a", append(slices.Clone(one), tc.tail...))
		l, rec, lines := mustOpen(t, root, "a")
		l.Close()
		side := fmt.Sprintf(tc.side, len(one))
		if d := cmp.Diff(Recovery{Records: 1, Torn: int64(len(tc.tail)), Side: side}, rec); d != "" {
			t.Error(d)
		}
		if !slices.Equal(lines, fourLines[:1]) || string(read(t, dir, side)) != tc.tail {
			t.Errorf("%q: side file %q", tc.tail, read(t, dir, side))
		}
	}
}
