package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

func (s *site) verify() Verdict {
	s.t.Helper()
	v, err := s.Verify(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *site) anchor() Added {
	s.t.Helper()
	a, err := s.Anchor(s.t.Context(), s, s.at, false)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func TestVerifyWhole(t *testing.T) {
	s := newSite(t)
	s.append(&proto.AuditStart{Version: "1", PID: 2})
	if v := s.verify(); !v.OK || v.Anchors != 0 || v.Results != 0 || v.Head != s.walk.Head() {
		t.Errorf("%+v", v)
	}
	var out bytes.Buffer
	if err := s.verify().Print(screen(&out), start); err != nil || !strings.Contains(out.String(), "No head from outside is known") {
		t.Errorf("%s, %v", out.String(), err)
	}
	head := s.call("chat-1", 1, "read_file", "{}")
	s.session("chat-1", head)
	s.session("chat-1", proto.AuditHead{}) // an older result has none
	if a := s.anchor(); !a.New || a.Head != head {
		t.Errorf("%+v", a)
	}
	if a := s.anchor(); a.New {
		t.Errorf("the same head twice: %+v", a)
	}
	s.at = start.AddDate(0, 1, 0)
	s.call("chat-1", 2, "read_file", "{}")
	s.anchor()
	out.Reset()
	v := s.verify()
	if !v.OK || v.Anchors != 2 || v.Results != 1 || v.Matched != 3 || v.Newest != 7 || v.Files != 2 {
		t.Errorf("%+v", v)
	}
	if err := v.Print(screen(&out), start); err != nil || !strings.Contains(out.String(), "whole: 7 records in 2 files") || !strings.Contains(out.String(), "3 of 3 heads from outside fit") {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// TestVerifyNames is what an owner sees after each kind of harm.
func TestVerifyNames(t *testing.T) {
	const march = "2026-03.jsonl"
	for _, tc := range []struct {
		name  string
		spoil func(s *site, session string)
		key   string
		want  string
	}{
		{"one byte", func(s *site, _ string) {
			s.edit(s.file(march), func(b []byte) []byte { return bytes.Replace(b, []byte("approved"), []byte("approveD"), 1) })
		}, "audit-damaged", march + ":3: changed: record 2 "},
		{"last lines cut, beside an anchor", func(s *site, session string) {
			os.Remove(session)
			s.edit(s.file(march), func(b []byte) []byte { return dropLast(dropLast(b)) })
		}, "audit-damaged", "cut: the log was 4 records long (2026-03-30T09:04:00.000Z, says anchors/audit.jsonl:1), now it has 2"},
		{"last lines cut, beside a session log", func(s *site, _ string) {
			os.RemoveAll(s.Anchors)
			s.edit(s.file(march), dropLast)
		}, "audit-damaged", "cut: the log was 4 records long (2026-03-30T09:04:00.000Z, says session chat-1, call chat-1/1/3/0), now it has 3"},
		{"half a line", func(s *site, _ string) {
			s.edit(s.file(march), func(b []byte) []byte { return b[:len(b)-9] })
		}, "audit-damaged", march + ":4: torn"},
		{"another history", func(s *site, _ string) {
			os.Remove(s.file(march))
			other := &site{Log: s.Log, t: s.t, at: start, key: s.key}
			other.append(&proto.AuditStart{Version: "1", PID: 2})
			other.call("chat-1", 1, "shell", "{}")
			other.call("chat-1", 2, "shell", "{}")
		}, "audit-damaged", march + ":4: forked: record 3 is not the one that was there"},
		{"the folder gone", func(s *site, _ string) { os.RemoveAll(s.Dir) }, "audit-damaged", "cut: the log was 4 records long, now its folder is gone"},
		{"all files gone", func(s *site, _ string) { os.Remove(s.file(march)) }, "audit-damaged", "now it has 0"},
		{"an anchor changed", func(s *site, _ string) {
			s.edit(filepath.Join(s.Anchors, anchorFile), func(b []byte) []byte { return bytes.Replace(b, []byte(`audit\n4\n`), []byte(`audit\n2\n`), 1) })
		}, "audit-anchors", "last line is not whole"},
		{"an anchor by another key", func(s *site, _ string) {
			os.Remove(filepath.Join(s.Anchors, pinFile))
			s.edit(filepath.Join(s.State, publicFile), func(b []byte) []byte { return b })
		}, "audit-anchors", "audit.jsonl:1: not a key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			s.append(&proto.AuditStart{Version: "1", PID: 2})
			session := s.session("chat-1", s.call("chat-1", 1, "read_file", "{}"))
			s.anchor()
			if v := s.verify(); !v.OK {
				t.Fatalf("%+v", v)
			}
			tc.spoil(s, session)
			var out bytes.Buffer
			err := s.verify().Print(screen(&out), start)
			wantsFault(t, err, tc.key)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v\n%s", err, out.String())
			}
			if strings.Contains(out.String(), "is whole") {
				t.Errorf("%s", out.String())
			}
		})
	}
}

// TestDamagedSession: a session log that can't be read is no fault of the audit
// log, but it is told that its heads were not compared.
func TestDamagedSession(t *testing.T) {
	s := newSite(t)
	file := s.session("chat-1", s.call("chat-1", 1, "read_file", "{}"))
	s.session("chat-1", s.walk.Head())
	s.edit(file, func(b []byte) []byte { b[20] ^= 1; return b })
	v := s.verify()
	if !v.OK || len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "session chat-1") {
		t.Errorf("%+v", v)
	}
}

func TestAnchorRefuses(t *testing.T) {
	s := newSite(t)
	s.append(&proto.AuditStart{Version: "1", PID: 2}, &proto.AuditStart{Version: "1", PID: 3})
	s.anchor()
	file := filepath.Join(s.Anchors, anchorFile)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	try := func(from Heads, key string) {
		t.Helper()
		_, err := s.Anchor(t.Context(), from, s.at, false)
		wantsFault(t, err, key)
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
			t.Errorf("the anchors were changed: %v", err)
		}
	}
	shorter := &site{t: t, Log: s.Log, at: start, key: s.key}
	shorter.Dir = t.TempDir()
	shorter.append(&proto.AuditStart{Version: "1", PID: 2})
	try(shorter, "audit-damaged")
	shorter.append(&proto.AuditStart{Version: "x", PID: 3})
	try(shorter, "audit-damaged") // as long, and another one

	old := s.key
	s.newKey()
	s.append(&proto.AuditStart{Version: "1", PID: 4})
	try(s, "audit-key")
	if a, err := s.Anchor(t.Context(), s, s.at, true); err != nil || !a.New {
		t.Errorf("with --new-key: %+v, %v", a, err)
	}
	if v := s.verify(); !v.OK || v.Anchors != 2 || v.Matched != 2 {
		t.Errorf("old anchors stay good: %+v", v)
	}
	s.key = old
	s.append(&proto.AuditStart{Version: "1", PID: 5})
	if _, err := s.Anchor(t.Context(), s, s.at, false); err != nil {
		t.Errorf("the old key is still trusted: %v", err)
	}
}

