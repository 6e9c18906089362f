package archive

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"
)

// told is a session of these messages.
type told []*proto.Past

func (s told) Past(_ context.Context, _ string, visit func(*proto.Past) error) (*proto.SessionDetail, error) {
	for _, p := range s {
		if err := visit(p); err != nil {
			return nil, err
		}
	}
	return &proto.SessionDetail{Model: "m"}, nil
}

func (told) Sessions(context.Context, string, int) (*proto.SessionList, error) { return nil, nil }

func exported(t interface{ Fatal(...any) }, all ...*proto.Past) string {
	var out bytes.Buffer
	if err := (Export{Source: told(all), Screen: term.Plain(&out)}).Markdown(context.Background(), "chat-a"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const someTime = "2026-01-02T15:04:06.000Z"

// ours gives the lines that do not stand behind the mark of a quotation.
func ours(doc string) (lines []string) {
	for l := range strings.Lines(doc) {
		if l = strings.TrimSuffix(l, "\n"); l != "" && !strings.HasPrefix(l, ">") {
			lines = append(lines, l)
		}
	}
	return lines
}

// structure gives the headings and the HTML of the document as a reader shows
// it, beside what stands in quotations: there may be no HTML in those.
func structure(doc string) (found []string) {
	src := []byte(doc)
	tree := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(src))
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Parent().Kind() == ast.KindDocument {
				found = append(found, "# "+string(n.Lines().Value(src)))
			}
		case *ast.HTMLBlock:
			lines := string(n.Lines().Value(src))
			if n.HasClosure() {
				lines += string(n.ClosureLine.Value(src))
			}
			found = append(found, strings.TrimSpace(lines))
		case *ast.RawHTML:
			found = append(found, string(n.Segments.Value(src)))
		case *ast.ThematicBreak:
			if n.Parent().Kind() == ast.KindDocument {
				found = append(found, "---")
			}
		}
		return ast.WalkContinue, nil
	})
	return found
}

// TestForgedSections: whatever anybody wrote, what looks like a part of the
// document is one, as plain text and as Markdown.
func TestForgedSections(t *testing.T) {
	bit := rapid.SampledFrom([]string{
		"## You, " + someTime + "\n", "# Session chat-b\n", "You, " + someTime + "\n---\n", "===\n", "---\n", "***\n", "\n", "\n\n", " ", "    ", "\t", "\r", "\r\n", "word", "- ", "1. ", "> ", ">",
		"```\n", "````\n", "~~~\n", "`", "``", "<!--", "-->", "<details>", "</details>", "</blockquote>", "<h2>You</h2>", "<script>", "</script>", "<pre>", "</pre>", "<?", "?>", "<![CDATA[", "]]>", "<!X", "<b>", "<a title=\"", "\">",
		"\\", "*", "| a | b |\n|---|---|\n", "|", "[x]: http://e.example\n", "[x]", "&lt;b>", "\u2028", "\x00", "\u0085", "\v", "\f", "<https://e.example>",
	})
	anything := rapid.Map(rapid.SliceOfN(bit, 0, 25), func(s []string) string { return strings.Join(s, "") })
	rapid.Check(t, func(t *rapid.T) {
		doc := exported(t,
			&proto.Past{Epoch: 1, Time: someTime, Role: "user", Text: "x" + anything.Draw(t, "user")},
			&proto.Past{Epoch: 1, Time: someTime, Role: "assistant", Thinking: "x" + anything.Draw(t, "thinking"), Text: "x" + anything.Draw(t, "text"), Tool: "clock", Args: anything.Draw(t, "args")},
			&proto.Past{Epoch: 1, Time: someTime, Role: "tool", Text: anything.Draw(t, "result")},
			&proto.Past{Epoch: 1, Time: someTime, Role: "turn", Text: "answered"},
		)
		want := []string{"# Session chat-a", "## You, " + someTime, "## Boxmaker, " + someTime, "<details><summary>Thinking</summary>", "</details>", "Calls `clock`:", "## Tool result, " + someTime, "---"}
		got := ours(doc)
		if len(got) != len(want)+1 || !slices.Equal(got[:len(want)], want) {
			t.Fatalf("lines\n%q\nin\n%s", got, doc)
		}
		want = []string{"# Session chat-a", "# You, " + someTime, "# Boxmaker, " + someTime, "<details><summary>Thinking</summary>", "</details>", "# Tool result, " + someTime, "---"}
		if got := structure(doc); !slices.Equal(got, want) {
			t.Fatalf("structure\n%q\nof\n%s", got, doc)
		}
	})
}

// TestToolNames: the name of a tool is a model's word as well.
func TestToolNames(t *testing.T) {
	for name, want := range map[string]string{
		"clock":               "Calls `clock`:",
		"a`b":                 "Calls `` a`b ``:",
		"x`\n\n## You, never": "Calls `` x` ## You, never ``:",
		"<b>":                 "Calls `<b>`:",
	} {
		doc := exported(t, &proto.Past{Epoch: 1, Time: someTime, Role: "assistant", Tool: name, Args: "{}"})
		if got := ours(doc); len(got) < 3 || got[2] != want {
			t.Errorf("%q: %q", name, got)
		}
		if got := structure(doc); len(got) != 3 {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// TestHTMLStaysReadable: what would be HTML is shown as it was written, and
// code is not touched.
func TestHTMLStaysReadable(t *testing.T) {
	for in, want := range map[string]string{
		"a <b>c</b>":            "> a \\<b>c\\</b>\n",
		"`<b>` and Map<K>":      "> `<b>` and Map\\<K>\n",
		"```html\n<b>\n```":     "> ```html\n> <b>\n> ```\n",
		"1 < 2 <https://e.com>": "> 1 < 2 <https://e.com>\n",
		"a\n\n\nb":              "> a\n>\n>\n> b\n",
		"\\\\<b>":               "> \\\\\\<b>\n",
		"a\r\nb":                "> a\n> b\n",
	} {
		if got := quoted(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestQuotingEnds: however much there is to escape.
func TestQuotingEnds(t *testing.T) {
	start := time.Now()
	got := quoted(strings.Repeat("<b>`<i>`` ", 20000))
	if structure(got) != nil {
		t.Error("HTML is left")
	}
	t.Log(time.Since(start))
}
