package chat

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(*rig)
		text string
		want []Effect
	}{
		{"send", func(r *rig) { r.typed("hi\n") }, "", []Effect{Remember{"hi"}, Send{1, "chat-20260102-abcdef", "hi", "o1"}}},
		{"nothing to send", func(r *rig) { r.typed("  \n") }, "  ", nil},
		{"two slashes", func(r *rig) { r.typed("//etc\n") }, "", []Effect{Remember{"/etc"}, Send{1, "chat-20260102-abcdef", "/etc", "o1"}}},
		{"new line by Alt-Enter", func(r *rig) { r.typed("a"); r.press("alt+enter"); r.typed("b") }, "a\nb", nil},
		{"new line by Ctrl-J", func(r *rig) { r.typed("a"); r.press("ctrl+j"); r.typed("b") }, "a\nb", nil},
		{"new line by a backslash", func(r *rig) { r.typed("a\\\nb") }, "a\nb", nil},
		{"paste does not send", func(r *rig) { r.do(tea.PasteMsg{Content: "a\nb\n"}) }, "a\nb\n", nil},
		{"Ctrl-C takes the text", func(r *rig) { r.typed("abc"); r.press("ctrl+c") }, "", nil},
		{"Ctrl-C leaves", func(r *rig) { r.press("ctrl+c") }, "", []Effect{Leave{}}},
		{"Ctrl-D leaves", func(r *rig) { r.press("ctrl+d") }, "", []Effect{Leave{}}},
		{"Ctrl-D deletes", func(r *rig) { r.typed("ab"); r.press("home", "ctrl+d") }, "b", nil},
		{"quit", func(r *rig) { r.typed("/quit\n") }, "", []Effect{Remember{"/quit"}, Leave{}}},
		{"a part of a command", func(r *rig) { r.typed("/qu\n") }, "", []Effect{Remember{"/quit"}, Leave{}}},
		{"Tab completes", func(r *rig) { r.typed("/exp"); r.press("tab"); r.typed("x.md\n") }, "", []Effect{Remember{"/export x.md"}, Query{AskExport, "chat-20260102-abcdef", "x.md"}}},
		{"Esc closes the list", func(r *rig) { r.typed("/st"); r.press("esc"); r.typed("\n") }, "", []Effect{Remember{"/st"}}},
		{"transcript", func(r *rig) { r.press("ctrl+o") }, "", []Effect{Transcript{"chat-20260102-abcdef"}}},
		{"suspend", func(r *rig) { r.press("ctrl+z") }, "", []Effect{Suspend{}}},
		{"kill and yank", func(r *rig) { r.typed("one two"); r.press("ctrl+w", "ctrl+y", "ctrl+y") }, "one twotwo", nil},
		{"no turn to stop", func(r *rig) { r.typed("/stop\n") }, "", []Effect{Remember{"/stop"}}},
		{"resume", func(r *rig) { r.typed("/resume chat-x\n") }, "", []Effect{Query{AskList, "chat-20260102-abcdef", ""}, Remember{"/resume chat-x"}, Query{AskTail, "chat-20260102-abcdef", "chat-x"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(80, false)
			c.play(r)
			if d := cmp.Diff(c.want, r.effects); d != "" {
				t.Errorf("effects: -want +got\n%s", d)
			}
			if got := r.ed.Text(); got != c.text {
				t.Errorf("text %q, want %q", got, c.text)
			}
		})
	}
}

// TestInterrupt: the first Ctrl-C stops the turn, the second leaves.
func TestInterrupt(t *testing.T) {
	r := newRig(80, false)
	r.typed("hi\n")
	r.typed("what I am typing")
	r.effects = nil
	r.press("ctrl+c")
	if d := cmp.Diff([]Effect{StopTurn{"chat-20260102-abcdef"}}, r.effects); d != "" || r.ed.Text() == "" {
		t.Fatalf("first: %s, text %q", d, r.ed.Text())
	}
	r.effects = nil
	r.press("ctrl+c")
	if d := cmp.Diff([]Effect{Leave{}}, r.effects); d != "" {
		t.Errorf("second: %s", d)
	}
}

