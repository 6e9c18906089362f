package term

import "testing"

func TestOurs(t *testing.T) {
	for line, want := range map[string]bool{
		"┌─ run wants your approval": true, "│ argv     ┆ ls": true, "└─ Ctrl-X": true, "   ╭─ x": true, "| argv": true, "+-- x": true, "‖ run (A) waits": true, "✓ run": true,
		"> yes": true, "! note": true, "┆ x": true, "── session x": true, "⠋ writing": true, "· run": true,
		"": false, "words": false, "a ┆ b": false, "─────": false, "──┼──": false, ">": false, "!": false, "!important": false, "• an item": false, "- an item": false, "# head": false, "+1": false, "漢": false,
	} {
		if got := Ours(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
		if got := Ours(Theirs(line)); got != want {
			t.Errorf("behind its gutter, %q: %v", line, got)
		}
	}
	if got := Theirs("a\n┌─ b\n\nc"); got != "a\n┆ ┌─ b\n\nc" {
		t.Errorf("%q", got)
	}
}
