package scan

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"boxmaker/internal/secret"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

const canary = "canary-3f9A/kz+Q\"x\\7"

func named(values ...string) []secret.Named {
	var all []secret.Named
	for i := 0; i < len(values); i += 2 {
		all = append(all, secret.Named{Name: values[i], Value: secret.NewText(values[i+1])})
	}
	return all
}

func mirror(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// wrap puts a line break after every n bytes.
func wrap(s string, n int, eol string) string {
	var b strings.Builder
	for i := 0; i < len(s); i += n {
		b.WriteString(s[i:min(i+n, len(s))] + eol)
	}
	return b.String()
}

// percentAll encodes every byte.
func percentAll(s, verb string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, verb, c)
	}
	return b.String()
}

// referenceAll encodes every character as HTML may.
func referenceAll(s, verb string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, verb, r)
	}
	return b.String()
}

// unicodeAll encodes every character as JSON may.
func unicodeAll(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, `\u%04x`, u)
	}
	return b.String()
}

// encodings are the ways in which a value may stand in a text. Each gives a text
// that gives the value away.
func encodings() map[string]func(string) string {
	std, raw, web, rawWeb := base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding
	js := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	return map[string]func(string) string{
		"plain":                func(s string) string { return s },
		"reversed":             mirror,
		"base64":               func(s string) string { return std.EncodeToString([]byte(s)) },
		"base64 raw":           func(s string) string { return raw.EncodeToString([]byte(s)) },
		"base64 url":           func(s string) string { return web.EncodeToString([]byte(s)) },
		"base64 url raw":       func(s string) string { return rawWeb.EncodeToString([]byte(s)) },
		"base64 after 1":       func(s string) string { return std.EncodeToString([]byte("u" + s + "tail")) },
		"base64 after 2":       func(s string) string { return rawWeb.EncodeToString([]byte("u:" + s + "tail")) },
		"base64 with newline":  func(s string) string { return std.EncodeToString([]byte(s + "\n")) },
		"base64 wrapped":       func(s string) string { return wrap(std.EncodeToString([]byte(strings.Repeat("x", 50)+s)), 76, "\n") },
		"base64 wrapped, crlf": func(s string) string { return wrap(std.EncodeToString([]byte(strings.Repeat("x", 50)+s)), 64, "\r\n") },
		"base64 wrapped, json": func(s string) string {
			return js(wrap(std.EncodeToString([]byte(strings.Repeat("x", 50)+s)), 76, "\n"))
		},
		"base64, percent":       func(s string) string { return url.QueryEscape(std.EncodeToString([]byte(s))) },
		"hex":                   func(s string) string { return hex.EncodeToString([]byte(s)) },
		"hex, upper":            func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		"hex, colons":           func(s string) string { return strings.TrimSuffix(percentAll(s, "%02X:"), ":") },
		"hex, pairs":            func(s string) string { return wrap(hex.EncodeToString([]byte(s)), 4, " ") },
		"percent":               url.PathEscape,
		"percent, form":         url.QueryEscape,
		"percent, twice":        func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
		"percent, all twice":    func(s string) string { return percentAll(percentAll(s, "%%%02x"), "%%%02X") },
		"percent, all":          func(s string) string { return percentAll(s, "%%%02x") },
		"json":                  js,
		"json, all":             unicodeAll,
		"hex escapes":           func(s string) string { return percentAll(s, `\x%02X`) },
		"json in json":          func(s string) string { return strings.ReplaceAll(js(s), "/", `\/`) },
		"wrapped":               func(s string) string { return wrap(s, 7, "\n") },
		"cut at the end":        func(s string) string { return "see " + s[:len(s)-1] },
		"cut at the end, hex":   func(s string) string { return "see " + hex.EncodeToString([]byte(s))[:2*len(s)-3] },
		"html, decimal":         func(s string) string { return referenceAll(s, "&#%d;") },
		"html, hexadecimal":     func(s string) string { return referenceAll(s, "&#x%X;") },
		"html, escaped":         func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "+", "&#43;") },
		"html in json":          func(s string) string { return js(html.EscapeString(s)) },
		"percent in a json key": func(s string) string { return js(percentAll(s, "%%%02X") + "\n") },
	}
}

