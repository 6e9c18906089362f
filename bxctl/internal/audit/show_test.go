package audit

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func (s *site) numbers(q Query) []int64 {
	s.t.Helper()
	list := []int64{}
	if err := s.Each(s.t.Context(), q, nil, func(e Entry) error {
		list = append(list, e.Header.N)
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	return list
}

func filled(t *testing.T) *site {
	s := newSite(t)
	s.append(&proto.AuditStart{Version: "1", PID: 2})                // 0
	s.call("chat-1", 1, "read_file", `{"path":"/notes/a.md"}`)       // 1 2 3
	s.call("chat-2", 1, "http_fetch", `{"url":"https://x.example"}`) // 4 5 6
	s.append(&proto.AuditDecision{
		ID: "chat-1/1/5/0", Session: "chat-1", Tool: "read_file", Args: `{"path":"/etc/shadow"}`, Digest: hash,
		Verdict: proto.VerdictDeny, Code: proto.CodeNoGrant, Taint: proto.ClassPrivate,
	}) // 7
	s.append(&proto.AuditHalt{Halted: true, Reason: "odd", By: "uid 0"}) // 8
	return s
}

func TestFilters(t *testing.T) {
	s := filled(t)
	for _, tc := range []struct {
		name string
		q    Query
		want []int64
	}{
		{"all", Query{Number: -1, Last: All}, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		{"the newest", Query{Number: -1, Last: 2}, []int64{7, 8}},
		{"none", Query{Number: -1, Last: 0}, []int64{}},
		{"a session", Query{Number: -1, Last: All, Session: "chat-1"}, []int64{1, 2, 3, 7}},
		{"the newest of a session", Query{Number: -1, Last: 2, Session: "chat-1"}, []int64{3, 7}},
		{"a tool, with approval and outcome", Query{Number: -1, Last: All, Tool: "http_fetch"}, []int64{4, 5, 6}},
		{"a call", Query{Number: -1, Last: All, Call: "chat-2/1/1/0"}, []int64{4, 5, 6}},
		{"a verdict", Query{Number: -1, Last: All, Verdict: "deny"}, []int64{7}},
		{"an outcome", Query{Number: -1, Last: All, Verdict: "ok"}, []int64{3, 6}},
		{"a kind", Query{Number: -1, Last: All, Kind: "approval"}, []int64{2, 5}},
		{"a number", Query{Number: 4, Last: All}, []int64{4}},
		{"since", Query{Number: -1, Last: All, Since: start.Add(7 * time.Minute)}, []int64{7, 8}},
		{"until", Query{Number: -1, Last: All, Until: start.Add(2 * time.Minute)}, []int64{0, 1}},
		{"two at once", Query{Number: -1, Last: All, Session: "chat-1", Verdict: "approved"}, []int64{2}},
	} {
		if d := cmp.Diff(tc.want, s.numbers(tc.q)); d != "" {
			t.Errorf("%s:\n%s", tc.name, d)
		}
	}
}

func TestHuman(t *testing.T) {
	s := filled(t)
	var out bytes.Buffer
	if err := s.Each(t.Context(), Query{Number: -1, Last: All}, nil, func(e Entry) error {
		_, err := fmt.Fprintln(&out, e.Human(screen(&out), start.Add(48*time.Hour)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := `30 Mar 09:00:00     0  start      brokerd 1, process 2
30 Mar 09:01:00     1  ask        read_file    chat-1  {"path":"/notes/a.md"}, grant 20-notes
30 Mar 09:02:00     2  approved   read_file    chat-1  by uid 1000 in chat
30 Mar 09:03:00     3  ok         read_file    chat-1  2.0 KiB in 1.5 s, private, untrusted, api.example.com:443 passed (400 B out, 2.0 KiB in)
30 Mar 09:04:00     4  ask        http_fetch   chat-2  {"url":"https://x.example"}, grant 20-notes
30 Mar 09:05:00     5  approved   http_fetch   chat-2  by uid 1000 in chat
30 Mar 09:06:00     6  ok         http_fetch   chat-2  2.0 KiB in 1.5 s, private, untrusted, api.example.com:443 passed (400 B out, 2.0 KiB in)
30 Mar 09:07:00     7  deny       read_file    chat-1  no-grant, {"path":"/etc/shadow"}
30 Mar 09:08:00     8  halted     by uid 0, odd
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

// TestShownUpToTheFault: what stands before the fault is shown, then the fault.
func TestShownUpToTheFault(t *testing.T) {
	s := filled(t)
	s.edit(s.file("2026-03.jsonl"), func(b []byte) []byte { return bytes.Replace(b, []byte("shadow"), []byte("shadoW"), 1) })
	seen := 0
	err := s.Each(t.Context(), Query{Number: -1, Last: All}, nil, func(Entry) error { seen++; return nil })
	wantsFault(t, err, "audit-damaged")
	if seen != 7 {
		t.Errorf("%d records", seen)
	}
}

func TestNoLog(t *testing.T) {
	s := newSite(t)
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	wantsFault(t, s.Each(t.Context(), Query{}, nil, nil), "audit-missing")
	_, err := s.Verify(t.Context())
	wantsFault(t, err, "audit-missing")
}

// TestFollow: what comes is handed on once and in order, also from a new month.
func TestFollow(t *testing.T) {
	s := filled(t)
	ctx, stop := context.WithCancel(t.Context())
	poll, got := make(chan time.Time), make(chan string)
	end := make(chan error)
	go func() {
		end <- s.Each(ctx, Query{Number: -1, Last: 1, Tool: "shell"}, poll, func(e Entry) error {
			got <- fmt.Sprintf("%d %s %s", e.Header.N, e.File, e.Tool)
			return nil
		})
	}()
	poll <- start
	s.call("chat-1", 7, "shell", "{}") // 9 10 11
	poll <- start
	for _, want := range []string{"9 2026-03.jsonl shell", "10 2026-03.jsonl shell", "11 2026-03.jsonl shell"} {
		if g := <-got; g != want {
			t.Errorf("%s, not %s", g, want)
		}
	}
	s.call("chat-1", 8, "run", "{}")
	poll <- start
	s.at = start.AddDate(0, 1, 0)
	s.call("chat-1", 9, "shell", "{}") // 15 16 17
	poll <- start
	for _, want := range []string{"15 2026-04.jsonl shell", "16 2026-04.jsonl shell", "17 2026-04.jsonl shell"} {
		if g := <-got; g != want {
			t.Errorf("%s, not %s", g, want)
		}
	}
	stop()
	if err := <-end; err != nil {
		t.Error(err)
	}
}

// nasty is what a model might write to fool a reader of the log.
const nasty = "{\"a\":\"\x1b[2J\u202e\u2028`` ``` </b>\\n- 00:00:00, record 9: **allow**\u0085\"}\nrecord 99: decision allow\r\x00"

// TestHarmless: whatever stands in a record, no form of it moves a cursor or
// passes for a line of ours.
func TestHarmless(t *testing.T) {
	check := func(t interface {
		Helper()
		Fatalf(string, ...any)
	}, text string,
	) {
		t.Helper()
		e := Entry{Header: proto.AuditHeader{N: 7, Time: start, Prev: hash}, File: "f", Call: "s/1/0/0", Session: "s", Tool: text, Record: &proto.AuditDecision{
			ID: "s/1/0/0", Session: "s", Tool: text, Args: text, Digest: hash, Verdict: proto.VerdictAllow, Grant: text, Taint: proto.ClassPublic,
		}}
		line, err := proto.EncodeAudit(e.Header, e.Record)
		if err != nil {
			return // not UTF-8
		}
		e.JSON = line
		var b bytes.Buffer
		if human := e.Human(screen(&b), start); strings.Contains(human, "\n") || term.Safe(human) != human {
			t.Fatalf("%q", human)
		}
		long := e.Long(screen(&b), start)
		for i, l := range strings.Split(strings.TrimSuffix(long, "\n"), "\n") {
			if i > 0 && !strings.HasPrefix(l, "  ") || i == 0 && l != "record 7: decision allow" || term.Safe(l) != l {
				t.Fatalf("line %d is %q", i, l)
			}
		}
		for _, form := range Forms() {
			b.Reset()
			w := NewWriter(form, &b, time.UTC)
			if err := errors.Join(w.Write(e), w.Close()); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			if s := b.String(); form != "jsonl" && term.Safe(s) != s || strings.ContainsAny(s, "\x1b\x00\r\u202e\u2028\u0085") {
				t.Fatalf("%s: %q", form, s)
			}
			if n := strings.Count(b.String(), "\n"); form == "jsonl" && n != 1 || form == "md" && n != 6 && (n != 7 || text == "") {
				t.Fatalf("%s has %d lines: %q", form, n, b.String())
			}
		}
	}
	check(t, nasty)
	rapid.Check(t, func(rt *rapid.T) { check(rt, rapid.String().Draw(rt, "text")) })
}

func TestExport(t *testing.T) {
	s := filled(t)
	s.call("chat-3", 1, "=cmd()", "@x")
	for form, check := range map[string]func(t *testing.T, out string){
		"jsonl": func(t *testing.T, out string) {
			for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
				if h, _, err := proto.DecodeAudit([]byte(line)); err != nil || h.N != int64(i) {
					t.Errorf("%s: %v", line, err)
				}
			}
		},
		"csv": func(t *testing.T, out string) {
			rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
			if err != nil || len(rows) != 13 || rows[0][0] != "number" || rows[8][3] != "deny" || rows[8][8] != `{"path":"/etc/shadow"}` {
				t.Errorf("%q, %v", rows, err)
			}
			if rows[10][7] != "'=cmd()" || rows[10][8] != "'@x" {
				t.Errorf("a formula: %q", rows[10])
			}
		},
		"md": func(t *testing.T, out string) {
			if !strings.HasPrefix(out, "# Audit log\n\n## Monday, 30 March 2026\n\n- 09:00:00, record 0: **start**\n") || strings.Count(out, "\n- ") != 12 {
				t.Errorf("%s", out)
			}
		},
	} {
		t.Run(form, func(t *testing.T) {
			var b bytes.Buffer
			w := NewWriter(form, &b, time.UTC)
			if err := errors.Join(s.Each(t.Context(), Query{Number: -1, Last: All}, nil, w.Write), w.Close()); err != nil {
				t.Fatal(err)
			}
			check(t, b.String())
		})
	}
	if NewWriter("xml", nil, nil) != nil {
		t.Error("a form that is none")
	}
}
