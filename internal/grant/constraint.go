package grant

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// A Constraint bounds one argument of a call. Of an argument that is a list it
// bounds each element; those of First are bounded by it alone.
type Constraint struct {
	Arg      string
	First    []string // the list begins with exactly these
	OneOf    []string // the value is one of them
	Pattern  string   // RE2, of the whole value
	MaxBytes int64    // -1: no bound
	MaxItems int64    // of a list, all elements counted; -1: no bound

	whole, anywhere *regexp.Regexp
}

// Fits reports whether all values are within every bound: what an allowing
// grant asks.
func (c *Constraint) Fits(values []string) bool {
	if c.MaxItems >= 0 && int64(len(values)) > c.MaxItems {
		return false
	}
	if len(values) < len(c.First) || !slices.Equal(values[:len(c.First)], c.First) {
		return false
	}
	for _, v := range values[len(c.First):] {
		if c.OneOf != nil && !slices.Contains(c.OneOf, v) || c.whole != nil && !c.whole.MatchString(v) {
			return false
		}
		if c.MaxBytes >= 0 && int64(len(v)) > c.MaxBytes {
			return false
		}
	}
	return true
}

// Hits reports whether a denying grant means these values: any of them is
// enough, so that a call can't get past a deny by what it adds.
func (c *Constraint) Hits(values []string) bool {
	if len(c.First) > 0 && (len(values) < len(c.First) || !slices.Equal(values[:len(c.First)], c.First)) {
		return false
	}
	if c.OneOf == nil && c.anywhere == nil {
		return true
	}
	return slices.ContainsFunc(values[len(c.First):], func(v string) bool {
		return (c.OneOf == nil || slices.Contains(c.OneOf, v)) && (c.anywhere == nil || c.anywhere.MatchString(v))
	})
}

// maxPattern bounds a pattern. RE2 runs in linear time, but its program grows
// with its repetitions.
const maxPattern = 1000

// compile makes the regular expressions. A pattern speaks of the whole value:
// it is put between \A and \z, never ^ and $, which (?m) would let match at any
// line break. It is parsed by itself first and printed again, so that no
// parenthesis, | or \Q in it reaches over those ends.
//
// In an allowing grant "." does not match a line break, in a denying one it
// does: in both the call that adds one gets less.
func (c *Constraint) compile() error {
	if c.Pattern == "" {
		return nil
	}
	if len(c.Pattern) > maxPattern {
		return fmt.Errorf("the pattern has more than %d characters", maxPattern)
	}
	var err error
	if c.whole, err = anchored(c.Pattern, syntax.Perl); err != nil {
		return err
	}
	c.anywhere, err = anchored(c.Pattern, syntax.Perl|syntax.DotNL)
	return err
}

func anchored(pattern string, flags syntax.Flags) (*regexp.Regexp, error) {
	re, err := syntax.Parse(pattern, flags)
	if err != nil {
		var bad *syntax.Error
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("the pattern is no regular expression (RE2): %s: %s", bad.Code, strings.ToValidUTF8(bad.Expr, "�"))
		}
		return nil, errors.New("the pattern is no regular expression (RE2)")
	}
	return regexp.Compile(`\A(?:` + re.String() + `)\z`)
}
