package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/checkpoint"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var march = time.Date(2026, 3, 31, 23, 59, 58, 0, time.UTC)

// A clock is set by the test.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func tempRoot(t testing.TB) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func mustOpen(t testing.TB, root *os.Root, c *clock) *Log {
	t.Helper()
	l, err := Open(Config{Root: root, Version: "0.1.0", Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func halt(reason string) *proto.AuditHalt {
	return &proto.AuditHalt{Halted: true, Reason: reason, By: "uid 0"}
}

func mustAppend(t testing.TB, l *Log, r proto.AuditRecord) Ref {
	t.Helper()
	ref, err := l.Append(r)
	if err != nil || !ref.OK() {
		t.Fatalf("%v, %v", ref, err)
	}
	return ref
}

// kinds reads the log as a stranger does: verified, file by file.
func kinds(t testing.TB, root *os.Root, anchors ...proto.AuditHead) (list []string, head proto.AuditHead) {
	t.Helper()
	var a []chain.Anchor
	for _, h := range anchors {
		a = append(a, chain.Anchor{AuditHead: h, From: "a test"})
	}
	rep, err := chain.Verify(chain.Config{Root: root, Anchors: a, Visit: func(l chain.Line) error {
		r, err := l.Record()
		text := l.File + " " + l.Kind
		if h, ok := r.(*proto.AuditHalt); ok {
			text += " " + h.Reason
		}
		list = append(list, text)
		return err
	}})
	if err != nil || rep.Faults != nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	return list, rep.Head
}

func TestZeroRef(t *testing.T) {
	if (Ref{}).OK() {
		t.Error("a reference to nothing is OK")
	}
}

func TestAppendAndReopen(t *testing.T) {
	root, c := tempRoot(t), &clock{march}
	l := mustOpen(t, root, c)
	if l.Head().N != 1 {
		t.Errorf("head %v", l.Head())
	}
	var heads []proto.AuditHead
	for i := range 3 {
		ref := mustAppend(t, l, halt(fmt.Sprint(i)))
		if ref.Head() != l.Head() || ref.Head().N != int64(2+i) {
			t.Errorf("%v, %v", ref.Head(), l.Head())
		}
		heads = append(heads, ref.Head())
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if ref, err := l.Append(halt("late")); !errors.Is(err, os.ErrClosed) || ref.OK() {
		t.Errorf("%v, %v", ref, err)
	}
	var seen []string
	l, err := Open(Config{Root: root, Version: "0.2.0", Now: c.now, Visit: func(h proto.AuditHeader, r proto.AuditRecord) error {
		seen = append(seen, fmt.Sprintf("%d %s", h.N, r.Kind()))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if d := cmp.Diff([]string{"0 start", "1 halt", "2 halt", "3 halt"}, seen); d != "" {
		t.Error(d)
	}
	list, head := kinds(t, root, heads...)
	want := []string{"start", "halt 0", "halt 1", "halt 2", "start"}
	for i := range want {
		want[i] = "2026-03.jsonl " + want[i]
	}
	if d := cmp.Diff(want, list); d != "" || head != l.Head() {
		t.Errorf("%v, %v\n%s", head, l.Head(), d)
	}
}

// TestMonths: a new month begins a new file; a clock that is set back begins none.
func TestMonths(t *testing.T) {
	root, c := tempRoot(t), &clock{march}
	l := mustOpen(t, root, c)
	for _, step := range []struct {
		at     time.Time
		reason string
	}{
		{march, "march"},
		{march.Add(2 * time.Second), "april"},
		{march, "back in march"},
		{time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), "back a year"},
		{time.Date(2026, 4, 30, 23, 0, 0, 0, time.FixedZone("west", -2*3600)), "may, in UTC"},
		{time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), "months later"},
	} {
		c.at = step.at
		mustAppend(t, l, halt(step.reason))
	}
	l.Close()
	c.at = march // the newest file goes on after a restart too
	l = mustOpen(t, root, c)
	mustAppend(t, l, halt("after"))
	list, _ := kinds(t, root)
	want := []string{
		"2026-03.jsonl start", "2026-03.jsonl halt march",
		"2026-04.jsonl halt april", "2026-04.jsonl halt back in march", "2026-04.jsonl halt back a year",
		"2026-05.jsonl halt may, in UTC", "2026-09.jsonl halt months later",
		"2026-09.jsonl start", "2026-09.jsonl halt after",
	}
	if d := cmp.Diff(want, list); d != "" {
		t.Error(d)
	}
}

// TestAnyClock: whatever the clock does, the log verifies, and the files are in
// the order of the records.
func TestAnyClock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "audit")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		root, err := os.OpenRoot(dir)
		if err != nil {
			rt.Fatal(err)
		}
		defer root.Close()
		c := &clock{march}
		l := mustOpen(t, root, c)
		defer func() { l.Close() }()
		var heads []proto.AuditHead
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			c.at = march.AddDate(0, rapid.IntRange(-3, 3).Draw(rt, "months"), rapid.IntRange(-40, 40).Draw(rt, "days"))
			if rapid.Bool().Draw(rt, "restart") {
				l.Close()
				l = mustOpen(t, root, c)
			}
			heads = append(heads, mustAppend(t, l, halt("x")).Head())
		}
		if _, head := kinds(t, root, heads...); head != l.Head() {
			rt.Fatalf("%v, %v", head, l.Head())
		}
	})
}

