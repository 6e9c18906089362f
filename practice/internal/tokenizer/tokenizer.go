// Package tokenizer cuts text into tokens for counting and for the prefix
// cache. It is deterministic and has no vocabulary file: a token's number is
// made from the bytes of its piece, so that every token can be turned back.
//
// A piece is a control token of the template; or one line feed; or an optional
// space with a run of letters and digits, of punctuation, or of blanks, of at
// most six bytes. Runes are never cut. Text is read from left to right and a
// piece depends on nothing behind it but the bytes that it could still take in:
// if a is a prefix of b then all tokens of a but the last few bytes' worth are
// the first tokens of b. In particular, text that ends with a line feed or a
// control token can be cut there: Encode(a+b) = Encode(a) + Encode(b).
//
// The numbers go up to 2^49: they fit a JSON number and a 64-bit integer, and
// not the 32 bits of a real vocabulary.
package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Token is one token's number, 0 or more.
type Token int64

// maxPiece is the longest piece in bytes, control tokens aside.
const maxPiece = 6

// base is the first number that is no control token.
const base = 64

// Vocabulary is the number of tokens: the control tokens' numbers and one for
// every string of one to six bytes.
const Vocabulary = base + 256 + 256*256 + 1<<24 + 1<<32 + 1<<40 + 1<<48

// A Tokenizer holds the control tokens and nothing else. It never changes.
type Tokenizer struct {
	specials []string
}

// New makes a tokenizer with these control tokens (at most 64), each beginning
// with '<'.
func New(specials []string) *Tokenizer { return &Tokenizer{specials: specials} }

// Encode cuts text, control tokens whole.
func (z *Tokenizer) Encode(text string) []Token { return z.encode(text, true) }

// EncodePlain cuts text without the control tokens of the form <|…|>; the
// others, as on the real server, are whole even so (parse_special: false).
func (z *Tokenizer) EncodePlain(text string) []Token { return z.encode(text, false) }

func (z *Tokenizer) encode(text string, special bool) []Token {
	out := make([]Token, 0, len(text)/4+4)
	for len(text) > 0 {
		if id, n := z.special(text, special); n > 0 {
			out = append(out, id)
			text = text[n:]
			continue
		}
		n := z.piece(text, special)
		out = append(out, number(text[:n]))
		text = text[n:]
	}
	return out
}

// Piece gives a token's text, "" for a number that no text has.
func (z *Tokenizer) Piece(t Token) string {
	if t >= 0 && t < base {
		if int(t) < len(z.specials) {
			return z.specials[t]
		}
		return ""
	}
	if t < 0 {
		return ""
	}
	var buf [maxPiece]byte
	i, rest := maxPiece, int64(t)-base+1
	for ; rest > 0 && i > 0; rest /= 256 {
		rest--
		i--
		buf[i] = byte(rest % 256)
	}
	if rest > 0 {
		return ""
	}
	return string(buf[i:])
}

// Decode joins the pieces.
func (z *Tokenizer) Decode(ts []Token) string {
	var b strings.Builder
	for _, t := range ts {
		b.WriteString(z.Piece(t))
	}
	return b.String()
}

func (z *Tokenizer) special(text string, control bool) (Token, int) {
	if text[0] != '<' || !control && strings.HasPrefix(text, "<|") {
		return 0, 0
	}
	for i, s := range z.specials {
		if strings.HasPrefix(text, s) {
			return Token(i), len(s)
		}
	}
	return 0, 0
}

// number is the bijective base-256 value of a piece.
func number(piece string) Token {
	var n int64
	for _, c := range []byte(piece) {
		n = n*256 + int64(c) + 1
	}
	return Token(n - 1 + base)
}

type class int

const (
	word class = iota
	mark
	space
	newline
	broken // a byte that is no UTF-8
)

func classify(text string) (class, int) {
	switch c := text[0]; {
	case c == '\n':
		return newline, 1
	case c == ' ' || c == '\t' || c == '\r':
		return space, 1
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return word, 1
	case c < utf8.RuneSelf:
		return mark, 1
	}
	r, n := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && n <= 1:
		return broken, 1
	case unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r):
		return word, n
	default:
		return mark, n
	}
}

// piece is the length of the next piece that is no control token.
func (z *Tokenizer) piece(text string, special bool) int {
	c, n := classify(text)
	if c == newline || c == broken {
		return n
	}
	at := n
	if text[0] == ' ' && len(text) > 1 {
		if next, m := classify(text[1:]); (next == word || next == mark) && !z.starts(text[1:], special) {
			c, at = next, 1+m
		}
	}
	for at < len(text) && at < maxPiece {
		next, m := classify(text[at:])
		if next != c || at+m > maxPiece || z.starts(text[at:], special) {
			break
		}
		if c == space && at+1 < len(text) && text[at] == ' ' {
			if after, _ := classify(text[at+1:]); after == word || after == mark {
				break // the last blank goes with the word behind it
			}
		}
		at += m
	}
	return at
}

func (z *Tokenizer) starts(text string, special bool) bool {
	_, n := z.special(text, special)
	return n > 0
}
