package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// logFile gives the newest file of the audit log.
func (w *worker) logFile() string {
	w.t.Helper()
	files, err := filepath.Glob(w.Layout.Audit + "/*.jsonl")
	if err != nil || len(files) == 0 {
		w.t.Fatalf("no audit log: %v", err)
	}
	return files[len(files)-1]
}

// edit changes the newest file in place, and gives a way back.
func (w *worker) edit(f func(b []byte) []byte) (undo func()) {
	w.t.Helper()
	log := w.logFile()
	was := read(w.t, log)
	w.write(log, string(f([]byte(was))))
	return func() { w.t.Helper(); w.write(log, was) }
}

func (w *worker) write(file, text string) {
	w.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// move renames a file, and gives a way back.
func (w *worker) move(from, to string) (undo func()) {
	w.t.Helper()
	rename := func(from, to string) {
		w.t.Helper()
		if err := os.Rename(from, to); err != nil {
			w.t.Fatal(err)
		}
	}
	rename(from, to)
	return func() { w.t.Helper(); rename(to, from) }
}

// firstLines gives the first n lines of a log; a negative n leaves
// out so many of the last.
func firstLines(n int) func(b []byte) []byte {
	return func(b []byte) []byte {
		lines := bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		if n < 0 {
			n = max(0, len(lines)+n)
		}
		return bytes.Join(lines[:n], nil)
	}
}

// The audit log is changed under a brokerd that runs. It writes nothing behind
// that, the call does not run, the owner is told by everything that he looks at,
// and when the log is as it was, all goes on, the turn that was under way too.
func TestFault_Authority_LogChangedWhileBrokerdRuns(t *testing.T) {
	w := traced(t, nil)
	for _, tt := range []struct {
		name, what string
		harm       func() (undo func())
	}{
		{"a byte", "changed", func() func() {
			return w.edit(func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		}},
		{"the last record cut", "cut", func() func() { return w.edit(firstLines(-1)) }},
		{"an older copy in its place", "cut", func() func() { return w.edit(firstLines(2)) }},
		{"emptied", "cut", func() func() { return w.edit(func([]byte) []byte { return nil }) }},
		{"records repeated", "repeated", func() func() {
			return w.edit(func(b []byte) []byte { return append(b, firstLines(1)(b)...) })
		}},
		{"moved away", "", func() func() { return w.move(w.logFile(), filepath.Join(w.Home, "away")) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &worker{Stack: w.Stack, t: t, turns: w.turns + 100}
			w.works()
			before := w.traces()
			undo := tt.harm()
			if r := w.Bxctl("", "status"); !strings.Contains(r.Stdout, "failed  audit ") || !strings.Contains(r.Stdout, "(see runbook: audit-damaged)") {
				t.Errorf("status does not tell of it:\n%s", r.Stdout)
			}
			w.complains("audit verify", "(see runbook: audit-damaged)", tt.what)
			w.complains("doctor", "the audit log does not verify", "(see runbook: audit-damaged)")
			damaged := w.files()
			turn := w.begin(w.leave())
			w.ends("brokerd refused to start", "audit-")
			if n := w.traces(); n != before {
				t.Errorf("the call has run: %d traces, want %d", n, before)
			}
			if now := w.files(); now != damaged {
				t.Errorf("brokerd wrote into the damaged log:\n%s\nwas\n%s", now, damaged)
			}
			w.complains("up", "brokerd refused to start", "(see runbook: audit-")
			undo()
			w.Up()
			r, text := turn.ended()
			w.want(r, text, proto.CallFailed, proto.CodeInternal, "it did not run")
			if !strings.HasPrefix(text, "internal: ") {
				t.Errorf("the model reads %q", text)
			}
			w.works()
			w.whole()
		})
		w.turns += 200
	}
}

// ends wants `bxctl up` to end by itself, and to say why.
func (w *worker) ends(says ...string) {
	w.t.Helper()
	out := w.WaitEnd()
	for _, want := range says {
		if i := strings.LastIndex(out, "\nbxctl: "); i < 0 || !strings.Contains(out[i:], want) {
			w.t.Errorf("bxctl up does not end with %q:\n%s", want, out)
		}
	}
}

// files are the files of the audit log, with all that they hold.
func (w *worker) files() string {
	w.t.Helper()
	all, err := filepath.Glob(w.Layout.Audit + "/*.jsonl")
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range all {
		b.WriteString(filepath.Base(f) + "\n" + read(w.t, f))
	}
	return b.String()
}
