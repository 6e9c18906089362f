package split

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Seal stands at the start of the cards on which the owner decides. A model's
// text cannot hold it.
const Seal = "🔏"

// gap is invisible and ends a word: U+200B.
const gap = "\u200b"

// Harmless changes what Mattermost would act upon when it reads a post. Each change
// is an invisible character, but for the seal:
//
//   - "@name", "@all", "@channel" and "@here" mention nobody; in code, where names
//     are not looked for, only the last three are changed. Character references
//     that could make an @ are broken up too. An e-mail address stays as it is.
//   - "![…](…)" shows no picture: fetching it would tell its server something.
//   - A link to a post shows no copy of it, which could pass for a card.
//   - The seal of the owner's cards is written out.
//
// Previews of other links are what the prop unsafe_links of the bot's posts is for.
func Harmless(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	text = strings.ReplaceAll(text, Seal, "[seal]")
	text = controls(text)
	doubtful := nested().MatchString(text)
	var b strings.Builder
	var f fence
	for l := range strings.Lines(text) {
		after, mark := f.step(l)
		code := f.mark != "" && !mark && !doubtful
		if mark {
			l = markLine(l)
		} else {
			l = noMark(l, f)
		}
		f = after
		b.WriteString(harmlessLine(l, code))
	}
	return b.String()
}

// controls drops what shows as nothing and yet does something: control characters
// but line break and tab, and marks that turn the direction of writing.
func controls(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r >= 0x7f && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, text)
}

// markLine takes the blanks at its end off a line that opens or closes code.
func markLine(l string) string {
	s := strings.TrimRightFunc(l, unicode.IsSpace)
	if strings.HasSuffix(l, "\n") {
		s += "\n"
	}
	return s
}

// noMark breaks what could become a mark of code if the line were cut before or
// behind it.
func noMark(l string, f fence) string {
	for _, c := range []string{"`", "~"} {
		least := 3
		if f.mark != "" {
			if least = len(f.mark); f.mark[:1] != c {
				continue
			}
		}
		run := strings.Repeat(c, least)
		if !strings.Contains(l, run) {
			continue
		}
		var b strings.Builder
		at := 0
		for {
			i := strings.Index(l[at:], run)
			if i < 0 {
				break
			}
			b.WriteString(l[at:at+i+least-1] + gap)
			at += i + least - 1
		}
		b.WriteString(l[at:])
		l = b.String()
	}
	return l
}

// nested finds code within lists and quotations, whose end is not told by its
// marks alone. Text with such is treated as if it had no code.
func nested() *regexp.Regexp {
	return regexp.MustCompile("(?m)^(?:[ \t]+|[ \t]*(?:>|[-+*]|[0-9]{1,9}[.)]))[ \t>*+0-9.)-]*(?:```|~~~)")
}

func harmlessLine(l string, code bool) string {
	if !strings.ContainsAny(l, "@&!/") {
		return l
	}
	var b strings.Builder
	for i := 0; i < len(l); i++ {
		b.WriteByte(l[i])
		rest := l[i+1:]
		switch {
		case l[i] == '@' && calls(l[:i], rest, code),
			!code && l[i] == '&' && refersToAt(rest),
			!code && l[i] == '!' && strings.HasPrefix(rest, "["),
			l[i] == '/' && strings.HasPrefix(rest, "pl/"):
			b.WriteString(gap)
		}
	}
	return b.String()
}

// calls reports whether an @ between these could name somebody.
func calls(before, rest string, code bool) bool {
	if code {
		for _, all := range []string{"all", "channel", "here"} {
			if len(rest) >= len(all) && strings.EqualFold(rest[:len(all)], all) {
				return true
			}
		}
		return false
	}
	if rest == "" || strings.ContainsRune(" \t\n", rune(rest[0])) {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(before)
	return (last < 'a' || last > 'z') && (last < 'A' || last > 'Z') && (last < '0' || last > '9')
}

func refersToAt(rest string) bool {
	return strings.HasPrefix(rest, "#") || strings.HasPrefix(rest, "commat")
}
