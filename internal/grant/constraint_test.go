package grant

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func constrained(t interface{ Fatal(...any) }, pattern string) *Constraint {
	c := &Constraint{Arg: "x", Pattern: pattern, MaxBytes: -1, MaxItems: -1}
	if err := c.compile(); err != nil {
		t.Fatal(err)
	}
	return c
}

// A pattern is about the whole value, whatever is in the one or the other.
func TestPatternAnchors(t *testing.T) {
	for _, tc := range []struct {
		name, pattern, value string
		fits, hits           bool
	}{
		{"whole", "ls", "ls", true, true},
		{"more behind", "ls", "ls -l", false, false},
		{"more before", "ls", " ls", false, false},
		{"line break behind", "ls", "ls\n", false, false},
		{"second line", "ls", "ls\nrm", false, false},
		{"first line", "ls", "rm\nls", false, false},
		{"own anchors", "^ls$", "ls", true, true},
		{"own anchors and a line", "^ls$", "ls\nrm", false, false},
		{"multi-line flag", "(?m)^ls$", "ls\nrm", false, false},
		{"multi-line flag, line before", "(?m)^ls$", "rm\nls", false, false},
		{"multi-line flag inside", "(?m:^ls$)", "ls\nrm", false, false},
		{"alternation, left", "a|b", "a", true, true},
		{"alternation, left open", "a|b", "ax", false, false},
		{"alternation, right open", "a|b", "xb", false, false},
		{"empty branch", "a|", "x", false, false},
		{"dot and a line break", "ls.*", "ls\nrm", false, true},
		{"dot and a carriage return", "ls.*", "ls\rrm", true, true},
		{"dot that takes lines", "(?s)ls.*", "ls\nrm", true, true},
		{"dot that does not, in a deny", "(?-s)ls.*", "ls\nrm", false, false},
		{"any case", "(?i)get", "GET", true, true},
		{"flag ends with the pattern", "(?i)a", "A\n", false, false},
		{"open quote", `\Qa.b`, "a.b", true, true},
		{"open quote takes our end", `\Qa.b`, `a.b)\z`, false, false},
		{"open quote with our end in it", `\Qa`, "a)", false, false},
		{"lazy", "a.*?", "abc", true, true},
		{"swapped greed", "(?U)a.*", "abc", true, true},
		{"negated class takes a line break", "[^;]*", "a\nb", true, true}, // as the owner wrote it
		{"class of spaces", `a\s*`, "a\n", true, true},
		{"end of text", `a\z|b`, "ab", false, false},
		{"invalid UTF-8", "a.", "a\xff", true, true},
		{"nothing", "a*", "", true, true},
		{"word boundary", `\bls\b`, "ls;rm", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := constrained(t, tc.pattern)
			if got := c.Fits([]string{tc.value}); got != tc.fits {
				t.Errorf("fits: %v", got)
			}
			if got := c.Hits([]string{tc.value}); got != tc.hits {
				t.Errorf("hits: %v", got)
			}
		})
	}
}

// The same by another way: of all matches at the first place, the longest is
// the whole value. Flags, lines and alternations of every kind go through both.
func TestPatternsAreWholeProperty(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"a", "b", ".", ".*", "|", "\n", `\n`, "^", "$", "(?m)", "(?s)", "(?i)", "(?U)", "(?-s)", "(a|b)", "(?:a|)", "[^a]", `\Q`, `\E`, `\A`, `\z`, "+", "?", "{2}", ")", "(",
	})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(t, "pattern"), "")
		value := rapid.StringOfN(rapid.SampledFrom([]rune("abA\n)|z\\")), 0, 8, -1).Draw(t, "value")
		plain, err := regexp.Compile(pattern)
		c := &Constraint{Arg: "x", Pattern: pattern, MaxBytes: -1, MaxItems: -1}
		if (c.compile() == nil) != (err == nil) {
			t.Fatalf("%q: one of the two takes it: %v", pattern, err)
		}
		if err != nil {
			return
		}
		plain.Longest()
		at := plain.FindStringIndex(value)
		whole := at != nil && at[0] == 0 && at[1] == len(value)
		if got := c.Fits([]string{value}); got != whole {
			t.Fatalf("%q on %q: fits %v, want %v", pattern, value, got, whole)
		}
		if whole && !c.Hits([]string{value}) {
			t.Fatalf("%q on %q: allowed and not denied", pattern, value)
		}
	})
}

// No value with a line break fits a pattern that has no way to say one.
func TestNewlinesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`(\(\?[mi]\))?[a-c.|*$^]{0,10}[a-c]`).Draw(t, "pattern")
		value := rapid.StringOf(rapid.SampledFrom([]rune("abc\n"))).Draw(t, "value")
		c := &Constraint{Arg: "x", Pattern: pattern, MaxBytes: -1, MaxItems: -1}
		if c.compile() == nil && strings.Contains(value, "\n") && c.Fits([]string{value}) {
			t.Fatalf("%q fits %q", pattern, value)
		}
	})
}

func TestConstraintBounds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		c      Constraint
		values []string
		fits   bool
	}{
		{"absent", Constraint{OneOf: []string{"a"}, MaxBytes: -1, MaxItems: -1}, nil, true},
		{"absent first", Constraint{First: []string{"a"}, MaxBytes: -1, MaxItems: -1}, nil, false},
		{"one of", Constraint{OneOf: []string{"a", "b"}, MaxBytes: -1, MaxItems: -1}, []string{"b"}, true},
		{"each is one of", Constraint{OneOf: []string{"a", "b"}, MaxBytes: -1, MaxItems: -1}, []string{"b", "c"}, false},
		{"bytes", Constraint{MaxBytes: 3, MaxItems: -1}, []string{"abc"}, true},
		{"more bytes", Constraint{MaxBytes: 3, MaxItems: -1}, []string{"äb", "äöü"}, false},
		{"first", Constraint{First: []string{"a", "b"}, OneOf: []string{"c"}, MaxBytes: -1, MaxItems: -1}, []string{"a", "b", "c"}, true},
		{"first alone", Constraint{First: []string{"a", "b"}, OneOf: []string{"c"}, MaxBytes: -1, MaxItems: -1}, []string{"a", "b"}, true},
		{"first cut", Constraint{First: []string{"a", "b"}, MaxBytes: -1, MaxItems: -1}, []string{"a"}, false},
		{"first longer", Constraint{First: []string{"a"}, MaxBytes: -1, MaxItems: -1}, []string{"ab"}, false},
		{"items", Constraint{MaxBytes: -1, MaxItems: 2}, []string{"a", "b", "c"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.c.Fits(tc.values); got != tc.fits {
				t.Errorf("fits: %v", got)
			}
		})
	}
}
