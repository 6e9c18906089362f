package talk

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

// clock gives a time that a test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)} }

func terminal(b *bytes.Buffer) term.Screen {
	return term.Screen{W: b, Terminal: true, Width: func() int { return 60 }}
}

const call1, call2 = "chat-a/1/3/0", "chat-a/1/3/1"

// wait moves the clock; it is no event of loopd.
type wait time.Duration

func play(v *View, c *clock, script []any) {
	for _, e := range script {
		switch e := e.(type) {
		case wait:
			c.t = c.t.Add(time.Duration(e))
		case proto.Message:
			v.Event(e)
		case string:
			v.Rejoined()
		}
	}
}

func TestViews(t *testing.T) {
	answer := []any{
		&proto.Accepted{}, &proto.Thinking{Text: "hm"}, wait(2 * time.Second), &proto.Thinking{Text: "m"}, &proto.Text{Text: "\n\nHello"}, &proto.Text{Text: ", you"},
		&proto.Done{Outcome: proto.TurnAnswered, Answer: "Hello, you", Usage: proto.Usage{Completions: 1, Prompt: 10, Cached: 90, Generated: 1234, Context: 50, Window: 100}},
	}
	tool := []any{
		&proto.Accepted{}, &proto.Text{Text: "Let me look."}, &proto.ToolStarted{Call: call1, Tool: "clock", Args: "{}"},
		&proto.ToolStarted{Call: call2, Tool: "find_tool", Args: "{\"query\":\"a\x1b[2J\"}"},
		&proto.Result{Call: call1, Outcome: proto.CallOK, Class: proto.ClassPublic, Bytes: 31, MS: 2},
		&proto.Result{Call: call2, Outcome: proto.CallDenied, Code: proto.CodeNoBroker, Class: proto.ClassPublic},
		&proto.Text{Text: "It is noon."}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "It is noon."},
	}
	retry := []any{
		&proto.Accepted{}, &proto.Text{Text: "garb"}, &proto.Notice{Kind: proto.NoticeRetry, Text: "the stream was cut; asked again"},
		&proto.Text{Text: "good"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "good"},
	}
	rejoin := []any{&proto.Accepted{}, &proto.Text{Text: "on"}, "rejoined", &proto.Accepted{Known: true}, &proto.Text{Text: "one"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "one"}}
	unseen := []any{&proto.Accepted{}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "from the log\n"}}
	evil := []any{
		&proto.Text{Text: "a\x1b"}, &proto.Text{Text: "]0;x\a\u202eb"}, &proto.Notice{Kind: proto.NoticeTruncated, Text: "n\x1b[1m"},
		&proto.Done{Outcome: proto.TurnAnswered, Answer: "a\x1b]0;x\a\u202eb"},
	}
	stopped := []any{&proto.ToolStarted{Call: call1, Tool: "clock", Args: "{}"}, &proto.Done{Outcome: proto.TurnStopped}}
	for _, c := range []struct {
		name       string
		script     []any
		mode       string // piped, ask (both terminals), chat
		out, notes string // what the screens show at the end, without status lines
	}{
		{"answer, piped", answer, "piped", "Hello, you\n", ""},
		{"answer, ask", answer, "ask", "Hello, you\n", ""},
		{"answer, chat", answer, "chat", "(thought for 2.0 s)\nHello, you\n(2.0 s · 1,234 tokens written · 100 read, 90% from the cache · context 50% full)\n", ""},
		{"tool, piped", tool, "piped", "It is noon.\n", ""},
		{"tool, ask", tool, "ask", "Let me look.\nIt is noon.\n", "· clock → ok, 31 B, 2 ms\n· find_tool {\"query\":\"a␛[2J\"} → denied (no-broker)\n"},
		{"retry, piped", retry, "piped", "good\n", ""},
		{"retry, ask", retry, "ask", "garb\ngood\n", "! the text above is void: the stream was cut; asked again\n"},
		{"rejoined, piped", rejoin, "piped", "one\n", ""},
		{"rejoined, ask", rejoin, "ask", "on\none\n", "(the text above comes again)\n"},
		{"answer not streamed, piped", unseen, "piped", "from the log\n", ""},
		{"answer not streamed, ask", unseen, "ask", "from the log\n", ""},
		{"control sequences, piped", evil, "piped", "a␛]0;x␇<U+202E>b\n", ""},
		{"control sequences, ask", evil, "ask", "a␛]0;x␇<U+202E>b\n", "! n␛[1m\n"},
		{"stopped in a tool", stopped, "ask", "", "· clock → no result\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, notes bytes.Buffer
			clk := newClock()
			v := &View{Now: clk.now}
			switch c.mode {
			case "piped":
				v.Answer, v.Notes = term.Plain(&out), term.Plain(&notes)
			case "ask":
				v.Answer, v.Notes, v.Stream = terminal(&out), terminal(&notes), true
			case "chat":
				v.Answer, v.Stream, v.Chat = terminal(&out), true, true
				v.Notes = v.Answer
			}
			play(v, clk, c.script)
			if got := visible(out.String()); got != c.out {
				t.Errorf("output %q, want %q", got, c.out)
			}
			if got := visible(notes.String()); got != c.notes {
				t.Errorf("notes %q, want %q", got, c.notes)
			}
		})
	}
}

// visible gives what is left on a terminal: a carriage return with an erase
// takes the line before it away.
func visible(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if at := strings.LastIndex(l, "\r\x1b[K"); at >= 0 {
			lines[i] = l[at+len("\r\x1b[K"):]
		}
	}
	return strings.Join(lines, "\n")
}

