package audit

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// posted is a head as it stands in the owner's chat.
func posted(t *testing.T, s *site) string {
	t.Helper()
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return "📌 **Head of the audit log.** Keep this message.\n```text\n" + head.Checkpoint + "```\n"
}

// TestGiven: a head that the owner kept finds what nothing on this machine tells.
func TestGiven(t *testing.T) {
	plain := func(h proto.AuditHead) string { return fmt.Sprintf("%d:%s", h.N, h.Hash) }
	for _, tc := range []struct {
		name  string
		kept  func(s *site) string // of a log of three records
		spoil func(s *site)
		want  string // "": all is well
	}{
		{"a number and a hash that fit", func(s *site) string { return plain(s.walk.Head()) }, func(*site) {}, ""},
		{"in capitals, with what verify prints", func(s *site) string { return "  head " + strings.ToUpper(plain(s.walk.Head())) + "\n" }, func(*site) {}, ""},
		{"a message that fits", func(s *site) string { return posted(t, s) }, func(*site) {}, ""},
		{"with the line breaks of others", func(s *site) string { return strings.ReplaceAll(posted(t, s), "\n", "\r\n") }, func(*site) {}, ""},
		{"two messages", func(s *site) string { return posted(t, s) + "\nand\n\n" + posted(t, s) }, func(*site) {}, ""},
		{
			"a cut log, by the number", func(s *site) string { return plain(s.walk.Head()) }, func(s *site) { s.edit(s.file("2026-03.jsonl"), dropLast) },
			"cut: the log was 3 records long (what you gave), now it has 2",
		},
		{
			"a cut log, by the message", func(s *site) string { return posted(t, s) }, func(s *site) { s.edit(s.file("2026-03.jsonl"), dropLast) },
			"cut: the log was 3 records long (what you gave), now it has 2",
		},
		{"a log written anew, key and all", func(s *site) string { return plain(s.walk.Head()) }, func(s *site) {
			os.Remove(s.file("2026-03.jsonl"))
			s.newKey()
			other := &site{Log: s.Log, t: s.t, at: start, key: s.key}
			other.append(&proto.AuditStart{Version: "2", PID: 2}, &proto.AuditStart{Version: "2", PID: 2}, &proto.AuditStart{Version: "2", PID: 2}, &proto.AuditStart{Version: "2", PID: 2})
		}, "forked: record 2 is not the one that was there (what you gave)"},
		{"another key", func(s *site) string { return posted(t, s) }, func(s *site) { s.newKey() }, "what you gave: not a checkpoint that this key signed"},
		{"a changed message", func(s *site) string { return strings.Replace(posted(t, s), "\n3\n", "\n2\n", 1) }, func(*site) {}, "what you gave: not a checkpoint that this key signed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			s.append(&proto.AuditStart{Version: "1", PID: 2}, &proto.AuditStart{Version: "1", PID: 3}, &proto.AuditStart{Version: "1", PID: 4})
			given, err := s.Given("what you gave", tc.kept(s))
			if err != nil {
				t.Fatal(err)
			}
			tc.spoil(s)
			v, err := s.Verify(t.Context(), given...)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = v.Print(screen(&out), start)
			switch {
			case tc.want == "" && (err != nil || v.Given != len(given) || v.Matched != len(given) || v.Newest != 3 || !strings.Contains(out.String(), "given by you")):
				t.Errorf("%+v, %v\n%s", v, err, out.String())
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q\n%s", err, tc.want, out.String())
			}
		})
	}
}

// TestGivenNothing: a text without a head is a mistake, and not a log that fits.
func TestGivenNothing(t *testing.T) {
	s := newSite(t)
	s.append(&proto.AuditStart{Version: "1", PID: 2})
	for _, text := range []string{"", "3", "3:abc", ":", hash, "3:" + hash + "0", "99999999999999999999:" + hash, "boxmaker/audit\n3\n", "see 12:30"} {
		if got, err := s.Given("x", text); err == nil {
			t.Errorf("%q: %v", text, got)
		} else {
			wantsFault(t, err, "audit-given")
		}
	}
}

func FuzzGiven(f *testing.F) {
	f.Add("3:" + hash)
	f.Add("boxmaker/audit\n3\nn4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=\n\n— boxmaker/audit 3q2+7wAB\n")
	f.Fuzz(func(t *testing.T, text string) {
		given, err := Log{}.Given("x", text)
		for _, g := range given {
			if err != nil || g.note == "" && g.head.Validate() != nil {
				t.Errorf("%+v, %v", g, err)
			}
		}
	})
}