// decodable says whether somebody could read a long part of the value in the
// text with one of the encodings undone.
func decodable(text, value string) bool {
	long := value[1 : len(value)-2]
	if len(value) < 10 {
		long = value
	}
	flat := strings.NewReplacer("\n", "", "\r", "", " ", "", ":", "", `\n`, "", `\r`, "").Replace(text)
	candidates := []string{text, flat, mirror(text), strings.NewReplacer("-", "+", "_", "/").Replace(flat)}
	for _, c := range slices.Clone(candidates) {
		if u, err := url.QueryUnescape(c); err == nil {
			candidates = append(candidates, u)
		}
	}
	for _, c := range candidates {
		if strings.Contains(c, long) {
			return true
		}
		for at := range 4 {
			if at > len(c) {
				break
			}
			rest := strings.TrimRight(strings.Trim(c[at:], `"`), "=")
			for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				b, _ := enc.DecodeString(rest)
				if strings.Contains(string(b), long) {
					return true
				}
			}
			b, _ := hex.DecodeString(rest)
			if strings.Contains(string(b), long) {
				return true
			}
		}
	}
	return false
}

// P54: secrets written to session transcripts. Whatever simple form a tool
// prints its secret in, the result that leaves brokerd has none of it.
func TestCase_P54_SecretsNeverLeaveInResults(t *testing.T) {
	s := New(named("weather-token", canary, "other", "another-value-of-it"))
	for name, encode := range encodings() {
		t.Run(name, func(t *testing.T) {
			given := encode(canary)
			text := "before\n" + given
			if !strings.HasPrefix(name, "cut") {
				text += "\nafter, which is honest"
			}
			got, names := s.Clean(text)
			if !slices.Equal(names, []string{"weather-token"}) || !strings.Contains(got, "[secret weather-token]") {
				t.Fatalf("%q became %q, %q", text, got, names)
			}
			for form, f := range encodings() {
				if strings.Contains(got, f(canary)) {
					t.Errorf("%q holds the value's form %s", got, form)
				}
			}
			if !strings.HasPrefix(got, "before\n") || !strings.HasPrefix(name, "cut") && !strings.HasSuffix(got, "after, which is honest") {
				t.Errorf("honest text is gone: %q", got)
			}
			if decodable(got, canary) {
				t.Errorf("%q can be decoded", got)
			}
		})
	}
}

