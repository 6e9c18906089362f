package tooltext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		bad            bool
	}{
		{"nothing", "", "", false},
		{"plain", "a\té\x1b\n", "a\té\x1b\n", false},
		{"Latin-1", "caf\xe9", `caf\xE9`, true},
		{"NUL", "a\x00b", `a\x00b`, true},
		{"a cut character", "a\xe2\x82", `a\xE2\x82`, true},
		{"surrogate", "\xed\xa0\x80", `\xED\xA0\x80`, true},
		{"the replacement character itself", "\ufffd", "\ufffd", false},
	} {
		if got, bad := Clean([]byte(tt.in)); got != tt.want || bad != tt.bad {
			t.Errorf("%s: %q, %v", tt.name, got, bad)
		}
	}
}

func TestName(t *testing.T) {
	visible := func(r rune) bool { return r >= ' ' && r != 0x200b }
	for _, tt := range []struct {
		in, want string
		ok       bool
	}{
		{"a b.md", "a b.md", true},
		{"é", "é", true},
		{"a\nb", `"a\nb"`, false},
		{"a\u200bb", `"a\u200bb"`, false},
		{"\xff", `"\xff"`, false},
		{`"a"`, `"\"a\""`, false},
		{"", `""`, false},
	} {
		if got, ok := Name(tt.in, visible); got != tt.want || ok != tt.ok {
			t.Errorf("%q: %s, %v", tt.in, got, ok)
		}
	}
}

// TestCost: never less than the text takes in a document.
func TestCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		b, err := jsontext.AppendQuote(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(max(2*len(s), len(b)-2)); Cost(s) != want {
			t.Fatalf("%q costs %d, want %d", s, Cost(s), want)
		}
	})
}

// TestNeverLonger: whatever is added, in whatever order, the page keeps its limit.
func TestNeverLonger(t *testing.T) {
	check := func(t *rapid.T, s string, limit int64) {
		b, err := json.Marshal(s)
		if err != nil || !utf8.ValidString(s) {
			t.Fatalf("%q: %v", s, err)
		}
		if int64(len(s)) > limit || Cost(s) > 2*limit {
			t.Fatalf("%d bytes (%d as JSON), limit %d", len(s), len(b), limit)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 200).Draw(t, "limit")
		p := NewPage(limit)
		for _, s := range rapid.SliceOf(rapid.String()).Draw(t, "texts") {
			if p.Fits(s, 0) != (p.Add(s) == len(s)) {
				t.Fatalf("Fits and Add disagree on %q", s)
			}
			p.Line(s)
		}
		check(t, p.String(), limit)
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
		fit, gone := Fit(string(raw), limit)
		check(t, fit, limit)
		if clean, _ := Clean(raw); (gone == 0) != (fit == clean) {
			t.Fatalf("%q became %q, %d gone", clean, fit, gone)
		}
		s := rapid.String().Draw(t, "s")
		if h := Head(s, limit); !strings.HasPrefix(s, h) {
			t.Fatalf("%q is no beginning of %q", h, s)
		} else {
			check(t, h, limit)
		}
		if e := Tail(s, limit); !strings.HasSuffix(s, e) {
			t.Fatalf("%q is no end of %q", e, s)
		} else {
			check(t, e, limit)
		}
	})
}
