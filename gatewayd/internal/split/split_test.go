package split

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"pgregory.net/rapid"
)

func TestParts(t *testing.T) {
	long := strings.Repeat("word ", 20) // 100 runes
	for _, c := range []struct {
		name, text string
		limit      int
		want       []string
	}{
		{"nothing", "", 64, []string{""}},
		{"blank", " \n\n", 64, []string{""}},
		{"short", "hello", 64, []string{"hello"}},
		{"just fits", strings.Repeat("x", 64), 64, []string{strings.Repeat("x", 64)}},
		{"one too many", strings.Repeat("x", 65), 64, []string{strings.Repeat("x", 64), "x"}},
		{"runes count, not bytes", strings.Repeat("ü", 65), 64, []string{strings.Repeat("ü", 64), "ü"}},
		{"between paragraphs", strings.Repeat("a", 40) + "\n\n" + strings.Repeat("b", 40), 64, []string{strings.Repeat("a", 40) + "\n\n", strings.Repeat("b", 40)}},
		{"between lines", strings.Repeat("a", 40) + "\n" + strings.Repeat("b", 40), 64, []string{strings.Repeat("a", 40) + "\n", strings.Repeat("b", 40)}},
		{"between words", long[:99], 64, []string{strings.Repeat("word ", 12), strings.Repeat("word ", 8)[:39]}},
		{"a far paragraph is worse than a near line", "a\n\n" + strings.Repeat("b", 50) + "\n" + strings.Repeat("c", 30), 64, []string{"a\n\n" + strings.Repeat("b", 50) + "\n", strings.Repeat("c", 30)}},
		{
			"code is closed and opened again", "```go\n" + strings.Repeat("x = 1\n", 20) + "```\nend", 64,
			[]string{
				"```go\n" + strings.Repeat("x = 1\n", 9) + "```", "```go\n" + strings.Repeat("x = 1\n", 9) + "```",
				"```go\n" + strings.Repeat("x = 1\n", 2) + "```\nend",
			},
		},
		{"before code", strings.Repeat("a", 50) + "\n```\nxxxxxxxxxxxx\n```\n", 64, []string{strings.Repeat("a", 50) + "\n", "```\nxxxxxxxxxxxx\n```\n"}},
		{"code that never ends", "```\nx", 64, []string{"```\nx\n```"}},
		{"a family stays together", strings.Repeat("x", 60) + "👩‍👩‍👧‍👦", 64, []string{strings.Repeat("x", 60), "👩‍👩‍👧‍👦"}},
		{"a skin tone stays with its hand", strings.Repeat("x", 63) + "👍🏽", 64, []string{strings.Repeat("x", 63), "👍🏽"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Parts(c.text, c.limit)
			if strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestCaseP37: 40,000 runes of several bytes with code across the limit.
func TestCaseP37(t *testing.T) {
	const limit = 16383
	text := strings.Repeat("Ein längerer Satz über Äpfel. 世界 😀\n\n", 400) + "```python\n" +
		strings.Repeat("print('größe', \"世界\")\n", 1000) + "```\n" + strings.Repeat("Schluß. ", 600)
	if n := utf8.RuneCountInString(text); n < 40000 {
		t.Fatalf("only %d runes", n)
	}
	parts := Parts(text, limit)
	if len(parts) < 3 || len(parts) > 4 {
		t.Errorf("%d parts", len(parts))
	}
	check(t, text, limit)
	if !strings.HasPrefix(parts[1], "```python\n") {
		t.Errorf("the second part begins %q", parts[1][:20])
	}
}

type failer interface {
	Helper()
	Errorf(string, ...any)
}

// check holds the pieces of a text to what the package promises.
func check(t failer, text string, limit int) {
	t.Helper()
	var all strings.Builder
	pieces := cut(text, limit)
	for i, p := range pieces {
		all.WriteString(p.body)
		s := p.String()
		if n := utf8.RuneCountInString(s); n > limit {
			t.Errorf("part %d has %d runes, more than %d", i, n, limit)
		}
		if utf8.ValidString(text) && !utf8.ValidString(s) {
			t.Errorf("part %d is cut within a rune", i)
		}
		var f fence
		for l := range strings.Lines(s) {
			f, _ = f.step(l)
		}
		if f.mark != "" {
			t.Errorf("part %d leaves code open: %q", i, s)
		}
		if p.body == "" && text != "" {
			t.Errorf("part %d is empty", i)
		}
	}
	if all.String() != text {
		t.Errorf("the text did not come through: %q became %q", text, all.String())
	}
	borders := map[int]bool{}
	widest := 0
	at := 0
	for g := graphemes.FromString(text); g.Next(); {
		borders[at] = true
		at += len(g.Value())
		widest = max(widest, utf8.RuneCountInString(g.Value()))
	}
	at = 0
	for _, p := range pieces {
		if !borders[at] && at < len(text) && widest < 8 {
			t.Errorf("cut within a character at byte %d of %q", at, text)
		}
		at += len(p.body)
	}
}

func texts() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{
		"word ", "word", "\n", "\n\n", "```", "```go\n", "~~~", "~~~ x\n", "````\n", "  ```\n", "`", "ü", "世界", "👩‍👩‍👧‍👦", "👍🏽", "é", "🇩🇪", "\t", "- ", "> ",
		"@all", "@bob", "x@y.z", "&#64;all", "![a](b)", "\r\n", strings.Repeat("long", 30), strings.Repeat("line\n", 20), "```" + strings.Repeat("i", 70) + "\n", Seal,
	})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "pieces"), "")
	})
}

func TestPartsAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		check(t, Harmless(texts().Draw(t, "text")), rapid.IntRange(MinLimit, 300).Draw(t, "limit"))
	})
}

func FuzzParts(f *testing.F) {
	f.Add("```go\nx\n```", 64)
	f.Add(strings.Repeat("a\u0301", 90), 70)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < MinLimit || limit > 1<<20 {
			return
		}
		check(t, Harmless(text), limit)
	})
}
