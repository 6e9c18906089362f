package driver

import (
	"fmt"
	"testing"

	"boxmaker/internal/proto"
)

// A denial costs little more than its record.
func BenchmarkDeny(b *testing.B) {
	w := newWorld(b, b.TempDir())
	w.grant("10-read.toml", grantRead)
	w.start()
	b.Run("bare append and sync", func(b *testing.B) {
		r := &proto.AuditDecision{ID: "s/1/1/0", Session: "s", Tool: "read_file", Args: `{"path":"/etc/x"}`, Digest: proto.NoHash, Verdict: proto.VerdictDeny, Code: proto.CodeNoGrant, Taint: proto.ClassPrivate}
		for b.Loop() {
			if _, err := w.log.Append(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	n := 0
	b.Run("deny", func(b *testing.B) {
		for b.Loop() {
			n++
			if r := w.call(read(fmt.Sprintf("s/1/%d/0", n), "/etc/x")); r.Code != proto.CodeNoGrant {
				b.Fatal(r)
			}
		}
	})
	b.Run("run", func(b *testing.B) {
		for b.Loop() {
			n++
			id := fmt.Sprintf("s/1/%d/0", n)
			if r := w.call(read(id, "/data/x")); r.Outcome != proto.CallOK {
				b.Fatal(r)
			}
			if err := w.d.Confirm(id); err != nil {
				b.Fatal(err)
			}
		}
	})
	w.end()
}
