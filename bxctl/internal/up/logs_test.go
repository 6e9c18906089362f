package up

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/logs"
	"boxmaker/bxctl/internal/term"
)

func testConsole(b *bytes.Buffer) *console {
	return &console{screen: term.Plain(b), now: func() time.Time { return t0 }}
}

func TestJournal(t *testing.T) {
	var screen bytes.Buffer
	dir := t.TempDir()
	j, err := openJournal("loopd", dir, true, testConsole(&screen))
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
	b, err := os.ReadFile(logs.Path(dir, "loopd"))
	if err != nil || strings.Count(string(b), "\n") != 5 || !strings.HasPrefix(string(b), strings.SplitAfter(in, "\n")[0]) {
		t.Errorf("the file has %q, %v", b, err)
	}
	var missing []string
	j.watch(func(s string) { missing = append(missing, s) })
	j.follow(strings.NewReader(`{"level":"INFO","msg":"confined","check":"user-id","state":"ok","detail":"uid 1"}` + "\n" +
		`{"level":"WARN","msg":"confined","check":"landlock","state":"failed","detail":"none\u001b"}` + "\n"))
	if !slices.Equal(missing, []string{"landlock: none␛"}) {
		t.Errorf("missing %q", missing)
	}
	if got, whole := j.reason(); got != "a check failed\x1b[1m (see runbook: some-key)" || !whole {
		t.Errorf("reason %q", got)
	}
	if got := j.last(); len(got) != 7 || got[4] != "no newline at the end" {
		t.Errorf("last lines %q", got)
	}
}

// Of a life that ended without a word of its own, the first line that is no
// record tells most. A new life starts without it.
func TestReasonOfACrash(t *testing.T) {
	j, err := openJournal("loopd", t.TempDir(), false, testConsole(&bytes.Buffer{}))
	if err != nil {
		t.Fatal(err)
	}
	j.follow(strings.NewReader(`{"level":"INFO","msg":"up"}` + "\npanic: it broke\n\ngoroutine 1 [running]:\n" + strings.Repeat("at\n", 30)))
	if got, whole := j.reason(); got != "panic: it broke" || whole {
		t.Errorf("%q, %v", got, whole)
	}
	j.forget()
	if got, _ := j.reason(); got != "" || len(j.last()) != 0 {
		t.Errorf("%q, %q", got, j.last())
	}
}

func TestLongLinesAndTail(t *testing.T) {
	j, err := openJournal("a", t.TempDir(), false, testConsole(&bytes.Buffer{}))
	if err != nil {
		t.Fatal(err)
	}
	j.follow(strings.NewReader(strings.Repeat("x", 3*logs.MaxLine) + "\n" + strings.Repeat("l\n", 100)))
	if got := j.last(); len(got) != tailLen || slices.ContainsFunc(got, func(s string) bool { return s != "l" }) {
		t.Errorf("%d lines", len(got))
	}
}
