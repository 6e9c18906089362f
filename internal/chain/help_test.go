package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
)

// A book is a log in memory, to be spoiled: the whole lines of each file,
// line breaks included.
type book map[string][][]byte

// seal is appendlog's checksum, written once more.
func seal(line []byte) []byte {
	body := line[:len(line)-1]
	return fmt.Appendf(nil, "%s,\"crc\":\"%08x\"}\n", body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

func hashOf(raw []byte) string {
	sum := sha256.Sum256(bytes.TrimSuffix(raw, []byte("\n")))
	return hex.EncodeToString(sum[:])
}

func record(n int64, salt string) proto.AuditRecord {
	id := fmt.Sprintf("chat-1/1/%d/0", n)
	hash := hashOf([]byte(id))
	switch {
	case n == 0:
		return &proto.AuditStart{Version: "0.1.0" + salt, PID: 7}
	case n%2 == 1:
		return &proto.AuditDecision{
			ID: id, Session: "chat-1", Tool: "read_file", Args: `{"path":"/notes/ü\n` + salt + `.md"}`, Digest: hash,
			Verdict: proto.VerdictAllow, Grant: "10-notes", GrantHash: hash, Taint: proto.ClassPrivate,
		}
	default:
		return &proto.AuditOutcome{ID: id, Outcome: proto.CallOK, Class: proto.ClassPrivate, Bytes: 20, Hash: hash, MS: 12, Detail: salt}
	}
}

// write makes a log of so many records in each file, beginning with the files
// of January 2026. From record fork on it has another content.
func write(t testing.TB, perFile []int, fork int64) (book, []proto.AuditHead) {
	t.Helper()
	b, heads := book{}, []proto.AuditHead{{Hash: proto.NoHash}}
	var n int64
	for i, count := range perFile {
		at := time.Date(2026, time.Month(1+i), 5, 10, 0, 0, 0, time.UTC)
		name := FileOf(at)
		b[name] = [][]byte{}
		for range count {
			salt := ""
			if n >= fork {
				salt = "other"
			}
			line, err := proto.EncodeAudit(proto.AuditHeader{N: n, Time: at.Add(time.Duration(n) * time.Second), Prev: heads[n].Hash}, record(n, salt))
			if err != nil {
				t.Fatal(err)
			}
			raw := seal(line)
			n++
			b[name] = append(b[name], raw)
			heads = append(heads, proto.AuditHead{N: n, Hash: hashOf(raw)})
		}
	}
	return b, heads
}

// long is a log for benchmarks: one file, texts of that length.
func long(t testing.TB, records int, salt string) book {
	t.Helper()
	lines, prev := make([][]byte, 0, records), proto.NoHash
	for n := range int64(records) {
		line, err := proto.EncodeAudit(proto.AuditHeader{N: n, Time: time.Unix(n, 0), Prev: prev}, record(n, salt))
		if err != nil {
			t.Fatal(err)
		}
		raw := seal(line)
		prev = hashOf(raw)
		lines = append(lines, raw)
	}
	return book{"2026-01.jsonl": lines}
}

const never = int64(1 << 60)

// bytesOf gives each file's content.
func (b book) bytes() map[string][]byte {
	all := map[string][]byte{}
	for name, lines := range b {
		all[name] = bytes.Join(lines, nil)
	}
	return all
}

func (b book) names() []string { return slices.Sorted(maps.Keys(b)) }

// place finds record n.
func (b book) place(n int) (name string, i int) {
	for _, name := range b.names() {
		if n < len(b[name]) {
			return name, n
		}
		n -= len(b[name])
	}
	return "", 0
}

func (b book) clone() book {
	c := maps.Clone(b)
	for name := range c {
		c[name] = slices.Clone(c[name])
	}
	return c
}

func onDisk(t testing.TB, dir string, files map[string][]byte) *os.Root {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func anchors(heads ...proto.AuditHead) []Anchor {
	var all []Anchor
	for _, h := range heads {
		all = append(all, Anchor{AuditHead: h, From: "a test", Time: "2026-05-05T00:00:00.000Z"})
	}
	return all
}

func describe(rep Report) string {
	var s []string
	for _, f := range rep.Faults {
		s = append(s, f.Error())
	}
	return strings.Join(s, "\n")
}
