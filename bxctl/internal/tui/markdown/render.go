package markdown

import (
	"html"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// renderer lays one document out.
type renderer struct {
	theme Theme
	src   []byte
}

// blocks renders the children of n, in rows of at most width columns.
func (r *renderer) blocks(n ast.Node, width int, tight bool) [][]span {
	var out [][]span
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		rows := r.block(c, width)
		if len(rows) == 0 {
			continue
		}
		if len(out) > 0 && !tight {
			out = append(out, nil)
		}
		out = append(out, rows...)
	}
	return out
}

func (r *renderer) block(n ast.Node, width int) [][]span {
	switch n := n.(type) {
	case *ast.Paragraph, *ast.TextBlock:
		return wrap(r.inline(n, 0), width)
	case *ast.Heading:
		line := r.inline(n, heading)
		if !r.theme.Colour {
			line = append([]span{{strings.Repeat("#", n.Level) + " ", 0}}, line...)
		}
		return wrap(line, width)
	case *ast.ThematicBreak:
		return [][]span{{{strings.Repeat("─", min(width, 40)), dim}}}
	case *ast.FencedCodeBlock:
		return r.code(string(n.Language(r.src)), n.Lines(), width)
	case *ast.CodeBlock:
		return r.code("", n.Lines(), width)
	case *ast.Blockquote:
		return prefix(r.blocks(n, width-2, false), span{"▎ ", dim}, span{"▎ ", dim})
	case *ast.List:
		return r.list(n, width)
	case *ast.HTMLBlock:
		return r.rawLines(n, width)
	case *east.Table:
		return r.table(n, width)
	default:
		return r.blocks(n, width, false)
	}
}

func (r *renderer) rawLines(n ast.Node, width int) [][]span {
	var out [][]span
	for i := 0; i < n.Lines().Len(); i++ {
		seg := n.Lines().At(i)
		out = append(out, wrap([]span{inert(strings.TrimRight(string(seg.Value(r.src)), "\n"), dim)}, width)...)
	}
	if h, ok := n.(*ast.HTMLBlock); ok && h.HasClosure() {
		out = append(out, wrap([]span{inert(strings.TrimRight(string(h.ClosureLine.Value(r.src)), "\n"), dim)}, width)...)
	}
	return out
}

func (r *renderer) code(lang string, lines *text.Segments, width int) [][]span {
	h := highlighter{lang: languageOf(lang)}
	out := [][]span{{inert("```"+lang, dim)}}
	for i := 0; i < lines.Len(); i++ {
		seg := lines.At(i)
		out = append(out, codeRows(&h, strings.TrimRight(string(seg.Value(r.src)), "\n"), width)...)
	}
	return append(out, []span{{"```", dim}})
}

// codeRows lays one line of code out; a longer one goes on in the next row.
func codeRows(h *highlighter, line string, width int) [][]span {
	return chop(h.line(line), width)
}

// chop breaks after width columns, without regard to spaces.
func chop(line []span, width int) [][]span {
	width = max(width, 4)
	if spanColumns(line) <= width {
		return [][]span{line}
	}
	var out [][]span
	var row []span
	used := 0
	for _, s := range line {
		for t := s.text; t != ""; {
			n, cols := cluster(t)
			if used+cols > width && used > 0 {
				out, row, used = append(out, row), nil, 0
			}
			row, used = append(row, span{t[:n], s.look}), used+cols
			t = t[n:]
		}
	}
	return append(out, row)
}

func (r *renderer) list(n *ast.List, width int) [][]span {
	var out [][]span
	num := n.Start
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		mark := "• "
		if n.IsOrdered() {
			mark = strconv.Itoa(num) + string(n.Marker) + " "
			num++
		}
		if len(out) > 0 && !n.IsTight {
			out = append(out, nil)
		}
		rows := r.blocks(c, width-len([]rune(mark)), n.IsTight)
		if len(rows) == 0 {
			rows = [][]span{nil}
		}
		out = append(out, prefix(rows, span{mark, dim}, span{strings.Repeat(" ", len([]rune(mark))), 0})...)
	}
	return out
}

func prefix(rows [][]span, first, rest span) [][]span {
	out := make([][]span, len(rows))
	for i, row := range rows {
		p := rest
		if i == 0 {
			p = first
		}
		out[i] = append([]span{p}, row...)
	}
	return out
}

// inline gives the text of a node, all of it with the marks of look.
func (r *renderer) inline(n ast.Node, look attr) []span {
	var out []span
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		out = append(out, r.inlineOne(c, look)...)
	}
	return out
}

func (r *renderer) inlineOne(n ast.Node, look attr) []span {
	switch n := n.(type) {
	case *ast.Text:
		out := []span{inert(plain(n.Segment.Value(r.src), n.IsRaw()), look)}
		if n.HardLineBreak() {
			out = append(out, span{"\n", 0})
		} else if n.SoftLineBreak() {
			out = append(out, span{" ", look})
		}
		return out
	case *ast.String:
		return []span{inert(string(n.Value), look)}
	case *ast.CodeSpan:
		return r.codeSpan(n, look)
	case *ast.Emphasis:
		if n.Level >= 2 {
			return r.inline(n, look|bold)
		}
		return r.inline(n, look|italic)
	case *east.Strikethrough:
		return r.inline(n, look|strike)
	case *east.TaskCheckBox:
		if n.IsChecked {
			return []span{{"[x] ", look}}
		}
		return []span{{"[ ] ", look}}
	case *ast.Link:
		return r.link(r.inline(n, look|under), string(n.Destination))
	case *ast.Image:
		return r.link(append([]span{{"image: ", dim}}, r.inline(n, look)...), string(n.Destination))
	case *ast.AutoLink:
		return []span{inert(string(n.URL(r.src)), look|under)}
	case *ast.RawHTML:
		var out []span
		for i := 0; i < n.Segments.Len(); i++ {
			seg := n.Segments.At(i)
			out = append(out, inert(string(seg.Value(r.src)), look))
		}
		return out
	default:
		return r.inline(n, look)
	}
}

// link shows where a link leads, always: its text may name another place.
func (r *renderer) link(text []span, to string) []span {
	var b strings.Builder
	for _, s := range text {
		b.WriteString(s.text)
	}
	if to == "" || to == b.String() || to == "mailto:"+b.String() {
		return text
	}
	return append(text, span{" ", 0}, inert("("+to+")", dim))
}

func (r *renderer) codeSpan(n *ast.CodeSpan, look attr) []span {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(r.src))
		}
	}
	s := strings.ReplaceAll(b.String(), "\n", " ")
	if inCell(n) {
		s = strings.ReplaceAll(s, `\|`, "|")
	}
	if !r.theme.Colour {
		s = "`" + s + "`"
	}
	return []span{inert(s, look|code)}
}

// plain undoes what Markdown's syntax adds: backslashes and entities. What
// comes out may hold control characters, so it has to pass inert.
func plain(b []byte, raw bool) string {
	s := string(b)
	if raw || !strings.ContainsAny(s, `\&`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && isPunct(s[i+1]):
			i++
			out.WriteByte(s[i])
		case s[i] == '&':
			end := strings.IndexByte(s[i:min(len(s), i+40)], ';')
			if end < 0 {
				out.WriteByte('&')
				continue
			}
			out.WriteString(html.UnescapeString(s[i : i+end+1]))
			i += end
		default:
			out.WriteByte(s[i])
		}
	}
	return out.String()
}

func isPunct(c byte) bool {
	return c >= '!' && c <= '/' || c >= ':' && c <= '@' || c >= '[' && c <= '`' || c >= '{' && c <= '~'
}
