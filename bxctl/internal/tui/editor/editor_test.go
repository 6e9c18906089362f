package editor

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

func anyText() *rapid.Generator[string] {
	bit := rapid.SampledFrom([]string{"a", "word", " ", "\n", "\t", "日本", "e\u0301", "\u0301", "👩‍👩‍👧", "🇩", "\x1b[A", "\r\n", "\u202e", "\u200d", "\xff", "한"})
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(bit, 0, 12).Draw(t, "bits"), "") })
}

// TestAnyKeys: whatever is typed where, the cursor stays inside, rows fit, no
// control character stays, and the text is what the rows show.
func TestAnyKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Editor
		width := rapid.IntRange(4, 40).Draw(t, "width")
		for range rapid.IntRange(0, 30).Draw(t, "keys") {
			before, text := e.Before(), e.Text()
			switch rapid.IntRange(0, 15).Draw(t, "key") {
			case 0, 1, 2, 3:
				s := anyText().Draw(t, "text")
				e.Insert(s)
				if want := before + clean(s) + text[len(before):]; e.Text() != want {
					t.Fatalf("Insert(%q) at %q gives %q", s, before, e.Text())
				}
				if !strings.HasPrefix(e.Before(), before+clean(s)) {
					t.Fatalf("Insert(%q) at %q leaves the cursor behind %q", s, before, e.Before())
				}
			case 4:
				e.Backspace()
			case 5:
				e.Delete()
			case 6:
				e.Left()
			case 7:
				e.Right()
			case 8:
				e.Up(width)
			case 9:
				e.Down(width)
			case 10:
				e.WordLeft()
			case 11:
				e.WordRight()
			case 12:
				e.KillWord()
			case 13:
				e.KillEnd()
			case 14:
				e.KillHome()
			case 15:
				e.Yank()
			}
			check(t, &e, width)
		}
	})
}

func check(t *rapid.T, e *Editor, width int) {
	l := e.Layout(width)
	if e.pos < 0 || e.pos > len(e.cells) || l.Row >= len(l.Rows) || l.Col > width {
		t.Fatalf("cursor %d of %d, row %d of %d, column %d", e.pos, len(e.cells), l.Row, len(l.Rows), l.Col)
	}
	for _, row := range l.Rows {
		if ansi.StringWidth(row) > width {
			t.Fatalf("%d columns in %d: %q", ansi.StringWidth(row), width, row)
		}
		for _, r := range row {
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q", row)
			}
		}
	}
	var shownText strings.Builder
	for _, c := range e.cells {
		if c != "\n" {
			s, _ := shown(c)
			shownText.WriteString(s)
		}
	}
	if got := strings.Join(l.Rows, ""); !strings.Contains(got, "…") && got != shownText.String() {
		t.Fatalf("rows show %q, text is %q", got, e.Text())
	}
}

func TestMarksBelongToTheirLetter(t *testing.T) {
	var e Editor
	for _, s := range []string{"e", "\u0301", "x"} {
		e.Insert(s)
	}
	e.Left()
	e.Backspace()
	if e.Text() != "x" {
		t.Errorf("left %q: a letter and its mark are one", e.Text())
	}
}

func TestUpAndDownKeepTheColumn(t *testing.T) {
	var e Editor
	e.Set("long line\nab\nlong line")
	for _, c := range []struct {
		move func(int) bool
		ok   bool
		want string
	}{
		{e.Up, true, "long line\nab"}, {e.Up, true, "long line"}, {e.Up, false, "long line"}, {e.Down, true, "long line\nab"}, {e.Down, true, "long line\nab\nlong line"}, {e.Down, false, "long line\nab\nlong line"},
	} {
		if ok := c.move(40); ok != c.ok || e.Before() != c.want {
			t.Fatalf("%v, before the cursor %q, want %q", ok, e.Before(), c.want)
		}
	}
}

func TestWordsStayWhole(t *testing.T) {
	var e Editor
	e.Set("some words here")
	if got := strings.Join(e.Layout(8).Rows, "|"); got != "some |words |here" {
		t.Errorf("got %q", got)
	}
}

func FuzzInsert(f *testing.F) {
	f.Add("a", "\u0301\x1b[31m")
	f.Fuzz(func(t *testing.T, a, b string) {
		var e Editor
		e.Insert(a)
		e.Insert(b)
		if e.Text() != clean(a)+clean(b) || strings.ContainsAny(e.Text(), "\x1b\r\x00\x7f") {
			t.Fatalf("%q", e.Text())
		}
	})
}
