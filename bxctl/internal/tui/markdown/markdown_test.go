package markdown

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"boxmaker/bxctl/internal/term"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s: -want +got\n%s", name, d)
	}
}

func TestGolden(t *testing.T) {
	src, err := os.ReadFile("testdata/sample.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		width  int
		colour bool
	}{{"plain-40.txt", 40, false}, {"plain-80.txt", 80, false}, {"plain-200.txt", 200, false}, {"colour-60.txt", 60, true}} {
		t.Run(c.name, func(t *testing.T) {
			lines := Render(Theme{Colour: c.colour}, c.width, string(src))
			golden(t, c.name, strings.ReplaceAll(strings.Join(lines, "\n"), "\x1b", "␛")+"\n")
			for _, l := range lines {
				if n := ansi.StringWidth(l); n > c.width {
					t.Errorf("%d columns: %q", n, l)
				}
			}
		})
	}
}

// bad reports what a terminal might act on, or a reader might not see.
func bad(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsAny(s, "\n\t") || term.Safe(s) != s
}

func anyMarkdown() *rapid.Generator[string] {
	bit := rapid.SampledFrom([]string{
		"\x1b[2J", "\x1b]0;t\x07", "&#27;[31m", "&#x9b;2J", "&ZeroWidthSpace;", "&rlm;", "&#8238;", "&NewLine;", "\u202e", "\u009b", "\x00", "\xff",
		"\r", "\n", "\n\n", "\t", " ", "    ", "# ", "- ", "1. ", "> ", "```", "```go\n", "~~~", "`", "**", "*", "_", "~~", "[a](", ")", "<b>", "<!--", "-->",
		"| a | b |\n|---|---|\n", "|", "---", "===", "word", "a longer word", "日本語", "e\u0301", "👩‍👩‍👧", "\\", "&amp;", "https://x.example/", "<https://a.example/\x1b>",
		"[x]: http://e.example\n", "[x]", "![i](j)", "- [ ] ", "\"", "/*", "*/", "//", "func", "0x1f",
	})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(bit, 0, 40).Draw(t, "bits"), "")
	})
}

func TestNothingActs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := anyMarkdown().Draw(t, "src")
		width := rapid.IntRange(8, 100).Draw(t, "width")
		check(t, src, width)
	})
}

func check(t interface{ Fatalf(string, ...any) }, src string, width int) {
	plain := Render(Theme{}, width, src)
	for _, l := range plain {
		if bad(l) {
			t.Fatalf("Render(%q) holds %q", src, l)
		}
	}
}

func FuzzNothingActs(f *testing.F) {
	f.Add("a &#27;[2J `\x1b` [b](\x9b)\n\n```\n\x07\n", 20)
	f.Fuzz(func(t *testing.T, src string, width int) { check(t, src, min(max(width, 8), 300)) })
}

// TestPieces: however a text is cut, the finished lines are the same, and no
// line that is finished comes from the open block twice.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := strings.ToValidUTF8(anyMarkdown().Draw(t, "src"), "")
		width := rapid.IntRange(8, 100).Draw(t, "width")
		colour := Theme{Colour: rapid.Bool().Draw(t, "colour")}
		want := Render(colour, width, src)
		s := NewStream(colour, width)
		var got []string
		for _, r := range src {
			got = append(got, s.Write(string(r))...)
			s.Open()
		}
		got = append(got, s.Close()...)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%q: -whole +pieces\n%s", src, d)
		}
	})
}

// TestOpenIsBounded: a text without an end of block is cut into blocks.
func TestOpenIsBounded(t *testing.T) {
	for _, c := range []struct{ name, piece string }{
		{"one line", "word "}, {"one word", "x"}, {"lines", "some words in a line\n"}, {"list", "- item\n  more\n"}, {"table", "| a | b |\n"}, {"wide", "日本"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewStream(Theme{}, 80)
			for range 20000 {
				s.Write(c.piece)
				size := len(s.partial)
				for _, l := range s.block {
					size += len(l)
				}
				if size > maxOpen+len(c.piece) {
					t.Fatalf("%d bytes open", size)
				}
			}
		})
	}
}

func BenchmarkToken(b *testing.B) {
	s := NewStream(Theme{Colour: true}, 100)
	text := []string{"The ", "quick ", "**brown** ", "fox ", "`jumps` ", "over\n", "- a ", "list\n", "\n"}
	for i := 0; b.Loop(); i++ {
		s.Write(text[i%len(text)])
		s.Open()
	}
}

// TestLooksOnAnyBackground: no mark needs a dark terminal, or a light one.
func TestLooksOnAnyBackground(t *testing.T) {
	for bit := attr(1); bit <= number; bit <<= 1 {
		for _, code := range strings.Split(bit.sgr(), ";") {
			if !slices.Contains([]string{"1", "2", "3", "4", "9", "31", "32", "34", "35", "36"}, code) {
				t.Errorf("mark %b is SGR %q", bit, bit.sgr())
			}
		}
	}
}
