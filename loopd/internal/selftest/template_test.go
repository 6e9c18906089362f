package selftest

import (
	"fmt"
	"strings"
	"testing"

	"boxmaker/internal/testkit"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rendered is what the templates below need of one.
type rendered struct {
	Role      string         `json:"role"`
	Content   string         `json:"content"`
	Reasoning string         `json:"reasoning_content"`
	Calls     jsontext.Value `json:"tool_calls"`
}

// render makes a template out of one that renders an assistant message, given
// whether it comes after the last question of the user.
func render(assistant func(m rendered, current bool) string) func(body []byte) (string, error) {
	return func(body []byte) (string, error) {
		var q struct {
			Messages []rendered `json:"messages"`
			Prompt   *bool      `json:"add_generation_prompt"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			return "", err
		}
		last := 0
		for i, m := range q.Messages {
			if m.Role == "user" {
				last = i
			}
		}
		var b strings.Builder
		for i, m := range q.Messages {
			text := m.Content
			if m.Role == "assistant" {
				text = assistant(m, i > last) + text + string(m.Calls)
			}
			fmt.Fprintf(&b, "<|im_start|>%s\n%s<|im_end|>\n", m.Role, text)
		}
		if q.Prompt == nil || *q.Prompt {
			b.WriteString("<|im_start|>assistant\n")
		}
		return b.String(), nil
	}
}

func think(m rendered) string { return "<think>\n" + m.Reasoning + "\n</think>\n\n" }

func TestCase_P08_EmptyThinkBlocksInTheLastTurnOnly(t *testing.T) {
	checkTemplateFails(t, render(func(m rendered, current bool) string {
		if current || m.Reasoning != "" {
			return think(m)
		}
		return ""
	}), "parting at byte")
}

func TestCase_P09_ThinkingDroppedBeforeTheLastQuestion(t *testing.T) {
	checkTemplateFails(t, render(func(m rendered, current bool) string {
		if current {
			return think(m)
		}
		return ""
	}), "parting at byte")
}

func TestTemplateThatLosesText(t *testing.T) {
	whole := render(func(m rendered, _ bool) string { return think(m) })
	without := func(text string) func(body []byte) (string, error) {
		return func(body []byte) (string, error) {
			all, err := whole(body)
			return strings.ReplaceAll(all, text, ""), err
		}
	}
	checkTemplateFails(t, without(textResult1), `a rendering without "selftest-result-one"`)
	checkTemplateFails(t, func(body []byte) (string, error) {
		if strings.Contains(string(body), textUser1+`"},{"role":"user"`) {
			return without(textUser1)(body)
		}
		return whole(body)
	}, "one of them missing")
}

func checkTemplateFails(t *testing.T, f func(body []byte) (string, error), words string) {
	t.Helper()
	l := testkit.NewLlama(t)
	l.SetRender(f)
	_, checks, err := run(t, config(l))
	c := checks[checkExtension]
	if err == nil || c.State != stateFailed || c.Runbook != "selftest-extension" || !strings.Contains(c.Detail, words) {
		t.Errorf("%v: %+v", err, c)
	}
}

func TestTemplatesThatFit(t *testing.T) {
	tests := map[string]struct {
		render func(body []byte) (string, error)
		detail string
	}{
		"thinking in every turn": {render(func(m rendered, _ bool) string { return think(m) }), "thinking included"},
		"only where there is some": {render(func(m rendered, _ bool) string {
			if m.Reasoning == "" {
				return ""
			}
			return think(m)
		}), "thinking included"},
		"no thinking at all": {render(func(rendered, bool) string { return "" }), "renders no thinking"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := testkit.NewLlama(t)
			l.SetRender(tt.render)
			_, checks, err := run(t, config(l))
			if c := checks[checkExtension]; err != nil || !strings.Contains(c.Detail, tt.detail) {
				t.Errorf("%v: %+v", err, c)
			}
		})
	}
}