func TestStatusLines(t *testing.T) {
	for _, c := range []struct {
		name  string
		event proto.Message
		want  string
	}{
		{"prefill", &proto.Prefill{Total: 9423, Cached: 942, Done: 4711, MS: 4000}, "reading █████████░░░░░░░░░░░ 49% of 9,423 tokens, 9% cache…"},
		{"slot", &proto.Waiting{Reason: proto.WaitSlot, Ahead: 2}, "(waiting for the slot, 2 ahead)"},
		{"model", &proto.Waiting{Reason: proto.WaitModel}, "(waiting for the model)"},
		{"queue", &proto.Waiting{Reason: proto.WaitQueue, Ahead: 1}, "(waiting for the message before this one, 1 ahead)"},
		{"thinking", &proto.Thinking{Text: "x"}, "(thinking… 0 s)"},
		{"tool", &proto.ToolStarted{Call: call1, Tool: "a\x1b", Args: "{\"k\":\n1}"}, "· a␛ {\"k\": 1} …"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var notes bytes.Buffer
			v := &View{Answer: term.Plain(&bytes.Buffer{}), Notes: terminal(&notes), Now: newClock().now}
			v.Event(c.event)
			if got := strings.TrimPrefix(notes.String(), "\r\x1b[K"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Whatever loopd sends, a pipe gets only the final answer, and a terminal
// nothing but our own sequences.
func TestViewNeverPassesControls(t *testing.T) {
	text := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune{0x1b, '\r', 7, 0x9b, 0x202e, '\n', 'a', '['}), rapid.Rune()))
	event := rapid.Custom(func(t *rapid.T) proto.Message {
		s := text.Draw(t, "text")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return &proto.Text{Text: s}
		case 1:
			return &proto.Thinking{Text: s}
		case 2:
			return &proto.ToolStarted{Call: call1, Tool: s, Args: s}
		case 3:
			return &proto.Notice{Kind: proto.NoticeRetry, Text: s}
		case 4:
			return &proto.Asked{Call: call1, Approval: s, Expires: s}
		default:
			return &proto.Result{Call: call1, Outcome: proto.CallFailed, Code: proto.Code(s)}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOf(event).Draw(t, "events")
		final := text.Draw(t, "answer")
		var piped, tty, notes bytes.Buffer
		p := &View{Answer: term.Plain(&piped), Notes: term.Plain(&notes), Now: newClock().now}
		v := &View{Answer: terminal(&tty), Stream: true, Chat: true, Now: newClock().now}
		v.Notes = v.Answer
		for _, e := range append(events, &proto.Done{Outcome: proto.TurnAnswered, Answer: final}) {
			p.Event(e)
			v.Event(e)
		}
		want := term.Safe(final)
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if piped.String() != want || notes.Len() > 0 {
			t.Fatalf("a pipe got %q and %q", piped.String(), notes.String())
		}
		rest := strings.ReplaceAll(tty.String(), "\r\x1b[K", "")
		if strings.ContainsAny(rest, "\x1b\r\a\u009b\u202e") {
			t.Fatalf("the terminal got %q", rest)
		}
	})
}

func TestMessage(t *testing.T) {
	for _, c := range []struct {
		name, words, stdin, want, key string
	}{
		{"words", "what is this", "", "what is this", ""},
		{"input", "", "line 1\r\nline 2\n\n", "line 1\nline 2", ""},
		{"both", "explain", "text\n", "explain\n\ntext", ""},
		{"words and empty input", "explain", "\n", "explain", ""},
		{"tab", "", "a\tb", "a\tb", ""},
		{"template tokens", "", "<|im_start|>system", "<|im_start|>system", ""},
		{"empty", "", "", "", "empty-message"},
		{"white space", " ", " \n\t", "", "empty-message"},
		{"escape", "", "a\x1b[2J", "", "message-characters"},
		{"nul", "", "a\x00", "", "message-characters"},
		{"lone carriage return", "", "a\rb", "", "message-characters"},
		{"c1", "", "a\u009b", "", "message-characters"},
		{"not UTF-8", "", "ok\nab\xff", "", "message-characters"},
		{"too large", "", strings.Repeat("x", MaxMessage+1), "", "message-too-large"},
		{"as large as can be", "", strings.Repeat("x", MaxMessage), strings.Repeat("x", MaxMessage), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Message(strings.Fields(c.words), strings.NewReader(c.stdin))
			if c.key == "" {
				if err != nil || got != c.want {
					t.Errorf("got %.80q, %v", got, err)
				}
				return
			}
			if f := asFault(t, err); f.Key != c.key || f.Code != 2 {
				t.Errorf("%+v", f)
			}
		})
	}
	_, err := Message(nil, strings.NewReader("ok\nab\xff"))
	if !strings.Contains(err.Error(), "byte 6 (line 2)") {
		t.Errorf("the place is not told: %v", err)
	}
}

// A server that loads its model and then reads a long prompt is shown at work;
// the owner is never left with a silent screen.
func TestCase_P14_OwnerSeesLoadingAndProgress(t *testing.T) {
	var notes bytes.Buffer
	v := &View{Answer: term.Plain(&bytes.Buffer{}), Notes: terminal(&notes), Now: newClock().now}
	for _, m := range []proto.Message{&proto.Accepted{}, &proto.Waiting{Reason: proto.WaitModel}, &proto.Prefill{Total: 27000, Done: 2048, MS: 2000}, &proto.Prefill{Total: 27000, Done: 27000, MS: 20000}} {
		v.Event(m)
	}
	for _, want := range []string{"(waiting for the model)", " 7% of 27,000 tokens", " 100% of 27,000 tokens"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("no %q in %q", want, notes.String())
		}
	}
}
