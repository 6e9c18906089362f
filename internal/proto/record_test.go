package proto

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkTrusted: the quick decoder gives what the strict one gives, and shares
// no memory with the line.
func checkTrusted(t *testing.T, line []byte) {
	t.Helper()
	line = append([]byte(nil), line...)
	h, want, err := DecodeRecord(line)
	if err != nil {
		t.Fatal(err)
	}
	h2, got, err := DecodeTrustedRecord(line)
	if err != nil {
		t.Fatalf("trusted: %v: %s", err, line)
	}
	clear(line)
	if d := cmp.Diff(want, got); d != "" || h != h2 {
		t.Errorf("strict and trusted differ: %v, %v\n%s", h, h2, d)
	}
}
