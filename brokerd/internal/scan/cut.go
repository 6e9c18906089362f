package scan

import (
	"bytes"
	"slices"
	"sort"
	"strings"
)

// Notes by which tools say that a part of a text is missing: what stands in front
// of them was cut, and what stands behind the second one too. A value that lies
// across such a place is found by what is left of it.
const (
	cutNote  = "\n[cut here: "
	gapNote  = "\n[… "
	gapEnd   = " …]\n"
	pageNote = "\n[lines " // of a file that goes on
	lineEnd  = "…\n"       // a part of a long line
	lineGap  = ": …"
)

// cuts are the places of a raw text at which something is missing behind, and
// those at which something is missing in front.
type cuts struct{ ends, begins []int }

// cutsOf reads the notes. The text itself may have one without a meaning, which
// does no harm.
func cutsOf(text string) (c cuts) {
	for _, note := range []string{cutNote, gapNote, pageNote, lineEnd, lineGap} {
		for from := 0; ; {
			i := strings.Index(text[from:], note)
			if i < 0 {
				break
			}
			c.ends = append(c.ends, from+i)
			from += i + len(note)
			if note == lineGap {
				c.begins = append(c.begins, from)
			}
			if note != gapNote {
				continue
			}
			if j := strings.Index(text[from:], gapEnd); j >= 0 && !strings.Contains(text[from:from+j], "\n") {
				c.begins = append(c.begins, from+j+len(gapEnd))
			}
		}
	}
	slices.Sort(c.ends)
	slices.Sort(c.begins)
	return c
}

// in gives the same places in a view.
func (c cuts) in(v view) cuts {
	if v.at == nil {
		return c
	}
	place := func(raw []int) (out []int) {
		for _, r := range raw {
			out = append(out, sort.Search(len(v.text), func(i int) bool { return v.start(i) >= r }))
		}
		return out
	}
	return cuts{place(c.ends), place(c.begins)}
}

// enough is how much of a pattern's beginning is taken for it where no note says
// that it was cut: more than vendors put in front of all their keys.
func enough(p pattern) int { return min(16, max(window, len(p.text)*3/4)) }

// common is how many bytes both begin with.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// commonEnd is how many bytes both end with.
func commonEnd(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[len(a)-1-i] != b[len(b)-1-i] {
			return i
		}
	}
	return n
}

// resumed adds the ends of patterns that stand behind a gap.
func (x *index) resumed(v view, begins []int, hits []hit) []hit {
	for _, at := range begins {
		best, name := 0, ""
		first := v.text[at:min(at+window, len(v.text))]
		for _, all := range x.by {
			for _, p := range all {
				for from := 1; p.before == nil && len(p.text)-from >= max(len(first), window); from++ {
					i := bytes.Index(p.text[from:], first) // no text can have so many gaps that it takes long
					if i < 0 {
						break
					}
					from += i
					if n := len(p.text) - from; n >= max(window, best) && bytes.HasPrefix(v.text[at:], p.text[from:]) {
						if n > best || p.name < name {
							best, name = n, p.name
						}
						break
					}
				}
			}
		}
		if best > 0 {
			hits = append(hits, hit{v.start(at), v.end(at + best), name})
		}
	}
	return hits
}