func TestOneWriter(t *testing.T) {
	root, c := tempRoot(t), &clock{march}
	l := mustOpen(t, root, c)
	for range 2 {
		_, err := Open(Config{Root: root, Now: c.now})
		if !errors.Is(err, appendlog.ErrLocked) || !strings.HasSuffix(err.Error(), "(see runbook: log-locked)") {
			t.Errorf("%v", err)
		}
		c.at = c.at.AddDate(0, 1, 0) // the same when the file is another
		mustAppend(t, l, halt("x"))
	}
	l.Close()
	mustOpen(t, root, c)
}

func TestTornEnd(t *testing.T) {
	root, c := tempRoot(t), &clock{march}
	l := mustOpen(t, root, c)
	head := mustAppend(t, l, halt("kept")).Head()
	l.Close()
	const name = "2026-03.jsonl"
	whole, err := root.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := root.WriteFile(name, append(whole, `{"v":1,"n":2,"ti`...), 0o600); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, root, c)
	list, _ := kinds(t, root, head)
	if d := cmp.Diff([]string{name + " start", name + " halt kept", name + " recovered", name + " start"}, list); d != "" {
		t.Error(d)
	}
	side, err := root.ReadFile(fmt.Sprintf("%s.torn-%d", name, len(whole)))
	if err != nil || string(side) != `{"v":1,"n":2,"ti` {
		t.Errorf("%q, %v", side, err)
	}
	l.Close()
}

// TestDamage: brokerd does not start on a log that is not whole, and leaves it
// as it is.
func TestDamage(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"a changed byte", func(dir string) error {
			return edit(dir, "2026-03.jsonl", func(b []byte) []byte { return bytes.Replace(b, []byte("one"), []byte("two"), 1) })
		}, "2026-03.jsonl:2: changed"},
		{"a line gone", func(dir string) error {
			return edit(dir, "2026-03.jsonl", func(b []byte) []byte {
				lines := bytes.SplitAfter(b, []byte("\n"))
				return bytes.Join(append(lines[:1:1], lines[2:]...), nil)
			})
		}, "2026-04.jsonl:1: missing: record 1 is gone"},
		{"a line gone in the newest file", func(dir string) error {
			return edit(dir, "2026-04.jsonl", func(b []byte) []byte {
				return b[bytes.IndexByte(b, '\n')+1:]
			})
		}, "2026-04.jsonl:1: missing: record 2 is gone"},
		{"an older file cut", func(dir string) error {
			return edit(dir, "2026-03.jsonl", func(b []byte) []byte { return b[:len(b)-5] })
		}, "2026-03.jsonl:2: changed"},
		{"a file gone", func(dir string) error { return os.Remove(filepath.Join(dir, "2026-03.jsonl")) }, "2026-04.jsonl:1: missing"},
		{"a stranger's file", func(dir string) error { return os.WriteFile(filepath.Join(dir, "x.jsonl"), nil, 0o600) }, "x.jsonl: foreign"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, c := tempRoot(t), &clock{march}
			l := mustOpen(t, root, c)
			mustAppend(t, l, halt("one"))
			c.at = march.Add(time.Minute)
			for range 3 {
				mustAppend(t, l, halt("more"))
			}
			l.Close()
			if err := tc.spoil(root.Name()); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, root)
			_, err := Open(Config{Root: root, Now: c.now})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasSuffix(err.Error(), "(see runbook: audit-damaged)") || strings.Count(err.Error(), "see runbook") != 1 {
				t.Errorf("%v", err)
			}
			if d := cmp.Diff(before, snapshot(t, root)); d != "" {
				t.Errorf("it was changed: %s", d)
			}
		})
	}
}

func edit(dir, name string, change func([]byte) []byte) error {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, change(b), 0o600)
}

func snapshot(t *testing.T, root *os.Root) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		b, err := root.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

