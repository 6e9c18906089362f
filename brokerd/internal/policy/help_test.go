package policy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"boxmaker/brokerd/internal/audit"
	"boxmaker/brokerd/internal/taint"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
)

// A box is an Engine over a real audit log, real grants and real taint.
type box struct {
	t       testing.TB
	dir     string
	now     time.Time
	log     *audit.Log
	taint   *taint.Store
	engine  *Engine
	trouble []error
	records []proto.AuditRecord // of the newest opening's visit
	broken  error               // what the audit log answers instead
	next    int
}

func newBox(t testing.TB, grants map[string]string) *box {
	t.Helper()
	b := &box{t: t, dir: t.TempDir(), now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	for _, d := range []string{"grants", "audit", "state"} {
		if err := os.Mkdir(filepath.Join(b.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range grants {
		b.put(name, text)
	}
	b.open()
	t.Cleanup(func() { _ = b.log.Close() })
	return b
}

// open is a start of brokerd.
func (b *box) open() {
	b.t.Helper()
	if b.log != nil {
		if err := b.log.Close(); err != nil {
			b.t.Fatal(err)
		}
	}
	h := NewHistory()
	b.records = nil
	log, err := audit.Open(audit.Config{Root: b.root("audit"), Version: "test", Now: func() time.Time { return b.now }, Visit: func(head proto.AuditHeader, r proto.AuditRecord) error {
		b.records = append(b.records, r)
		return h.Seen(head, r)
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.log = log
	if b.taint, err = taint.Open(b.root("state")); err != nil {
		b.t.Fatal(err)
	}
	b.engine = New(Config{
		Audit: b, Grants: grant.Open(filepath.Join(b.dir, "grants")), Taint: b.taint, History: h,
		Now: func() time.Time { return b.now }, Trouble: func(err error) { b.trouble = append(b.trouble, err) },
	})
}

func (b *box) root(name string) *os.Root {
	b.t.Helper()
	r, err := os.OpenRoot(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *box) put(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, "grants", name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) remove(name string) {
	b.t.Helper()
	if err := os.Remove(filepath.Join(b.dir, "grants", name)); err != nil {
		b.t.Fatal(err)
	}
}

// Append is the audit log, or one that fails.
func (b *box) Append(r proto.AuditRecord) (audit.Ref, error) {
	if b.broken != nil {
		if errors.Is(b.broken, errNoRef) {
			return audit.Ref{}, nil
		}
		return audit.Ref{}, b.broken
	}
	return b.log.Append(r)
}

var errNoRef = errors.New("no reference, no error")

// call is the next call of a session.
func (b *box) call(session, tool, args string) *proto.Call {
	b.next++
	id := proto.CallID{Session: session, Epoch: 1, Record: int64(b.next)}
	return &proto.Call{ID: id.String(), Session: session, Tool: tool, Args: args}
}

const approvalID = "0123456789abcdef0123456789abcdef"

func (b *box) request(c *proto.Call) Request {
	return Request{Call: c, Approval: func() string { return approvalID }, Expires: b.now.Add(15 * time.Minute)}
}

func (b *box) decide(c *proto.Call) Ruling {
	b.t.Helper()
	r, err := b.engine.Decide(b.request(c))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *box) settle(c *proto.Call, v proto.Verdict) (Ruling, error) {
	return b.engine.Settle(Settlement{Call: c, Approval: approvalID, Digest: Digest(c), Verdict: v, By: "owner", Channel: "cli"})
}

// denied checks that nothing is allowed, and why.
func (b *box) denied(r Ruling, code proto.Code) Denied {
	b.t.Helper()
	d, ok := r.(Denied)
	if !ok || d.Code != code || d.Head.N == 0 {
		b.t.Fatalf("%#v, want it denied with %s", r, code)
	}
	return d
}

func (b *box) allowed(r Ruling) Spec {
	b.t.Helper()
	a, ok := r.(Allowed)
	if !ok {
		b.t.Fatalf("%#v, want it allowed", r)
	}
	s, err := a.Decision.Spend()
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := a.Decision.Spend(); !errors.Is(err, ErrSpent) {
		b.t.Fatalf("spent twice: %v", err)
	}
	return s
}

func (b *box) asks(r Ruling) Asks {
	b.t.Helper()
	a, ok := r.(Asks)
	if !ok {
		b.t.Fatalf("%#v, want it asked", r)
	}
	return a
}

// last gives the newest record of the log.
func (b *box) last() proto.AuditRecord {
	b.t.Helper()
	n := len(b.records)
	b.open()
	if len(b.records) <= n {
		b.t.Fatal("nothing was put on record")
	}
	for i := len(b.records) - 1; i >= 0; i-- {
		if b.records[i].Kind() != "start" {
			return b.records[i]
		}
	}
	b.t.Fatal("there are only starts")
	return nil
}
