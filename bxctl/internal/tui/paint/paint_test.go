package paint

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// screen is a terminal that knows what a Painter writes, and no more: anything
// else fails the test.
type screen struct {
	t             interface{ Fatalf(string, ...any) }
	width, height int
	back          []string // scrolled out
	rows          []string
	y, x          int
	sync, wrap    bool
	cursor        bool
	unsynced      int // characters written outside of synchronised output
}

func newScreen(t interface{ Fatalf(string, ...any) }, width, height int) *screen {
	return &screen{t: t, width: width, height: height, rows: make([]string, height), wrap: true, cursor: true}
}

func (s *screen) Write(b []byte) (int, error) {
	text := string(b)
	for text != "" {
		switch {
		case text[0] == '\r':
			s.x = 0
			text = text[1:]
		case text[0] == '\n':
			if s.y++; s.y == s.height {
				s.back, s.rows = append(s.back, s.rows[0]), append(s.rows[1:], "")
				s.y--
			}
			text = text[1:]
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' && r <= '~' }) + 2
			s.csi(text[2:end], text[end])
			text = text[end+1:]
		default:
			s.put(text[0])
			text = text[1:]
		}
	}
	return len(b), nil
}

func (s *screen) put(c byte) {
	if c < ' ' || c > '~' {
		s.t.Fatalf("character %q", c)
	}
	if s.x >= s.width {
		if s.wrap {
			s.t.Fatalf("a row of more than %d columns", s.width)
		}
		s.x = s.width - 1
	}
	row := s.rows[s.y]
	row += strings.Repeat(" ", max(s.x-len(row), 0))
	s.rows[s.y] = row[:s.x] + string(c) + row[min(s.x+1, len(row)):]
	s.x++
	if !s.sync {
		s.unsynced++
	}
}

func (s *screen) csi(args string, cmd byte) {
	n := 1
	if v, err := strconv.Atoi(args); err == nil {
		n = v
	}
	switch full := args + string(cmd); {
	case cmd == 'A':
		s.y = max(s.y-n, 0)
	case cmd == 'B':
		s.y = min(s.y+n, s.height-1)
	case cmd == 'C':
		s.x = min(s.x+n, s.width-1)
	case full == "K":
		s.rows[s.y] = s.rows[s.y][:min(s.x, len(s.rows[s.y]))]
	case full == "J":
		s.rows[s.y] = s.rows[s.y][:min(s.x, len(s.rows[s.y]))]
		for y := s.y + 1; y < s.height; y++ {
			s.rows[y] = ""
		}
	case full == "?2026h" || full == "?2026l":
		s.sync = cmd == 'h'
	case full == "?7h" || full == "?7l":
		s.wrap = cmd == 'h'
	case full == "?25h" || full == "?25l":
		s.cursor = cmd == 'h'
	case full == "?2004h", full == "?2004l", full == ">1u", full == "<1u", cmd == 'm':
	default:
		s.t.Fatalf("sequence %q", full)
	}
}

// all gives everything from the first row on, without empty rows at the end.
func (s *screen) all() []string {
	out := append(slices.Clone(s.back), s.rows...)
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// TestScrollbackAndLive: after any frames, the terminal holds every finished
// line once, in order, then the live ones, and the cursor is where it belongs.
func TestScrollbackAndLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const width, height = 20, 8
		s := newScreen(t, width, height)
		p := &Painter{W: s}
		if err := p.Enter(); err != nil {
			t.Fatalf("%v", err)
		}
		line := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"a", "bb", "a full row of twenty", "ccc ccc", "x"}).Draw(t, "line")
		})
		var want []string
		for i := range rapid.IntRange(1, 20).Draw(t, "frames") {
			f := Frame{
				Done: rapid.SliceOfN(line, 0, 12).Draw(t, "done"),
				Live: rapid.SliceOfN(line, 1, height-1).Draw(t, "live"),
			}
			f.Row = rapid.IntRange(0, len(f.Live)-1).Draw(t, "row")
			f.Col = rapid.IntRange(0, width-1).Draw(t, "col")
			f.Hide = rapid.Bool().Draw(t, "hide")
			if err := p.Paint(f); err != nil {
				t.Fatalf("%v", err)
			}
			want = append(want, f.Done...)
			if got, all := s.all(), append(slices.Clone(want), f.Live...); !slices.Equal(got, all) {
				t.Fatalf("frame %d:\n%q\nwant\n%q", i, got, all)
			}
			if y := len(s.back) + s.y; y != len(want)+f.Row || s.x != f.Col {
				t.Fatalf("frame %d: cursor in row %d, column %d; want %d, %d", i, y, s.x, len(want)+f.Row, f.Col)
			}
			if s.sync || !s.wrap || s.cursor == f.Hide || s.unsynced > 0 {
				t.Fatalf("frame %d: modes %+v", i, s)
			}
		}
		if err := p.Leave(); err != nil {
			t.Fatalf("%v", err)
		}
		if got := s.all(); !slices.Equal(got, want) || s.x != 0 || !s.cursor {
			t.Fatalf("left %q, want %q", got, want)
		}
	})
}

// TestWritesLittle: rows that stay are not written again, and nothing at all
// where nothing changed.
func TestWritesLittle(t *testing.T) {
	var b bytes.Buffer
	p := &Painter{W: &b}
	f := Frame{Live: []string{"one", "two", "three"}, Row: 2, Col: 1}
	paint := func() string {
		t.Helper()
		b.Reset()
		if err := p.Paint(f); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	paint()
	if got := paint(); got != "" {
		t.Errorf("nothing changed, and %q was written", got)
	}
	f.Live = []string{"one", "2", "three"}
	if got := paint(); strings.Contains(got, "one") || strings.Contains(got, "three") || !strings.Contains(got, "2") {
		t.Errorf("wrote %q", got)
	}
	f.Done, f.Live = []string{"one"}, []string{"2", "three", "four"}
	if got := paint(); strings.Contains(got, "one") || strings.Contains(got, "three") || !strings.Contains(got, "four") {
		t.Errorf("what only moved was written: %q", got)
	}
}

// TestResize: rows that the terminal broke are taken away with the others.
func TestResize(t *testing.T) {
	var b bytes.Buffer
	p := &Painter{W: &b}
	p.Resize(80)
	if err := p.Paint(Frame{Live: []string{strings.Repeat("x", 79), strings.Repeat("y", 30), "> typed"}, Row: 2, Col: 7}); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	p.Resize(40) // 2 rows, 1 row, then the cursor's
	if want := fmt.Sprintf("\x1b[?2026h\r\x1b[%dA\x1b[J\x1b[?2026l", 3); b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// A joiner at the end of a row must not draw the next row's first letter onto it.
func TestPainter_JoinerAtTheEnd(t *testing.T) {
	for row, want := range map[string]string{"x\u200d": "x\u200d ", "\x1b[2mx\u200d\x1b[0m": "\x1b[2mx\u200d\x1b[0m ", "a\u200db": "a\u200db"} {
		var out bytes.Buffer
		p := Painter{W: &out}
		if err := p.Paint(Frame{Done: []string{row}, Live: []string{"live"}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "\x1b[K"+want+"\r\n") {
			t.Errorf("%q: %q", row, out.String())
		}
	}
}
