package term

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func TestSafe(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "Hello, wörld\n\tyes", "Hello, wörld\n\tyes"},
		{"colour", "\x1b[31mred\x1b[0m", "␛[31mred␛[0m"},
		{"title", "\x1b]0;owned\a", "␛]0;owned␇"},
		{"c1 csi", "\u009b2J", "<U+009B>2J"},
		{"carriage return", "good\rbad", "good␍bad"},
		{"backspace", "a\b", "a␈"},
		{"delete", "a\x7f", "a␡"},
		{"nul", "a\x00b", "a␀b"},
		{"bidi override", "abc\u202ecba", "abc<U+202E>cba"},
		{"bidi isolate", "\u2066x\u2069", "<U+2066>x<U+2069>"},
		{"zero width space", "pass\u200bword", "pass<U+200B>word"},
		{"joiner in latin", "pass\u200dword", "pass<U+200D>word"},
		{"joiner in emoji", "👩\u200d🔬", "👩\u200d🔬"},
		{"joiner after presentation", "❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥"},
		{"non-joiner in persian", "می\u200cخواهم", "می\u200cخواهم"},
		{"two joiners", "👩\u200d\u200d", "👩\u200d<U+200D>"},
		{"keycap", "1\ufe0f\u20e3", "1\ufe0f\u20e3"},
		{"presentation after latin", "a\ufe0f", "a<U+FE0F>"},
		{"selectors that carry bytes", "a\U000e0101", "a<U+E0101>"},
		{"tags", "a\U000e0041", "a<U+E0041>"},
		{"byte order mark", "\ufeffa", "<U+FEFF>a"},
		{"line separator", "a\u2028b", "a<U+2028>b"},
		{"blank letter", "a\u3164b", "a<U+3164>b"},
		{"soft hyphen", "a\u00adb", "a<U+00AD>b"},
		{"invalid byte", "a\xffb", "a\ufffdb"},
		{"cjk", "日本語", "日本語"},
		{"arabic number sign", "\u0600", "\u0600"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Safe(c.in); got != c.want {
				t.Errorf("Safe(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestLine(t *testing.T) {
	if got := Line("  a\n\tb\x1b  c\n"); got != "a b␛ c" {
		t.Errorf("got %q", got)
	}
}

// acts reports whether a terminal could act on some rune of s.
func acts(s string) bool {
	for _, r := range s {
		if r != '\n' && r != '\t' && (r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069) {
			return true
		}
	}
	return !utf8.ValidString(s)
}

func anyText() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]rune{
		0, 7, 8, '\n', '\r', '\t', 0x1b, 0x7f, 0x85, 0x9b, 0x9d, 0xad, 0x200b, 0x200c, 0x200d,
		0x200e, 0x2028, 0x202e, 0x2066, 0x3164, 0xfe0f, 0xfeff, 0x1f469, 0xe0041, 0xe0101, 'a', '1', '[', 0x645,
	})
	return rapid.StringOf(rapid.OneOf(odd, rapid.Rune()))
}

func TestSafeNeverActs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		got := Safe(s)
		if acts(got) {
			t.Fatalf("Safe(%q) = %q", s, got)
		}
		if again := Safe(got); again != got {
			t.Fatalf("not stable: %q then %q", got, again)
		}
	})
}

func TestPiecesGiveTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(anyText()).Draw(t, "pieces")
		var c Cleaner
		var got strings.Builder
		for _, p := range pieces {
			got.WriteString(c.Clean(p))
		}
		if want := Safe(strings.Join(pieces, "")); got.String() != want {
			t.Fatalf("got %q, want %q", got.String(), want)
		}
	})
}

func TestJSONKeepsTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		b, err := json.Marshal(s)
		if err != nil {
			t.Skip()
		}
		safe := JSON(b)
		var back string
		if err := json.Unmarshal(safe, &back); err != nil || back != s {
			t.Fatalf("%q became %q (%v)", b, safe, err)
		}
		if acts(string(safe)) || bytes.ContainsRune(safe, 0xe0041) {
			t.Fatalf("JSON(%q) = %q", b, safe)
		}
	})
}

func FuzzSafe(f *testing.F) {
	f.Add("a\x1b[2Jb\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		if got := Safe(s); acts(got) {
			t.Fatalf("Safe(%q) = %q", s, got)
		}
	})
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"hello", 5, "hello"}, {"hello", 4, "hel…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"hello", 0, "hello"},
	} {
		if got := Clip(c.in, c.width); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, w := Line(anyText().Draw(t, "s")), rapid.IntRange(1, 40).Draw(t, "w")
		if got := Clip(s, w); Columns(got) > w {
			t.Fatalf("Clip(%q, %d) = %q, %d columns", s, w, got, Columns(got))
		}
	})
}

func TestUnits(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{Bytes(0), "0 B"},
		{Bytes(1023), "1023 B"},
		{Bytes(1536), "1.5 KiB"},
		{Bytes(12 << 20), "12 MiB"},
		{Bytes(1 << 30), "1.0 GiB"},
		{Count(7), "7"},
		{Count(1234), "1,234"},
		{Count(-1234567), "-1,234,567"},
		{Count(-123), "-123"},
		{Span(-5), "0 ms"},
		{Span(35 * time.Millisecond), "35 ms"},
		{Span(2400 * time.Millisecond), "2.4 s"},
		{Span(75 * time.Second), "75 s"},
		{Span(5 * time.Minute), "5 min"},
		{Span(5 * time.Hour), "5 h"},
		{Span(72 * time.Hour), "3 d"},
		{When(now.Add(-time.Hour), now), "11:00"},
		{When(now.Add(-48*time.Hour), now), "3 Mar 12:00"},
		{When(now.AddDate(-1, 0, 0), now), "2025-03-05"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestPlainHasNoColours(t *testing.T) {
	var b bytes.Buffer
	s := Plain(&b)
	if got := s.Dim("a") + s.Bold("b") + s.Good("c") + s.Warn("d") + s.Bad("e") + s.Erase(); got != "abcde" {
		t.Errorf("got %q", got)
	}
	s.Colour = true
	if got := s.Bad("e"); got != "\x1b[31me\x1b[0m" {
		t.Errorf("got %q", got)
	}
}

// TestLooksOnAnyBackground: see the test of the same purpose in tui/chat.
func TestLooksOnAnyBackground(t *testing.T) {
	s := Screen{Colour: true}
	for name, got := range map[string]string{"dim": s.Dim("x"), "bold": s.Bold("x"), "good": s.Good("x"), "warn": s.Warn("x"), "bad": s.Bad("x")} {
		code := strings.TrimSuffix(strings.TrimPrefix(got, "\x1b["), "mx\x1b[0m")
		if !slices.Contains([]string{"1", "2", "31", "32", "34", "35", "36"}, code) {
			t.Errorf("%s is %q", name, got)
		}
	}
}
