package config

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// forms are the shapes in which keys are handed out, and what to call them.
var forms = sync.OnceValue(func() map[string]*regexp.Regexp {
	m := map[string]*regexp.Regexp{}
	for name, form := range map[string]string{
		"a private key or certificate (PEM)":  `-----BEGIN [A-Z0-9 ]+-----`,
		"an API key (sk-…)":                   `\bsk-[A-Za-z0-9_-]{12,}`,
		"a GitHub token":                      `\b(gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`,
		"a GitLab token":                      `\bglpat-[A-Za-z0-9_-]{16,}`,
		"a Slack token":                       `\bxox[abeoprs]-[A-Za-z0-9-]{10,}`,
		"an AWS key":                          `\b(AKIA|ASIA)[A-Z0-9]{16}\b`,
		"a Google API key":                    `\bAIza[A-Za-z0-9_-]{30,}`,
		"a Hugging Face token":                `\bhf_[A-Za-z0-9]{20,}`,
		"an age secret key":                   `AGE-SECRET-KEY-1[A-Z0-9]{20,}`,
		"a signed token (JWT)":                `\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.`,
		"a password in a URL":                 `[a-z][a-z0-9+.-]*://[^/\s"'@:]*:[^/\s"'@]+@`,
		"an Authorization header (Bearer, …)": `\b(Bearer|Basic) [A-Za-z0-9+/._~-]{12,}`,
	} {
		m[name] = regexp.MustCompile(form)
	}
	return m
})

// findSecret looks for the known forms in raw text. It gives the offset of the
// first one and what it is, or -1.
func findSecret(data []byte) (at int, what string) {
	at = -1
	for name, form := range forms() {
		if loc := form.FindIndex(data); loc != nil && (at < 0 || loc[0] < at) {
			at, what = loc[0], name
		}
	}
	return at, what
}

// secretLooking says why a value looks like a secret, or gives "". A public
// value may be long and random.
func secretLooking(key, value string, public bool) string {
	if at, what := findSecret([]byte(value)); at >= 0 {
		return what
	}
	if public || value == "" {
		return ""
	}
	if secretName(key) {
		return "its key is named like one"
	}
	if hashName(key) && isHex(value) || isPath(value) {
		return ""
	}
	if slices.ContainsFunc(strings.FieldsFunc(value, func(r rune) bool { return !inRandom(r) && r != '/' }), random) {
		return "a long random string"
	}
	return ""
}

// secretName: a key such as api_key, or bot_token; but not max_tokens, which
// counts, nor token_file, which points.
func secretName(key string) bool {
	words := strings.Split(key, "_")
	last := words[len(words)-1]
	if slices.Contains([]string{"file", "path", "dir", "folder", "name", "names", "id", "env", "fd", "budget", "limit"}, last) {
		return false
	}
	for _, w := range words {
		if slices.Contains([]string{
			"password", "passwd", "passphrase", "pass", "pw", "secret", "token", "apikey",
			"credential", "credentials", "bearer", "authorization", "cookie",
		}, w) {
			return true
		}
	}
	return regexp.MustCompile(`(^|_)(api|access|private|secret|auth|signing|encryption)_key(_|$)`).MatchString(key)
}

// hashName: a key whose value is a digest, which is long, random and public.
func hashName(key string) bool {
	for w := range strings.SplitSeq(key, "_") {
		if slices.Contains([]string{"hash", "sha256", "digest", "template", "checksum", "fingerprint", "commit", "revision"}, w) {
			return true
		}
	}
	return false
}

func isHex(s string) bool {
	s = strings.TrimPrefix(s, "sha256:")
	return s != "" && strings.Trim(s, "0123456789abcdef") == ""
}

// isPath: folders have random names often (caches, temporary ones).
func isPath(s string) bool {
	s = strings.TrimPrefix(s, "unix:")
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || strings.HasPrefix(s, "~/")
}

// inRandom reports the characters of base64url and hex.
func inRandom(r rune) bool {
	return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("+_-=", r)
}

// random reports whether a run of such characters looks drawn by chance: one
// long word in which the kind of letter changes often, or many short ones (as
// base64 has them between its separators) in which it changes very often. Names
// of models and files are made of words, which begin but do not go on so.
func random(run string) bool {
	words := strings.FieldsFunc(run, func(r rune) bool { return strings.ContainsRune("+_-=/", r) })
	for _, w := range words {
		if len(w) >= 20 && changes(w) >= len(w)/5 && entropy(w) >= 3 {
			return true
		}
	}
	all := strings.Join(words, "")
	return len(all) >= 24 && changes(all)*100 >= len(all)*45 && entropy(all) >= 3.5 &&
		strings.ContainsAny(all, "0123456789") && strings.ToLower(all) != all && strings.ToUpper(all) != all
}

// changes counts where a letter is of another kind than the one before it.
func changes(s string) int {
	n := 0
	for i := 1; i < len(s); i++ {
		if kind(s[i]) != kind(s[i-1]) {
			n++
		}
	}
	return n
}

func kind(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return 0
	case c >= 'a' && c <= 'z':
		return 1
	default:
		return 2
	}
}

// entropy of the letters of s, in bits a letter (Shannon).
func entropy(s string) float64 {
	var count [256]float64
	for i := range len(s) {
		count[s[i]]++
	}
	var h float64
	for _, n := range count {
		if n > 0 {
			p := n / float64(len(s))
			h -= p * math.Log2(p)
		}
	}
	return h
}
