// Package scan takes the values of secrets out of what tools give back.
//
// It guarantees that a value which stands in a text as it is, or in one of the
// common encodings, is replaced by "[secret NAME]": base64 of both alphabets at
// every alignment, hex of either case, percent and JSON escapes, references of
// HTML, reversed, and all of these with white space put in by wrapping; a value
// that is cut at the end of the text too, or where a tool says that it left
// something out, and elsewhere by its first 16 bytes or its last. Values over 64
// bytes are found in pieces of 32, so that a part of a long key is found as well.
//
// It is a net for accidents and simple tricks. A tool that holds a value and is
// in an attacker's hands can encode it in ways that nobody looks for; a grant
// that injects the secret never gives it to a tool at all.
package scan

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"boxmaker/internal/secret"
)

const (
	window = secret.MinValue // bytes that lead to the candidates
	whole  = 64              // up to here a value is searched for as a whole
	piece  = 32
)

// A pattern is bytes to be found in one kind of view.
type pattern struct {
	name        string
	text        []byte
	left, right bool   // the neighbour carries some bits of the value (base64)
	before      []byte // of an end that is looked for by itself: what stands in front of it in the whole
}

// An index finds patterns by their first bytes. bits is a filter in front of
// the map: most places of a text lead nowhere.
type index struct {
	bits [1 << 10]uint64
	by   map[uint64][]pattern // the longest first
}

// A Scanner knows the values. It is not changed after New.
type Scanner struct {
	plain  index // values and their mirror images
	packed index // of text without white space: values, base64
	hex    index // of lower-case text without white space
	empty  bool
}

// New makes a scanner. Values shorter than [secret.MinValue] are left out.
func New(all []secret.Named) *Scanner {
	s := &Scanner{empty: true}
	for _, n := range all {
		v := []byte(n.Value.Reveal())
		if len(v) < secret.MinValue {
			continue
		}
		s.empty = false
		for _, p := range pieces(v) {
			s.add(n.Name, p)
		}
	}
	return s
}

// pieces gives what is searched for of a value.
func pieces(v []byte) [][]byte {
	if len(v) <= whole {
		return [][]byte{v}
	}
	var out [][]byte
	for at := 0; at < len(v); at += piece {
		at = min(at, len(v)-piece)
		// A line of dashes stands in every key file, and in honest text.
		if p := v[at : at+piece]; len(bytes.Trim(p, string(p[:1]))) > 0 {
			out = append(out, p)
		}
	}
	if out == nil {
		out = [][]byte{v[:whole]}
	}
	return out
}

func (s *Scanner) add(name string, v []byte) {
	mirror := slices.Clone(v)
	slices.Reverse(mirror)
	for _, p := range [][]byte{v, mirror} {
		s.plain.add(pattern{name: name, text: p})
	}
	if b := bytes.ReplaceAll(v, []byte(" "), []byte("+")); !bytes.Equal(b, v) { // in a form
		s.plain.add(pattern{name: name, text: b})
	}
	if b := pack(plainView(v)).text; len(b) >= window {
		s.packed.add(pattern{name: name, text: b})
	}
	for before := range 3 {
		enc := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), v...))
		from, to := (before*8+5)/6, (before+len(v))*8/6
		s.packed.add(pattern{name: name, text: []byte(enc[from:to]), left: before > 0, right: (before+len(v))*8%6 != 0})
	}
	s.hex.add(pattern{name: name, text: []byte(hex.EncodeToString(v))})
}

// add adds a pattern, and its end by itself: whoever reads a file chooses where a
// result begins.
func (x *index) add(p pattern) {
	x.put(p)
	if n := len(p.text) - enough(p); n > 0 {
		p.before, p.text = p.text[:n], p.text[n:]
		x.put(p)
	}
}

func (x *index) put(p pattern) {
	if x.by == nil {
		x.by = map[uint64][]pattern{}
	}
	k := keyOf(p.text)
	x.bits[slot(k)>>6] |= 1 << (slot(k) & 63)
	x.by[k] = append(x.by[k], p)
	slices.SortStableFunc(x.by[k], func(a, b pattern) int { return len(b.text) - len(a.text) })
}

func keyOf(b []byte) (k uint64) {
	for _, c := range b[:window] {
		k = k<<8 | uint64(c)
	}
	return k
}

// slot spreads keys over the filter's bits.
func slot(k uint64) uint64 { return k * 0x9e3779b97f4a7c15 >> 48 }

