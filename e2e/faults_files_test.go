package e2e

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// lines cuts a log into its lines, line breaks included.
func lines(log []byte) [][]byte { return bytes.SplitAfter(bytes.TrimSuffix(log, nil), []byte("\n")) }

// sealed gives a line the checksum that every line of a log ends in.
func sealed(line string) []byte {
	body := strings.TrimSuffix(line, "}")
	return fmt.Appendf(nil, "%s,\"crc\":\"%08x\"}\n", body, crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli)))
}

// damage is something that happened to a log while Boxmaker was down.
type damage struct {
	name string
	do   func(log []byte) []byte
	key  string
	says string
}

func damages() []damage {
	drop := func(i int) func([]byte) []byte {
		return func(log []byte) []byte {
			all := lines(log)
			return bytes.Join(append(all[:i:i], all[i+1:]...), nil)
		}
	}
	add := func(line string) func([]byte) []byte {
		return func(log []byte) []byte {
			return append(log, sealed(strings.ReplaceAll(line, "N", fmt.Sprint(bytes.Count(log, []byte("\n")))))...)
		}
	}
	const head = `{"v":1,"n":N,"time":"2026-01-02T03:04:05.678Z",`
	return []damage{
		{"flipped bit", func(log []byte) []byte { log[len(log)/2] ^= 4; return log }, "session-corrupt", "checksum"},
		{"hole", func(log []byte) []byte { clear(log[len(log)/2 : len(log)/2+200]); return log }, "session-corrupt", "checksum"},
		{"lost line", drop(3), "session-corrupt", "record 4 stands in place 3"},
		{"doubled line", func(log []byte) []byte { return bytes.Join([][]byte{log, lines(log)[1]}, nil) }, "session-corrupt", "stands in place"},
		{"swapped lines", func(log []byte) []byte {
			all := lines(log)
			all[1], all[2] = all[2], all[1]
			return bytes.Join(all, nil)
		}, "session-corrupt", "stands in place"},
		{"line of another session", func(log []byte) []byte { return append(lines(log)[0], log...) }, "session-corrupt", "stands in place 1"},
		{"baseline gone", drop(0), "session-corrupt", "baseline"},
		{"empty file", func([]byte) []byte { return nil }, "session-corrupt", "baseline"},
		{"half a baseline", func(log []byte) []byte { return log[:100] }, "session-corrupt", "baseline"},
		{"foreign version", add(`{"v":2,"n":N,"dream":true}`), "session-version", "version 2"},
		{"foreign kind", add(head + `"kind":"dream"}`), "session-corrupt", `unknown kind "dream"`},
		{"foreign member", add(head + `"kind":"stopped","why":"x"}`), "session-corrupt", "stopped"},
		{"record out of order", add(head + `"kind":"stopped"}`), "session-", ""},
		{"second turn of a message", nil, "session-corrupt", "starts a second turn"},
	}
}