func TestHistory(t *testing.T) {
	r := newRig(80, false)
	if err := errors.Join(r.cfg.History.Add("first"), r.cfg.History.Add("second\nline")); err != nil {
		t.Fatal(err)
	}
	r.typed("draft")
	for _, c := range []struct{ key, want string }{
		{"up", "second\nline"}, {"up", "second\nline"}, {"up", "first"}, {"up", "first"}, {"down", "second\nline"}, {"down", "draft"}, {"down", "draft"},
	} {
		r.press(c.key)
		if got := r.ed.Text(); got != c.want {
			t.Fatalf("%s gives %q, want %q", c.key, got, c.want)
		}
	}
}

// TestRemainingTime: none before it can be known, and never better than the
// slower of both speeds.
func TestRemainingTime(t *testing.T) {
	for _, c := range []struct {
		name string
		ps   []proto.Prefill
		want time.Duration
		ok   bool
	}{
		{"the start", []proto.Prefill{{Total: 9000, Done: 0}}, 0, false},
		{"too early", []proto.Prefill{{Total: 9000, Done: 2048, MS: 900}}, 0, false},
		{"too few", []proto.Prefill{{Total: 9000, Done: 500, MS: 5000}}, 0, false},
		{"only the cache", []proto.Prefill{{Total: 9000, Cached: 8000, Done: 8000, MS: 2000}}, 0, false},
		{"even", []proto.Prefill{{Total: 4000, Done: 2000, MS: 2000}}, 2 * time.Second, true},
		{"slower and slower", []proto.Prefill{{Total: 4000, Done: 1000, MS: 1000}, {Total: 4000, Done: 2000, MS: 4000}}, 6 * time.Second, true},
		{"faster now", []proto.Prefill{{Total: 4000, Done: 1000, MS: 3000}, {Total: 4000, Done: 2000, MS: 4000}}, 4 * time.Second, true},
		{"done", []proto.Prefill{{Total: 4000, Done: 4000, MS: 4000}}, 0, false},
	} {
		r := &reading{}
		for _, p := range c.ps {
			r.add(&p)
		}
		if got, ok := r.left(); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v", c.name, got, ok)
		}
	}
}

func TestProgressFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(s string) int64 { return rapid.Int64Range(0, 1<<40).Draw(t, s) }
		r := &reading{}
		for range 2 {
			r.add(&proto.Prefill{Total: n("total"), Cached: n("cached"), Done: n("done"), MS: n("ms")})
		}
		width := rapid.IntRange(40, 200).Draw(t, "width")
		if s := r.line(width); term.Columns(s) > width {
			t.Fatalf("%d columns in %d: %q", term.Columns(s), width, s)
		}
	})
}

func hostile() *rapid.Generator[string] {
	bit := rapid.SampledFrom([]string{
		"\x1b[2J", "\x1b]52;c;eA==\x07", "\x1bP1$r\x1b\\", "\u009b2J", "\u202e", "\x00", "\x07", "\x08", "\r", "\n", "\t", "\u200b", "\xff", "&#27;[2J", "`", "**", "# ", "- ", "a", "日本", "e\u0301", " ", "```\n",
	})
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(bit, 0, 20).Draw(t, "bits"), "") })
}

