package audit

import (
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// BenchmarkAppend is one synced decision; appendlog's BenchmarkBareWriteSync
// stands beside it.
func BenchmarkAppend(b *testing.B) {
	l := mustOpen(b, tempRoot(b), &clock{march})
	hash := strings.Repeat("ab", 32)
	r := &proto.AuditDecision{
		ID: "chat-1/1/3/0", Session: "chat-1", Tool: "read_file", Args: `{"path":"/home/me/notes/a.md"}`, Digest: hash,
		Verdict: proto.VerdictDeny, Code: proto.CodeNoGrant, Taint: proto.ClassPrivate,
	}
	for b.Loop() {
		if _, err := l.Append(r); err != nil {
			b.Fatal(err)
		}
	}
}
