package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// kept are the folders that a backup of what happened has to hold together.
func kept(w *worker) []string {
	return []string{w.Layout.Audit, w.Layout.Broker, w.Layout.Anchors, w.Layout.Sessions}
}

// save copies folders aside, owners included; load puts such a copy back.
func (w *worker) save(name string, dirs ...string) {
	w.t.Helper()
	for _, d := range dirs {
		w.copied(d, filepath.Join(w.Home, "saved", name, filepath.Base(d)))
	}
}

func (w *worker) load(name string, dirs ...string) {
	w.t.Helper()
	for _, d := range dirs {
		w.copied(filepath.Join(w.Home, "saved", name, filepath.Base(d)), d)
	}
}

func (w *worker) copied(from, to string) {
	w.t.Helper()
	out, err := exec.Command("sh", "-c", `rm -rf "$2" && mkdir -p "$(dirname "$2")" && cp -a "$1" "$2"`, "sh", from, to).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

// What somebody may do to the audit log while Boxmaker is down, a power cut
// apart: it does not start, everything that the owner looks at says why, nothing
// is written, and with the log put back all goes on.
func TestCaseP62_LogHarmedWhileDown(t *testing.T) {
	w := traced(t, nil)
	w.works()
	w.Down()
	// A log of two months, as the order of names alone makes them.
	w.move(w.logFile(), filepath.Join(w.Layout.Audit, "2001-02.jsonl"))
	former := filepath.Join(w.Layout.Audit, "2001-02.jsonl")
	w.Up()
	w.works()
	w.Down()
	w.save("early", kept(w)...)
	w.Up()
	for range 3 {
		w.works()
	}
	w.Down()
	w.save("other", kept(w)...)
	w.load("early", kept(w)...)
	w.Up()
	w.works()
	w.Down()
	w.save("now", kept(w)...)
	note := filepath.Join(w.Layout.Broker, "audit.head")

	for _, tt := range []struct {
		name, what, key string
		harm            func()
	}{
		{"a byte of a former month", "changed", "audit-damaged", func() {
			b := []byte(read(t, former))
			b[len(b)/2] ^= 1
			w.write(former, string(b))
		}},
		{"the file of a former month gone", "missing", "audit-damaged", func() { w.move(former, filepath.Join(w.Home, "away")) }},
		{"the end of a former month cut", "missing", "audit-damaged", func() { w.write(former, string(firstLines(-1)([]byte(read(t, former))))) }},
		{"a record out of the middle", "missing", "audit-damaged", func() {
			w.edit(func(b []byte) []byte { return append(firstLines(1)(b), b[len(firstLines(2)(b)):]...) })
		}},
		{"the last record alone cut", "cut", "audit-cut", func() { w.edit(firstLines(-1)) }},
		{"cut below the newest anchor, the note too", "cut", "audit-cut", func() {
			w.edit(firstLines(-3))
			w.write(note, "")
			if err := os.Remove(note); err != nil {
				t.Fatal(err)
			}
		}},
		{"an older log", "cut", "audit-cut", func() { w.load("early", w.Layout.Audit) }},
		{"an older log, and brokerd's state of then", "cut", "audit-cut", func() { w.load("early", w.Layout.Audit, w.Layout.Broker) }},
		{"another log that began the same", "forked", "audit-cut", func() { w.load("other", w.Layout.Audit, w.Layout.Broker) }},
		{"no log at all", "cut", "audit-cut", func() {
			w.move(w.logFile(), filepath.Join(w.Home, "away-1"))
			w.move(former, filepath.Join(w.Home, "away-2"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &worker{Stack: w.Stack, t: t, turns: w.turns}
			w.load("now", kept(w)...)
			before := w.traces()
			tt.harm()
			harmed := w.files()
			w.complains("up", "brokerd refused to start", tt.what+": ", "(see runbook: "+tt.key+")")
			w.complains("audit verify", tt.what+": ", "(see runbook: audit-damaged)")
			w.complains("doctor", "the audit log does not verify", tt.what+": ", "(see runbook: audit-damaged)")
			if now := w.files(); now != harmed {
				t.Errorf("the harmed log was written to:\n%s\nwas\n%s", now, harmed)
			}
			if n := w.traces(); n != before {
				t.Errorf("something has run: %d traces, want %d", n, before)
			}
		})
	}
	w.load("now", kept(w)...)
	w.Up()
	w.works()
	w.whole()
}

// Boxmaker is killed, and what was recorded last is cut off before it starts
// again: that no head of a checkpoint covers it does not hide it.
func TestCaseP62_KilledAndThenCut(t *testing.T) {
	w := traced(t, nil)
	w.works()
	w.do(call("read_file", map[string]any{"path": "/nowhere"}), proto.CallDenied, proto.CodeNoGrant, "")
	w.KillUp()
	for n := range 3 {
		undo := w.edit(firstLines(-1 - n))
		w.complains("up", "brokerd refused to start", "cut: ", "(see runbook: audit-cut)")
		w.complains("audit verify", "cut: ")
		undo()
	}
	w.Up()
	w.works()
	w.whole()
}

// A crash tore the last line: it is put aside, on record, and all goes on.
func TestFault_Authority_TornEnd(t *testing.T) {
	w := traced(t, nil)
	w.works()
	w.KillUp()
	w.edit(func(b []byte) []byte { return append(b, `{"v":1,"n":99,"time":"2026`...) })
	w.complains("audit verify", "torn: ", "(see runbook: audit-damaged)")
	w.Up()
	w.WaitTools() // up is ready when loopd is
	if r := last[*proto.AuditRecovered](w); r.Bytes != 26 || r.File == "" {
		t.Errorf("on record: %+v", r)
	}
	w.works()
	w.whole()
}

// Another program holds the log's lock: nothing is allowed, and once it has let go
// all goes on.
func TestFault_Authority_LogLocked(t *testing.T) {
	w := traced(t, nil)
	w.works()
	w.Down()
	f, err := os.OpenFile(filepath.Join(w.Layout.Audit, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	before := w.files()
	w.complains("up", "another brokerd writes to it", "end that first", "(see runbook: log-locked)")
	if w.files() != before {
		t.Error("something was written")
	}
	f.Close()
	w.Up()
	w.works()
	w.whole()
}

// As root each part runs as a user of its own. A home that they cannot reach is
// refused with its mend before anything is made there, and so is one that was
// closed later; once it is open, all works.
func TestHomeOutOfReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT ROOT: the parts run as the user that starts them")
	}
	s := stack.New(t)
	fine := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fine(os.Chmod(s.Home, 0o711))
	closed := filepath.Join(s.Home, "closed")
	fine(os.Mkdir(closed, 0o700))
	home := filepath.Join(closed, "home")
	refused := func(command ...string) {
		t.Helper()
		r := s.Bxctl("", append([]string{"--home", home}, command...)...)
		if r.Code == 0 || !strings.Contains(r.Stderr, "chmod o+x "+closed) || !strings.Contains(r.Stderr, "(see runbook: home-out-of-reach)") {
			t.Errorf("%v: %d: %s", command, r.Code, r.Stderr)
		}
	}
	refused("init")
	if all, err := os.ReadDir(closed); err != nil || len(all) > 0 {
		t.Errorf("there is %v in the folder, %v", all, err)
	}
	fine(os.Chmod(closed, 0o711))
	s.Must("", "--home", home, "init")
	fine(os.Chmod(closed, 0o700))
	refused("up", "--detach")
	fine(os.Chmod(closed, 0o711))
	s.Must("", "--home", home, "up", "--detach")
	if said := s.Must("read the file welcome.md", "--home", home, "ask"); !strings.Contains(said, "workspace") {
		t.Errorf("the answer is %q", said)
	}
	s.Must("", "--home", home, "down")
}
