package markdown

import (
	"slices"
	"strings"
)

// language is the little that a line-wise highlighter has to know. It is the
// same few rules for all: a lexer for each language would need the whole block,
// and so could not show lines that never change again.
type language struct {
	line    []string // what starts a comment
	open    string   // what starts a comment of several lines
	close   string
	strings string // quotes
	long    string // quote of several lines
	words   []string
}

func languageOf(name string) *language {
	name, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(name)), " ")
	cLike := &language{line: []string{"//"}, open: "/*", close: "*/", strings: "\"'`", words: keywords()}
	hash := &language{line: []string{"#"}, strings: "\"'", words: keywords()}
	switch name {
	case "go", "c", "h", "cpp", "c++", "java", "js", "javascript", "ts", "typescript", "jsx", "tsx", "rust", "rs", "cs", "csharp",
		"kotlin", "swift", "scala", "php", "css", "zig", "dart", "proto", "json", "jsonc":
		if name == "rust" || name == "rs" {
			cLike.strings = "\"" // ' begins a lifetime
		}
		return cLike
	case "python", "py":
		hash.long = `"""`
		return hash
	case "sh", "bash", "zsh", "shell", "fish", "console", "ruby", "rb", "perl", "r", "yaml", "yml", "toml", "ini", "make", "makefile",
		"dockerfile", "nix", "elixir", "conf":
		return hash
	case "sql", "lua", "haskell", "hs", "elm", "ada":
		return &language{line: []string{"--"}, open: "/*", close: "*/", strings: "\"'", words: keywords()}
	default:
		return nil
	}
}

func keywords() []string {
	return strings.Fields(`and any as async await begin bool break case catch chan class const continue def default defer del do done
		double echo elif else elsif end enum esac except export extends extern false fi final finally float fn for foreach from func
		function go goto if impl implements import in include int interface is lambda let local long loop map match mod module mut
		namespace new nil none not null nullptr of or package pass private protected pub public raise range return select self set
		short static string struct super switch template then this throw throws trait true try type typedef typeof union unless
		unsigned until use using val var void when where while with yield
		SELECT FROM WHERE INSERT INTO UPDATE DELETE CREATE TABLE JOIN LEFT ON GROUP BY ORDER LIMIT AND OR NOT NULL AS VALUES SET
		True False None Self`)
}

// highlighter colours code line by line.
type highlighter struct {
	lang   *language
	inside string // what ends the comment or string that is open; empty: none
	look   attr
}

// line gives one line of code as spans.
func (h *highlighter) line(s string) []span {
	if h.lang == nil {
		return []span{inert(s, 0)}
	}
	var out []span
	for s != "" {
		n, look := h.next(s)
		out = append(out, inert(s[:n], look))
		s = s[n:]
	}
	return out
}

// next gives the length of the next piece, at least 1, and its look.
func (h *highlighter) next(s string) (int, attr) {
	l := h.lang
	switch {
	case h.inside != "":
		return h.upTo(s, 0)
	case l.open != "" && strings.HasPrefix(s, l.open):
		h.inside, h.look = l.close, remark
		return h.upTo(s, len(l.open))
	case l.long != "" && strings.HasPrefix(s, l.long):
		h.inside, h.look = l.long, quoted
		return h.upTo(s, len(l.long))
	case slices.ContainsFunc(l.line, func(p string) bool { return strings.HasPrefix(s, p) }):
		return len(s), remark
	case strings.IndexByte(l.strings, s[0]) >= 0:
		return stringEnd(s), quoted
	case s[0] >= '0' && s[0] <= '9':
		return run(s, func(c byte) bool { return letter(c) || c == '.' }), number
	case letter(s[0]):
		n := run(s, letter)
		if slices.Contains(l.words, s[:n]) {
			return n, word
		}
		return n, 0
	default:
		return run(s, func(c byte) bool {
			return !letter(c) && strings.IndexByte(l.strings, c) < 0 && c != '/' && c != '#' && c != '-'
		}), 0
	}
}

// upTo ends the open comment or string, or goes on to the end of the line.
func (h *highlighter) upTo(s string, from int) (int, attr) {
	i := strings.Index(s[from:], h.inside)
	if i < 0 {
		return len(s), h.look
	}
	n := from + i + len(h.inside)
	h.inside = ""
	return n, h.look
}

func stringEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}

func letter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// run gives how many bytes from the start fit, at least 1.
func run(s string, fits func(byte) bool) int {
	n := 1
	for n < len(s) && fits(s[n]) {
		n++
	}
	return n
}
