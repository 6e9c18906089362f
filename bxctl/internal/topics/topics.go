// Package topics is `bxctl help TOPIC`: short texts about the concepts of
// Boxmaker, embedded in the program.
//
// It guarantees that every topic has a title and renders to any width from 20
// columns on, longer words and code apart. The texts are a small part of
// Markdown: one title, paragraphs, lists of one level, indented code, `code`
// and **strong** spans.
package topics

import (
	"embed"
	"io/fs"
	"strings"

	"boxmaker/bxctl/internal/term"
)

//go:embed text/*.md
var files embed.FS

// Names lists the topics.
func Names() []string {
	all, _ := fs.Glob(files, "text/*.md") // the pattern is right
	var out []string
	for _, f := range all {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(f, "text/"), ".md"))
	}
	return out
}

// Get gives a topic; false if there is none of that name.
func Get(name string) (Topic, bool) {
	text, err := files.ReadFile("text/" + name + ".md")
	if err != nil {
		return Topic{}, false
	}
	return parse(name, string(text)), true
}

// A Topic is one text.
type Topic struct {
	Name, Title string
	Blocks      []Block
}

// Kind tells what a block is.
type Kind int

// Kinds of blocks.
const (
	Paragraph Kind = iota
	Item           // of a list
	Code           // lines as they stand
)

// A Block is one paragraph, item or piece of code. Text of the first two is
// one line, with spans in it.
type Block struct {
	Kind Kind
	Text string
}

func parse(name, text string) Topic {
	t := Topic{Name: name}
	var last *Block // the block that a line may go on with
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		start := func(k Kind, s string) {
			t.Blocks = append(t.Blocks, Block{k, s})
			last = &t.Blocks[len(t.Blocks)-1]
		}
		switch code, isCode := strings.CutPrefix(line, "    "); {
		case strings.HasPrefix(line, "# "):
			t.Title = line[2:]
		case line == "":
			if last != nil && last.Kind == Code {
				last.Text += "\n" // perhaps inside of it
			} else {
				last = nil
			}
		case isCode && (last == nil || last.Kind == Code):
			if last == nil {
				start(Code, code)
			} else {
				last.Text += "\n" + code
			}
		case strings.HasPrefix(line, "- "):
			start(Item, line[2:])
		case last == nil || last.Kind == Code:
			start(Paragraph, line)
		default:
			last.Text += " " + strings.TrimSpace(line)
		}
	}
	for i, b := range t.Blocks {
		t.Blocks[i].Text = strings.TrimRight(b.Text, "\n")
		if b.Kind == Code {
			t.Blocks[i].Text = strings.ReplaceAll(t.Blocks[i].Text, "\n\n\n", "\n\n")
		}
	}
	return t
}

// A Span is a piece of text in one style.
type Span struct {
	Text         string
	Code, Strong bool
}

// Spans takes a text apart.
func Spans(s string) []Span {
	var out []Span
	for s != "" {
		i := strings.IndexAny(s, "`*")
		if i < 0 {
			return append(out, Span{Text: s})
		}
		mark := "`"
		if s[i] == '*' {
			mark = "**"
		}
		inner, rest, ok := strings.Cut(strings.TrimPrefix(s[i:], mark), mark)
		if !strings.HasPrefix(s[i:], mark) || !ok {
			i++
			out, s = append(out, Span{Text: s[:i]}), s[i:]
			continue
		}
		if i > 0 {
			out = append(out, Span{Text: s[:i]})
		}
		out, s = append(out, Span{Text: inner, Code: mark == "`", Strong: mark != "`"}), rest
	}
	return out
}

// Render gives the text for a screen.
func (t Topic) Render(sc term.Screen) string {
	width := min(sc.Width(), 100)
	var b strings.Builder
	b.WriteString(sc.Bold(t.Title) + "\n")
	before := Paragraph
	for i, bl := range t.Blocks {
		if i == 0 || bl.Kind != Item || before != Item {
			b.WriteString("\n")
		}
		before = bl.Kind
		switch bl.Kind {
		case Code:
			for line := range strings.Lines(bl.Text + "\n") {
				if line = strings.TrimRight(line, "\n"); line != "" {
					line = "    " + sc.Good(line)
				}
				b.WriteString(line + "\n")
			}
		case Item:
			b.WriteString(wrap(sc, "- ", "  ", bl.Text, width))
		default:
			b.WriteString(wrap(sc, "", "", bl.Text, width))
		}
	}
	return b.String()
}

// A word is what is not broken: several spans without a space between.
type word struct {
	shown   string // with colours
	columns int
}

// words cuts a text at its spaces. Code keeps its own spaces together.
func words(sc term.Screen, text string) []word {
	var out []word
	glue := false
	add := func(s string, paint func(string) string) {
		if s == "" {
			return
		}
		if glue {
			out[len(out)-1].shown += paint(s)
			out[len(out)-1].columns += term.Columns(s)
		} else {
			out = append(out, word{paint(s), term.Columns(s)})
		}
		glue = true
	}
	for _, sp := range Spans(text) {
		paint := func(s string) string { return s }
		switch {
		case sp.Code:
			paint = sc.Good
		case sp.Strong:
			paint = sc.Bold
		}
		for i, w := range strings.Split(sp.Text, " ") {
			if i > 0 {
				glue = false
			}
			add(w, paint)
		}
	}
	return out
}

// wrap lays words out in lines.
func wrap(sc term.Screen, first, other, text string, width int) string {
	var b strings.Builder
	b.WriteString(first)
	at := len(first)
	for i, w := range words(sc, text) {
		switch {
		case i == 0:
		case at+1+w.columns > width:
			b.WriteString("\n" + other)
			at = len(other)
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(w.shown)
		at += w.columns
	}
	return b.String() + "\n"
}
