package tool

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// Longest path and longest name in it, in bytes: those of Linux.
const (
	maxPath = 4095
	maxName = 255
)

// cleanPath gives the one form of a path: absolute, without "//", "." and "..".
// The dots are resolved in the text, so "/a/link/.." is "/a" wherever the link
// leads; the same cleaned path is checked, approved and opened.
//
// Characters that a person cannot see are refused and not escaped: the owner
// approves a path by looking at it, and with "\u200b" in it two different paths
// look the same. A file with such a name needs another name.
func cleanPath(p string) (string, error) {
	switch {
	case p == "":
		return "", bad("is empty; it must be an absolute path, for example /home/me/notes")
	case strings.HasPrefix(p, "~"):
		return "", bad("must be an absolute path, for example /home/me/notes; ~ is not expanded")
	case p[0] != '/':
		return "", bad("must be an absolute path, for example /home/me/notes")
	}
	if err := visible(p); err != nil {
		return "", err
	}
	p = path.Clean(p)
	if len(p) > maxPath {
		return "", bad("is longer than %d bytes", maxPath)
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxName {
			return "", bad("has a name longer than %d bytes", maxName)
		}
	}
	return p, nil
}

// filePath is cleanPath for what must be a file.
func filePath(p string) (string, error) {
	clean, err := cleanPath(p)
	if err != nil {
		return "", err
	}
	if clean == "/" || strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..") {
		return "", bad("names a folder; it must be the path of a file, for example /home/me/notes/list.md")
	}
	return clean, nil
}

// visible refuses what a person cannot see or what changes how the rest looks.
func visible(s string) error {
	for _, r := range s {
		if r == 0 {
			return bad("has a NUL character in it; remove it")
		}
		if !Visible(r) {
			return bad("has the invisible character %s in it; remove it", fmt.Sprintf("U+%04X", r))
		}
	}
	return nil
}

// Visible reports whether a character may stand in a path: not a control
// character, not one that changes the direction of text, none of zero width and
// none that looks like nothing at all.
func Visible(r rune) bool {
	if r < 0x7f {
		return r >= ' '
	}
	switch { // graphic by their category, and yet invisible
	case r == 0x034f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x2800, r == 0x3164, r == 0xffa0,
		r >= 0x180b && r <= 0x180f, r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef:
		return false
	}
	return unicode.IsGraphic(r)
}
