package term

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFold(t *testing.T) {
	for _, c := range []struct {
		name  string
		width int
		hang  int
		in    string
		want  string
	}{
		{"fits", 20, 4, "one two", "one two"},
		{"at words", 20, 4, "  ok  one two three four", "  ok  one two three\n    four"},
		{"a long word stays whole", 20, 2, "see /a/very/long/path/without/spaces now", "see\n  /a/very/long/path/without/spaces\n  now"},
		{"a long word at the start", 20, 2, "/a/very/long/path/without/spaces now", "/a/very/long/path/without/spaces\n  now"},
		{"marks take no room", 20, 2, "\x1b[31mone two three\x1b[0m four five", "\x1b[31mone two three\x1b[0m four\n  five"},
		{"wide letters do", 20, 2, "日本 日本 日本 日本 日本", "日本 日本 日本 日本\n  日本"},
		{"columns stay", 30, 10, "name      a value of some words here", "name      a value of some\n          words here"},
		{"the edge itself is free", 20, 2, "one two three four a", "one two three four\n  a"},
		{"no more room than the hang", 20, 40, "one two three four five", "one two three four\n          five"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Screen{Terminal: true, Width: func() int { return c.width }}
			if got := s.Fold(c.hang, c.in); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := Plain(&bytes.Buffer{}).Fold(c.hang, c.in); got != c.in {
				t.Errorf("a pipe got %q", got)
			}
		})
	}
}

// TestFoldLosesNothing: only spaces become line breaks.
func TestFoldLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z 日\x1b\[m1]{0,200}`).Draw(t, "text")
		s := Screen{Terminal: true, Width: func() int { return rapid.IntRange(20, 60).Draw(t, "width") }}
		if got := s.Fold(rapid.IntRange(0, 30).Draw(t, "hang"), text); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