// TestCase_P62_CutEndIsFound drops the last records, one after the other, and
// at last the file. A head in the session log and one in the anchors each
// find it alone.
func TestCase_P62_CutEndIsFound(t *testing.T) {
	for _, kept := range []string{"sessions", "anchors"} {
		t.Run(kept, func(t *testing.T) {
			s := newSite(t)
			s.append(&proto.AuditStart{Version: "1", PID: 2})
			s.call("chat-1", 1, "read_file", "{}")
			head := s.call("chat-1", 2, "read_file", "{}")
			if kept == "sessions" {
				s.session("chat-1", head)
			} else {
				s.anchor()
			}
			if v := s.verify(); !v.OK || v.Matched != 1 {
				t.Fatalf("%+v", v)
			}
			for n := head.N - 1; n >= 0; n-- {
				s.edit(s.file("2026-03.jsonl"), dropLast)
				v := s.verify()
				if v.OK || v.Head.N != n || len(v.Faults) != 1 || v.Faults[0].What != "cut" {
					t.Errorf("%d records left: %+v", n, v)
				}
			}
			if err := os.Remove(s.file("2026-03.jsonl")); err != nil {
				t.Fatal(err)
			}
			if v := s.verify(); v.OK || v.Faults[0].What != "cut" {
				t.Errorf("%+v", v)
			}
		})
	}
}

// TestTornAnchor: what a crash left is put aside by the next anchor.
func TestTornAnchor(t *testing.T) {
	s := newSite(t)
	s.append(&proto.AuditStart{Version: "1", PID: 2})
	s.anchor()
	file := filepath.Join(s.Anchors, anchorFile)
	s.edit(file, func(b []byte) []byte { return append(b, `{"time":"20`...) })
	if v := s.verify(); v.OK || len(v.Anchor) != 1 || v.Matched != 1 {
		t.Errorf("%+v", v)
	}
	s.append(&proto.AuditStart{Version: "1", PID: 3})
	if a := s.anchor(); !a.New {
		t.Errorf("%+v", a)
	}
	if v := s.verify(); !v.OK || v.Anchors != 2 {
		t.Errorf("%+v", v)
	}
}
