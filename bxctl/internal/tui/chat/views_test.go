package chat

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/internal/proto"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

type scene struct {
	name string
	play func(*rig)
}

func asked(r *rig, text string) {
	r.do(ready())
	r.typed(text + "\n")
	r.events(1, &proto.Accepted{Record: 1})
}

func scenes() []scene {
	call := &proto.ToolStarted{Call: "s/1/3/0", Tool: "clock", Args: `{"zone":"Europe/Paris","note":"a longer argument that may have to be cut"}`}
	return append([]scene{
		{"start", func(r *rig) { r.do(ready()) }},
		{"typing", func(r *rig) {
			r.do(ready())
			r.typed("日本語 and e\u0301, a line that is long enough to go on in the next row of a narrow window")
			r.press("alt+enter")
			r.do(tea.PasteMsg{Content: "pasted\r\nin two lines\x1b[31m\x07"})
		}},
		{"commands", func(r *rig) { r.do(ready()); r.typed("/s"); r.press("down") }},
		{"resume-choice", func(r *rig) {
			r.do(ready(), Listed{Sessions: []proto.SessionInfo{
				{Session: "chat-20260101-aaaaaa", Title: "what is\x1b[2J a grant?", Modified: "2026-01-02T14:00:00.000Z"},
				{Session: "chat-20251231-bbbbbb", Title: "hello", Modified: "2025-12-31T14:00:00.000Z"},
			}})
			r.typed("/resume ")
		}},
		{"help", func(r *rig) { r.do(ready()); r.typed("/help\n") }},
		{"unknown", func(r *rig) { r.do(ready()); r.typed("/nonsense\n") }},
		{"reading", func(r *rig) {
			asked(r, "hello")
			r.later(2 * time.Second)
			r.events(1, &proto.Prefill{Total: 9000, Cached: 3000, Done: 4000, MS: 800}, &proto.Prefill{Total: 9000, Cached: 3000, Done: 6000, MS: 2400})
		}},
		{"waiting", func(r *rig) {
			asked(r, "hello")
			r.events(1, &proto.Waiting{Reason: proto.WaitSlot, Ahead: 2})
		}},
		{"thinking", func(r *rig) {
			asked(r, "hello")
			r.events(1, &proto.Thinking{Text: "The owner says hello. I should answer."})
			r.later(3 * time.Second)
			r.do(Tick{})
		}},
		{"thinking-unfolded", func(r *rig) {
			asked(r, "hello")
			r.press("ctrl+t")
			r.events(1, &proto.Thinking{Text: "The owner says hello. I should answer, and in so many words that they do not fit one row of a window."})
			r.do(Tick{})
		}},
		{"tool", func(r *rig) {
			asked(r, "what time is it?")
			r.events(1, &proto.Thinking{Text: "x"}, call)
		}},
		{"tool-unfolded", func(r *rig) {
			asked(r, "what time is it?")
			r.press("ctrl+t")
			r.events(1, call, &proto.Result{Call: call.Call, Outcome: proto.CallOK, Class: proto.ClassPublic, Untrusted: true, Bytes: 130, MS: 3})
			r.do(Result{Call: call.Call, Text: "Friday\n" + strings.Repeat("more\n", 20)})
		}},
		{"answer", func(r *rig) {
			asked(r, "what time is it?\\\nand where?")
			r.events(1, &proto.Thinking{Text: "x"})
			r.later(1200 * time.Millisecond)
			r.events(1, call, &proto.Result{Call: call.Call, Outcome: proto.CallOK, Class: proto.ClassPrivate, Bytes: 130, MS: 3},
				&proto.ToolStarted{Call: "s/1/3/1", Tool: "fetch", Args: "{}"}, &proto.Result{Call: "s/1/3/1", Outcome: proto.CallDenied, Code: proto.CodeNoGrant, Class: proto.ClassPublic, MS: 1})
			for _, p := range strings.SplitAfter(answer, " ") {
				r.events(1, &proto.Text{Text: p})
			}
			r.later(6 * time.Second)
			r.events(1, done(proto.TurnAnswered, answer))
			r.do(Ended{Job: 1})
		}},
		{"writing", func(r *rig) {
			asked(r, "tell me")
			for _, p := range strings.SplitAfter("One word after the other, and no end of it", " ") {
				r.later(150 * time.Millisecond)
				r.events(1, &proto.Text{Text: p})
			}
			r.later(time.Second)
			r.do(Tick{})
		}},
		{"from-elsewhere", func(r *rig) {
			r.do(ready())
			r.Follow()
			r.follows(began(1, "x", "what time is it?", proto.SurfaceAsk), &proto.Text{Text: "It is noon."}, done(proto.TurnAnswered, "It is noon."), began(5, "y", "and now?", proto.SurfaceMattermost))
		}},
		{"queue", func(r *rig) {
			asked(r, "one")
			r.typed("two\n")
			r.typed("three is a longer message that waits for its turn and does not fit a narrow window\n")
			r.events(2, &proto.Accepted{Record: 3, Queued: 1})
			r.events(1, &proto.Text{Text: "First *answ"})
		}},
		{"queue-goes-on", func(r *rig) {
			asked(r, "one")
			r.typed("two\n")
			r.events(2, &proto.Accepted{Record: 3, Queued: 1}, &proto.Text{Text: "Second answer."})
			r.events(1, done(proto.TurnAnswered, "First answer."))
			r.do(Ended{Job: 1})
		}},
		{"stopped", func(r *rig) {
			asked(r, "tell me everything")
			r.events(1, &proto.Text{Text: "Everything beg"})
			r.press("ctrl+c")
			r.events(1, &proto.Done{Outcome: proto.TurnStopped, Usage: proto.Usage{Window: 32768}})
			r.do(Ended{Job: 1})
		}},
		{"retry", func(r *rig) {
			asked(r, "hello")
			r.events(1, &proto.Text{Text: "Half an ans"}, &proto.Notice{Kind: proto.NoticeRetry, Text: "the stream was cut; it is sent once more"}, &proto.Text{Text: "A whole answer."}, done(proto.TurnAnswered, "A whole answer."))
			r.do(Ended{Job: 1})
		}},
		{"failed", func(r *rig) {
			asked(r, "hello")
			r.do(Ended{Job: 1, Err: errors.New("the server said \x1b[31mno")})
		}},
		{"lost", func(r *rig) {
			asked(r, "hello")
			r.events(1, &proto.Text{Text: "One paragraph.\n\nAnother par"})
			r.do(Lost{Job: 1}, Tick{})
		}},
		{"lost-and-back", func(r *rig) {
			asked(r, "hello")
			r.events(1, &proto.Thinking{Text: "t"}, &proto.Text{Text: "One paragraph.\n\nAnother par"})
			r.do(Lost{Job: 1}, Health{Err: errors.New("x")}, ready(), Back{Job: 1})
			r.events(1, &proto.Accepted{Known: true}, &proto.Thinking{Text: "t"}, &proto.Text{Text: "One para"}, &proto.Text{Text: "graph.\n\nAnother paragraph, of which the end was missed."},
				done(proto.TurnAnswered, "One paragraph.\n\nAnother paragraph, of which the end was missed."))
			r.do(Ended{Job: 1})
		}},
		{"away", func(r *rig) { r.do(ready(), Health{Err: errors.New("x")}) }},
		{"resumed", func(r *rig) {
			r.do(ready(), Tail{Session: "chat-20260101-aaaaaa", More: true, Context: 5000, Window: 32768, Items: []archive.Item{
				{Role: "user", Text: "what time is it?"},
				{Role: "call", Text: "late", Call: &archive.Call{Tool: "clock", Args: "{}", Ended: true, Outcome: proto.CallOK, Class: proto.ClassPublic, MS: 4}},
				{Role: "assistant", Text: "It is **late**.", Thinking: "hm"},
				{Role: "turn"},
				{Role: "user", Text: "why?"},
				{Role: "turn", Text: "failed. the server is gone"},
			}})
		}},
		{"new", func(r *rig) { r.do(ready()); r.typed("/new\n") }},
		{"long-message", func(r *rig) {
			r.do(ready(), tea.PasteMsg{Content: strings.Repeat("a row\n", 100)})
			r.press("enter")
		}},
		{"small", func(r *rig) {
			asked(r, "hello")
			r.do(tea.WindowSizeMsg{Width: 30, Height: 8})
			r.events(1, &proto.Text{Text: strings.Repeat("many words ", 40)})
		}},
	}, approvalScenes()...)
}

