package appendlog

import (
	"bytes"
	"testing"
)

// FuzzScan: whatever a file holds, the lines that are visited are exactly its
// good beginning, and what Open would do is to cut, or to refuse.
func FuzzScan(f *testing.F) {
	f.Add(sealed(fourLines...))
	f.Add(append(sealed(fourLines...), `{"torn`...))
	f.Add([]byte("{}\n\x00\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		rec, err := scanBytes(bytes.Clone(b), func(_ int64, line []byte) error {
			if err := checkLine(line); err != nil && len(line) > 2 && line[1] == '"' {
				t.Fatalf("%q: %v", line, err)
			}
			again = appendSealed(again, line)
			return nil
		})
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("visited %q of %q", again, b)
		}
		if err == nil && int64(len(again))+rec.Torn != int64(len(b)) {
			t.Fatalf("%d bytes good, %d torn, of %d", len(again), rec.Torn, len(b))
		}
	})
}
