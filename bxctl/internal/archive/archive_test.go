package archive

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, got)
	}
}

var start = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func raw(s string) jsontext.Value { return jsontext.Value(s) }

// write makes one log of a session.
func write(t *testing.T, dir, id string, epoch int, records ...proto.Record) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	name := fmt.Sprintf("%s/%04d.jsonl", id, epoch)
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for i, r := range records {
		line, err := proto.EncodeRecord(proto.Header{N: int64(i), Time: start.Add(time.Duration(i) * time.Second)}, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Append(line); err != nil {
			t.Fatal(err)
		}
	}
	at := start.Add(time.Duration(epoch) * time.Minute)
	if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
		t.Fatal(err)
	}
}

func baseline() *proto.Baseline {
	return &proto.Baseline{Model: "practice", Sampling: raw(`{}`), Tools: raw(`[]`), System: raw(`{"role":"system","content":"s"}`), Window: 32768}
}

func conversation() []proto.Record {
	return []proto.Record{
		baseline(),
		&proto.User{Origin: "o1", Surface: proto.SurfaceChat, Message: raw(`{"role":"user","content":"What time is it,\nand where? \u001b[31m"}`)},
		&proto.Completion{Finish: "tool_calls", PromptN: 700, PredictedN: 30, PromptUS: 700000, PredictedUS: 300000},
		&proto.Assistant{Message: raw(`{"role":"assistant","content":"Let me look.","reasoning_content":"I need the clock.","tool_calls":[{"id":"a","type":"function","function":{"name":"clock","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"find_tool","arguments":"{\"query\":\"place\"}"}}]}`)},
		&proto.Tool{Call: "chat-a/1/3/0", Outcome: proto.CallOK, Class: proto.ClassPublic, Message: raw("{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"12:00\\n```\\nfence\"}")},
		&proto.Tool{Call: "chat-a/1/3/1", Outcome: proto.CallDenied, Code: proto.CodeNoBroker, Class: proto.ClassPublic, Message: raw(`{"role":"tool","tool_call_id":"b","content":"no-broker: nothing runs"}`)},
		&proto.Completion{Finish: "stop", CacheN: 729, PromptN: 40, PredictedN: 10},
		&proto.Assistant{Message: raw(`{"role":"assistant","content":"It is noon. I don't know where.` + "\u202e" + `"}`)},
		&proto.TurnEnd{Origin: "o1", Outcome: proto.TurnAnswered},
		&proto.Queued{Origin: "o2", Surface: proto.SurfaceAsk, Message: raw(`{"role":"user","content":"later"}`)},
	}
}

func sample(t *testing.T) Files {
	dir := t.TempDir()
	write(t, dir, "chat-a", 1, conversation()...)
	write(t, dir, "chat-a", 2, baseline(),
		&proto.User{Origin: "o2", Surface: proto.SurfaceAsk, Message: raw(`{"role":"user","content":"later"}`)},
		&proto.TurnEnd{Origin: "o2", Outcome: proto.TurnStopped})
	write(t, dir, "chat-b", 1, baseline(), &proto.User{Origin: "o3", Surface: proto.SurfaceAsk, Message: raw(`{"role":"user","content":"second"}`)})
	write(t, dir, "UPPER", 1, baseline()) // no session id
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Files{Dir: dir}
}

func TestForms(t *testing.T) {
	f := sample(t)
	for _, c := range []struct {
		name string
		do   func(Export) error
	}{
		{"export.md", func(e Export) error { return e.Markdown(t.Context(), "chat-a") }},
		{"export.json", func(e Export) error { return e.JSON(t.Context(), "chat-a") }},
		{"show.txt", func(e Export) error { return e.Show(t.Context(), "chat-a") }},
		{"list.txt", func(e Export) error {
			list, err := f.Sessions(t.Context(), "", 10)
			return errors.Join(err, Table(e.Screen, list, start))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := c.do(Export{Source: f, Screen: term.Plain(&out), Now: start}); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(out.String(), "\x1b\u202e") {
				t.Errorf("control characters in %q", out.String())
			}
			golden(t, c.name, out.String())
		})
	}
}

func TestList(t *testing.T) {
	f := sample(t)
	list, err := f.Sessions(t.Context(), "", 1)
	if err != nil || len(list.Sessions) != 1 || !list.More {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := list.Validate(); err != nil {
		t.Error(err)
	}
	if s := list.Sessions[0]; s.Session != "chat-a" || s.Epoch != 2 || s.Records != 13 || s.Title != "What time is it, and where? \x1b[31m" {
		t.Errorf("%+v", s)
	}
	if list, err = f.Sessions(t.Context(), "chat-b", 0); err != nil || len(list.Sessions) != 1 || list.More {
		t.Errorf("prefix: %+v, %v", list, err)
	}
}

func TestEmpty(t *testing.T) {
	var out bytes.Buffer
	list, err := (Files{Dir: t.TempDir()}).Sessions(t.Context(), "", 0)
	if err != nil || Table(term.Plain(&out), list, start) != nil || !strings.Contains(out.String(), "no sessions yet") {
		t.Errorf("%q, %v", out.String(), err)
	}
	if _, err := (Files{Dir: filepath.Join(t.TempDir(), "none")}).Sessions(t.Context(), "", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A title never splits a character, and a long one is cut.
func TestTitle(t *testing.T) {
	if got := title(strings.Repeat("ö", 100)); got != strings.Repeat("ö", 80)+"…" {
		t.Errorf("%q", got)
	}
}

func TestDamage(t *testing.T) {
	f := sample(t)
	path := filepath.Join(f.Dir, "chat-a", "0001.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	none := func(*proto.Past) error { return nil }
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	write(whole[:len(whole)-20]) // torn tail: what is whole is read
	if d, err := f.Past(t.Context(), "chat-a", none); err != nil || d.Turns != 2 {
		t.Errorf("torn: %+v, %v", d, err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(whole)/2] ^= 1
	write(flipped)
	if _, err := f.Past(t.Context(), "chat-a", none); !errors.Is(err, appendlog.ErrCorrupt) {
		t.Errorf("flipped: %v", err)
	}
	if list, err := f.Sessions(t.Context(), "", 0); err != nil || len(list.Sessions) != 2 {
		t.Errorf("a damaged session must stay listed: %+v, %v", list, err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, flipped) {
		t.Error("reading changed the file")
	}
}

func TestIDs(t *testing.T) {
	f := sample(t)
	for _, c := range []struct{ id, key string }{
		{"../x", "bad-session"},
		{"", "bad-session"},
		{"a/b", "bad-session"},
		{"A", "bad-session"},
		{strings.Repeat("x", 65), "bad-session"},
		{"chat-none", "no-session"},
		{"empty", "no-session"},
	} {
		_, err := f.Past(t.Context(), c.id, nil)
		var g *fault.Fault
		if !errors.As(err, &g) || g.Key != c.key {
			t.Errorf("%q: %v", c.id, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sample(t).Past(ctx, "chat-a", func(*proto.Past) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