// A result is cut in the container, before anybody looks for values: whoever
// chooses what stands in front of a value chooses where it is cut.
func TestWhatIsLeftOfACutValueIsFound(t *testing.T) {
	const value = "canary-3f9Akz7Q-x+y/0123456789zz"
	s := New(named("token", value, "long", strings.Repeat("0a1b2c3d4e", 20)))
	for form, encode := range encodings() {
		whole := encode(value)
		if strings.HasPrefix(form, "cut") || len(whole) < 30 {
			continue
		}
		for name, text := range map[string]func(left, right string) string{
			"a page": func(left, _ string) string {
				return "some text " + left + "\n[cut here: 9 more bytes of text did not fit]"
			},
			"a result": func(left, _ string) string { return "some text " + left + "\n[cut here: 9 more bytes did not fit]" },
			"a program": func(left, right string) string {
				return "some text " + left + "\n[… 900 bytes are left out here …]\n" + right
			},
			"no note": func(left, _ string) string { return "some text " + left + " and more text" },
			"a long gap": func(left, _ string) string {
				return left + "\n[… 900 bytes are left out here …]\n" + strings.Repeat("c ", 400)
			},
		} {
			at := len(whole) - 3
			if name == "no note" && strings.HasPrefix(form, "base64 after") || strings.HasPrefix(form, "base64 wrapped") && name == "a program" {
				continue // the first is cut behind the value; of the second, the cut is in an honest part
			}
			given := text(whole[:at], whole[3:])
			got, names := s.Clean(given)
			if !slices.Contains(names, "token") {
				t.Errorf("%s, %s: %q became %q", form, name, given, got)
			}
			if name == "a program" && (form == "plain" || form == "hex" || form == "base64") && strings.Count(got, "[secret token]") != 2 {
				t.Errorf("%s: one end stays: %q", form, got)
			}
		}
	}
	cut := "see " + base64.StdEncoding.EncodeToString([]byte("canary-3f9Akz7Q-x+y/0123456789z")) + "\n[cut here: 9 more bytes did not fit]"
	for n := range 4 { // also where all of it is there that carries no other bits
		text := strings.Replace(cut, "\n", "", 1)
		at := strings.Index(text, "[cut") - n
		if got, names := s.Clean(text[:at] + "\n" + text[at+n:]); !slices.Contains(names, "token") || !strings.HasSuffix(got, "\n[cut here: 9 more bytes did not fit]") {
			t.Errorf("%d letters short: %q", n, got)
		}
	}
	for name, honest := range map[string]string{
		"the vendor's letters": "canary-3f9 is how they begin\n[cut here: 9 more bytes did not fit]",
		"too little":           "it was cana\n[cut here: 9 more bytes did not fit]",
		"notes only":           "\n[… 900 bytes are left out here …]\n\n[cut here: 9 more bytes did not fit]",
		"half a note":          "a\n[… 900 bytes\n b …]\n6789zz",
	} {
		if got, names := s.Clean(honest); got != honest || names != nil {
			t.Errorf("%s: %q became %q", name, honest, got)
		}
	}
}

