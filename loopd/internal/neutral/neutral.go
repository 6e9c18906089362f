// Package neutral makes control tokens of chat templates inert.
//
// llama-server turns text such as <|im_end|> in a message into the real control
// token: a web page could end its own turn and speak as the system. So every
// text that the model did not write itself goes through [Neutraliser.Text]
// before it enters the log. What a reader sees:
//
//	<|im_start|>system   becomes  ‹|im_start|›system    (U+2039, U+203A)
//	[INST]               becomes  ⟦INST⟧                (U+27E6, U+27E7)
//	a token without < > [ ] gets a · (U+00B7) after its first letter
//	control characters   become   their pictures: ␀ ␛ ␡ (U+2400 and on)
//	CR LF                becomes  LF; a lone CR becomes ␍; tab and LF stay
//	C1 control characters and bytes that are not UTF-8 become U+FFFD
//
// The package guarantees that the result is valid UTF-8 and holds no token of
// the forms below, however they were nested or joined; that a second pass
// changes nothing; and that a text without them is returned as it is. It does
// not judge what the text says: a plain sentence can still mislead a model.
//
// Tokens are:
//
//	<|…|> with 1 to 64 characters (no <, >, | or line break), also with the
//	full-width bar ｜, and the half forms <|name> and <name|>
//	<name>, </name>, <name …>, <name=…> for the names in names.go, in any case
//	[NAME], [/NAME] for the names in names.go, and [|name|]
//	<__…__>, the server's media marks
//	what the served template writes and the owner's config lists, literally
package neutral

import (
	"strings"
	"unicode/utf8"
)

// maxBody is the longest text between a token's ends, in characters.
const maxBody = 64

// A Neutraliser knows the tokens. It is safe for use by several goroutines.
type Neutraliser struct {
	markup   map[string]bool // names that may have attributes, lower case
	exact    map[string]bool // names that stand alone, lower case
	numbered map[string]bool // names followed by digits, lower case
	square   map[string]bool // what stands between [ and ], case kept
	literals [256][]string   // by first byte, longest first
	first    [256]bool       // bytes that a token can begin with
}

// New makes a Neutraliser for the fixed forms, the tokens that the chat template
// writes, and extra ones from the owner's config. Extra tokens of less than two
// characters, or that hold one of the replacement characters, are left out.
func New(extra []string, template string) *Neutraliser {
	t := &Neutraliser{
		markup: set(markupNames), exact: set(exactNames), numbered: set(numberedNames), square: set(squareNames),
	}
	t.first['<'], t.first['['] = true, true
	for _, l := range literals(append(fromTemplate(template), extra...)) {
		t.first[l[0]] = true
		t.literals[l[0]] = append(t.literals[l[0]], l)
	}
	return t
}

// Text returns s with every token made inert, and how many there were. Control
// characters and bytes that are not UTF-8 are replaced too, and not counted.
// A clean text comes back without any allocation.
func (t *Neutraliser) Text(s string) (out string, n int) {
	s = plain(s)
	// Making a token inert can complete one around it, as in <|a<think>b|>. Each
	// round takes the brackets of an inner one, and a token has at most maxBody
	// characters inside, so the rounds are few.
	for {
		next, found := t.pass(s)
		if found == 0 {
			return s, n
		}
		s, n = next, n+found
	}
}

// pass makes inert what it finds in one walk from left to right.
func (t *Neutraliser) pass(s string) (string, int) {
	var b strings.Builder
	done, found := 0, 0
	for i := 0; i < len(s); {
		if !t.first[s[i]] {
			i++
			continue
		}
		size := t.token(s[i:])
		if size == 0 {
			i++
			continue
		}
		if found == 0 {
			b.Grow(len(s) + 64)
		}
		b.WriteString(s[done:i])
		writeInert(&b, s[i:i+size])
		i += size
		done, found = i, found+1
	}
	if found == 0 {
		return s, 0
	}
	b.WriteString(s[done:])
	return b.String(), found
}

// token returns the length of the token that s begins with, or 0.
func (t *Neutraliser) token(s string) int {
	for _, l := range t.literals[s[0]] {
		if strings.HasPrefix(s, l) {
			return len(l)
		}
	}
	switch s[0] {
	case '<':
		if n := barred(s, '>'); n > 0 {
			return n
		}
		return t.tag(s)
	case '[':
		if n := barred(s, ']'); n > 0 {
			return n
		}
		return t.squared(s)
	default:
		return 0
	}
}

// writeInert writes a token so that no tokenizer takes it for one.
func writeInert(b *strings.Builder, token string) {
	if !strings.ContainsAny(token, "<>[]") {
		_, n := utf8.DecodeRuneInString(token)
		b.WriteString(token[:n] + "·" + token[n:])
		return
	}
	for i := range len(token) {
		switch token[i] {
		case '<':
			b.WriteString("‹")
		case '>':
			b.WriteString("›")
		case '[':
			b.WriteString("⟦")
		case ']':
			b.WriteString("⟧")
		default:
			b.WriteByte(token[i])
		}
	}
}

// plain replaces control characters and what is not UTF-8.
func plain(s string) string {
	at := firstOdd(s)
	if at < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 64)
	b.WriteString(s[:at])
	for i := at; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"):
		case r == '\t' || r == '\n':
			b.WriteByte(s[i])
		case r < 0x20:
			b.WriteRune('\u2400' + r)
		case r == 0x7f:
			b.WriteRune('\u2421')
		case r == utf8.RuneError && size == 1, r >= 0x80 && r < 0xa0:
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// firstOdd finds the first byte that plain may have to replace, or -1.
func firstOdd(s string) int {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c < 0x7f || c == '\n' || c == '\t' {
			continue
		}
		if c < 0x80 {
			return i
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || r < 0xa0 {
			return i
		}
		i += size - 1
	}
	return -1
}
