package appendlog

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// TestSealed has answers that were not made by this code: CRC-32C of the nine
// digits is the check value that every catalogue of checksums lists.
func TestSealed(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{`123456789}`, `123456789,"crc":"e3069283"}` + "\n"},
		{`{"a":1}`, `{"a":1,"crc":"` + slowCRC(`{"a":1`) + `"}` + "\n"},
	} {
		if got := string(appendSealed(nil, []byte(tc.line))); got != tc.want {
			t.Errorf("%s: %s", tc.line, got)
		}
	}
}

// slowCRC is CRC-32C by its definition.
func slowCRC(s string) string {
	c := ^uint32(0)
	for _, b := range []byte(s) {
		c ^= uint32(b)
		for range 8 {
			if c&1 == 1 {
				c = c>>1 ^ 0x82F63B78
			} else {
				c >>= 1
			}
		}
	}
	return fmt.Sprintf("%08x", ^c)
}

// TestOldLogsStayReadable: testdata/v1.jsonl was written once and is never changed.
func TestOldLogsStayReadable(t *testing.T) {
	root, _ := rootAt(t, "testdata")
	var kinds []string
	rec, err := Scan(root, "v1.jsonl", func(n int64, line []byte) error {
		h, r, err := proto.DecodeRecord(line)
		if err != nil || h.N != n {
			return fmt.Errorf("number %d: %w", h.N, err)
		}
		kinds = append(kinds, r.Kind())
		return nil
	})
	if err != nil || rec.Torn != 0 {
		t.Fatal(rec, err)
	}
	want := []string{"baseline", "user", "assistant", "completion", "asked", "tool", "queued", "incomplete", "stopped", "turn", "recovered"}
	if !slices.Equal(kinds, want) {
		t.Errorf("%q", kinds)
	}
}

// TestIndependentReaders runs the programs of docs/formats/session-log.md.
func TestIndependentReaders(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/session-log.md")
	if err != nil {
		t.Fatal(err)
	}
	good := read(t, "testdata", "v1.jsonl")
	ran := 0
	for _, lang := range []struct{ fence, program string }{{"python", "python3"}, {"perl", "perl"}} {
		m := regexp.MustCompile("(?s)```" + lang.fence + "\n(.*?)```").FindSubmatch(page)
		if m == nil {
			t.Fatalf("no %s on the page", lang.fence)
		}
		exe, err := exec.LookPath(lang.program)
		if err == nil {
			err = exec.Command(exe, "-e", "1").Run()
			if lang.program == "python3" {
				err = exec.Command(exe, "-c", "1").Run()
			}
		}
		if err != nil {
			t.Logf("NOT TESTED: the %s reader on docs/formats/session-log.md; %s does not run here: %v", lang.fence, lang.program, err)
			continue
		}
		ran++
		script := filepath.Join(t.TempDir(), "check")
		write(t, filepath.Dir(script), "check", m[1])
		runReader(t, exe, script, good)
	}
	if ran == 0 {
		t.Skip("NOT TESTED: the independent readers on docs/formats/session-log.md; neither python3 nor perl runs here")
	}
}

func runReader(t *testing.T, exe, script string, good []byte) {
	t.Helper()
	lines := bytes.SplitAfter(good, []byte("\n"))
	second, third := len(lines[0]), len(lines[0])+len(lines[1])
	flip := func(at int) []byte { b := slices.Clone(good); b[at] ^= 1; return b }
	for _, tc := range []struct {
		name string
		file []byte
		bad  bool
	}{
		{"good", good, false},
		{"empty", nil, false},
		{"a bit in the text", flip(second + 60), true},
		{"a bit in the checksum", flip(third - 5), true},
		{"a bit in a line break", flip(third - 1), true},
		{"torn", good[:len(good)-9], true},
		{"torn before the line break", good[:len(good)-1], true},
		{"a line is missing", slices.Concat(good[:second], good[third:]), true},
		{"another version", sealed(`{"v":2,"n":0,"time":"x","kind":"stopped"}`), true},
	} {
		path := filepath.Join(filepath.Dir(script), "log")
		write(t, filepath.Dir(script), "log", tc.file)
		out, err := exec.Command(exe, script, path).CombinedOutput()
		if (err != nil) != tc.bad {
			t.Errorf("%s: %s: %v\n%s", filepath.Base(exe), tc.name, err, out)
		}
		if n := bytes.Count(tc.file, []byte("\n")); !tc.bad && strings.TrimSpace(string(out)) != fmt.Sprint(n, " good lines") {
			t.Errorf("%s: %s: %s", filepath.Base(exe), tc.name, out)
		}
	}
}
