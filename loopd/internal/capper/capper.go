// Package capper cuts a text that is too long for the prompt, once, when it
// first gets there.
//
// What comes out is never longer than the limit, never cuts a rune, and says in
// one line how much was kept and how much is missing. A text that fits is not
// touched, so nothing that is in the prompt is ever cut again, however long the
// session gets. The package does not look at the meaning of the text; it runs
// after package neutral, so that the limit holds for what is sent and a cut
// cannot part a control token from the check.
package capper

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Cap returns text in at most limit bytes. A longer text keeps its head and its
// tail (three parts to one, because errors and sums stand at the end), with a
// line between them:
//
//	[cut here: 45012 of 2000000 bytes kept, the first 33760 and the last 11252; 1954988 bytes dropped]
//
// Cuts stand at line ends where that costs little, else between runes. dropped
// counts the bytes of text that are not in out; the head, the tail and dropped
// add up to len(text). A limit too small for the line gives a shorter line, or
// an empty text: give at least 256.
func Cap(text string, limit int) (out string, dropped int64) {
	if len(text) <= limit {
		return text, 0
	}
	// The longest marker this text can have: no number in it exceeds len(text).
	room := limit - len(marker(len(text), len(text), len(text)))
	if room < 0 {
		return tiny(len(text), limit)
	}
	headRoom := room / 4 * 3
	head := cutHead(text, headRoom)
	tail := cutTail(text[len(head):], room-headRoom)
	return head + marker(len(text), len(head), len(tail)) + tail, int64(len(text) - len(head) - len(tail))
}

func marker(all, head, tail int) string {
	return "\n[cut here: " + strconv.Itoa(head+tail) + " of " + strconv.Itoa(all) + " bytes kept, the first " + strconv.Itoa(head) +
		" and the last " + strconv.Itoa(tail) + "; " + strconv.Itoa(all-head-tail) + " bytes dropped]\n"
}

// tiny is for a limit that leaves no room for any of the text.
func tiny(all, limit int) (string, int64) {
	line := "[" + strconv.Itoa(all) + " bytes dropped]"
	if len(line) > limit {
		line = ""
	}
	return line, int64(all)
}

// cutHead returns at most n bytes of the start of s. It gives up to a quarter of
// them for a cut at a line end.
func cutHead(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for back := 0; n > 0 && back < utf8.UTFMax && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	if i := strings.LastIndexByte(s[:n], '\n'); i >= 0 && i >= n-n/4 {
		return s[:i] // the marker brings its own line break
	}
	return s[:n]
}

// cutTail is the same for the end of s.
func cutTail(s string, n int) string {
	if n >= len(s) {
		return s
	}
	at := len(s) - n
	for back := 0; at < len(s) && back < utf8.UTFMax && !utf8.RuneStart(s[at]); back++ {
		at++
	}
	if at > 0 && at < len(s) && s[at-1] == '\n' {
		return s[at:]
	}
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 && i < n/4 {
		return s[at+i+1:]
	}
	return s[at:]
}
