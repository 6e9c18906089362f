package neutral

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const wideBar = "｜" // U+FF5C, DeepSeek's

// barred matches <|…|>, <|name>, <name|>, with either bar, or the same in square
// brackets (only whole there, and with a name inside, as [|x|] is also code).
func barred(s string, end byte) int {
	i := bar(s[1:])
	if i == 0 {
		return 0
	}
	i++
	body := i
	for chars := 0; i < len(s) && chars <= maxBody; chars++ {
		if n := bar(s[i:]); n > 0 {
			whole := chars > 0 && i+n < len(s) && s[i+n] == end && (end == '>' || isName(s[body:i]))
			if whole {
				return i + n + 1
			}
			return 0
		}
		if s[i] == '>' {
			if end == '>' && chars > 0 && isName(s[body:i]) {
				return i + 1
			}
			return 0
		}
		if s[i] == '<' || s[i] == '\n' {
			return 0
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return 0
}

// bar returns the length of the bar that s begins with, or 0.
func bar(s string) int {
	switch {
	case strings.HasPrefix(s, "|"):
		return 1
	case strings.HasPrefix(s, wideBar):
		return len(wideBar)
	default:
		return 0
	}
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == ':' || c == '.'
}

func isName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return s != ""
}

// tag matches <name>, </name>, <name/>, <name …>, <name=…> and <name|>.
func (t *Neutraliser) tag(s string) int {
	i := 1
	if strings.HasPrefix(s[i:], "/") {
		i++
	}
	var lower [maxBody]byte
	n := 0
	for ; i < len(s) && isNameByte(s[i]) && n < maxBody; i++ {
		lower[n] = s[i]
		if s[i] >= 'A' && s[i] <= 'Z' {
			lower[n] += 'a' - 'A'
		}
		n++
	}
	if n == 0 || i == len(s) {
		return 0
	}
	if b := bar(s[i:]); b > 0 {
		if i+b < len(s) && s[i+b] == '>' {
			return i + b + 1
		}
		return 0
	}
	markup := t.markup[string(lower[:n])]
	if !markup && !t.alone(lower[:n]) {
		return 0
	}
	switch {
	case s[i] == '>':
		return i + 1
	case strings.HasPrefix(s[i:], "/>"):
		return i + 2
	case markup && (s[i] == '=' || s[i] == ' ' || s[i] == '\t'):
		return attributes(s, i+1)
	default:
		return 0
	}
}

// attributes walks from i to the closing bracket.
func attributes(s string, i int) int {
	for chars := 0; i < len(s) && chars <= maxBody; chars++ {
		switch s[i] {
		case '>':
			return i + 1
		case '<', '\n':
			return 0
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return 0
}

// alone reports whether a lower-case name is a token by itself.
func (t *Neutraliser) alone(name []byte) bool {
	if t.exact[string(name)] {
		return true
	}
	if len(name) > 4 && strings.HasPrefix(string(name), "__") && strings.HasSuffix(string(name), "__") {
		return true
	}
	n := len(name)
	for n > 0 && name[n-1] >= '0' && name[n-1] <= '9' {
		n--
	}
	return n < len(name) && t.numbered[string(name[:n])]
}

// squared matches [NAME] and [/NAME].
func (t *Neutraliser) squared(s string) int {
	i := 1
	if strings.HasPrefix(s[i:], "/") {
		i++
	}
	start := i
	for i < len(s) && isNameByte(s[i]) && i-start < maxBody {
		i++
	}
	if i < len(s) && s[i] == ']' && t.square[s[start:i]] {
		return i + 1
	}
	return 0
}

// fromTemplate finds what a template writes literally and looks like a token.
// Words that only have a meaning inside a list of tools, which no text can open,
// are left out: making <name> inert would spoil every XML file.
func fromTemplate(template string) []string {
	tags := regexp.MustCompile(`</?[^\s<>|｜/'"(){}]{1,64}>|\[/?[A-Z_]{2,64}\]`)
	harmless := set("name description type required items enum properties default title")
	var found []string
	for _, token := range tags.FindAllString(template, -1) {
		if !harmless[strings.Trim(token, "</>")] {
			found = append(found, token)
		}
	}
	return found
}

// literals sorts out the literal tokens: longest first, each once.
func literals(tokens []string) []string {
	var keep []string
	for _, l := range append(tokens, strings.Fields(literalTokens)...) {
		if utf8.ValidString(l) && utf8.RuneCountInString(l) >= 2 && !strings.ContainsAny(l, "‹›⟦⟧·") && plain(l) == l {
			keep = append(keep, l)
		}
	}
	slices.SortFunc(keep, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(keep)
}

func set(names string) map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(names) {
		m[n] = true
	}
	return m
}
