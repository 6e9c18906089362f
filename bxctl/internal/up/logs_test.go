package up

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
)

func testConsole(b *bytes.Buffer) *console {
	return &console{screen: term.Plain(b), now: func() time.Time { return t0 }}
}

func TestJournal(t *testing.T) {
	var screen bytes.Buffer
	path := filepath.Join(t.TempDir(), "loopd.log")
	j, err := openJournal("loopd", path, true, testConsole(&screen))
	if err != nil {
		t.Fatal(err)
	}
	in := `{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"ready","daemon":"loopd","addr":{"a":[1,2]},"text":"x\u001b[2J"}` + "\n" +
		`{"time":"2026-01-02T03:04:05Z","level":"DEBUG","msg":"noise"}` + "\n\n" +
		"loopd: a check failed\x1b[1m (see runbook: some-key)\n" + `{"broken` + "\nno newline at the end"
	j.follow(strings.NewReader(in))
	want := "03:04:05 loopd      ready addr={\"a\":[1,2]} text=x␛[2J\n" +
		"03:04:05 loopd      loopd: a check failed␛[1m (see runbook: some-key)\n" +
		"03:04:05 loopd      {\"broken\n03:04:05 loopd      no newline at the end\n"
	if screen.String() != want {
		t.Errorf("the terminal got\n%swant\n%s", screen.String(), want)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != in {
		t.Errorf("the file has %q, %v", b, err)
	}
	var missing []string
	j.watch(func(s string) { missing = append(missing, s) })
	j.follow(strings.NewReader(`{"level":"INFO","msg":"confined","check":"user-id","state":"ok","detail":"uid 1"}` + "\n" +
		`{"level":"WARN","msg":"confined","check":"landlock","state":"failed","detail":"none\u001b"}` + "\n"))
	if !slices.Equal(missing, []string{"landlock: none␛"}) {
		t.Errorf("missing %q", missing)
	}
	if got := j.reason(); got != "a check failed\x1b[1m (see runbook: some-key)" {
		t.Errorf("reason %q", got)
	}
	if got := j.last(); len(got) != 7 || got[4] != "no newline at the end" {
		t.Errorf("last lines %q", got)
	}
}

func TestJournalRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	j, err := openJournal("a", path, false, testConsole(&bytes.Buffer{}))
	if err != nil {
		t.Fatal(err)
	}
	j.follow(strings.NewReader("first\n"))
	j.size = maxLog + 1
	j.follow(strings.NewReader("second\n"))
	older, err1 := os.ReadFile(path + ".1")
	newer, err2 := os.ReadFile(path)
	if err1 != nil || err2 != nil || string(older) != "first\n" || string(newer) != "second\n" {
		t.Errorf("%q, %q, %v, %v", older, newer, err1, err2)
	}
}

func TestLongLinesAndTail(t *testing.T) {
	j, err := openJournal("a", filepath.Join(t.TempDir(), "a.log"), false, testConsole(&bytes.Buffer{}))
	if err != nil {
		t.Fatal(err)
	}
	j.follow(strings.NewReader(strings.Repeat("x", 3*maxLine) + "\n" + strings.Repeat("l\n", 100)))
	if got := j.last(); len(got) != tailLen || slices.ContainsFunc(got, func(s string) bool { return s != "l" }) {
		t.Errorf("%d lines", len(got))
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add(`{"level":"INFO","msg":"a","k":[1,{"a":"b"}]}`)
	f.Add("{\"level\":1,\"msg\":\"\xff\"")
	f.Fuzz(func(t *testing.T, s string) {
		e := parseEntry(s)
		if strings.ContainsAny(e.text, "\x1b\n\r\u009b\u202e") {
			t.Errorf("parseEntry(%q) = %q", s, e.text)
		}
	})
}
