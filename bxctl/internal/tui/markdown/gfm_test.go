package markdown

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"pgregory.net/rapid"
)

// oracle reads the same language with goldmark's own extensions.
func oracle() parser.Parser {
	p := goldmark.DefaultParser()
	p.AddOptions(
		parser.WithParagraphTransformers(util.Prioritized(extension.NewTableParagraphTransformer(), 200)),
		parser.WithInlineParsers(
			util.Prioritized(extension.NewStrikethroughParser(), 500),
			util.Prioritized(extension.NewTaskCheckBoxParser(), 0),
		),
	)
	return p
}

func rowsWith(p parser.Parser, src string) [][]span {
	r := renderer{src: []byte(src)}
	return r.blocks(p.Parse(text.NewReader(r.src)), 60, false)
}

// TestLikeTheExtensions: our reading of tables, strikethrough and task lists is
// that of goldmark's extensions. An escaped bar is not among it: they take one
// at the end of a row for the row's border.
func TestLikeTheExtensions(t *testing.T) {
	ours, theirs := Tables(), oracle()
	bits := []string{
		"|", "|", "|", "a", "bc", " ", "  ", "\t", "\n", "\n", "\n\n", "---", ":--", "--:", ":-:", "-", ":", "|---|---|\n", "| a | b |\n", "a|b\n",
		"~", "~~", "~~~", "*", "**", "`", "[ ]", "[x] ", "[X]", "[", "]", "- ", "1. ", "> ", "    ", "# ", "===\n", "[l](m)", "<b>", "&amp;", "é", "\\~", "\\[",
	}
	rapid.Check(t, func(t *rapid.T) {
		src := strings.Join(rapid.SliceOfN(rapid.SampledFrom(bits), 0, 30).Draw(t, "bits"), "")
		want, got := rowsWith(theirs, src), rowsWith(ours, src)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(span{})); d != "" {
			t.Fatalf("%q: -theirs +ours\n%s", src, d)
		}
	})
}

func TestTables(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string
	}{
		{"a bar in code", "a | b\n--|--\n`x\\|y` | z\n", []string{"a     │ b", "──────┼──", "`x|y` │ z"}},
		{"a bar in text", "a | b\n--|--\nx\\|y | z\n", []string{"a   │ b", "────┼──", "x|y │ z"}},
		{"a bar at the end", "a | b\n--|--\nx | z\\|\n", []string{"a │ b", "──┼───", "x │ z|"}},
		{"a bar in code outside of a table", "`x\\|y`\n", []string{"`x\\|y`"}},
		{"too many cells", "a | b\n--|--\n1 | 2 | 3\n", []string{"a │ b", "──┼──", "1 │ 2"}},
		{"too few cells", "a | b\n--|--\n1\n", []string{"a │ b", "──┼──", "1 │ "}},
		{"more columns than the head", "a | b\n--|--|--\n", []string{"a │ b │ ", "──┼───┼──"}},
		{"fewer columns than the head", "a | b | c\n--|--\n", []string{"a | b | c --|--"}},
		{"a line before", "text\na | b\n--|--\n1 | 2\n", []string{"text", "", "a │ b", "──┼──", "1 │ 2"}},
		{"in a list", "- a | b\n  --|--\n  1 | 2\n", []string{"• a │ b", "  ──┼──", "  1 │ 2"}},
		{"sides", "| a | bbb | ccc |\n|:-:|---:|:---|\n| xxx | 1 | 2 |\n", []string{" a  │ bbb │ ccc", "────┼─────┼────", "xxx │   1 │ 2"}},
		{"boxes", "- [ ] a\n- [x] b\n- c [ ]\n", []string{"• [ ] a", "• [x] b", "• c [ ]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Render(Theme{}, 60, c.src); !slices.Equal(got, c.want) {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

// TestStruck needs the look, which plain text does not show.
func TestStruck(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"~~a~~", "\x1b[9ma\x1b[0m"},
		{"~a~", "\x1b[9ma\x1b[0m"},
		{"~~~a~~~ b", "~~~a~~~ b"},
		{"a ~~ b ~~", "a ~~ b ~~"},
	} {
		t.Run(c.src, func(t *testing.T) {
			if got := strings.Join(Render(Theme{Colour: true}, 60, "x "+c.src), "\n"); got != "x "+c.want {
				t.Errorf("%q, want %q", got, "x "+c.want)
			}
		})
	}
}