func TestVisitorRefuses(t *testing.T) {
	root, c := tempRoot(t), &clock{march}
	mustOpen(t, root, c).Close()
	no := errors.New("two decisions on one call (see runbook: x)")
	_, err := Open(Config{Root: root, Now: c.now, Visit: func(proto.AuditHeader, proto.AuditRecord) error { return no }})
	if !errors.Is(err, no) || strings.Contains(err.Error(), "damage") {
		t.Errorf("%v", err)
	}
	mustOpen(t, root, c) // the lock was dropped
}

// TestRefusedRecords leave the log good.
func TestRefusedRecords(t *testing.T) {
	root, c := tempRoot(t), &clock{march}
	l := mustOpen(t, root, c)
	head := l.Head()
	for name, r := range map[string]proto.AuditRecord{
		"not valid": &proto.AuditStart{PID: -1},
		"no UTF-8":  halt("\xff"),
		"too long":  halt(strings.Repeat("x", appendlog.MaxRecord)),
	} {
		if ref, err := l.Append(r); err == nil || ref.OK() || errors.Is(err, appendlog.ErrBroken) {
			t.Errorf("%s: %v, %v", name, ref, err)
		}
	}
	if l.Head() != head || l.Err() != nil {
		t.Errorf("%v, %v", l.Head(), l.Err())
	}
	mustAppend(t, l, halt("good"))
}

func TestManyAtOnce(t *testing.T) {
	root, c := tempRoot(t), &clock{march}
	l := mustOpen(t, root, c)
	var wg sync.WaitGroup
	heads := make([]proto.AuditHead, 40)
	for i := range heads {
		wg.Go(func() { heads[i] = mustAppend(t, l, halt(fmt.Sprint(i))).Head() })
	}
	wg.Wait()
	kinds(t, root, heads...)
}

func TestCheckpoint(t *testing.T) {
	root, state, c := tempRoot(t), tempRoot(t), &clock{march}
	l := mustOpen(t, root, c)
	s, err := OpenSigner(state)
	if err != nil {
		t.Fatal(err)
	}
	public, err := state.ReadFile(PublicFile)
	if err != nil {
		t.Fatal(err)
	}
	before := l.Head()
	first, err := l.Checkpoint(s)
	if err != nil || first.Head != before {
		t.Fatalf("%v, %v", first, err)
	}
	if h, err := checkpoint.Open(first.Checkpoint, string(public)); err != nil || h != before {
		t.Errorf("%v, %v", h, err)
	}
	if again, err := l.Checkpoint(s); err != nil || again != first || l.Head().N != before.N+1 {
		t.Errorf("an idle log grows: %v, %v", l.Head(), err)
	}
	mustAppend(t, l, halt("x"))
	second, err := l.Checkpoint(s)
	if err != nil || second.Head.N != before.N+2 {
		t.Errorf("%v, %v", second, err)
	}
	list, _ := kinds(t, root, first.Head, second.Head)
	const m = "2026-03.jsonl "
	if d := cmp.Diff([]string{m + "start", m + "checkpoint", m + "halt x", m + "checkpoint"}, list); d != "" {
		t.Error(d)
	}
	l.Close()
	if _, err := l.Checkpoint(s); err == nil {
		t.Error("a checkpoint of a closed log")
	}
}

func TestSigner(t *testing.T) {
	state := tempRoot(t)
	if _, err := OpenSigner(state); err != nil {
		t.Fatal(err)
	}
	info, err := state.Stat(KeyFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	key, err := state.ReadFile(KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	public, err := state.ReadFile(PublicFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := state.WriteFile(PublicFile, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSigner(state); err != nil {
		t.Fatal(err)
	}
	key2, _ := state.ReadFile(KeyFile)
	if again, err := state.ReadFile(PublicFile); err != nil || string(again) != string(public) || string(key2) != string(key) {
		t.Errorf("the key is another, or the public one was not mended: %v", err)
	}
	for name, spoil := range map[string]func() error{
		"no key at all":   func() error { return state.WriteFile(KeyFile, []byte("x"), 0o600) },
		"empty":           func() error { return state.WriteFile(KeyFile, nil, 0o600) },
		"open to a group": func() error { return errors.Join(state.WriteFile(KeyFile, key, 0o600), state.Chmod(KeyFile, 0o640)) },
		"a link":          func() error { return errors.Join(state.Remove(KeyFile), state.Symlink("elsewhere", KeyFile)) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSigner(state); err == nil || !strings.HasSuffix(err.Error(), "(see runbook: audit-key)") || strings.Contains(err.Error(), string(key)) {
			t.Errorf("%s: %v", name, err)
		}
		if err := errors.Join(state.Remove(KeyFile), state.WriteFile(KeyFile, key, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
