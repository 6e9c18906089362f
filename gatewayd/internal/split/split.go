// Package split makes posts of a model's text.
//
// [Parts] cuts a text into parts of a bounded number of runes. It guarantees that
// nothing is lost or reordered, that no part is longer than the bound, and that
// each part shows alone as it does in the whole: a fence of code that a cut goes
// through is closed before and opened again behind it, with its language (so far
// as the text is from [Harmless]: a line that is cut could become a fence). It cuts
// at the border of a paragraph where it can, then between lines, then words, and
// never within a character as people see it, unless one alone is too long.
//
// [Harmless] makes a text that anybody may have had a part in fit to be posted
// under the bot's name: it names nobody and loads nothing. It does not judge what
// the text says.
package split

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// MinLimit is the smallest bound that [Parts] keeps to.
const MinLimit = 64

// longFence and longInfo bound the mark of a fence and the text behind it, in bytes.
const (
	longFence = 8
	longInfo  = 32
)

// A piece is a part before it is put together.
type piece struct{ open, body, end string }

func (p piece) String() string { return p.open + p.body + p.end }

// Parts cuts a text into parts of at most limit runes each. There is at least one;
// one that would show nothing is left out beside others.
func Parts(text string, limit int) []string {
	var out []string
	for _, p := range cut(text, max(limit, MinLimit)) {
		if strings.TrimSpace(p.body) != "" {
			out = append(out, p.String())
		}
	}
	if out == nil {
		return []string{""}
	}
	return out
}

// Head is the beginning of a text, of at most limit runes, that shows alone.
func Head(text string, limit int) string { return Parts(text, limit)[0] }

// cut gives pieces whose bodies are the text.
func cut(text string, limit int) []piece {
	var out []piece
	var f fence // what is open at the start of rest
	for rest := text; ; {
		p := piece{open: f.opening()}
		n, after := take(rest, limit-utf8.RuneCountInString(p.open), f)
		p.body = rest[:n]
		rest = rest[n:]
		if after.mark != "" {
			p.end = after.ending(p.body)
		}
		out = append(out, p)
		if rest == "" {
			return out
		}
		f = after
	}
}

// take says how many bytes of the text go into a part of that many runes, and
// which fence is open behind them.
func take(text string, limit int, f fence) (int, fence) {
	s := scan{room: limit, fence: f, text: text, ends: map[quality]place{}}
	s.lines()
	if s.whole {
		return len(text), s.fence
	}
	for _, least := range []int{s.room / 2, 1} { // a part that is half empty for a good border is worse than a fair one
		for q := paragraph; q <= word; q++ {
			if p := s.ends[q]; p.at > 0 && p.runes >= least {
				return p.at, p.fence
			}
		}
	}
	return s.last.at, s.last.fence
}

// quality says what a place for a cut is like, the best first.
type quality int

const (
	paragraph quality = iota // between paragraphs, or before or behind code
	line                     // between lines of text
	codeLine                 // between lines of code
	word                     // between words
)

// A place is where a part could end.
type place struct {
	at, runes int
	fence     fence // open there
}

// scan looks through the beginning of a text that fits a part.
type scan struct {
	text  string
	room  int
	fence fence
	ends  map[quality]place // the last of each
	last  place             // the last border of a character
	whole bool              // all of the text fits
}

// fits reports whether a part may end behind that many runes.
func (s *scan) fits(p place) bool {
	return p.runes+utf8.RuneCountInString(p.fence.ending("x")) <= s.room
}

func (s *scan) note(q quality, p place) {
	if s.fits(p) {
		s.ends[q] = p
	}
}

func (s *scan) lines() {
	at, runes := 0, 0
	blank := false // the line before was
	for at < len(s.text) {
		l := s.text[at:]
		if most := utf8.UTFMax * (s.room + 1); len(l) > most {
			l = l[:most] // of a longer line no more is looked at
		}
		if i := strings.IndexByte(l, '\n'); i >= 0 {
			l = l[:i+1]
		}
		inside := s.fence
		after, mark := inside.step(l)
		begins := mark && inside.mark == ""
		if at > 0 && (begins || blank && inside.mark == "" && strings.TrimSpace(l) != "") {
			s.note(paragraph, place{at, runes, inside})
		}
		s.fence = after
		n := utf8.RuneCountInString(l)
		if runes+n > s.room {
			s.within(l, place{at, runes, inside}, mark)
			return
		}
		at, runes = at+len(l), runes+n
		here := place{at, runes, after}
		switch {
		case at == len(s.text):
			s.whole = s.fits(here)
			if !s.whole {
				s.within(l, place{at - len(l), runes - n, inside}, mark)
			}
			return
		case begins: // code without a line of it shows nothing
		case mark:
			s.note(paragraph, here)
		case inside.mark != "":
			s.note(codeLine, here)
		default:
			s.note(line, here)
		}
		s.keep(here)
		blank = strings.TrimSpace(l) == ""
	}
	s.whole = s.fits(place{at, runes, s.fence})
}

func (s *scan) keep(p place) {
	if s.fits(p) {
		s.last = p
	}
}

// within notes the places inside of a line, the last that is looked at. A line that
// opens or closes code is not cut: it always fits a part of its own.
func (s *scan) within(l string, from place, mark bool) {
	if mark && s.last.at > 0 {
		return
	}
	g := graphemes.FromString(l)
	at, runes := from.at, from.runes
	space := false
	for g.Next() {
		v := g.Value()
		p := place{at, runes, from.fence}
		if !s.fits(p) {
			break
		}
		if at > from.at && space && strings.TrimSpace(v) != "" {
			s.note(word, p)
		}
		if at > 0 {
			s.last = p
		}
		space = strings.TrimSpace(v) == ""
		at, runes = at+len(v), runes+utf8.RuneCountInString(v)
	}
	if s.last.at > 0 {
		return
	}
	// One character alone is longer than a part.
	at, runes = 0, 0
	for at < len(s.text) {
		_, n := utf8.DecodeRuneInString(s.text[at:])
		p := place{at + n, runes + 1, from.fence}
		if !s.fits(p) {
			break
		}
		s.last = p
		at, runes = at+n, runes+1
	}
}
