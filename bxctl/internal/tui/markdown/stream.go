// Package markdown lays Markdown out for a terminal while it arrives.
//
// A [Stream] guarantees that a line that it called finished never changes, that
// only the block that is still open is laid out again (so that the cost of a
// token does not grow with the answer), and that no control sequence, and no
// hidden character, of the text survives, whether it stands there as bytes or
// as an entity such as &#27;. No row begins as one of this program's own does,
// such as the frame around a question. Its own output holds SGR sequences only,
// and none at all without colour. It does not follow references from one block to
// another: each block is read for itself.
package markdown

import (
	"strings"

	"boxmaker/bxctl/internal/term"

	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// maxOpen bounds the open block, in bytes: a larger one is cut at a line or a
// space and goes on as a new block.
const maxOpen = 8 << 10

// A Stream is one text under way. Make it with [NewStream].
type Stream struct {
	theme Theme
	width int
	parse parser.Parser
	clean term.Cleaner

	partial string   // the last line, not ended yet
	block   []string // whole lines of the open block
	kind    kind
	blank   bool   // a blank line stands behind block
	inner   string // fence inside a list item, while it is open
	indent  int    // of the list's marker
	fence   string // that the open code block needs to end
	code    highlighter

	began bool // something was finished before
	loose bool // the next item of the list stands apart
	item  bool // the block goes on with the list that was finished last
	done  []string
	open  []string // laid out; nil: not yet
}

type kind int

const (
	none kind = iota
	paragraph
	listItem
	quote
	fenced
)

// NewStream begins a text in rows of at most width columns.
func NewStream(theme Theme, width int) *Stream {
	return &Stream{theme: theme, width: max(width, 8), parse: Tables()}
}

// Render lays a whole text out.
func Render(theme Theme, width int, s string) []string {
	st := NewStream(theme, width)
	return append(st.Write(s), st.Close()...)
}

// Write takes the next piece and gives the lines that it finished.
func (s *Stream) Write(piece string) []string {
	s.open = nil
	s.partial += s.clean.Clean(strings.ReplaceAll(piece, "\r", ""))
	for {
		line, rest, ok := strings.Cut(s.partial, "\n")
		if !ok {
			break
		}
		s.partial = rest
		s.feed(line)
	}
	s.bound()
	return s.take()
}

// Close finishes what is open.
func (s *Stream) Close() []string {
	if s.partial != "" {
		line := s.partial
		s.partial = ""
		s.feed(line)
	}
	if s.kind == fenced {
		s.emit([]span{{"```", dim}})
		s.kind = none
	}
	s.flush()
	s.open = nil
	return s.take()
}

// Resize changes the width for lines that are not finished yet.
func (s *Stream) Resize(width int) {
	s.width, s.open = max(width, 8), nil
}

// Open gives the lines of the block that is not finished yet.
func (s *Stream) Open() []string {
	if s.open != nil {
		return s.open
	}
	s.open = []string{}
	if s.kind == fenced {
		if s.partial != "" && !s.endsFence(s.partial) {
			h := s.code
			for _, row := range codeRows(&h, s.partial, s.width) {
				s.open = s.put(s.open, row)
			}
		}
		return s.open
	}
	src := strings.Join(append(s.block[:len(s.block):len(s.block)], s.partial), "\n")
	if strings.TrimSpace(src) == "" {
		return s.open
	}
	if s.gap() {
		s.open = append(s.open, "")
	}
	if at, ok := fenceStart(s.partial); ok && s.kind != listItem { // the start of a code block: nothing to be seen yet
		src = strings.Join(s.block, "\n")
		_ = at
	}
	for _, row := range s.rows(src) {
		s.open = s.put(s.open, row)
	}
	return s.open
}

func (s *Stream) take() []string {
	out := s.done
	s.done = nil
	return out
}

func (s *Stream) rows(src string) [][]span {
	if strings.TrimSpace(src) == "" {
		return nil
	}
	b := []byte(src)
	doc := s.parse.Parse(text.NewReader(b))
	r := renderer{theme: s.theme, src: b}
	return r.blocks(doc, s.width, false)
}

func (s *Stream) emit(row []span) { s.done = s.put(s.done, row) }

// put adds a row. One that could pass for a row of the program itself, such as a
// piece of the frame around a question to the owner, stands behind a gutter.
func (s *Stream) put(to []string, row []span) []string {
	var text strings.Builder
	for _, p := range row {
		if p == columnRule {
			text.WriteByte(' ') // drawn here, between the cells of a table
			continue
		}
		text.WriteString(p.text)
	}
	if !term.Ours(text.String()) {
		return append(to, s.theme.paint(row))
	}
	for _, r := range chop(row, s.width-term.Columns(term.Gutter)) {
		to = append(to, s.theme.paint(append([]span{{term.Gutter, dim}}, r...)))
	}
	return to
}

// gap reports whether an empty line goes before the open block.
func (s *Stream) gap() bool { return s.began && (!s.item || s.loose) }

// flush finishes the block.
func (s *Stream) flush() {
	rows := s.rows(strings.Join(s.block, "\n"))
	if len(rows) > 0 {
		if s.gap() {
			s.emit(nil)
		}
		for _, row := range rows {
			s.emit(row)
		}
		s.began = true
	}
	s.block, s.kind, s.blank, s.inner, s.item, s.loose = nil, none, false, "", false, false
}

// bound keeps the open block small.
func (s *Stream) bound() {
	size := len(s.partial)
	for _, l := range s.block {
		size += len(l) + 1
	}
	if size <= maxOpen {
		return
	}
	if s.kind == fenced {
		s.feedCode(s.partial)
		s.partial = ""
		return
	}
	if len(s.partial) > maxOpen {
		cut := strings.LastIndexByte(s.partial[:maxOpen], ' ')
		if cut <= 0 {
			cut = len(strings.ToValidUTF8(s.partial[:maxOpen], ""))
		}
		line := s.partial[:cut]
		s.partial = s.partial[cut:]
		s.feed(line)
	}
	s.flush()
}
