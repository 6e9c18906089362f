package prompt

import (
	"bytes"
	"fmt"
)

// Extends reports whether next is a strict extension of prev: longer, and equal
// to prev up to prev's closing "]}".
func Extends(prev, next []byte) bool {
	head, ok := bytes.CutSuffix(prev, []byte(tail))
	return ok && len(next) > len(prev) && bytes.HasPrefix(next, head) && bytes.HasSuffix(next, []byte(tail))
}

// FirstDiff names the first byte of prev, less its closing "]}", that next does
// not repeat: its offset, and both sides around it for a person to read. The
// offset is -1 if next repeats all of it.
func FirstDiff(prev, next []byte) (offset int, context string) {
	head := bytes.TrimSuffix(prev, []byte(tail))
	at, differ := firstDiff(head, next)
	if !differ {
		return -1, ""
	}
	return at, fmt.Sprintf("byte %d: before %q, after %q", at, around(prev, at), around(next, at))
}

// firstDiff gives the first offset at which next does not continue prev.
func firstDiff(prev, next []byte) (int, bool) {
	n := min(len(prev), len(next))
	for i := range n {
		if prev[i] != next[i] {
			return i, true
		}
	}
	return n, len(prev) > len(next)
}

func around(b []byte, at int) []byte {
	return b[max(0, min(at, len(b))-40):min(len(b), at+40)]
}
