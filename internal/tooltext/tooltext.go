// Package tooltext makes what a tool found fit for a model: valid UTF-8, and no
// longer than the call's limit, with an honest word about what is missing.
//
// It guarantees that a page never holds more than its limit, counted both as
// bytes and as half the bytes of its JSON form. It does not make text harmless:
// control characters, escape sequences and chat-template tokens stay as they
// are, for those who show or log the text.
package tooltext

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Clean writes each byte that is not UTF-8, and NUL, as \xNN. It reports
// whether there were any.
func Clean(b []byte) (string, bool) {
	if plain(b) {
		return string(b), false
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == 0 || r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&s, `\x%02X`, b[0])
		} else {
			s.Write(b[:n])
		}
		b = b[n:]
	}
	return s.String(), true
}

func plain(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// Cost is what a text takes of a page: its length, or half that of its JSON
// form if that is more. Its unit is half a byte, to be exact.
func Cost(s string) int64 {
	json := len(s)
	for _, c := range []byte(s) {
		switch {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
			json++
		case c < ' ':
			json += 5
		}
	}
	return int64(max(2*len(s), json))
}

// Head returns the longest beginning of s that costs no more than limit bytes
// and ends between characters.
func Head(s string, limit int64) string {
	if limit <= 0 {
		return ""
	}
	if Cost(s) <= 2*limit {
		return s
	}
	var used int64
	for i, r := range s {
		n := utf8.RuneLen(r)
		if used += Cost(s[i : i+n]); used > 2*limit {
			return s[:i]
		}
	}
	return s
}

// Tail is Head for the end of s.
func Tail(s string, limit int64) string {
	if Cost(s) <= 2*limit {
		return s
	}
	var used int64
	at := len(s)
	for at > 0 {
		_, n := utf8.DecodeLastRuneInString(s[:at])
		if used += Cost(s[at-n : at]); used > 2*limit {
			break
		}
		at -= n
	}
	return s[at:]
}

// Name shows a file's name: as it is if a person can see all of it, in quotes
// and escaped otherwise.
func Name(name string, visible func(rune) bool) (string, bool) {
	ok := utf8.ValidString(name) && name != "" && name[0] != '"'
	for _, r := range name {
		ok = ok && visible(r)
	}
	if ok {
		return name, true
	}
	return fmt.Sprintf("%+q", name), false
}

// A Page collects text up to a limit in bytes.
type Page struct {
	b    strings.Builder
	left int64 // in halves of a byte
}

// NewPage returns an empty page.
func NewPage(limit int64) *Page { return &Page{left: 2 * max(limit, 0)} }

// Fits reports whether s would fit beside reserve more bytes.
func (p *Page) Fits(s string, reserve int64) bool { return Cost(s)+2*reserve <= p.left }

// Room is how many bytes of plain text still fit.
func (p *Page) Room() int64 { return p.left / 2 }

// Add appends as much of s as fits, and returns how many bytes that is.
func (p *Page) Add(s string) int {
	s = Head(s, p.Room())
	p.b.WriteString(s)
	p.left -= Cost(s)
	return len(s)
}

// Addf is Add of a formatted text.
func (p *Page) Addf(format string, a ...any) int { return p.Add(fmt.Sprintf(format, a...)) }

// Line appends s on a line of its own.
func (p *Page) Line(s string) {
	if n := p.b.Len(); n > 0 && p.b.String()[n-1] != '\n' {
		p.Add("\n")
	}
	p.Add(s)
}

// String returns the page.
func (p *Page) String() string { return p.b.String() }

// Fit is the last check of every result: it cuts a text that is longer than the
// limit, says so, and returns how many bytes are gone.
func Fit(s string, limit int64) (string, int64) {
	s, _ = Clean([]byte(s))
	if Cost(s) <= 2*limit {
		return s, 0
	}
	const note = "\n[cut here: %d more bytes did not fit]"
	head := Head(s, limit-int64(len(note))-20)
	gone := int64(len(s) - len(head))
	return Head(head+fmt.Sprintf(note, gone), limit), gone
}
