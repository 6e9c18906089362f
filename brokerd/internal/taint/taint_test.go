package taint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

func open(t interface{ Fatal(...any) }, dir string) *Store {
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wants(t *testing.T, s *Store, session string, class proto.Class, untrusted bool) {
	t.Helper()
	c, u, err := s.Get(session)
	if c != class || u != untrusted || err != nil {
		t.Errorf("%s: %s %v %v, want %s %v", session, c, u, err, class, untrusted)
	}
}

func TestRaise(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	wants(t, s, "a", proto.ClassPrivate, false)
	for _, step := range []struct {
		class     proto.Class
		untrusted bool
		want      proto.Class
		wantU     bool
	}{
		{proto.ClassPublic, false, proto.ClassPrivate, false},
		{proto.ClassPublic, true, proto.ClassPrivate, true},
		{proto.ClassSecret, false, proto.ClassSecret, true},
		{proto.ClassPrivate, false, proto.ClassSecret, true},
	} {
		if err := s.Raise("a", step.class, step.untrusted); err != nil {
			t.Fatal(err)
		}
		wants(t, s, "a", step.want, step.wantU)
		wants(t, open(t, dir), "a", step.want, step.wantU) // after a crash
	}
	wants(t, s, "b", proto.ClassPrivate, false)
}

func TestUnknownClassIsTheHighest(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Raise("a", "odd", false); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "a", proto.ClassSecret, false)
}

// P47: a session that another one started has its taint.
func TestCaseP47ChildInheritsTaint(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := errors.Join(s.Raise("parent", proto.ClassSecret, false), s.Raise("child", proto.ClassPublic, true), s.Inherit("child", "parent")); err != nil {
		t.Fatal(err)
	}
	wants(t, open(t, dir), "child", proto.ClassSecret, true)
	wants(t, open(t, dir), "parent", proto.ClassSecret, false)
}

// A file that cannot be read takes rights away, and stays as it is for the
// owner to look at.
func TestDamage(t *testing.T) {
	good := `{"v":1,"session":"a","class":"public"}`
	for _, tc := range []struct{ name, text string }{
		{"empty", ""},
		{"cut", good[:20]},
		{"other case", `{"v":1,"session":"a","Class":"public"}`},
		{"twice", `{"v":1,"session":"a","class":"secret","class":"public"}`},
		{"of another session", `{"v":1,"session":"b","class":"public"}`},
		{"unknown class", `{"v":1,"session":"a","class":"odd"}`},
		{"newer version", `{"v":2,"session":"a","class":"public"}`},
		{"zeros", strings.Repeat("\x00", 40)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			file := filepath.Join(dir, folder, "a.json")
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				c, u, err := s.Get("a")
				if c != proto.ClassSecret || !u || err == nil || !strings.Contains(err.Error(), "taint-damaged") {
					t.Errorf("%s %v %v", c, u, err)
				}
				if err := s.Raise("a", proto.ClassPublic, false); err != nil {
					t.Error(err)
				}
			}
			if b, _ := os.ReadFile(file); string(b) != tc.text {
				t.Errorf("the file is now %q", b)
			}
			if err := s.Inherit("child", "a"); err != nil {
				t.Error(err)
			}
			wants(t, s, "child", proto.ClassSecret, true)
		})
	}
	dir := t.TempDir()
	s := open(t, dir)
	if err := os.Mkdir(filepath.Join(dir, folder, "a.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if c, u, err := s.Get("a"); c != proto.ClassSecret || !u || err == nil {
		t.Errorf("a folder: %s %v %v", c, u, err)
	}
}

// A disk that fails: the session has the higher taint while brokerd runs, the
// caller learns that it is not kept, and the next try keeps it.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := os.Rename(filepath.Join(dir, folder), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Raise("a", proto.ClassSecret, true); err == nil || !strings.Contains(err.Error(), "brokerd-state") {
			t.Errorf("got %v", err)
		}
		wants(t, s, "a", proto.ClassSecret, true)
	}
	if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, folder)); err != nil {
		t.Fatal(err)
	}
	if err := s.Raise("a", proto.ClassPublic, false); err != nil {
		t.Fatal(err)
	}
	wants(t, open(t, dir), "a", proto.ClassSecret, true)
}

func TestBadSession(t *testing.T) {
	s := open(t, t.TempDir())
	for _, id := range []string{"", "../a", "A", "a/b", strings.Repeat("a", 65)} {
		if c, u, err := s.Get(id); c != proto.ClassSecret || !u || err == nil {
			t.Errorf("%q: %s %v %v", id, c, u, err)
		}
		if s.Raise(id, proto.ClassPublic, false) == nil {
			t.Errorf("%q was raised", id)
		}
		if s.Inherit("a", id) != nil {
			t.Errorf("inheriting from %q", id)
		}
	}
	wants(t, s, "a", proto.ClassSecret, true)
}

// Whatever happens in whatever order, with a restart at any time, no session's
// taint ever falls.
func TestNeverFalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		s, high := open(rt, dir), map[string]level{}
		names := []string{"a", "b", "c"}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			id := rapid.SampledFrom(names).Draw(rt, "session")
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				s = open(rt, dir)
			case 1:
				err = s.Inherit(id, rapid.SampledFrom(names).Draw(rt, "parent"))
			default:
				err = s.Raise(id, rapid.SampledFrom(classes()).Draw(rt, "class"), rapid.Bool().Draw(rt, "untrusted"))
			}
			if err != nil {
				rt.Fatal(err)
			}
			for _, n := range names {
				c, u, err := s.Get(n)
				now := level{rank(c), u}
				if err != nil || now.join(high[n]) != now {
					rt.Fatalf("%s fell from %v to %v (%v)", n, high[n], now, err)
				}
				high[n] = now
			}
		}
	})
}

// What is on disk already is not written again: most calls raise nothing.
func TestNothingNewIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Raise("a", proto.ClassSecret, true); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, folder, "a.json")); err != nil {
		t.Fatal(err)
	}
	if err := s.Raise("a", proto.ClassPrivate, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, folder, "a.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was written again: %v", err)
	}
}

// Names of sessions that loopd makes up take no room, and do not push out what a
// session has seen.
func TestSessionsThatSawNothing(t *testing.T) {
	s := open(t, t.TempDir())
	wants(t, s, "web-1", proto.ClassPrivate, false)
	if err := s.Raise("web-1", proto.ClassSecret, true); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxClean {
		wants(t, s, fmt.Sprintf("chat-%d", i), proto.ClassPrivate, false)
		if len(s.clean) > maxClean || len(s.known) != 1 {
			t.Fatalf("after %d: %d and %d are held", i, len(s.clean), len(s.known))
		}
	}
	wants(t, s, "web-1", proto.ClassSecret, true)
}
