package term

import "unicode"

// Columns gives how many columns a terminal takes for s, a line that went
// through [Line]. It is an estimate: fonts and terminals differ.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r >= 0xfe00 && r <= 0xfe0f:
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	default:
		return 1
	}
}

// Clip cuts s, a line that went through [Line], to at most width columns; what
// was cut off shows as an ellipsis. A width below 1 cuts nothing.
func Clip(s string, width int) string {
	if width < 1 || Columns(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += columns(r); n > width-1 {
			return s[:i] + "…"
		}
	}
	return s
}
