package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

func TestNewSession(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, dir)
	c, got := opened(t, s, "chat-1")
	if c.Epoch() != 0 || c.Records() != 0 || c.Bytes() != 0 || len(got) != 0 {
		t.Errorf("epoch %d, %d records, %d bytes", c.Epoch(), c.Records(), c.Bytes())
	}
	if _, err := c.Append(user("o1", "x")); err == nil {
		t.Error("a record before the first epoch was taken")
	}
	if ok, err := s.Exists("chat-1"); ok || err != nil {
		t.Errorf("opening made a folder: %v, %v", ok, err)
	}
	startEpoch(t, c, baseline("be brief"))
	if n := appendTo(t, c, user("o1", "x"), assistant("y")); n != 1 {
		t.Errorf("the first record after the baseline has number %d", n)
	}
	fi, err := os.Stat(filepath.Join(dir, "chat-1", "0001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Epoch() != 1 || c.Records() != 3 || c.Bytes() != fi.Size() || fi.Mode() != 0o600 {
		t.Errorf("epoch %d, %d records, %d bytes; the file has %d, mode %v", c.Epoch(), c.Records(), c.Bytes(), fi.Size(), fi.Mode())
	}
	if size, err := s.Size("chat-1"); size != fi.Size() || err != nil {
		t.Errorf("Size %d, %v", size, err)
	}
	want := `{"v":1,"n":1,"time":"2026-11-28T12:00:03.123Z","kind":"user","origin":"o1","surface":"chat","message":{"role":"user","content":"x"},"crc":"`
	if line := strings.Split(string(readFile(t, dir, "chat-1/0001.jsonl")), "\n")[1]; !strings.HasPrefix(line, want) {
		t.Errorf("line %s\nwant %s", line, want)
	}
}

func TestReplayGivesNewestEpoch(t *testing.T) {
	dir := t.TempDir()
	s, shut := openStore(t, dir)
	c := conversation(t, s, "chat-1")
	startEpoch(t, c, baseline("second"))
	appendTo(t, c, user("o2", "again"))
	want := []string{"baseline", "user"}
	c.Close()
	shut()

	s = storeAt(t, dir)
	c, got := opened(t, s, "chat-1")
	if len(got) != len(want) || c.Epoch() != 2 || c.Records() != 2 {
		t.Fatalf("epoch %d: %v", c.Epoch(), got)
	}
	for i, g := range got {
		if g.epoch != 2 || !strings.Contains(g.line, `"kind":"`+want[i]+`"`) {
			t.Errorf("record %d: %+v", i, g)
		}
	}
	var all []seen
	if err := s.Read("chat-1", collect(&all)); err != nil {
		t.Fatal(err)
	}
	if len(all) != 7 || all[0].epoch != 1 || all[4].epoch != 1 || all[5] != got[0] || all[6] != got[1] {
		t.Errorf("Read gives %v", all)
	}
}

func TestOriginsOverEpochs(t *testing.T) {
	dir := t.TempDir()
	s, shut := openStore(t, dir)
	c := conversation(t, s, "chat-1")
	appendTo(t, c, user("o2", "b"), queued("o3", "c"), queued("o4", "d"), queued("o5", "e"), ended("o2", 3))
	startEpoch(t, c, baseline("second"))
	appendTo(t, c, user("o3", "c"))
	appendTo(t, c, ended("o5", 1)) // given up before its turn

	check := func(c *Session) {
		t.Helper()
		for id, want := range map[string]Origin{
			"o1": {Epoch: 1, Record: 1, Started: true, End: ended("o1", 0)},
			"o2": {Epoch: 1, Record: 5, Started: true, End: ended("o2", 3)},
			"o3": {Epoch: 2, Record: 1, Started: true},
			"o4": {Epoch: 1, Record: 7},
			"o5": {Epoch: 1, Record: 8, End: ended("o5", 1)},
		} {
			got, ok := c.Origin(id)
			if d := cmp.Diff(want, got); d != "" || !ok {
				t.Errorf("%s: %s", id, d)
			}
		}
		if _, ok := c.Origin("o9"); ok {
			t.Error("an origin that never came is known")
		}
		if d := cmp.Diff([]proto.Queued{*queued("o4", "d")}, c.Pending()); d != "" {
			t.Error(d)
		}
	}
	check(c)
	c.Close()
	shut()
	c, _ = opened(t, storeAt(t, dir), "chat-1")
	check(c)
}

// Each origin starts at most one turn, whatever the caller tries.
func TestAppendRefuses(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, dir)
	c := conversation(t, s, "chat-1")
	defer c.Close()
	appendTo(t, c, queued("o2", "b"))
	before := tree(t, dir)
	for name, recs := range map[string][]proto.Record{
		"a turn twice":             {user("o1", "x")},
		"queued and known":         {queued("o1", "x")},
		"queued twice":             {queued("o2", "x")},
		"a turn twice in a batch":  {user("o3", "x"), user("o3", "x")},
		"queued twice in a batch":  {queued("o3", "x"), queued("o3", "x")},
		"a baseline":               {baseline("x")},
		"not valid":                {user("not a token", "x")},
		"the last one not valid":   {user("o3", "x"), assistant("y"), &proto.Tool{Call: "x"}},
		"a message in other bytes": {&proto.Assistant{Message: []byte(`{"role": "assistant"}`)}},
	} {
		if n, err := c.Append(recs...); err == nil {
			t.Errorf("%s: taken as record %d", name, n)
		}
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Errorf("a refused record left something:\n%s", d)
	}
	if _, ok := c.Origin("o3"); ok {
		t.Error("a refused origin is known")
	}
	appendTo(t, c, user("o2", "b"), user("o3", "x")) // the log is still good
}

func TestBadIDs(t *testing.T) {
	s := storeAt(t, t.TempDir())
	for _, id := range []string{"", "..", "../x", "a/b", "A", ".new-a", strings.Repeat("a", 65), "a\x00"} {
		if _, err := s.Open(id, nil); !errors.Is(err, proto.ErrID) {
			t.Errorf("Open(%q): %v", id, err)
		}
		if err := s.Read(id, nil); !errors.Is(err, proto.ErrID) {
			t.Errorf("Read(%q): %v", id, err)
		}
		if _, err := s.Exists(id); !errors.Is(err, proto.ErrID) {
			t.Errorf("Exists(%q): %v", id, err)
		}
		if _, err := s.Info(id); !errors.Is(err, proto.ErrID) {
			t.Errorf("Info(%q): %v", id, err)
		}
	}
	if err := s.Read("chat-1", nil); !errors.Is(err, ErrNoSession) {
		t.Errorf("Read of no session: %v", err)
	}
	if _, err := s.Info("chat-1"); !errors.Is(err, ErrNoSession) {
		t.Errorf("Info of no session: %v", err)
	}
}

func TestVisitorEndsOpen(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, dir)
	conversation(t, s, "chat-1").Close()
	stop := errors.New("stop here")
	_, err := s.Open("chat-1", func(int, proto.Header, proto.Record) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("Open: %v", err)
	}
	if err := s.Read("chat-1", func(int, proto.Header, proto.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Read: %v", err)
	}
	opened(t, s, "chat-1") // nothing stays locked
}

func TestSecondOpenOfOneSession(t *testing.T) {
	s := storeAt(t, t.TempDir())
	c := conversation(t, s, "chat-1")
	if _, err := s.Open("chat-1", nil); err == nil {
		t.Error("opened twice")
	}
	c.Close()
	opened(t, s, "chat-1")
}
