package term

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Screen is one output of the program: a terminal, or a pipe or file that
// gets plain text.
type Screen struct {
	W        io.Writer
	Terminal bool       // status lines and streaming make sense
	Colour   bool       // escape sequences of our own make sense
	Width    func() int // columns now, at least 20

	dumb bool // it can't erase
}

// Open looks at f. NO_COLOR (any value) and TERM=dumb turn colours off;
// COLUMNS is the width where the terminal tells none.
func Open(f *os.File, getenv func(string) string) Screen {
	s := Screen{W: f, Terminal: IsTerminal(f)}
	s.dumb = getenv("TERM") == "dumb"
	s.Colour = s.Terminal && getenv("NO_COLOR") == "" && !s.dumb
	s.Width = func() int {
		if s.Terminal {
			if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col >= 20 {
				return int(ws.Col)
			}
		}
		if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n >= 20 {
			return n
		}
		return 80
	}
	return s
}

// Plain is a screen that is no terminal, 80 columns wide.
func Plain(w io.Writer) Screen {
	return Screen{W: w, Width: func() int { return 80 }}
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Dim gives s in faint letters where colours are on.
func (s Screen) Dim(t string) string { return s.paint("2", t) }

// Bold gives s in bold letters where colours are on.
func (s Screen) Bold(t string) string { return s.paint("1", t) }

// Good gives s in green where colours are on.
func (s Screen) Good(t string) string { return s.paint("32", t) }

// Warn gives s in magenta where colours are on: on a light terminal yellow can't
// be read.
func (s Screen) Warn(t string) string { return s.paint("35", t) }

// Bad gives s in red where colours are on.
func (s Screen) Bad(t string) string { return s.paint("31", t) }

func (s Screen) paint(code, t string) string {
	if !s.Colour || t == "" {
		return t
	}
	return "\x1b[" + code + "m" + t + "\x1b[0m"
}

// InPlace reports whether a line can be shown and taken away again.
func (s Screen) InPlace() bool { return s.Terminal && !s.dumb }

// Erase is what takes the line at the cursor away, where that is possible.
func (s Screen) Erase() string {
	if !s.InPlace() {
		return ""
	}
	return "\r\x1b[K"
}
