package bridge

import (
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
)

func TestAnswers(t *testing.T) {
	m := &Machine{cfg: Config{Limit: 300, Parts: 2}}
	long := strings.Repeat("word ", 300)
	for _, c := range []struct {
		name  string
		done  proto.Done
		files bool
		want  []string // how each part begins
		file  string
	}{
		{"an answer", proto.Done{Outcome: proto.TurnAnswered, Answer: "hi"}, false, []string{"hi"}, ""},
		{"files", proto.Done{Outcome: proto.TurnAnswered, Answer: "hi"}, true, []string{"hi\n\n_Attached files are not read._"}, ""},
		{"stopped", proto.Done{Outcome: proto.TurnStopped, Text: "you stopped it"}, false, []string{"**Stopped.** you stopped it"}, ""},
		{"an error with its key", proto.Done{Outcome: proto.TurnFailed, Text: "no (see runbook: x)", Runbook: "x"}, false, []string{"**This did not work.** no (see runbook: x)"}, ""},
		{"capped with a part", proto.Done{Outcome: proto.TurnCapped, Answer: "half", Text: "too long"}, false, []string{"half\n\n**Ended early.** too long"}, ""},
		{"full", proto.Done{Outcome: proto.TurnContextFull, Text: "begin a new one"}, false, []string{"**The context is full.** begin"}, ""},
		{"two parts", proto.Done{Outcome: proto.TurnAnswered, Answer: long[:500]}, false, []string{"word", "word"}, ""},
		{"a file", proto.Done{Outcome: proto.TurnAnswered, Answer: long}, false, []string{"word", "_The whole answer:_"}, long},
		{"nobody is named", proto.Done{Outcome: proto.TurnAnswered, Answer: "@all look"}, false, []string{"@\u200ball look"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts := m.answer(&c.done, c.files)
			if len(parts) != len(c.want) {
				t.Fatalf("%+v", parts)
			}
			for n, p := range parts {
				if !strings.HasPrefix(p.Text, c.want[n]) || len([]rune(p.Text)) > 300 {
					t.Errorf("%q", p.Text)
				}
			}
			if parts[len(parts)-1].File != c.file {
				t.Errorf("file of %d bytes", len(parts[len(parts)-1].File))
			}
		})
	}
}

func TestViews(t *testing.T) {
	for _, c := range []struct {
		name string
		see  []proto.Message
		want string
	}{
		{"nothing yet", nil, "Working"},
		{"queued", []proto.Message{&proto.Accepted{Queued: 2}}, "Queued: 2 messages are before this one"},
		{"queued, told later", []proto.Message{&proto.Accepted{}, &proto.Waiting{Reason: proto.WaitQueue, Ahead: 1}}, "Queued: 1 message is"},
		{"the queue has moved", []proto.Message{&proto.Accepted{Queued: 1}, &proto.Prefill{Done: 10, Total: 40}}, "Reading, 25 % of 40 tokens"},
		{"thinking", []proto.Message{&proto.Thinking{Text: "x"}}, "Thinking"},
		{"a tool", []proto.Message{&proto.ToolStarted{Tool: "read_file"}}, "Using `read_file`"},
		{"two tools", []proto.Message{&proto.ToolStarted{Tool: "a"}, &proto.ToolStarted{Tool: "b"}}, "Using `b` · 2 calls"},
		{"a tool that is none", []proto.Message{&proto.ToolStarted{Tool: "@all `x`"}}, "Using a tool"},
		{"an approval", []proto.Message{&proto.Asked{}}, "Waiting for your approval"},
		{"a refused call", []proto.Message{&proto.Result{Outcome: proto.CallDenied, Code: proto.CodeDeniedByOwner}}, "Going on after a call that was not done (denied-by-owner)"},
		{"the model's server", []proto.Message{&proto.Waiting{Reason: proto.WaitModel}}, "Waiting for the model's server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v view
			for _, m := range c.see {
				v.see(m)
			}
			if got := v.text(0, false); !strings.HasPrefix(got, "⏳ _"+c.want) {
				t.Error(got)
			}
		})
	}
	v := view{doing: "Writing"}
	for since, want := range map[time.Duration]string{9 * time.Second: "⏳ _Writing_", 25 * time.Second: "⏳ _Writing · 20 s_", 150 * time.Second: "⏳ _Writing · 2 min_"} {
		if got := v.text(since, false); got != want {
			t.Errorf("%s: %s", since, got)
		}
	}
	if got := v.text(0, true); !strings.HasSuffix(got, "_Attached files are not read._") {
		t.Error(got)
	}
}
