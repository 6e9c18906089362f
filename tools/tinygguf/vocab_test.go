package main

import (
	"slices"
	"strings"
	"testing"
)

func TestVocabMerges(t *testing.T) {
	v := newVocab("a scripted text")
	if n := len(v.merges); n < 300 || n > 1000 {
		t.Errorf("%d merges", n)
	}
	for i, m := range v.merges {
		a, b, ok := strings.Cut(m, " ")
		if !ok {
			t.Fatalf("merge %d %q is not a pair", i, m)
		}
		for _, s := range []string{a, b, a + b} {
			if _, ok := v.id[s]; !ok {
				t.Errorf("merge %d %q: %q is no token", i, m, s)
			}
		}
	}
	for i, s := range v.tokens {
		if v.id[s] != i {
			t.Errorf("token %d %q is also token %d", i, s, v.id[s])
		}
	}
	if n := len(v.types); n != len(v.tokens) {
		t.Errorf("%d types for %d tokens", n, len(v.tokens))
	}
}

func TestVocabEncode(t *testing.T) {
	v := newVocab()
	tests := []struct{ name, text, want string }{
		{"line end", "\n", newline},
		{"blank line", "\n\n", gap},
		{"full stop and line end", ".\n", stop},
		{"full stop and blank line", ".\n\n", ".Ċ Ċ"},
		{"word", "kettle", "kettle"},
		{"word with a space", " kettle", "Ġkettle"},
		{"not in the corpus", "Qq", "Q q"},
		{"bytes of a rune", "ü", "Ã ¼"},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(v.encode(tt.text), " "); got != tt.want {
				t.Errorf("encode(%q) = %s, want %s", tt.text, got, tt.want)
			}
		})
	}
}

func TestVocabWords(t *testing.T) {
	v := newVocab()
	words := v.words()
	if len(words) < 80 {
		t.Errorf("only %d whole words", len(words))
	}
	if !slices.IsSorted(words) {
		t.Error("words are not sorted, so their roles depend on chance")
	}
	seen := map[int]string{}
	for _, w := range words {
		for _, space := range []bool{false, true} {
			id := v.word(w, space)
			if other, ok := seen[id]; ok {
				t.Errorf("%q and %q are the same token", w, other)
			}
			seen[id] = w
			if got := strings.TrimPrefix(v.tokens[id], "Ġ"); got != w {
				t.Errorf("token of %q is spelled %q", w, got)
			}
		}
	}
}

func TestByteRunes(t *testing.T) {
	seen := map[rune]int{}
	for b, r := range byteRunes() {
		if other, ok := seen[r]; ok {
			t.Errorf("bytes %#x and %#x share rune %q", b, other, r)
		}
		seen[r] = b
	}
}