// A hit is a place in the raw text.
type hit struct {
	from, to int
	name     string
}

// find adds the places where patterns stand in a view. The end of the view may
// cut a pattern off, and what c says.
func (x *index) find(v view, places cuts, hits []hit) []hit {
	places = places.in(v)
	hits = x.resumed(v, places.begins, hits)
	ends := places.ends
	var k uint64
	for i, c := range v.text {
		k = (k<<8 | uint64(c)) & (1<<(8*window) - 1)
		at := i + 1 - window
		if at < 0 || x.bits[slot(k)>>6]>>(slot(k)&63)&1 == 0 {
			continue
		}
		for len(ends) > 0 && ends[0] <= at {
			ends = ends[1:]
		}
		end := len(v.text)
		if len(ends) > 0 {
			end = ends[0]
		}
		if p, to, ok := match(x.by[k], v.text, at, end); ok {
			p.right = p.right && to < end // what cut it is no neighbour
			from, to := p.widen(v.text, at-commonEnd(v.text[:at], p.before), to)
			hits = append(hits, hit{v.start(from), v.end(to), p.name})
		}
	}
	return hits
}

// match gives the longest pattern that stands at a place, and where it ends; only
// if there is none, one that the text's end cuts off, or of which enough is there.
func match(all []pattern, text []byte, at, end int) (pattern, int, bool) {
	for _, p := range all {
		if bytes.HasPrefix(text[at:], p.text) {
			return p, at + len(p.text), true
		}
	}
	for _, p := range all {
		if end-at >= window && bytes.HasPrefix(p.text, text[at:end]) {
			return p, end, true
		}
	}
	var best pattern
	most := 0
	for _, p := range all {
		if n := common(text[at:], p.text); p.before == nil && n >= enough(p) && n > most {
			best, most = p, n
		}
	}
	return best, at + most, most > 0
}

// widen takes in the neighbours of a base64 pattern that carry some of its bits,
// and its padding.
func (p pattern) widen(text []byte, from, to int) (int, int) {
	if p.left && from > 0 {
		from--
	}
	if p.right && to < len(text) && text[to] != '=' {
		to++
	}
	for (p.left || p.right) && to < len(text) && text[to] == '=' {
		to++
	}
	return from, to
}

// Clean gives the text without the values, and the names of those that were in it.
func (s *Scanner) Clean(text string) (clean string, names []string) {
	if s.empty || len(text) < window {
		return text, nil
	}
	var hits []hit
	cut := cutsOf(text)
	for _, v := range views(plainView([]byte(text))) {
		hits = s.plain.find(v, cut, hits)
		packed := pack(v)
		hits = s.packed.find(packed, cut, hits)
		for i, c := range packed.text {
			if c >= 'A' && c <= 'Z' {
				packed.text[i] = c + 'a' - 'A'
			}
		}
		hits = s.hex.find(packed, cut, hits)
	}
	return replace(text, hits)
}

// replace puts names in the places of hits. What overlaps is one place.
func replace(text string, hits []hit) (string, []string) {
	if len(hits) == 0 {
		return text, nil
	}
	slices.SortFunc(hits, func(a, b hit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	var out strings.Builder
	var names []string
	done := 0
	for i := 0; i < len(hits); {
		h := hits[i]
		longest := h.to - h.from
		for i++; i < len(hits) && (hits[i].from < h.to || hits[i].from == h.to && hits[i].name == h.name); i++ {
			if n := hits[i].to - hits[i].from; n > longest {
				longest, h.name = n, hits[i].name
			}
			h.to = max(h.to, hits[i].to)
		}
		out.WriteString(text[done:h.from])
		out.WriteString("[secret " + h.name + "]")
		done = h.to
		if !slices.Contains(names, h.name) {
			names = append(names, h.name)
		}
	}
	out.WriteString(text[done:])
	slices.Sort(names)
	// A value may begin or end inside a rune.
	return strings.ToValidUTF8(out.String(), "\uFFFD"), names
}

// A Cache keeps the scanner of a list until the list changes. The zero value is
// ready; it may be used from several goroutines.
type Cache struct {
	mu   sync.Mutex // guards what follows
	all  []secret.Named
	last *Scanner
}

// For gives the scanner for a list as [secret.Store.All] gives it.
func (c *Cache) For(all []secret.Named) *Scanner {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || !slices.Equal(c.all, all) {
		c.all, c.last = slices.Clone(all), New(all)
	}
	return c.last
}
