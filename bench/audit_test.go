package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/proto"
)

// auditVerify reads a whole audit log, as bxctl audit verify does. It runs on
// one core by its nature: each record needs the hash of the one before.
func auditVerify(t *testing.T) []row {
	root := must[*os.Root](t)(os.OpenRoot(t.TempDir()))
	defer root.Close()
	writeAuditLog(t, root, pick(500_000, 50))
	var rep chain.Report
	var times []time.Duration
	for range pick(5, 1) {
		times = append(times, took(func() {
			var err error
			if rep, err = chain.Verify(chain.Config{Root: root}); err != nil || rep.Faults != nil {
				t.Fatalf("%+v, %v", rep, err)
			}
		}))
	}
	seconds := median(times).Seconds()
	records, mb := float64(rep.Head.N)/seconds, float64(rep.Bytes)/1e6/seconds
	return []row{{
		what: "audit verify", got: fmt.Sprintf("%.0fk records/s", records/1000), target: ">= 500k, or 300 MB/s",
		met: records >= 500_000 || mb >= 300, note: fmt.Sprintf("%.0f MB/s, %.0f MB", mb, float64(rep.Bytes)/1e6),
	}}
}

// writeAuditLog writes pairs of a decision and its outcome, many in one write.
func writeAuditLog(t *testing.T, root *os.Root, records int) {
	t.Helper()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: chain.FileOf(at)})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var walk chain.Walker
	var batch [][]byte
	for n := range records {
		id := fmt.Sprintf("chat-20260304-1/1/%d/0", n/2)
		var r proto.AuditRecord = &proto.AuditDecision{
			ID: id, Session: "chat-20260304-1", Tool: "read_file", Args: `{"path":"/home/me/notes/2026/march.md"}`, Digest: proto.NoHash,
			Verdict: proto.VerdictAllow, Grant: "10-notes-read", GrantHash: proto.NoHash, Taint: proto.ClassPrivate, Untrusted: true,
		}
		if n%2 == 1 {
			r = &proto.AuditOutcome{ID: id, Outcome: proto.CallOK, Class: proto.ClassPrivate, Untrusted: true, Bytes: 4096, Hash: proto.NoHash, MS: 41}
		}
		head := walk.Head()
		line, err := proto.EncodeAudit(proto.AuditHeader{N: head.N, Time: at, Prev: head.Hash}, r)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := walk.Next(line); err != nil {
			t.Fatal(err)
		}
		if batch = append(batch, line); len(batch) == 1000 || n == records-1 {
			if err := log.Append(batch...); err != nil {
				t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}
