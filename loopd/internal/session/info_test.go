package session

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"

	"github.com/google/go-cmp/cmp"
)

func TestList(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, dir)
	for i, id := range []string{"chat-b", "chat-a", "job-x"} {
		c := conversation(t, s, id)
		if id == "chat-a" {
			startEpoch(t, c, baseline("second"))
			appendTo(t, c, user("o2", "open turn"))
		}
		c.Close()
		for _, e := range []string{"0001.jsonl", "0002.jsonl"} {
			when := start.Add(time.Duration(i) * time.Hour)
			if err := os.Chtimes(filepath.Join(dir, id, e), when, when); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	// What is no session is no row: the lock, other files, folders with other names.
	writeFile(t, nil, dir, "notes")
	for _, name := range []string{"Other", ".new-x"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	size := func(id string) (n int64) {
		for _, e := range []string{"0001.jsonl", "0002.jsonl"} {
			if fi, err := os.Stat(filepath.Join(dir, id, e)); err == nil {
				n += fi.Size()
			}
		}
		return n
	}
	want := []proto.SessionInfo{
		{Session: "job-x", Epoch: 1, Records: 5, Bytes: size("job-x"), Modified: "2026-11-28T14:00:00.123Z", Title: "hello there"},
		{Session: "chat-a", Epoch: 2, Records: 7, Bytes: size("chat-a"), Modified: "2026-11-28T13:00:00.123Z", Title: "hello there", Open: true},
		{Session: "chat-b", Epoch: 1, Records: 5, Bytes: size("chat-b"), Modified: "2026-11-28T12:00:00.123Z", Title: "hello there"},
	}
	got, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestListShowsADamagedSession(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, dir)
	conversation(t, s, "chat-a").Close()
	conversation(t, s, "chat-b").Close()
	writeFile(t, []byte("nonsense\nmore\n"), dir, "chat-a/0001.jsonl")
	got, err := s.List()
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, info := range got {
		if err := info.Validate(); err != nil {
			t.Error(err)
		}
		if (info.Session == "chat-a") != (info.Title == "(cannot be read)") {
			t.Errorf("row %+v", info)
		}
	}
	open, err := s.Unfinished()
	if d := cmp.Diff([]string{"chat-a"}, open); d != "" || err != nil {
		t.Error(err, d)
	}
}

func TestTitles(t *testing.T) {
	long := strings.Repeat("ä 😀 \"x\" ", 100_000)
	for _, tt := range []struct{ name, text, want string }{
		{"plain", "hello", "hello"},
		{"lines", "  a\n\tb\r\nc ", "a b c"},
		{"escapes", `say "hi" \ <b>`, `say "hi" \ <b>`},
		{"control characters", "a\x1b[31mb\x00c\u202ed", "a[31mbcd"},
		{"80 characters", strings.Repeat("ä", 80), strings.Repeat("ä", 80)},
		{"81 characters", strings.Repeat("ä", 81), strings.Repeat("ä", 79) + "…"},
		{"many escapes", strings.Repeat("\x01\"", 500), strings.Repeat("\"", 79) + "…"},
		{"a megabyte", long, strings.TrimSpace(string([]rune(long)[:79])) + "…"},
		{"empty", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := storeAt(t, t.TempDir())
			c, _ := opened(t, s, "chat-1")
			startEpoch(t, c, baseline(strings.Repeat("a long system prompt ", 100)))
			appendTo(t, c, user("o1", tt.text))
			info, err := s.Info("chat-1")
			if err != nil {
				t.Fatal(err)
			}
			if tt.name == "many escapes" { // cut where the escapes end the window
				if !utf8.ValidString(info.Title) || !strings.HasPrefix(info.Title, `""""`) {
					t.Errorf("title %q", info.Title)
				}
				return
			}
			if info.Title != tt.want {
				t.Errorf("title %q, want %q", info.Title, tt.want)
			}
		})
	}
}

// Wherever a line is cut off, its title is a beginning of the whole one's.
func TestTitleOfACutLine(t *testing.T) {
	line, err := proto.EncodeRecord(proto.Header{Time: start}, user("o1", "a \"quoted\" \u0001 text 😀 with ä and \\ and more"))
	if err != nil {
		t.Fatal(err)
	}
	whole := titleOf(line)
	if !strings.HasSuffix(whole, "and more") {
		t.Fatalf("title %q", whole)
	}
	for i := range line {
		if got := titleOf(line[:i]); !strings.HasPrefix(whole, got) {
			t.Errorf("cut at %d: %q is no beginning of %q", i, got, whole)
		}
	}
}

func TestUnfinished(t *testing.T) {
	torn := func(dir, id string) {
		name := filepath.Join(id, "0001.jsonl")
		writeFile(t, append(readFile(t, dir, name), `{"v":1,`...), dir, name)
	}
	for _, tt := range []struct {
		name string
		make func(s *Store, c *Session, dir string)
		want bool
	}{
		{"a finished turn", func(*Store, *Session, string) {}, false},
		{"a turn that runs", func(_ *Store, c *Session, _ string) { appendTo(t, c, user("o2", "x")) }, true},
		{"an answer without the turn's end", func(_ *Store, c *Session, _ string) { appendTo(t, c, user("o2", "x"), assistant("y")) }, true},
		{"a message that waits", func(_ *Store, c *Session, _ string) { appendTo(t, c, queued("o2", "x")) }, true},
		{"a turn's end with one that waits", func(_ *Store, c *Session, _ string) {
			appendTo(t, c, user("o2", "x"), queued("o3", "y"), ended("o2", 1))
		}, true},
		{"a new epoch", func(_ *Store, c *Session, _ string) { startEpoch(t, c, baseline("x")) }, false},
		{"two new epochs", func(_ *Store, c *Session, _ string) {
			startEpoch(t, c, baseline("x"))
			startEpoch(t, c, baseline("x"))
		}, false},
		{"a new epoch over one that waits", func(_ *Store, c *Session, _ string) {
			appendTo(t, c, user("o2", "x"), queued("o3", "y"), ended("o2", 1))
			startEpoch(t, c, baseline("x"))
		}, true},
		{"a recovery after a turn's end", func(s *Store, c *Session, dir string) {
			c.Close()
			torn(dir, "chat-1")
			c2, _ := open(t, s, "chat-1")
			c2.Close()
		}, false},
		{"a recovery in a turn", func(s *Store, c *Session, dir string) {
			appendTo(t, c, user("o2", "x"))
			c.Close()
			torn(dir, "chat-1")
			c2, _ := open(t, s, "chat-1")
			c2.Close()
		}, true},
		{"an answer that was delivered", func(_ *Store, c *Session, _ string) {
			appendTo(t, c, &proto.Delivered{Key: "k1"}, &proto.Delivered{Key: "k1"})
		}, false},
		{"an answer that was delivered in a turn", func(_ *Store, c *Session, _ string) {
			appendTo(t, c, user("o2", "x"), &proto.Delivered{Key: "k1"})
		}, true},
		{"an answer that was delivered in a new epoch", func(_ *Store, c *Session, _ string) {
			startEpoch(t, c, baseline("x"))
			appendTo(t, c, &proto.Delivered{Key: "k1"})
		}, false},
		{"a torn end after a turn's end", func(_ *Store, c *Session, dir string) {
			c.Close()
			torn(dir, "chat-1")
		}, false},
		{"no log", func(_ *Store, c *Session, dir string) {
			c.Close()
			if err := os.Remove(filepath.Join(dir, "chat-1/0001.jsonl")); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := unfinished(t, tt.make); got != tt.want {
				t.Errorf("unfinished %v, want %v", got, tt.want)
			}
		})
	}
}

// unfinished lets change go on from a finished turn, and asks.
func unfinished(t *testing.T, change func(s *Store, c *Session, dir string)) bool {
	t.Helper()
	dir := t.TempDir()
	s := storeAt(t, dir)
	c := conversation(t, s, "chat-1")
	t.Cleanup(func() { c.Close() })
	change(s, c, dir)
	open, err := s.Unfinished()
	if err != nil {
		t.Fatal(err)
	}
	return len(open) == 1
}

// The row of a big session costs a look at both ends of its files.
func TestInfoReadsTheEndsOnly(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, dir)
	c := conversation(t, s, "chat-1")
	c.Close()
	name := filepath.Join(dir, "chat-1/0001.jsonl")
	b := readFile(t, name)
	lines := bytes.SplitAfter(b, []byte("\n"))
	lines[2][40] ^= 1 // in the middle: a full read would find it
	writeFile(t, bytes.Join(lines, nil), name)
	if _, err := s.Info("chat-1"); err != nil {
		t.Error(err)
	}
	if _, err := s.Open("chat-1", nil); err == nil {
		t.Error("the damage was not there")
	}
}

// A title survives in both message forms that can come first.
func TestTitleOfAQueuedFirstMessage(t *testing.T) {
	s := storeAt(t, t.TempDir())
	c, _ := opened(t, s, "chat-1")
	startEpoch(t, c, &proto.Baseline{Sampling: []byte(`{}`), Tools: []byte(`[]`), System: prompt.SystemMessage("x")})
	appendTo(t, c, queued("o1", "first"))
	if info, err := s.Info("chat-1"); err != nil || info.Title != "first" {
		t.Errorf("%+v, %v", info, err)
	}
}
