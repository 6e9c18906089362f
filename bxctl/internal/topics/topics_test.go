package topics

import (
	"slices"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/term"

	"pgregory.net/rapid"
)

func screen(width int) term.Screen {
	sc := term.Plain(nil)
	sc.Width = func() int { return width }
	return sc
}

func TestAllTopics(t *testing.T) {
	if got := Names(); !slices.Equal(got, []string{"approvals", "audit", "confinement", "epochs", "grants", "mattermost", "practice", "secrets", "sessions", "slots"}) {
		t.Fatal(got)
	}
	for _, name := range Names() {
		topic, ok := Get(name)
		if !ok || topic.Title == "" || len(topic.Blocks) < 3 {
			t.Errorf("%s: %+v", name, topic)
		}
		for _, width := range []int{20, 60, 80, 300} {
			text := topic.Render(screen(width))
			for line := range strings.Lines(text) {
				line = strings.TrimRight(line, "\n")
				long := term.Columns(line) > min(width, 100)
				if long && strings.Contains(strings.TrimLeft(line, "- "), " ") && !strings.HasPrefix(line, "    ") && line != topic.Title {
					t.Errorf("%s at %d: %q", name, width, line)
				}
			}
			if strings.ContainsAny(text, "\x1b") || strings.Contains(text, "**") || strings.Contains(text, "`") && name != "slots" {
				t.Errorf("%s at %d has marks left:\n%s", name, width, text)
			}
		}
		// What it points to is there.
		for _, b := range topic.Blocks {
			for _, part := range strings.Split(b.Text, "bxctl help ")[1:] {
				other := strings.FieldsFunc(part, func(r rune) bool { return r < 'a' || r > 'z' })[0]
				if !slices.Contains(Names(), other) {
					t.Errorf("%s points to %q", name, other)
				}
			}
		}
	}
	if _, ok := Get("../topics"); ok {
		t.Error("a path is a topic")
	}
}

func TestRender(t *testing.T) {
	topic := parse("x", "# Title\n\nOne **two three** `four five`, six.\nSeven.\n\n- an item\n  that goes on\n- another\n\n    code  here\n\n    more\n\nEnd * here.\n")
	want := "Title\n\nOne two three four\nfive, six. Seven.\n\n- an item that goes\n  on\n- another\n\n    code  here\n\n    more\n\nEnd * here.\n"
	if got := topic.Render(screen(20)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	sc := screen(80)
	sc.Colour = true
	if got := topic.Render(sc); !strings.Contains(got, "\x1b[1mtwo\x1b[0m \x1b[1mthree\x1b[0m \x1b[32mfour\x1b[0m \x1b[32mfive\x1b[0m,") {
		t.Errorf("%q", got)
	}
}

// No text is lost: what comes out has the words that went in.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching("[a-z`* -]{0,80}").Draw(t, "text")
		var spans strings.Builder
		for _, s := range Spans(text) {
			spans.WriteString(s.Text)
		}
		marks := strings.NewReplacer("`", "", "*", "")
		if marks.Replace(spans.String()) != marks.Replace(text) {
			t.Errorf("%q gives %q", text, spans.String())
		}
		got := strings.Join(strings.Fields(wrap(screen(20), "", "", text, 20)), " ")
		if want := strings.Join(strings.Fields(spans.String()), " "); got != want {
			t.Errorf("%q gives %q", text, got)
		}
	})
}
