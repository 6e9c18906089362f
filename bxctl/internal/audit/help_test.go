package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/checkpoint"
	"boxmaker/internal/proto"
)

var start = time.Date(2026, 3, 30, 9, 0, 0, 0, time.UTC)

const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// A site is an installation with a log that a brokerd of the test writes.
type site struct {
	Log
	t    *testing.T
	walk chain.Walker
	at   time.Time // of the next record; each is a minute later
	key  *checkpoint.Signer
}

func newSite(t *testing.T) *site {
	t.Helper()
	home := t.TempDir()
	s := &site{t: t, at: start, Log: Log{
		Dir: filepath.Join(home, "audit"), Sessions: filepath.Join(home, "sessions"),
		Anchors: filepath.Join(home, "anchors"), State: filepath.Join(home, "broker"),
	}}
	for _, dir := range []string{s.Dir, s.Sessions, s.State} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.newKey()
	return s
}

func (s *site) newKey() {
	s.t.Helper()
	private, err := checkpoint.NewKey()
	if err != nil {
		s.t.Fatal(err)
	}
	if s.key, err = checkpoint.NewSigner(private); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.State, publicFile), []byte(s.key.Verifier()+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Head is brokerd's answer.
func (s *site) Head(context.Context) (*proto.Head, error) {
	text, _, err := s.key.Sign(s.walk.Head())
	return &proto.Head{Head: s.walk.Head(), Checkpoint: text}, err
}

func (s *site) append(records ...proto.AuditRecord) proto.AuditHead {
	s.t.Helper()
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		s.t.Fatal(err)
	}
	defer root.Close()
	for _, r := range records {
		h := s.walk.Head()
		line, err := proto.EncodeAudit(proto.AuditHeader{N: h.N, Time: s.at, Prev: h.Hash}, r)
		if err != nil {
			s.t.Fatal(err)
		}
		log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: chain.FileOf(s.at)})
		if err != nil {
			s.t.Fatal(err)
		}
		if err := errors.Join(log.Append(line), log.Close()); err != nil {
			s.t.Fatal(err)
		}
		if _, _, err := s.walk.Next(line); err != nil {
			s.t.Fatal(err)
		}
		s.at = s.at.Add(time.Minute)
	}
	return s.walk.Head()
}

// call appends all records of one call that the owner allowed.
func (s *site) call(session string, n int, tool, args string) proto.AuditHead {
	s.t.Helper()
	id := fmt.Sprintf("%s/1/%d/0", session, n)
	return s.append(
		&proto.AuditDecision{
			ID: id, Session: session, Tool: tool, Args: args, Digest: hash, Verdict: proto.VerdictAsk, Grant: "20-notes", GrantHash: hash,
			Taint: proto.ClassPrivate, Untrusted: true, Approval: "Zm9vYmFy", Expires: "2026-03-30T09:15:00.000Z",
		},
		&proto.AuditApproval{ID: id, Approval: "Zm9vYmFy", Verdict: proto.VerdictApproved, By: "uid 1000", Channel: "chat", Digest: hash},
		&proto.AuditOutcome{
			ID: id, Outcome: proto.CallOK, Class: proto.ClassPrivate, Untrusted: true, Bytes: 2048, Hash: hash, MS: 1500,
			Egress: []proto.EgressConn{{Host: "api.example.com:443", Address: "192.0.2.7:443", Verdict: proto.EgressPassed, Sent: 400, Received: 2000}},
		},
	)
}

// session writes a session log with one result that has the head.
func (s *site) session(id string, head proto.AuditHead) string {
	s.t.Helper()
	dir := filepath.Join(s.Sessions, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	defer root.Close()
	log, rec, err := appendlog.Open(appendlog.Config{Root: root, Name: "0001.jsonl"})
	if err != nil {
		s.t.Fatal(err)
	}
	line, err := proto.EncodeRecord(proto.Header{N: rec.Records, Time: s.at}, &proto.Tool{
		Call: id + "/1/3/0", Outcome: proto.CallOK, Class: proto.ClassPrivate, Head: head, Message: []byte(`{"role":"tool","content":"x"}`),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(log.Append(line), log.Close()); err != nil {
		s.t.Fatal(err)
	}
	return filepath.Join(dir, "0001.jsonl")
}

func (s *site) edit(path string, change func([]byte) []byte) {
	s.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) file(name string) string { return filepath.Join(s.Dir, name) }

func dropLast(b []byte) []byte {
	return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1]
}

func screen(w *bytes.Buffer) term.Screen { return term.Screen{W: w, Width: func() int { return 100 }} }

func wantsFault(t *testing.T, err error, key string) {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) || f.Key != key {
		t.Errorf("got %v, want the key %s", err, key)
	}
}