// A damaged log is refused with a reason, the file stays as it is, other sessions
// work, and when the file is put back the conversation goes on, without a restart.
func TestFault_Files_DamagedLog(t *testing.T) {
	t.Parallel()
	s := stack.New(t)
	server := s.Serve()
	s.Up()
	all := damages()
	session := func(i int) string { return fmt.Sprintf("chat-damaged-%d", i) }
	for i := range all {
		answered(t, s, session(i), "This is "+session(i)+".")
		answered(t, s, session(i), "answer with some more")
	}
	s.Down()
	good, bad := make([]string, len(all)), make([]string, len(all))
	path := func(i int) string { return filepath.Join(s.Layout.Sessions, session(i), "0001.jsonl") }
	for i, d := range all {
		good[i] = read(t, path(i))
		if d.do == nil {
			d.do = secondTurn
		}
		bad[i] = string(d.do([]byte(good[i])))
		rewrite(t, path(i), bad[i])
	}
	s.Up()
	pid := s.PID("loopd")
	for i, d := range all {
		t.Run(d.name, func(t *testing.T) {
			r := ask(s, session(i), "Are you there?")
			if d.key == "session-" { // either of two says it well
				d.key = seeRunbook.FindStringSubmatch(r.Stderr + "(see runbook: none)")[1]
			}
			view{exitFailed, d.key, []string{session(i), d.says}}.check(t, r)
			if got := read(t, path(i)); got != bad[i] {
				t.Errorf("the file was changed from %d to %d bytes", len(bad[i]), len(got))
			}
			if files, _ := os.ReadDir(filepath.Dir(path(i))); len(files) != 1 {
				t.Errorf("the folder holds %v", files)
			}
			if r := s.Bxctl("", "sessions", "list"); r.Code != exitOK || !strings.Contains(r.Stdout, session(i)) {
				t.Errorf("it is not listed: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			answered(t, s, "chat-sound", "Hello.")
			rewrite(t, path(i), good[i])
			if got := answered(t, s, session(i), "answer with mended"); got != "mended" {
				t.Errorf("after it was mended: %q", got)
			}
		})
	}
	if s.PID("loopd") != pid {
		t.Error("loopd was started again")
	}
	wantGrowth(t, settled(t, s), recorded(t, server))
	s.Down()
}

// rewrite replaces the content of a file in place, so that owner and rights stay.
func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// secondTurn adds the first message once more.
func secondTurn(log []byte) []byte {
	all := lines(log)
	_, rest, _ := bytes.Cut(all[1], []byte(`,"time":`))
	rest, _, _ = bytes.Cut(rest, []byte(`,"crc":"`))
	return append(log, sealed(fmt.Sprintf(`{"v":1,"n":%d,"time":%s}`, bytes.Count(log, []byte("\n")), rest))...)
}

// What a crash can leave at the end of a log is cut off, kept beside it, and
// recorded; the conversation goes on.
func TestFault_Files_TornTail(t *testing.T) {
	s := stack.New(t)
	server := s.Serve()
	s.Up()
	tails := map[string]string{
		"half":       `{"v":1,"n":9,"time":"2026-01-02T03`,
		"zeros":      strings.Repeat("\x00", 5000),
		"half-zeros": `{"v":1,"n":9,"ti` + strings.Repeat("\x00", 300),
		"no-break":   strings.TrimSuffix(string(sealed(`{"v":1,"n":9,"time":"2026-01-02T03:04:05.678Z","kind":"stopped"}`)), "\n"),
		"byte":       "{",
		"noise":      "\xff\xfe\x01",
	}
	for name := range tails {
		answered(t, s, "chat-"+name, "This is "+name+".")
	}
	s.Down()
	for name, tail := range tails {
		path := filepath.Join(s.Layout.Sessions, "chat-"+name, "0001.jsonl")
		rewrite(t, path, read(t, path)+tail)
	}
	s.Up()
	for name := range tails {
		if got := answered(t, s, "chat-"+name, "answer with whole again"); got != "whole again" {
			t.Errorf("%s: %q", name, got)
		}
	}
	all := settled(t, s)
	for name, tail := range tails {
		e := epoch(t, all, "chat-"+name, 1)
		rec := records[*proto.Recovered](e)
		if len(rec) != 1 || rec[0].Bytes != int64(len(tail)) {
			t.Fatalf("%s: recoveries in the log: %+v", name, rec)
		}
		if got := read(t, filepath.Join(s.Layout.Sessions, "chat-"+name, rec[0].File)); got != tail {
			t.Errorf("%s: %d bytes were kept beside the log, want %d", name, len(got), len(tail))
		}
	}
	wantGrowth(t, all, recorded(t, server))
	s.Down()
}

// The file of the baseline goes away: while Boxmaker is down, and between two turns
// of a session that is open. Neither is answered from a prompt made anew.
func TestCase_P07_TheBaselineIsGone(t *testing.T) {
	s := stack.New(t)
	server := s.Serve()
	s.Up()
	gone := func(session string) string { return filepath.Join(s.Layout.Sessions, session, "0001.jsonl") }
	for _, id := range []string{"chat-down", "chat-open", "chat-moved"} {
		answered(t, s, id, "This is "+id+".")
	}
	for name, take := range map[string]func(string) error{
		"chat-open":  func(path string) error { return os.Rename(path, s.Home+"/taken.jsonl") },
		"chat-moved": func(path string) error { return os.Rename(filepath.Dir(path), s.Home+"/taken") },
	} {
		if err := take(gone(name)); err != nil {
			t.Fatal(err)
		}
	}
	requests := len(recorded(t, server))
	view{exitFailed, "session-corrupt", []string{"chat-open"}}.check(t, ask(s, "chat-open", "Are you there?"))
	view{exitFailed, "session-corrupt", []string{"chat-moved"}}.check(t, ask(s, "chat-moved", "Are you there?"))
	if n := len(recorded(t, server)); n != requests {
		t.Errorf("%d requests were sent for sessions without a baseline", n-requests)
	}
	if err := os.Rename(s.Home+"/taken.jsonl", gone("chat-open")); err != nil { // mended
		t.Fatal(err)
	}
	answered(t, s, "chat-open", "And now?")
	// A folder that was moved away is how one goes on without a session, so the name is free.
	answered(t, s, "chat-moved", "This is another chat-moved.")
	s.Down()

	if err := os.Rename(gone("chat-down"), s.Home+"/down.jsonl"); err != nil {
		t.Fatal(err)
	}
	s.Up()
	view{exitFailed, "session-corrupt", []string{"chat-down", "holds no log"}}.check(t, ask(s, "chat-down", "Are you there?"))
	if err := os.Rename(s.Home+"/down.jsonl", gone("chat-down")); err != nil {
		t.Fatal(err)
	}
	answered(t, s, "chat-down", "And now?")
	settled(t, s)
	s.Down()
}

// What is no log under a log's name is neither followed nor waited for.
func TestFault_Files_NotAFile(t *testing.T) {
	s := fresh(t)
	s.Up()
	answered(t, s, "chat-a", "Hello.")
	s.Down()
	outside := filepath.Join(s.Home, "outside.jsonl")
	if err := os.Rename(filepath.Join(s.Layout.Sessions, "chat-a", "0001.jsonl"), outside); err != nil {
		t.Fatal(err)
	}
	place := func(name string) string {
		dir := filepath.Join(s.Layout.Sessions, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "0001.jsonl")
	}
	for _, err := range []error{
		os.Symlink(outside, place("chat-link")), os.Mkdir(place("chat-folder"), 0o700), syscall.Mkfifo(place("chat-pipe"), 0o600),
		os.WriteFile(filepath.Join(s.Layout.Sessions, "chat-file"), nil, 0o600), os.Symlink("/etc", filepath.Join(s.Layout.Sessions, "chat-etc")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Up()
	for _, id := range []string{"chat-link", "chat-folder", "chat-pipe", "chat-file", "chat-etc"} {
		r := ask(s, id, "Hello.")
		if r.Code != exitFailed || !strings.Contains(r.Stderr, id) {
			t.Errorf("%s: exit code %d, %q", id, r.Code, r.Stdout)
		}
		checkKey(t, r.Stderr, seeRunbook.FindStringSubmatch(r.Stderr + "(see runbook: none)")[1])
	}
	answered(t, s, "chat-b", "Hello.")
	s.Down()
}