func TestViews(t *testing.T) {
	for _, width := range []int{60, 80, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			var all strings.Builder
			for _, s := range scenes() {
				r := newRig(width, false)
				s.play(r)
				fmt.Fprintf(&all, "=== %s\n%s", s.name, r.screen())
				for _, l := range append(r.done, r.live...) {
					if n := ansi.StringWidth(l); n > r.width && s.name != "small" {
						t.Errorf("%s: %d columns: %q", s.name, n, l)
					}
				}
				if len(r.live) > r.height-1 {
					t.Errorf("%s: %d live rows in a window of %d", s.name, len(r.live), r.height)
				}
			}
			golden(t, fmt.Sprintf("views-%d.txt", width), all.String())
		})
	}
}

// TestColourChangesNoText: colours are all that NO_COLOR takes away, but for the
// marks of headings and code.
func TestColourChangesNoText(t *testing.T) {
	for _, s := range scenes() {
		plain, colour := newRig(80, false), newRig(80, true)
		s.play(plain)
		s.play(colour)
		strip := strings.NewReplacer("`code`", "code")
		got := strip.Replace(ansi.Strip(colour.screen()))
		if want := strip.Replace(plain.screen()); got != want {
			t.Errorf("%s:\n%s\n%s", s.name, got, want)
		}
		if strings.Contains(plain.screen(), "\x1b") {
			t.Errorf("%s: an escape sequence without colour", s.name)
		}
	}
}

// TestColoursOnAnyBackground: in all scenes only looks are used that can be read
// on a dark and on a light terminal: no yellow, no white, no black, none of the
// bright ones, no background, nothing outside the owner's palette.
func TestColoursOnAnyBackground(t *testing.T) {
	allowed := []string{"", "0", "1", "2", "3", "4", "9", "31", "32", "34", "35", "36"}
	sgr := regexp.MustCompile(`\x1b\[([0-9;:]*)m`)
	seen := map[string]bool{}
	for _, sc := range scenes() {
		r := newRig(80, true)
		sc.play(r)
		for _, l := range append(r.done, r.live...) {
			for _, m := range sgr.FindAllStringSubmatch(l, -1) {
				for _, code := range strings.Split(m[1], ";") {
					seen[code] = true
					if !slices.Contains(allowed, code) {
						t.Fatalf("%s: SGR %q in %q", sc.name, code, l)
					}
				}
			}
		}
	}
	for _, code := range []string{"1", "2", "32", "35"} {
		if !seen[code] {
			t.Errorf("SGR %s is in no scene: the scenes do not show enough", code)
		}
	}
}
