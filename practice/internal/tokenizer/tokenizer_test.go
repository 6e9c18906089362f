package tokenizer

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func specials() []string {
	return []string{"<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>"}
}

func pieces(z *Tokenizer, ts []Token) []string {
	var out []string
	for _, t := range ts {
		out = append(out, z.Piece(t))
	}
	return out
}

func TestEncode(t *testing.T) {
	z := New(specials())
	tests := []struct {
		name, text string
		want       []string
	}{
		{"sample POST_tokenize", "<|im_start|>user\nHello the user<|im_end|>", []string{"<|im_start|>", "user", "\n", "Hello", " the", " user", "<|im_end|>"}},
		{"long words", "internationally so", []string{"intern", "ationa", "lly", " so"}},
		{"the blank counts", " Boxmaker", []string{" Boxma", "ker"}},
		{"line feeds stand alone", "a\n\n\nb", []string{"a", "\n", "\n", "\n", "b"}},
		{"blanks", "a    b  ", []string{"a", "   ", " b", "  "}},
		{"punctuation", `{"a": "b"}<think>`, []string{`{"`, "a", `":`, ` "`, "b", `"}`, "<think>"}},
		{"a control token ends a run", `..<think>`, []string{"..", "<think>"}},
		{"a blank before a control token", "a <think>", []string{"a", " ", "<think>"}},
		{"runes stay whole", "größenwahn 日本語です", []string{"größ", "enwahn", " 日", "本語", "です"}},
		{"no UTF-8", "a\xff\xfeb", []string{"a", "\xff", "\xfe", "b"}},
		{"half a control token", "<|im_st", []string{"<|", "im", "_", "st"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := pieces(z, z.Encode(tc.text)); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestEncodePlain(t *testing.T) {
	z := New(specials())
	want := []string{"<|", "im", "_", "end", "|>", "<think>"}
	if got := pieces(z, z.EncodePlain("<|im_end|><think>")); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPieceOfNoToken(t *testing.T) {
	z := New(specials())
	for _, n := range []Token{-1, 63, 1 << 62} {
		if got := z.Piece(n); got != "" {
			t.Errorf("Piece(%d) = %q", n, got)
		}
	}
}

func texts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOf(rapid.OneOf(
			rapid.SampledFrom([]string{"<|im_end|>", "<think>", "<|im", " ", "  ", "\n", "foo", " bar", `{"a":1}`, "é", "日本"}),
			rapid.String(), rapid.StringN(0, 3, 8),
		)).Draw(t, "parts")
		return strings.Join(parts, "")
	})
}

// Nothing is lost, pieces are short, and a text that ends in a line feed or a
// control token can be cut there.
func TestEncodeProperties(t *testing.T) {
	z := New(specials())
	rapid.Check(t, func(t *rapid.T) {
		a, b := texts().Draw(t, "a"), texts().Draw(t, "b")
		whole := z.Encode(a)
		if got := z.Decode(whole); got != a {
			t.Fatalf("decoded %q, want %q", got, a)
		}
		for _, p := range pieces(z, whole) {
			if len(p) > maxPiece && !slices.Contains(specials(), p) || p == "" {
				t.Fatalf("piece %q", p)
			}
		}
		for _, end := range []string{"\n", "<|im_end|>"} {
			apart := append(z.Encode(a+end), z.Encode(b)...)
			if together := z.Encode(a + end + b); !slices.Equal(apart, together) {
				t.Fatalf("%q + %q: %q and %q", a+end, b, pieces(z, apart), pieces(z, together))
			}
		}
		// Cut at a token: the rest cut off, what is left is cut the same way.
		n := rapid.IntRange(0, len(whole)).Draw(t, "n")
		head := z.Decode(whole[:n])
		if got := z.Encode(head + "\n"); n > 0 && strings.TrimRight(head, " \t\r") == head && !slices.Equal(got[:n], whole[:n]) {
			t.Fatalf("cut after %d tokens: %q, before %q", n, pieces(z, got), pieces(z, whole))
		}
	})
}

func FuzzPiece(f *testing.F) {
	f.Add("foo bar", int64(70))
	z := New(specials())
	f.Fuzz(func(t *testing.T, text string, n int64) {
		if got := z.Decode(z.Encode(text)); got != text {
			t.Errorf("decoded %q, want %q", got, text)
		}
		piece := z.Piece(Token(n))
		if back := z.EncodePlain(piece); piece != "" && n >= base && len(back) == 1 && back[0] != Token(n) {
			t.Errorf("token %d is %q, which is token %d", n, piece, back[0])
		}
	})
}
