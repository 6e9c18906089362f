package program

import (
	"fmt"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"
)

// reserve is what a result keeps for our own words, in bytes.
const reserve = 400

// output writes what came of a program. A program that fails is no tool that
// fails: its exit code is the result.
func (j Job) output(p *process, state syscall.WaitStatus, took time.Duration) tool.Output {
	out := tool.Output{}
	var b strings.Builder
	switch {
	case p.ended && state.Signaled():
		out.Code = proto.CodeToolTimeout
		fmt.Fprintf(&b, "%s: the program was ended after %.1f s, the time of this call", out.Code, took.Seconds())
	case state.Signaled():
		fmt.Fprintf(&b, "ended by signal %d (%s)", int(state.Signal()), state.Signal())
		if state.Signal() == syscall.SIGKILL {
			b.WriteString(", perhaps since it needed more memory than was granted")
		}
	default:
		fmt.Fprintf(&b, "exit code %d", state.ExitStatus())
	}
	room := max(0, j.Limit-reserve)
	stdout, stderr := newStream(p.out), newStream(p.err)
	// Each may have what the other leaves; both have a quarter at least.
	errRoom := max(room/4, room-stdout.cost())
	e := stderr.fit(errRoom)
	o := stdout.fit(room - tooltext.Cost(e)/2)
	out.Dropped = stdout.gone + stderr.gone
	switch {
	case o == "" && e == "":
		b.WriteString(", no output")
		if out.Code != "" {
			b.WriteString(".")
		}
	case out.Code != "":
		b.WriteString("; what it printed until then follows.")
	}
	section(&b, "standard output", o)
	section(&b, "standard error", e)
	if stdout.bad || stderr.bad {
		b.WriteString("\n[bytes that are not UTF-8 text are shown like \\xE9]")
	}
	out.Text = b.String()
	return out
}

func section(b *strings.Builder, name, s string) {
	if s != "" {
		fmt.Fprintf(b, "\n--- %s ---\n%s", name, strings.TrimRight(s, "\n"))
	}
}

// stream is what was kept of one pipe, as text.
type stream struct {
	head, tail string
	gone       int64
	bad        bool
}

func newStream(c *capture) *stream {
	head, tail, gone := c.parts()
	if gone == 0 {
		head, tail = append(head, tail...), nil
	}
	s := &stream{gone: gone}
	if gone > 0 { // the parts may begin and end inside a character
		n := len(head)
		head = trimEnd(head)
		s.gone += int64(n - len(head))
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
			s.gone++
		}
	}
	var bad bool
	s.head, s.bad = tooltext.Clean(head)
	s.tail, bad = tooltext.Clean(tail)
	s.bad = s.bad || bad
	return s
}

func trimEnd(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

func (s *stream) cost() int64 { return (tooltext.Cost(s.head) + tooltext.Cost(s.tail) + 1) / 2 }

// fit gives the text with its middle cut to the room.
func (s *stream) fit(room int64) string {
	if s.gone == 0 && s.cost() <= room {
		return s.head + s.tail
	}
	const note = "\n[… %d bytes are left out here …]\n"
	room = max(0, room-int64(len(note))-20)
	all := s.head + s.tail
	if s.gone == 0 {
		s.head, s.tail = all, all
	}
	head, tail := tooltext.Head(s.head, room/2), tooltext.Tail(s.tail, room/2)
	s.gone += int64(len(all) - len(head) - len(tail))
	return head + fmt.Sprintf(note, s.gone) + tail
}
