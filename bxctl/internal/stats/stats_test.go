package stats

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s: -want +got\n%s", name, d)
	}
}

// session writes n turns, one second a record; every fifth one is cold.
func session(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "chat-x"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: "chat-x/0001.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	at := proto.Header{Time: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	add := func(r proto.Record) {
		line, err := proto.EncodeRecord(at, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Append(line); err != nil {
			t.Fatal(err)
		}
		at.N, at.Time = at.N+1, at.Time.Add(time.Second)
	}
	raw := func(s string) jsontext.Value { return jsontext.Value(s) }
	add(&proto.Baseline{Model: "qwen\x1b[2J", Slot: 0, Sampling: raw(`{}`), Tools: raw(`[]`), System: raw(`{}`), Window: 32768})
	held := int64(1200)
	for i := range int64(n) {
		o := fmt.Sprint("o-", i)
		add(&proto.User{Origin: o, Surface: proto.SurfaceChat, Message: raw(`{"role":"user","content":"q"}`)})
		c := &proto.Completion{Finish: "tool_calls", CacheN: held, PromptN: 100 + 10*i, PredictedN: 50, PromptUS: 500000 + 1000*i, PredictedUS: 2000000, FirstMS: 500 + i*20}
		if i%5 == 4 {
			c.CacheN, c.PromptN, c.Lost = 0, held+100, held
		}
		held = c.CacheN + c.PromptN + c.PredictedN
		add(&proto.Assistant{Message: raw(`{"role":"assistant","content":""}`)})
		add(c)
		add(&proto.Tool{Call: fmt.Sprintf("chat-x/1/%d/0", at.N-2), Outcome: proto.CallOK, Class: proto.ClassPublic, Message: raw(`{"role":"tool","content":"r"}`)})
		add(&proto.Assistant{Message: raw(`{"role":"assistant","content":"a"}`)})
		add(&proto.Completion{Finish: "stop", CacheN: held, PromptN: 30, PredictedN: 200, PromptUS: 100000, PredictedUS: 8000000, FirstMS: 120})
		held += 230
		if i < int64(n)-1 { // the last one runs
			add(&proto.TurnEnd{Origin: o, Outcome: proto.TurnAnswered})
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFigures(t *testing.T) {
	s, err := Read(t.Context(), session(t, 5), "chat-x")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "five.json", string(b)+"\n")
}

func TestText(t *testing.T) {
	for _, n := range []int{0, 1, 5, 60} {
		s, err := Read(t.Context(), session(t, n), "chat-x")
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{60, 80, 200} {
			got := s.Text(term.Plain(&bytes.Buffer{}), width-1, time.Date(2026, 1, 2, 20, 0, 0, 0, time.UTC))
			golden(t, fmt.Sprintf("text-%d-%d.txt", n, width), got)
			for l := range bytes.Lines([]byte(got)) {
				if c := term.Columns(string(bytes.TrimRight(l, "\n"))); c > width-1 {
					t.Errorf("%d turns: %d columns in %d: %s", n, c, width, l)
				}
			}
		}
	}
}

func TestNoSession(t *testing.T) {
	for _, id := range []string{"chat-none", "../x"} {
		if _, err := Read(t.Context(), t.TempDir(), id); err == nil {
			t.Errorf("%s was read", id)
		}
	}
}
