package chain

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// TestIndependentVerifier runs the Python script of docs/formats, which shares
// no code with this package, on good and on spoiled logs. Both must agree.
func TestIndependentVerifier(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("PYTHON3 IS NOT HERE: the independent verifier of the audit log is NOT checked")
	}
	good, heads := write(t, []int{4, 0, 5, 3}, never)
	forked, _ := write(t, []int{4, 0, 5, 3}, 6)
	const jan, mar, apr = "2026-01.jsonl", "2026-03.jsonl", "2026-04.jsonl"
	for _, tc := range []struct {
		name  string
		spoil func(book)
		heads []proto.AuditHead
		ok    bool
		want  string
	}{
		{"good", func(book) {}, nil, true, "12:" + heads[12].Hash + "\n"},
		{"good, with heads", func(book) {}, heads, true, "12:" + heads[12].Hash + "\n"},
		{"nothing", func(b book) { clear(b) }, heads[:1], true, "0:" + proto.NoHash + "\n"},
		{"a changed byte", func(b book) { b[mar][1] = bytes.Replace(b[mar][1], []byte("allow"), []byte("deny!"), 1) }, nil, false, mar + ":2: changed"},
		{"the last line half", func(b book) { b[apr][2] = b[apr][2][:40] }, nil, false, apr + ":3: changed, or not whole"},
		{"changed and sealed again", func(b book) {
			line := bytes.Replace(b[mar][1], []byte("allow"), []byte("deny"), 1)
			b[mar][1] = seal(append(line[:len(line)-19], '}'))
		}, nil, false, mar + ":3: the line before"},
		{"one gone", func(b book) { b[mar] = slices.Delete(b[mar], 1, 2) }, nil, false, mar + ":2: number 6 in the place of 5"},
		{"one twice", func(b book) { b[mar] = slices.Insert(b[mar], 1, b[mar][0]) }, nil, false, mar + ":2: number 4 in the place of 5"},
		{"two files swapped", func(b book) { b[jan], b[apr] = b[apr], b[jan] }, nil, false, jan + ":1: number 9 in the place of 0"},
		{"cut", func(b book) { delete(b, apr) }, heads[12:], false, "the log had 12 records, now it has 9"},
		{"cut to nothing", func(b book) { clear(b) }, heads[3:4], false, "the log had 3 records, now it has 0"},
		{"cut, and no head", func(b book) { delete(b, apr) }, nil, true, "9:"},
		{"forked", func(b book) { maps.Copy(b, forked) }, heads[8:9], false, mar + ":4: not the record that was there"},
		{"two heads of one number", func(book) {}, []proto.AuditHead{heads[7], {N: 7, Hash: heads[6].Hash}}, false, mar + ":3: not the record"},
		{"a stranger's file", func(b book) { b["x.jsonl"] = nil }, nil, false, "x.jsonl: no file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := good.clone()
			tc.spoil(b)
			root := onDisk(t, t.TempDir(), b.bytes())
			args := []string{"../../docs/formats/verify_audit.py", root.Name()}
			for _, h := range tc.heads {
				args = append(args, fmt.Sprintf("%d:%s", h.N, h.Hash))
			}
			out, err := exec.Command(python, args...).CombinedOutput()
			if (err == nil) != tc.ok || !strings.HasPrefix(string(out), tc.want) {
				t.Errorf("%v: %s", err, out)
			}
			rep, err := Verify(Config{Root: root, Anchors: anchors(tc.heads...)})
			if err != nil || (rep.Faults == nil) != tc.ok {
				t.Errorf("the two do not agree: %s, %v", describe(rep), err)
			}
		})
	}
}
