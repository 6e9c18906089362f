package fetch

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"boxmaker/internal/tool"

	readability "codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of what a page is searched for its main part.
const (
	maxNodes   = 50_000
	minArticle = 200 // characters; below, the whole page says more
)

// readable makes text of a page: its main part if there is one, or all of it.
func readable(page string, at *url.URL) string {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil { // nested too deep
		return strings.TrimSpace(stripped(page))
	}
	title := strings.Join(strings.Fields(visible(titleOf(doc))), " ")
	base := baseOf(doc, at)
	prune(doc)
	whole := render(doc, base)
	text := whole
	if part := article(doc, at); part != nil {
		if s := render(part, base); len(s) >= minArticle && len(s)*4 >= len(whole) {
			text = s
		}
	}
	if title != "" && !strings.HasPrefix(text, "# "+title+"\n") {
		text = "# " + title + "\n\n" + text
	}
	return strings.TrimSpace(text) + "\n"
}

// article finds the main part of a page that was pruned. What the finder makes
// of a page that it cannot cope with is no reason to fail.
func article(doc *html.Node, at *url.URL) (part *html.Node) {
	defer func() {
		if recover() != nil {
			part = nil
		}
	}()
	p := readability.NewParser()
	p.MaxElemsToParse, p.DisableJSONLD = maxNodes, true
	found, err := p.ParseDocument(doc, at) // works on a copy
	if err != nil {
		return nil
	}
	return found.Node
}

// stripped is the text of a page that cannot be parsed as a tree.
func stripped(page string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	skip := 0
	for {
		switch z.Next() {
		case html.ErrorToken:
			return visible(b.String())
		case html.TextToken:
			if skip == 0 {
				b.Write(z.Text())
				b.WriteByte(' ')
			}
		case html.StartTagToken, html.EndTagToken:
			name, _ := z.TagName()
			if a := atom.Lookup(name); a == atom.Script || a == atom.Style {
				skip = 1 - skip
			}
		}
	}
}

func titleOf(n *html.Node) string {
	for c := range n.Descendants() {
		if c.DataAtom == atom.Title && c.Namespace == "" && c.FirstChild != nil {
			return c.FirstChild.Data
		}
	}
	return ""
}

// baseOf is what relative links count from.
func baseOf(doc *html.Node, at *url.URL) *url.URL {
	for c := range doc.Descendants() {
		if c.DataAtom == atom.Base {
			if u, err := at.Parse(attr(c, "href")); err == nil {
				return u
			}
		}
	}
	return at
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name && a.Namespace == "" })
}

// prune takes out what a person would not see: comments, scripts, and elements
// whose own attributes hide them.
func prune(n *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.CommentNode || c.Type == html.ElementNode && (unseen(c) || hidden(c)) {
			n.RemoveChild(c)
		} else {
			prune(c)
		}
		c = next
	}
}

func unseen(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Iframe, atom.Object, atom.Embed, atom.Svg, atom.Canvas,
		atom.Audio, atom.Video, atom.Input, atom.Select, atom.Textarea, atom.Datalist, atom.Math, atom.Map, atom.Meta, atom.Link:
		return true
	default:
		return false
	}
}

// hidden looks at the attributes of one element.
func hidden(n *html.Node) bool {
	if has(n, "hidden") || strings.EqualFold(strings.TrimSpace(attr(n, "aria-hidden")), "true") || n.DataAtom == atom.Dialog && !has(n, "open") {
		return true
	}
	style := strings.ToLower(attr(n, "style"))
	if style == "" {
		return false
	}
	style = noise().ReplaceAllString(style, "")
	for rule := range strings.SplitSeq(style, ";") {
		name, value, _ := strings.Cut(rule, ":")
		if hides(name, value) {
			return true
		}
	}
	return false
}

var (
	noise      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/\*.*?\*/|\s+|!important`) })
	zeroLength = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[+-]?(0+(\.0*)?|\.0+)(px|em|rem|pt|%|vw|vh)?$`) })
	farAway    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-\d{3,}`) })
)

// hides knows the usual ways to have text on a page that nobody sees.
func hides(name, value string) bool {
	zero, far := zeroLength().MatchString(value), farAway().MatchString(value)
	switch name {
	case "display":
		return value == "none"
	case "visibility":
		return value == "hidden" || value == "collapse"
	case "content-visibility":
		return value == "hidden"
	case "opacity", "font-size", "max-height", "max-width", "height", "width", "zoom":
		return zero || name == "font-size" && (value == "1px" || value == "1pt")
	case "color", "-webkit-text-fill-color":
		return value == "transparent" || strings.HasPrefix(value, "rgba(") && strings.HasSuffix(value, ",0)")
	case "text-indent", "left", "top", "right", "bottom", "margin-left", "margin-top":
		return far
	case "clip":
		return strings.HasPrefix(value, "rect(0") || strings.HasPrefix(value, "rect(1px,1px,1px")
	case "clip-path":
		return value == "inset(100%)" || value == "inset(50%)" || value == "circle(0)" || value == "polygon(0000)"
	case "transform":
		return strings.HasPrefix(value, "scale(0") && !strings.HasPrefix(value, "scale(0.")
	default:
		return false
	}
}

// visible drops characters that a person cannot see, among them those in which
// text for machines alone is written.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || tool.Visible(r) {
			return r
		}
		if r == '\r' || r == '\f' || r == '\u2028' || r == '\u2029' {
			return '\n'
		}
		return -1
	}, s)
}
