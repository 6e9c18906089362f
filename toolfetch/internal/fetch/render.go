package fetch

import (
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxLinks bounds the list of links below a text.
const maxLinks = 100

// render writes a tree as plain text with a little Markdown: headings, lists,
// code, rows of tables. Links are numbered, and stand in a list at the end.
func render(n *html.Node, base *url.URL) string {
	r := &renderer{base: base, known: map[string]int{}}
	r.node(n)
	out := strings.TrimSpace(r.b.String())
	if len(r.links) > 0 {
		out += "\n\nLinks:\n"
		for i, l := range r.links {
			out += fmt.Sprintf("[%d] %s\n", i+1, l)
		}
	}
	return out + "\n"
}

type renderer struct {
	b     strings.Builder
	base  *url.URL
	links []string
	known map[string]int
	pre   bool
	depth int  // of lists
	space bool // a space is due before the next word
	lines int  // line ends at the end of b, at most two
}

// text writes words, with single spaces between them.
func (r *renderer) text(s string) {
	s = visible(s)
	if r.pre {
		r.raw(s)
		return
	}
	for i, word := range strings.FieldsFunc(s, space) {
		if i > 0 || r.space || space([]rune(s)[0]) {
			r.gap()
		}
		r.raw(word)
		r.space = false
	}
	if s != "" && space(rune(s[len(s)-1])) {
		r.space = true
	}
}

func space(c rune) bool {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\u00a0'
}

// gap writes a space, but not at the start of a line.
func (r *renderer) gap() {
	if r.lines == 0 && r.b.Len() > 0 {
		r.b.WriteByte(' ')
	}
}

func (r *renderer) raw(s string) {
	if s == "" {
		return
	}
	r.b.WriteString(s)
	end := strings.TrimRight(s, "\n")
	if end == "" {
		r.lines += len(s)
	} else {
		r.lines = len(s) - len(end)
	}
}

// breaks makes the text end in n line ends.
func (r *renderer) breaks(n int) {
	r.space = false
	if r.b.Len() == 0 {
		return
	}
	for r.lines < n {
		r.b.WriteByte('\n')
		r.lines++
	}
}

func (r *renderer) children(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		r.node(c)
	}
}

func (r *renderer) block(n *html.Node, breaks int, before, after string) {
	r.breaks(breaks)
	r.raw(before)
	r.children(n)
	r.raw(after)
	r.breaks(breaks)
}

func (r *renderer) node(n *html.Node) {
	if n.Type == html.TextNode {
		r.text(n.Data)
		return
	}
	if n.Type != html.ElementNode && n.Type != html.DocumentNode {
		return
	}
	switch n.DataAtom {
	case atom.Head:
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		r.block(n, 2, strings.Repeat("#", int(n.Data[1]-'0'))+" ", "")
	case atom.P, atom.Blockquote, atom.Article, atom.Section, atom.Figure, atom.Table, atom.Header, atom.Footer, atom.Main, atom.Nav, atom.Aside, atom.Dl, atom.Details, atom.Form:
		r.block(n, 2, "", "")
	case atom.Div, atom.Tr, atom.Dt, atom.Dd, atom.Figcaption, atom.Summary, atom.Address, atom.Caption, atom.Option:
		r.block(n, 1, "", "")
	case atom.Ul, atom.Ol:
		r.list(n)
	case atom.Li:
		r.item(n, "- ")
	case atom.Td, atom.Th:
		r.children(n)
		if n.NextSibling != nil {
			r.text(" | ")
		}
	case atom.Pre:
		r.preformatted(n)
	case atom.Code:
		r.around(n, "`")
	case atom.Br:
		r.breaks(1)
	case atom.Hr:
		r.breaks(2)
	case atom.Img:
		if alt := strings.TrimSpace(attr(n, "alt")); alt != "" {
			r.text(" [image: " + alt + "] ")
		}
	case atom.A:
		r.link(n)
	default:
		r.children(n)
	}
}

// preformatted writes preformatted text.
func (r *renderer) preformatted(n *html.Node) {
	r.breaks(2)
	if r.pre {
		r.children(n)
		return
	}
	r.raw("```\n")
	r.pre = true
	r.children(n)
	r.pre = false
	r.breaks(1)
	r.raw("```")
	r.breaks(2)
}

func (r *renderer) around(n *html.Node, mark string) {
	if r.pre {
		r.children(n)
		return
	}
	if r.space {
		r.gap()
		r.space = false
	}
	r.raw(mark)
	r.children(n)
	r.raw(mark)
}

func (r *renderer) list(n *html.Node) {
	outer := 2
	if r.depth > 0 {
		outer = 1
	}
	r.breaks(outer)
	r.depth++
	i := 0
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.DataAtom == atom.Li && n.DataAtom == atom.Ol {
			i++
			r.item(c, fmt.Sprintf("%d. ", i))
		} else {
			r.node(c)
		}
	}
	r.depth--
	r.breaks(outer)
}

func (r *renderer) item(n *html.Node, mark string) {
	r.block(n, 1, strings.Repeat("  ", max(r.depth-1, 0))+mark, "")
}

// link writes the words of a link and its number.
func (r *renderer) link(n *html.Node) {
	before := r.b.Len()
	r.children(n)
	u, err := r.base.Parse(strings.TrimSpace(attr(n, "href")))
	if err != nil || !has(n, "href") || u.Scheme != "http" && u.Scheme != "https" || strings.TrimSpace(r.b.String()[before:]) == "" {
		return
	}
	if u.Fragment != "" {
		here := *u
		here.Fragment, here.RawFragment = "", ""
		if at := *r.base; here.String() == at.String() {
			return // to another place on the same page
		}
	}
	s := visible(u.String())
	i := r.known[s]
	if i == 0 {
		if len(r.links) == maxLinks || len(s) > 500 {
			return
		}
		r.links = append(r.links, s)
		i = len(r.links)
		r.known[s] = i
	}
	r.raw(fmt.Sprintf(" [%d]", i))
}