// TestNothingActs: whatever stands in any field, no line holds a control
// character.
func TestNothingActs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := func() string { return hostile().Draw(t, "s") }
		r := newRig(rapid.IntRange(20, 120).Draw(t, "width"), false)
		if rapid.Bool().Draw(t, "details") {
			r.press("ctrl+t")
		}
		r.do(Health{Status: &proto.Status{State: s(), Detail: s(), Server: proto.Server{Model: s()}}})
		r.do(tea.PasteMsg{Content: "x" + s()})
		r.press("enter")
		r.do(tea.PasteMsg{Content: "y" + s()})
		r.press("enter")
		r.events(1, &proto.Thinking{Text: s()}, &proto.Text{Text: s()}, &proto.ToolStarted{Call: "c", Tool: s(), Args: s()},
			&proto.Asked{Approval: s(), Expires: s()}, &proto.Result{Call: "c", Outcome: proto.CallOutcome(s()), Code: proto.Code(s()), Class: proto.ClassPublic},
			&proto.ToolStarted{Call: "d", Tool: s(), Args: s()}, &proto.Notice{Kind: proto.NoticeRetry, Text: s()}, &proto.Text{Text: s()})
		r.do(Result{Call: "c", Text: s()}, Lost{Job: 1}, Back{Job: 1})
		r.events(1, &proto.Text{Text: s()}, done(proto.TurnFailed, s()))
		r.do(Ended{Job: 1, Err: errors.New(s())}, Listed{Sessions: []proto.SessionInfo{{Session: s(), Title: s()}}})
		r.do(Tail{Session: "chat-x", Items: []archive.Item{
			{Role: "user", Text: s()},
			{Role: "assistant", Text: s(), Thinking: s()},
			{Role: "turn", Text: s()},
			{Role: "call", Text: s(), Call: &archive.Call{Tool: s(), Args: s(), Ended: true, Outcome: proto.CallFailed, Code: proto.Code(s())}},
		}})
		r.do(tea.PasteMsg{Content: s()})
		r.typed("/resume ")
		for _, l := range append(r.done, r.live...) {
			if term.Safe(l) != l || strings.ContainsAny(l, "\n\t") || !utf8.ValidString(l) {
				t.Fatalf("%q", l)
			}
		}
	})
}

// TestResultStandsWithItsCall: what comes while the result is being read waits
// for it, in its order.
func TestResultStandsWithItsCall(t *testing.T) {
	r := newRig(80, false)
	r.press("ctrl+t")
	r.typed("hi\n")
	r.events(1, &proto.ToolStarted{Call: "c", Tool: "clock", Args: "{}"}, &proto.Result{Call: "c", Outcome: proto.CallOK, Class: proto.ClassPublic}, &proto.Text{Text: "It is noon."}, done(proto.TurnAnswered, "It is noon."))
	r.do(Ended{Job: 1})
	if strings.Contains(r.screen(), "noon") || !r.Busy() {
		t.Fatalf("shown before the result:\n%s", r.screen())
	}
	r.do(Result{Call: "c", Text: "12:00"})
	s := r.screen()
	if i, j := strings.Index(s, "result: 12:00"), strings.Index(s, "It is noon."); i < 0 || j < i || r.Busy() {
		t.Errorf("busy %v:\n%s", r.Busy(), s)
	}
}

// TestAgainShowsOnce: a turn that is lost anywhere and comes again from its
// start leaves the same lines as one that is not lost, but for the two that
// tell of it.
func TestAgainShowsOnce(t *testing.T) {
	whole := "One paragraph, in pieces.\n\nAnother one.\n\n- a list\n- of two\n\nThe end."
	rapid.Check(t, func(t *rapid.T) {
		var events []proto.Message
		add := func(text string) {
			for _, p := range strings.SplitAfter(text, " ") {
				events = append(events, &proto.Text{Text: p})
			}
		}
		events = append(events, &proto.Accepted{Record: 1}, &proto.Thinking{Text: "hm"})
		add("First I look.")
		events = append(events, &proto.ToolStarted{Call: "c", Tool: "clock", Args: "{}"}, &proto.Result{Call: "c", Outcome: proto.CallOK, Class: proto.ClassPublic}, &proto.Thinking{Text: "ah"})
		add(whole)
		at := rapid.IntRange(0, len(events)).Draw(t, "lost at")
		play := func(lost bool) string {
			r := newRig(80, false)
			r.typed("hi\n")
			if lost {
				r.events(1, events[:at]...)
				r.do(Lost{Job: 1}, Back{Job: 1})
			}
			r.events(1, events...)
			r.events(1, done(proto.TurnAnswered, whole))
			r.do(Ended{Job: 1})
			var out []string
			for _, l := range r.done {
				if l != "" && !strings.HasPrefix(l, "! loopd") && l != "(loopd is back; going on)" && !strings.HasPrefix(l, "∴") && !strings.Contains(l, "nothing is lost") {
					out = append(out, l)
				}
			}
			return strings.Join(out, "\n")
		}
		if d := cmp.Diff(play(false), play(true)); d != "" {
			t.Fatalf("lost at %d: -whole +lost\n%s", at, d)
		}
	})
}
