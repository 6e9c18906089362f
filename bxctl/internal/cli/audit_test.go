package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/proto"
)

// writeAudit makes a log with one record of each kind that a call has.
func writeAudit(t *testing.T, home string) (file string) {
	t.Helper()
	dir := filepath.Join(home, "audit")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: chain.FileOf(at)})
	if err != nil {
		t.Fatal(err)
	}
	var w chain.Walker
	for _, r := range []proto.AuditRecord{
		&proto.AuditStart{Version: "1", PID: 2},
		&proto.AuditDecision{ID: "chat-1/1/3/0", Session: "chat-1", Tool: "read_file", Args: `{"path":"/a"}`, Digest: proto.NoHash, Verdict: proto.VerdictAllow, Grant: "10-a", Taint: proto.ClassPrivate},
		&proto.AuditOutcome{ID: "chat-1/1/3/0", Outcome: proto.CallOK, Class: proto.ClassPrivate, Bytes: 3, Hash: proto.NoHash, MS: 4},
	} {
		line, err := proto.EncodeAudit(proto.AuditHeader{N: w.Head().N, Time: at, Prev: w.Head().Hash}, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Append(line); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.Next(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, chain.FileOf(at))
}

func TestAudit(t *testing.T) {
	home := shortHome(t)
	if r := run(t, home, "", "audit", "show"); r.code != 1 || !strings.Contains(r.err, "(see runbook: audit-missing)") {
		t.Errorf("no log: %+v", r)
	}
	file := writeAudit(t, home)
	for _, tc := range []struct {
		args string
		code int
		out  string
		err  string
	}{
		{"show", 0, "1  allow      read_file    chat-1  {\"path\":\"/a\"}, grant 10-a\n", ""},
		{"show --verdict ok", 0, "2  ok ", ""},
		{"show --verdict deny", 0, "", "(no such records)"},
		{"show 1", 0, "record 1: decision allow\n", ""},
		{"show chat-1/1/3/0", 0, "record 2: outcome ok\n", ""},
		{"show --json -n 1", 0, `{"v":1,"n":2,`, ""},
		{"show --since yesterdayish", 2, "", "no time"},
		{"show x", 2, "", "neither the number"},
		{"show 99", 2, "", "there is no record 99"},
		{"show chat-1/1/9/0", 2, "", "there is no record of chat-1/1/9/0"},
		{"show 1 2", 2, "", "at most one"},
		{"tail -n 1", 0, "2  ok ", ""},
		{"tail x", 2, "", "takes no arguments, not 1"},
		{"verify", 0, "The audit log is whole: 3 records in 1 file,", ""},
		{"verify --json", 0, `{"ok":true,"head":{"n":3,`, ""},
		{"export", 0, `{"v":1,"n":0,`, ""},
		{"export --format csv --tool read_file", 0, "\n1,2026-01-02T03:00:00Z,decision,allow,", ""},
		{"export --format md", 0, "# Audit log\n", ""},
		{"export --format pdf", 2, "", "it must be jsonl, csv or md"},
		{"anchor", 3, "", "(see runbook: brokerd-away)"},
		{"", 0, "verify", ""},
		{"forget", 2, "", "no command"},
	} {
		r := run(t, home, "", append([]string{"audit"}, strings.Fields(tc.args)...)...)
		if r.code != tc.code || !strings.Contains(r.out, tc.out) || !strings.Contains(r.err, tc.err) {
			t.Errorf("%s: %+v", tc.args, r)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), "/a", "/b", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"verify", "verify --json", "show", "export"} {
		r := run(t, home, "", append([]string{"audit"}, strings.Fields(args)...)...)
		if r.code != 1 || !strings.Contains(r.err, "2026-01.jsonl:2: changed: record 1 ") || !strings.Contains(r.err, "(see runbook: audit-damaged)") {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
