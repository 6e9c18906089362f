package taint

import (
	"os"
	"path/filepath"
	"testing"

	"boxmaker/internal/proto"
)

// What the log saw holds, whatever became of the file while brokerd was down.
func TestFloor(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"as it was": func(string) error { return nil },
		"removed":   os.Remove,
		"lower": func(file string) error {
			return os.WriteFile(file, []byte(`{"v":1,"session":"web-1","class":"private"}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := open(t, dir).Raise("web-1", proto.ClassSecret, true); err != nil {
				t.Fatal(err)
			}
			if err := spoil(filepath.Join(dir, "taint", "web-1.json")); err != nil {
				t.Fatal(err)
			}
			f := NewFloor()
			f.Seen(&proto.AuditDecision{Session: "web-1", Taint: proto.ClassPrivate})
			f.Seen(&proto.AuditOutcome{ID: "web-1/1/2/0", Class: proto.ClassPrivate, Untrusted: true})
			f.Seen(&proto.AuditDecision{Session: "web-1", Taint: proto.ClassSecret, Untrusted: true})
			f.Seen(&proto.AuditOutcome{ID: "other/1/2/0", Class: proto.ClassPublic})
			f.Seen(&proto.AuditStart{})
			s := open(t, dir)
			if err := s.Lift(f); err != nil {
				t.Fatal(err)
			}
			wants(t, s, "web-1", proto.ClassSecret, true)
			wants(t, s, "other", proto.ClassPrivate, false)
			wants(t, open(t, dir), "web-1", proto.ClassSecret, true) // it is on disk again
		})
	}
}
