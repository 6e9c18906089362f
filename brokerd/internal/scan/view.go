package scan

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A view is a text as somebody would read it who undoes one encoding. at says
// where in the raw text each byte comes from; nil: the text is the raw one.
type view struct {
	text []byte
	at   []span
}

// A span is a place in the raw text.
type span struct{ from, to int32 }

func plainView(b []byte) view { return view{text: b} }

// start is where the byte i of the view begins in the raw text.
func (v view) start(i int) int {
	if v.at == nil {
		return i
	}
	return int(v.at[i].from)
}

// end is where the bytes before i end. Precondition: i > 0.
func (v view) end(i int) int {
	if v.at == nil {
		return i
	}
	return int(v.at[i-1].to)
}

// rewrite makes a view: read looks at the text from i on, and gives what stands
// there and how many bytes it takes; n = 0 for a byte as it is, out empty to
// leave it out. Only bytes in special are looked at.
func (v view) rewrite(special func(byte) bool, read func(b []byte) (out []byte, n int)) view {
	first := -1
	for i, c := range v.text {
		if special(c) {
			first = i
			break
		}
	}
	if first < 0 {
		return v
	}
	w := view{make([]byte, 0, len(v.text)), make([]span, 0, len(v.text))}
	for i := 0; i < len(v.text); {
		c := v.text[i]
		if special(c) {
			if out, n := read(v.text[i:]); n > 0 {
				for _, o := range out {
					w.text, w.at = append(w.text, o), append(w.at, span{int32(v.start(i)), int32(v.end(i + n))})
				}
				i += n
				continue
			}
		}
		w.text, w.at = append(w.text, c), append(w.at, span{int32(v.start(i)), int32(v.end(i + 1))})
		i++
	}
	return w
}

// views gives the text as it is and with each kind of escapes undone, or two.
// All of them are looked at: a value may hold what looks like an escape.
func views(raw view) []view {
	all := []view{raw}
	slashes, percent := unescape(raw), unpercent(raw)
	if slashes.at != nil {
		all = append(all, slashes)
	}
	if percent.at != nil {
		all = append(all, percent)
		if twice := unpercent(percent); len(twice.text) != len(percent.text) { // an address in an address
			all = append(all, twice)
		}
	}
	if slashes.at != nil && percent.at != nil {
		all = append(all, unpercent(slashes))
	}
	// A page, or a page in JSON.
	if page := unreference(raw); page.at != nil {
		all = append(all, page)
	}
	if page := unreference(slashes); slashes.at != nil && len(page.text) != len(slashes.text) {
		all = append(all, page)
	}
	return all
}

// sign gives what a reference of HTML stands for, if that can be in a value.
func sign(name string) (byte, bool) {
	switch name {
	case "amp":
		return '&', true
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	case "plus":
		return '+', true
	case "sol":
		return '/', true
	case "equals":
		return '=', true
	case "lowbar":
		return '_', true
	case "colon":
		return ':', true
	case "period":
		return '.', true
	default:
		return 0, false
	}
}

// maxReference is the longest reference, without & and ;.
const maxReference = 10

// unreference undoes &amp; and &#38; and &#x26; of HTML.
func unreference(v view) view {
	return v.rewrite(func(c byte) bool { return c == '&' }, func(b []byte) ([]byte, int) {
		end := bytes.IndexByte(b[:min(len(b), maxReference+2)], ';')
		if end < 2 {
			return nil, 0
		}
		name := string(b[1:end])
		if c, ok := sign(name); ok {
			return []byte{c}, end + 1
		}
		digits, number := strings.CutPrefix(strings.ToLower(name), "#")
		base := 10
		if hex, ok := strings.CutPrefix(digits, "x"); ok {
			digits, base = hex, 16
		}
		n, err := strconv.ParseUint(digits, base, 21)
		if !number || err != nil {
			return nil, 0
		}
		return utf8.AppendRune(nil, rune(n)), end + 1
	})
}

// pack leaves white space out, and colons (between bytes in hex), and makes one
// alphabet of base64's two. The result is a copy.
func pack(v view) view {
	w := view{make([]byte, 0, len(v.text)), make([]span, 0, len(v.text))}
	for i, c := range v.text {
		switch c {
		case ' ', '\n', '\r', '\t', ':':
			continue
		case '-':
			c = '+'
		case '_':
			c = '/'
		}
		w.text, w.at = append(w.text, c), append(w.at, span{int32(v.start(i)), int32(v.end(i + 1))})
	}
	return w
}

// unpercent undoes %XX.
func unpercent(v view) view {
	return v.rewrite(func(c byte) bool { return c == '%' }, func(b []byte) ([]byte, int) {
		if len(b) < 3 {
			return nil, 0
		}
		n, err := strconv.ParseUint(string(b[1:3]), 16, 8)
		if err != nil {
			return nil, 0
		}
		return []byte{byte(n)}, 3
	})
}

// unescape undoes the escapes of JSON, and \x of many languages.
func unescape(v view) view {
	return v.rewrite(func(c byte) bool { return c == '\\' }, func(b []byte) ([]byte, int) {
		if len(b) < 2 {
			return nil, 0
		}
		switch b[1] {
		case 'n':
			return []byte{'\n'}, 2
		case 't':
			return []byte{'\t'}, 2
		case 'r':
			return []byte{'\r'}, 2
		case 'b':
			return []byte{'\b'}, 2
		case 'f':
			return []byte{'\f'}, 2
		case '"', '\\', '/', '\'':
			return b[1:2], 2
		case 'x':
			if n, ok := hexAt(b, 2, 2); ok {
				return []byte{byte(n)}, 4
			}
		case 'u':
			return unicodeEscape(b)
		}
		return nil, 0
	})
}

func unicodeEscape(b []byte) ([]byte, int) {
	n, ok := hexAt(b, 2, 4)
	if !ok {
		return nil, 0
	}
	if n >= 0xd800 && n < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if low, ok := hexAt(b, 8, 4); ok && low >= 0xdc00 && low < 0xe000 {
			return utf8.AppendRune(nil, rune(0x10000+(n-0xd800)<<10+(low-0xdc00))), 12
		}
	}
	return utf8.AppendRune(nil, rune(n)), 6
}

func hexAt(b []byte, at, digits int) (uint64, bool) {
	if len(b) < at+digits {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[at:at+digits]), 16, 32)
	return n, err == nil
}