// Whoever reads a file chooses where a result begins, and where it is cut.
func TestAValueWithoutItsBeginningIsFound(t *testing.T) {
	const value = "canary-3f9Akz7Q-x+y/0123456789zz"
	long := strings.Repeat("0a1b2c3d4e", 2) + strings.Repeat("5f6g7h8i9j", 20)
	s := New(named("token", value, "long", long))
	for form, encode := range encodings() {
		if strings.HasPrefix(form, "cut") || strings.HasPrefix(form, "base64 after") || strings.HasPrefix(form, "base64 wrapped") {
			continue // of some, the first bytes are not the value's
		}
		for _, skip := range []int{1, 2, 3, 5, 8} {
			given := "TOKEN=" + encode(value)[skip:] + " and more text"
			got, names := s.Clean(given)
			if !slices.Contains(names, "token") || decodable(got, value[8:]) {
				t.Errorf("%s, without %d bytes: %q became %q", form, skip, given, got)
			}
		}
	}
	for from := range len(long) - 16 {
		if got, _ := s.Clean(long[from:] + " and more"); strings.Contains(got, long[from:from+16]) {
			t.Errorf("of a long one, from byte %d on: %q", from, got)
		}
	}
	for name, c := range map[string]struct{ in, want string }{
		"a page's end":             {"see canary-3f\n[lines 1-1 of 3; line 1 goes on]", "see [secret token]\n[lines 1-1 of 3; line 1 goes on]"},
		"the end of a part":        {"/a:1: …words canary-3f…\n", "/a:1: …words [secret token]…\n"},
		"the beginning of a part":  {"/a:1: …6789zz words…\n", "/a:1: …[secret token] words…\n"},
		"a part of something else": {"/a:1: …789zz words…\n", "/a:1: …789zz words…\n"},
	} {
		if got, _ := s.Clean(c.in); got != c.want {
			t.Errorf("%s: %q became %q, want %q", name, c.in, got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	long := "-----BEGIN KEY-----\n" + strings.Repeat("abcdefghij0123456789", 20) + "\n-----END KEY-----\n"
	s := New(named("a", "prefix", "ab", "prefix-and-more", "c", "cccccc", "key", long, "short", "abc"))
	for _, c := range []struct{ name, in, want string }{
		{"honest", "nothing of it, pre fi", "nothing of it, pre fi"},
		{"empty", "", ""},
		{"short", "abc", "abc"},
		{"one", "the prefix is", "the [secret a] is"},
		{"the longer one", "the prefix-and-more is", "the [secret ab] is"},
		{"two", "prefix cccccc prefix", "[secret a] [secret c] [secret a]"},
		{"beside each other", "prefixcccccc", "[secret a][secret c]"},
		{"overlapping itself", "x" + strings.Repeat("c", 20) + "y", "x[secret c]y"},
		{"in runes", "é\u65e5prefix\u672c", "é\u65e5[secret a]\u672c"},
		{"long, whole", "<" + long + ">", "<[secret key]>"},
		{"long, a part", "see " + long[40:110] + " end", "see " + long[40:44]},
		{"a broken escape", `\u12 % %zz \x prefix`, `\u12 % %zz \x [secret a]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := s.Clean(c.in)
			if c.name == "long, a part" {
				if !strings.Contains(got, "[secret key]") || strings.Contains(got, long[64:96]) {
					t.Errorf("got %q", got)
				}
				return
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got, names := New(nil).Clean("text of any kind"); got != "text of any kind" || names != nil {
		t.Errorf("no secrets: %q, %q", got, names)
	}
}

// Whatever the values and the text around are, no form of a value stays, what is
// left is text, and a text without them stays as it is.
func TestNoFormStays(t *testing.T) {
	forms := encodings()
	var kinds []string
	for k := range forms {
		if !strings.HasPrefix(k, "cut") {
			kinds = append(kinds, k)
		}
	}
	slices.Sort(kinds)
	ascii := rapid.StringOfN(rapid.RuneFrom([]rune("abcXYZ0189-_/+=:.\"\\% é\u65e5")), 8, 100, -1)
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(ascii, 1, 4).Draw(t, "values")
		v := rapid.SampledFrom(values).Draw(t, "v")
		if len(strings.Join(strings.Fields(v), "")) < 12 || strings.Contains(v, "  ") {
			t.Skip("too much like nothing")
		}
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		var all []secret.Named
		for i, v := range values {
			all = append(all, named(fmt.Sprint("n", i), v)...)
		}
		before, after := rapid.String().Draw(t, "before"), rapid.String().Draw(t, "after")
		form := forms[kind](v)
		got, names := New(all).Clean(before + " <" + form + "> " + after)
		if len(names) == 0 || strings.Contains(got, "<"+form+">") {
			t.Fatalf("%s: %q stayed in %q", kind, form, got)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("not text: %q", got)
		}
	})
}

func FuzzClean(f *testing.F) {
	for _, e := range encodings() {
		f.Add("x "+e(canary)+" y", canary)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		s := New(named("a", value))
		got, names := s.Clean(text)
		if len(names) == 0 && got != text {
			t.Errorf("changed without a finding: %q became %q", text, got)
		}
		if len(value) >= secret.MinValue && strings.Contains(text, value) && len(names) == 0 {
			t.Errorf("%q is still in %q", value, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q is no text", got)
		}
	})
}

func TestCache(t *testing.T) {
	var c Cache
	one := named("a", "value-1")
	s := c.For(one)
	if c.For(slices.Clone(one)) != s {
		t.Error("the same list makes another scanner")
	}
	if c.For(append(one, named("b", "value-2")...)) == s {
		t.Error("a longer list has the old scanner")
	}
}

// BenchmarkClean: 64 KiB of text and the number of secrets in its name. The time
// must not grow with the number.
func BenchmarkClean(b *testing.B) {
	text := strings.Repeat("An honest line of a log, with \"quotes\", 100% of it, and a \\n.\n", 64<<10/63)
	for _, n := range []int{1, 10, 100, 250} {
		var all []secret.Named
		for i := range n {
			all = append(all, named(fmt.Sprint("n", i), fmt.Sprintf("sk-vendor-%032x", i*7919))...)
		}
		s := New(all)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, names := s.Clean(text); names != nil {
					b.Fatal(names)
				}
			}
		})
	}
}
