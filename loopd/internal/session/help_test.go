package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"

	"github.com/go-json-experiment/json/jsontext"
)

// failer is what *testing.T, *testing.B and *rapid.T share.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

var start = time.Date(2026, 11, 28, 12, 0, 0, 123e6, time.UTC)

// clockFrom gives a clock that moves a second each time it is read.
func clockFrom(t time.Time) func() time.Time {
	return func() time.Time { t = t.Add(time.Second); return t }
}

// openStore opens a store; the caller closes it by close.
func openStore(t failer, dir string) (s *Store, shut func()) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = OpenStore(root); err != nil {
		t.Fatal(err)
	}
	s.Now = clockFrom(start)
	return s, func() {
		if err := errors.Join(s.Close(), root.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func storeAt(t *testing.T, dir string) *Store {
	t.Helper()
	s, shut := openStore(t, dir)
	t.Cleanup(shut)
	return s
}

// seen is one visited record, in a form that compares.
type seen struct {
	epoch int
	line  string
}

func collect(into *[]seen) Visit {
	return func(epoch int, h proto.Header, r proto.Record) error {
		line, err := proto.EncodeRecord(h, r)
		*into = append(*into, seen{epoch, string(line)})
		return err
	}
}

func open(t failer, s *Store, id string) (*Session, []seen) {
	t.Helper()
	var got []seen
	c, err := s.Open(id, collect(&got))
	if err != nil {
		t.Fatal(err)
	}
	return c, got
}

func opened(t *testing.T, s *Store, id string) (*Session, []seen) {
	t.Helper()
	c, got := open(t, s, id)
	t.Cleanup(func() { c.Close() })
	return c, got
}

func appendTo(t failer, c *Session, recs ...proto.Record) int64 {
	t.Helper()
	n, err := c.Append(recs...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func startEpoch(t failer, c *Session, b *proto.Baseline) {
	t.Helper()
	if err := c.StartEpoch(b); err != nil {
		t.Fatal(err)
	}
}

func baseline(system string) *proto.Baseline {
	return &proto.Baseline{
		Model: "m", Slot: 1, Sampling: jsontext.Value(`{"stream":true,"temperature":0.6}`), Tools: jsontext.Value(`[]`),
		System: prompt.SystemMessage(system), Window: 4096,
	}
}

func user(origin, text string) *proto.User {
	return &proto.User{Origin: origin, Surface: proto.SurfaceChat, Message: prompt.UserMessage(text)}
}

func queued(origin, text string) *proto.Queued {
	return &proto.Queued{Origin: origin, Surface: proto.SurfaceChat, Message: prompt.UserMessage(text)}
}

func assistant(text string) *proto.Assistant {
	return &proto.Assistant{Message: prompt.AssistantMessage(text, "thought", nil)}
}

func ended(origin string, waiting int) *proto.TurnEnd {
	return &proto.TurnEnd{Origin: origin, Outcome: proto.TurnAnswered, Queued: waiting}
}

// conversation makes a session with one finished turn.
func conversation(t failer, s *Store, id string) *Session {
	t.Helper()
	c, _ := open(t, s, id)
	startEpoch(t, c, baseline("be brief"))
	appendTo(t, c, user("o1", "hello there"))
	appendTo(t, c, assistant("hello"), &proto.Completion{Finish: "stop"})
	appendTo(t, c, ended("o1", 0))
	return c
}

// wantError checks an error of this package: its key, that it says the session,
// and that a client sees the same.
func wantError(t *testing.T, err error, id, runbook string, parts ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("not an Error: %v", err)
	}
	text := err.Error()
	if e.Session != id || e.Runbook != runbook || !strings.HasSuffix(text, "(see runbook: "+runbook+")") || strings.Count(text, "see runbook") != 1 {
		t.Errorf("error %q, session %q, runbook %q; want session %q, runbook %q", text, e.Session, e.Runbook, id, runbook)
	}
	for _, p := range append(parts, id) {
		if !strings.Contains(text, p) {
			t.Errorf("%q does not say %q", text, p)
		}
	}
	var wire *proto.Error
	if !errors.As(err, &wire) || wire.Error() != text || wire.Validate() != nil {
		t.Errorf("as a wire error: %v", wire)
	}
}

func readFile(t failer, parts ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t failer, b []byte, parts ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(parts...), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// tree gives all files below dir with their content.
func tree(t failer, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		fmt.Fprintf(&b, "%s %q\n", p, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
