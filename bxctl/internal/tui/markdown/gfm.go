package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// CommonMark gives a parser of the plain language.
func CommonMark() parser.Parser { return parser.NewParser(common()...) }

// Tables gives a parser with tables, strikethrough and task lists. Bare
// addresses stay text.
//
// goldmark has all three as extensions, in a package that also finds bare
// addresses, by expressions so large that compiling them was a sixth of what any
// command of bxctl took to start. The test holds these here to those there.
func Tables() parser.Parser {
	return parser.NewParser(append(common(),
		parser.WithInlineParsers(util.Prioritized(checkBox{}, 0), util.Prioritized(tildes{}, 500)), // before links; after emphasis
		parser.WithParagraphTransformers(util.Prioritized(tables{}, 200)),                          // after link references
	)...)
}

func common() []parser.Option {
	return []parser.Option{
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
	}
}

const spaces = " \t\n\r"

// tables makes a table of a paragraph that has a line like --|:-: in it; the
// line before that one is the head.
type tables struct{}

// Transform implements [parser.ParagraphTransformer].
func (tables) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	src, lines := reader.Source(), p.Lines()
	for i := 1; i < lines.Len(); i++ {
		sides := alignments(lines.At(i), src)
		if sides == nil {
			continue
		}
		head := tableCells(lines.At(i-1), src)
		if len(head) > len(sides) {
			return
		}
		t := east.NewTable()
		t.Alignments = sides
		t.AppendChild(t, east.NewTableHeader(newRow(head, sides)))
		for j := i + 1; j < lines.Len(); j++ {
			t.AppendChild(t, newRow(tableCells(lines.At(j), src), sides))
		}
		p.Parent().InsertAfter(p.Parent(), p, t)
		keepLines(p, i-1)
		return
	}
}

// keepLines leaves the first n lines of a paragraph, and nothing of one without lines.
func keepLines(p *ast.Paragraph, n int) {
	p.Lines().SetSliced(0, n)
	if n == 0 {
		p.Parent().RemoveChild(p.Parent(), p)
		return
	}
	last := p.Lines().At(n - 1)
	p.Lines().Set(n-1, last.WithStop(last.Stop-1)) // without its line break
}

func newRow(cells []text.Segment, sides []east.Alignment) *east.TableRow {
	row := east.NewTableRow(sides)
	for i, side := range sides {
		c := east.NewTableCell()
		if i < len(cells) {
			c.Alignment = side
			c.Lines().Append(cells[i])
		}
		row.AppendChild(row, c)
	}
	return row
}

// tableCells cuts a line at the bars that no backslash stands before.
func tableCells(line text.Segment, src []byte) []text.Segment {
	line = trimmed(line, src)
	at, end := line.Start, line.Stop
	if at < end && src[at] == '|' {
		at++
	}
	if at < end && src[end-1] == '|' && src[end-2] != '\\' {
		end--
	}
	var out []text.Segment
	for at < end {
		to := at
		for to < end && (src[to] != '|' || to > line.Start && src[to-1] == '\\') {
			to++
		}
		out = append(out, trimmed(text.NewSegment(at, to), src))
		at = to + 1
	}
	return out
}

func trimmed(s text.Segment, src []byte) text.Segment {
	s = s.TrimLeftSpace(src)
	return s.TrimRightSpace(src)
}

// alignments reads a line like --|:-:, nil if it is none.
func alignments(line text.Segment, src []byte) []east.Alignment {
	b := line.Value(src)
	if indent, _ := util.IndentWidth(b, 0); indent > 3 {
		return nil
	}
	cols := bytes.Split(b, []byte{'|'})
	if util.IsBlank(cols[0]) {
		cols = cols[1:]
	}
	if n := len(cols); n > 0 && util.IsBlank(cols[n-1]) {
		cols = cols[:n-1]
	}
	var out []east.Alignment
	for _, c := range cols {
		c, left := bytes.CutPrefix(bytes.Trim(c, spaces), []byte{':'})
		c, right := bytes.CutSuffix(c, []byte{':'})
		if len(c) == 0 || len(bytes.Trim(c, "-")) > 0 {
			return nil
		}
		switch {
		case left && right:
			out = append(out, east.AlignCenter)
		case left:
			out = append(out, east.AlignLeft)
		case right:
			out = append(out, east.AlignRight)
		default:
			out = append(out, east.AlignNone)
		}
	}
	return out
}

// inCell reports whether n is part of a table's cell.
func inCell(n ast.Node) bool {
	for ; n != nil; n = n.Parent() {
		if n.Kind() == east.KindTableCell {
			return true
		}
	}
	return false
}

// tildes strikes through what stands between one or two ~.
type tildes struct{}

// Trigger implements [parser.InlineParser].
func (tildes) Trigger() []byte { return []byte{'~'} }

// Parse implements [parser.InlineParser].
func (t tildes) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, at := block.PeekLine()
	d := parser.ScanDelimiter(line, before, 1, t)
	if d == nil || d.OriginalLength > 2 || before == '~' {
		return nil
	}
	d.Segment = at.WithStop(at.Start + d.OriginalLength)
	block.Advance(d.OriginalLength)
	pc.PushDelimiter(d)
	return d
}

// IsDelimiter implements [parser.DelimiterProcessor].
func (tildes) IsDelimiter(b byte) bool { return b == '~' }

// CanOpenCloser implements [parser.DelimiterProcessor].
func (tildes) CanOpenCloser(opener, closer *parser.Delimiter) bool { return opener.Char == closer.Char }

// OnMatch implements [parser.DelimiterProcessor].
func (tildes) OnMatch(int) ast.Node { return east.NewStrikethrough() }

// checkBox reads [ ] and [x] where a list's item begins.
type checkBox struct{}

// Trigger implements [parser.InlineParser].
func (checkBox) Trigger() []byte { return []byte{'['} }

// Parse implements [parser.InlineParser].
func (checkBox) Parse(parent ast.Node, block text.Reader, _ parser.Context) ast.Node {
	item, ok := parent.Parent().(*ast.ListItem)
	if !ok || item.FirstChild() != parent || parent.HasChildren() {
		return nil
	}
	line, _ := block.PeekLine()
	if len(line) < 3 || line[0] != '[' || line[2] != ']' || bytes.IndexByte([]byte(spaces+"xX"), line[1]) < 0 {
		return nil
	}
	rest := bytes.TrimLeft(line[3:], spaces)
	block.Advance(len(line) - len(rest))
	return east.NewTaskCheckBox(line[1] == 'x' || line[1] == 'X')
}
