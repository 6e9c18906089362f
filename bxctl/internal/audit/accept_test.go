package audit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// What brokerd is told: nothing at first, the newest head once one was kept, and
// what the owner accepted until the log has gone on.
func TestAcceptAndFlags(t *testing.T) {
	s := newSite(t)
	flags := func(want ...string) {
		t.Helper()
		got, err := s.Flags()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	anchor := func() proto.AuditHead {
		t.Helper()
		a, err := s.Anchor(t.Context(), s, start, false)
		if err != nil {
			t.Fatal(err)
		}
		return a.Head
	}
	flags()
	s.append(&proto.AuditHalt{Reason: "1", By: "me"}, &proto.AuditHalt{Reason: "2", By: "me"})
	anchor()
	s.append(&proto.AuditHalt{Reason: "3", By: "me"})
	old := anchor()
	flags("-anchor", flag(old))

	if err := os.RemoveAll(s.Dir); err != nil { // the log is gone, and begun anew
		t.Fatal(err)
	}
	s.walk = newSite(t).walk
	got, err := s.Accept(start)
	if err != nil || got.Head != (proto.AuditHead{Hash: proto.NoHash}) || filepath.Base(got.Aside) != "audit-until-20260330T090000Z.jsonl" {
		t.Fatalf("%+v, %v", got, err)
	}
	if b, err := os.ReadFile(got.Aside); err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("%q, %v", b, err)
	}
	flags("-accept", flag(got.Head), "-anchor", flag(old)) // so that it goes on record what is lost
	if err := os.Mkdir(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.append(&proto.AuditHalt{Reason: "4", By: "me"})
	flags("-anchor", flag(anchor())) // the acceptance is spent
}

func TestAcceptRefuses(t *testing.T) {
	s := newSite(t)
	s.append(&proto.AuditHalt{Reason: "1", By: "me"}, &proto.AuditHalt{Reason: "2", By: "me"})
	lock, err := os.Create(filepath.Join(s.Dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	check := func(name, key string) {
		t.Helper()
		var f *fault.Fault
		if _, err := s.Accept(start); !errors.As(err, &f) || f.Key != key {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := s.Flags(); err != nil || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	check("a brokerd that runs", "log-locked")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(s.Dir, "2026-03.jsonl")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(b), `"1"`, `"9"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	check("a log that is damaged", "audit-damaged")
}
