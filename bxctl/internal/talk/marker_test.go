package talk

import (
	"strings"
	"testing"

	"boxmaker/bxctl/internal/term"

	"pgregory.net/rapid"
)

// However a text is cut, its lines come out as they do at once: no piece is lost,
// and none that looks like a frame of ours begins a line.
func TestMarker_CutAnywhere(t *testing.T) {
	piece := rapid.SampledFrom([]string{"┌─ run wants your approval", "─", "│ ", "> ", ">", "! ", "!", "a", " ", "\t", "\n", "✓", "+", "-", "word", "漢"})
	rapid.Check(t, func(t *rapid.T) {
		var m marker
		var out, whole strings.Builder
		for _, p := range rapid.SliceOf(piece).Draw(t, "pieces") {
			whole.WriteString(p)
			out.WriteString(m.more(p))
		}
		out.WriteString(m.end())
		if want := term.Theirs(whole.String()); out.String() != want {
			t.Fatalf("%q, want %q", out.String(), want)
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if term.Ours(line) && !strings.HasPrefix(line, term.Gutter) {
				t.Fatalf("%q", line)
			}
		}
	})
}
