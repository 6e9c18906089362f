package brain

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"boxmaker/practice/internal/template"
)

// shownLines and shownBytes are how much of a result is quoted.
const (
	shownLines = 40
	shownBytes = 4000
)

// fence quotes text in a code block that the text cannot end.
func fence(text string) string {
	text = strings.TrimRight(inert(text), "\n\r\t ")
	note := ""
	if lines := strings.Split(text, "\n"); len(lines) > shownLines {
		text, note = strings.Join(lines[:shownLines], "\n"), "\n\n(More lines follow; I show the first ones.)"
	}
	if len(text) > shownBytes {
		text, note = strings.ToValidUTF8(text[:shownBytes], ""), "\n\n(It goes on; I show the beginning.)"
	}
	ticks := "```"
	for strings.Contains(text, ticks) {
		ticks += "`"
	}
	if text == "" {
		return "(nothing)"
	}
	return ticks + "\n" + text + "\n" + ticks + note
}

// inert breaks the template's control tokens in text that is not the owner's,
// so that quoting it does not say them.
func inert(text string) string {
	for _, s := range template.Specials() {
		text = strings.ReplaceAll(text, s, "‹"+s[1:])
	}
	return text
}

func oneLine(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

func quoteJSON(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil { // not UTF-8
		b, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return string(b)
}

// vocabulary is what the practice model says when it is to say something.
func vocabulary() []string {
	return strings.Fields("the box holds small things that somebody once kept and each of them has a place so nothing in it is lost " +
		"while the maker turns a fragment over looks at it in the light and puts it where it belongs")
}

// ramble is n words, the same ones each time.
func ramble(n int) string {
	v := vocabulary()
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(v[i%len(v)])
	}
	return b.String()
}

// unquote takes the quotation marks off a word, a path or a sentence.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	for _, pair := range []string{`""`, `''`, "``", "“”", "‘’", "«»"} {
		open, end, _ := cutPair(pair)
		if len(s) > len(open)+len(end) && strings.HasPrefix(s, open) && strings.HasSuffix(s, end) {
			return s[len(open) : len(s)-len(end)]
		}
	}
	return s
}

func cutPair(pair string) (open, end string, ok bool) {
	r := []rune(pair)
	return string(r[0]), string(r[1]), len(r) == 2
}
