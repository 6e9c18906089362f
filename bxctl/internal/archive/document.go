package archive

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/tui/markdown"
	"boxmaker/internal/proto"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Markdown writes the session as a document to read. What a person, a model or a
// tool wrote stands in quotations: each of its lines begins with ">", and there is
// no HTML in it. So every line that begins otherwise is this program's own, and
// nothing that is quoted can end its quotation, or look like a part of the document.
func (e Export) Markdown(ctx context.Context, id string) error {
	epoch := 0
	d, err := e.Source.Past(ctx, id, func(p *proto.Past) error {
		if epoch == 0 {
			fmt.Fprintf(e.Screen.W, "# Session %s\n", id) //nolint:errcheck // the next write tells
		} else if p.Epoch != epoch {
			fmt.Fprintf(e.Screen.W, "\n---\n\nEpoch %d\n", p.Epoch) //nolint:errcheck // the next write tells
		}
		epoch = p.Epoch
		_, err := io.WriteString(e.Screen.W, section(p))
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Screen.W, "\n---\n\n%s\n", term.Line(e.sums(d)))
	return err
}

// section is one message.
func section(p *proto.Past) string {
	names := map[string]string{"user": "You", "assistant": "Boxmaker", "tool": "Tool result"}
	var b strings.Builder
	if p.Role == "turn" {
		if p.Text != string(proto.TurnAnswered) {
			fmt.Fprintf(&b, "\n*The turn ended: %s.*\n", term.Line(p.Text))
		}
		return b.String()
	}
	fmt.Fprintf(&b, "\n## %s, %s\n", names[p.Role], term.Line(p.Time))
	if p.Thinking != "" {
		fmt.Fprintf(&b, "\n<details><summary>Thinking</summary>\n\n%s\n</details>\n", quoted(strings.TrimSpace(p.Thinking)))
	}
	switch {
	case p.Role == "tool":
		b.WriteString("\n" + verbatim("", p.Text))
	case p.Text != "":
		b.WriteString("\n" + quoted(strings.TrimSpace(p.Text)))
	}
	if p.Tool != "" && p.Role != "tool" {
		b.WriteString("\nCalls " + codeSpan(term.Line(p.Tool)) + ":\n\n" + verbatim("json", p.Args))
	}
	return b.String()
}

// codeSpan shows one line as code.
func codeSpan(s string) string {
	if !strings.Contains(s, "`") {
		return "`" + s + "`"
	}
	return longer(s, "`") + " " + s + " " + longer(s, "`")
}

// longer gives a row of backticks that s does not hold, of that length at least.
func longer(s, ticks string) string {
	for strings.Contains(s, ticks) {
		ticks += "`"
	}
	return ticks
}

// clean gives text in lines that end in \n, without what a terminal would act on.
func clean(s string) string { return term.Safe(strings.ReplaceAll(s, "\r\n", "\n")) }

// quote puts the mark of a quotation before each line.
func quote(s string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
		b.WriteString(strings.TrimRight("> "+line, " ") + "\n")
	}
	return b.String()
}

// verbatim quotes a text as it is.
func verbatim(lang, s string) string {
	s = clean(s)
	fence := longer(s, "```")
	return quote(fence + lang + "\n" + strings.TrimSuffix(s, "\n") + "\n" + fence)
}

// maxRounds bounds how often [quoted] reads a text.
const maxRounds = 20

// quoted quotes a text that is Markdown. HTML in it is shown as it was written: a
// reader that obeys it would let it end the quotation. What is HTML depends on
// what is code, and a backslash before it can change that, so that the result is
// read again until there is none.
func quoted(s string) string {
	doc := quote(clean(s))
	for range maxRounds {
		at := tags(doc)
		if len(at) == 0 {
			return doc
		}
		var b strings.Builder
		from := 0
		for _, i := range at {
			b.WriteString(doc[from:i] + `\`)
			from = i
		}
		doc = b.String() + doc[from:]
	}
	return verbatim("", s)
}

// tags gives the places of each < in HTML, for readers with tables and without.
func tags(doc string) (at []int) {
	src := []byte(doc)
	add := func(s text.Segment) {
		for i := s.Start; i < s.Stop; i++ {
			if src[i] == '<' {
				at = append(at, i)
			}
		}
	}
	for _, p := range []parser.Parser{markdown.CommonMark(), markdown.Tables()} {
		_ = ast.Walk(p.Parse(text.NewReader(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function has no errors
			switch n := n.(type) {
			case *ast.HTMLBlock:
				segments(n.Lines(), add)
				add(n.ClosureLine)
			case *ast.RawHTML:
				segments(n.Segments, add)
			}
			return ast.WalkContinue, nil
		})
	}
	slices.SortFunc(at, cmp.Compare)
	return slices.Compact(at)
}

func segments(all *text.Segments, visit func(text.Segment)) {
	for i := range all.Len() {
		visit(all.At(i))
	}
}
