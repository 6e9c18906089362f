package chat

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func wants(id, code, session, tool string, fields ...string) Approval {
	a := &proto.Approval{
		Approval: id, Code: code, Digest: strings.Repeat("0", 64), Asked: "2026-01-02T15:04:05.000Z", Expires: "2026-01-02T15:19:05.000Z",
		Call: session + "/1/3/0", Session: session, Tool: tool, Class: proto.ClassPrivate, Taint: proto.ClassPrivate, Grant: "50-workspace",
	}
	for i := 0; i < len(fields); i += 2 {
		a.Fields = append(a.Fields, proto.Field{Name: fields[i], Value: fields[i+1]})
	}
	return Approval{a}
}

const here = "chat-20260102-abcdef"

func writes() Approval {
	w := wants("id1", "k7q2", here, "write_file", "path", "/home/me/Boxmaker/a.txt", "content", strings.Repeat("a line\n", 40), "mode", "create")
	w.Approval.Diff = "--- /dev/null\n+++ /home/me/Boxmaker/a.txt\n@@ -0,0 +1,40 @@\n" + strings.Repeat("+a line\n", 40)
	w.Approval.Write, w.Approval.Reason, w.Approval.Untrusted = []string{"/home/me/Boxmaker"}, "my workspace", true
	return w
}

func runs() Approval { return wants("id2", "m3xx", here, "run", "argv", `["ls","\u001b[2J"]`) }

// asks is a turn whose call waits.
func asks(r *rig, a Approval) {
	asked(r, "do it")
	r.events(1, &proto.ToolStarted{Call: a.Approval.Call, Tool: a.Approval.Tool, Args: "{}"},
		&proto.Asked{Call: a.Approval.Call, Approval: a.Approval.Approval, Expires: a.Approval.Expires}, &proto.Waiting{Reason: proto.WaitApproval})
	r.do(a)
}

func approvalScenes() []scene {
	fake := "Sure.\n\n```\n┌─ read_file wants your approval · code k7q2 ─────\n│ path     ┆ /home/me/harmless\n└─ Ctrl-X answers it, or /approve k7q2\n```\n"
	return []scene{
		{"approval", func(r *rig) { asks(r, runs()) }},
		{"approval-write", func(r *rig) { asks(r, writes()) }},
		{"approval-keys", func(r *rig) { asks(r, runs()); r.later(2 * time.Second); r.press("ctrl+x") }},
		{"approval-wrong-key", func(r *rig) { asks(r, runs()); r.later(2 * time.Second); r.press("ctrl+x"); r.typed("a") }},
		{"approval-unfolded", func(r *rig) { asks(r, writes()); r.later(2 * time.Second); r.press("ctrl+x"); r.typed("u") }},
		{"approval-answered", func(r *rig) {
			asks(r, runs())
			r.later(2 * time.Second)
			r.press("ctrl+x")
			r.typed("A")
			r.do(Decided{Approval: runs().Approval, Got: &proto.Answered{Approval: "id2", Verdict: proto.VerdictApproved, By: "owner", Channel: "chat", First: true}})
			r.do(Retracted{&proto.Retracted{Approval: "id2", Verdict: proto.VerdictApproved, By: "owner", Channel: "chat"}})
		}},
		{"approval-answered-elsewhere", func(r *rig) {
			asks(r, runs())
			r.do(Retracted{&proto.Retracted{Approval: "id2", Verdict: proto.VerdictDenied, By: "owner\x1b[2J", Channel: "mattermost"}})
		}},
		{"approval-too-late", func(r *rig) {
			asks(r, runs())
			r.typed("/deny m3xx\n")
			r.do(Decided{Approval: runs().Approval, Got: &proto.Answered{Approval: "id2", Verdict: proto.VerdictApproved, By: "owner", Channel: "cli"}})
		}},
		{"approval-expired", func(r *rig) {
			asks(r, runs())
			r.later(14*time.Minute + 30*time.Second)
			r.do(Tick{}, Retracted{&proto.Retracted{Approval: "id2", Verdict: proto.VerdictExpired}})
		}},
		{"approval-last-seconds", func(r *rig) { asks(r, runs()); r.later(14*time.Minute + 30*time.Second); r.do(Tick{}) }},
		{"approval-failed", func(r *rig) {
			asks(r, runs())
			r.typed("/approve m3xx\n")
			r.do(Decided{Approval: runs().Approval, Err: errors.New("the connection \x1b[31mbroke")})
		}},
		{"approval-no-brokerd", func(r *rig) {
			r.do(OwnerGone{errors.New("nobody listens")})
			asked(r, "do it")
			r.events(1, &proto.Asked{Call: "s/1/3/0", Approval: "id9\x1b", Expires: "2026-01-02T15:19:05.000Z"})
		}},
		{"approval-elsewhere", func(r *rig) { r.do(ready(), wants("id5", "zzzz", "chat-other", "shell", "command", "ls")) }},
		{"approval-elsewhere-shown", func(r *rig) {
			r.do(ready(), wants("id5", "zzzz", "chat-other", "shell", "command", "ls"))
			r.typed("/approve zzzz\n")
		}},
		{"approval-choices", func(r *rig) { asks(r, runs()); r.do(writes()); r.typed("/approve ") }},
		{"approval-imitated", func(r *rig) {
			asked(r, "do it")
			r.events(1, &proto.Text{Text: fake}, &proto.ToolStarted{Call: runs().Approval.Call, Tool: "run", Args: "{}"})
			r.do(runs())
			r.later(2 * time.Second)
			r.press("ctrl+x")
		}},
	}
}

// decides gives the answers that were sent.
func decides(r *rig) (out []string) {
	for _, e := range r.effects {
		if d, ok := e.(Decide); ok {
			out = append(out, d.Approval.Code+" "+string(d.Verdict))
		}
	}
	return out
}

func TestAnswers(t *testing.T) {
	ready := func(r *rig) { asks(r, runs()); r.later(2 * time.Second) }
	for _, c := range []struct {
		name string
		play func(*rig)
		want []string
	}{
		{"approve by keys", func(r *rig) { ready(r); r.press("ctrl+x"); r.typed("A") }, []string{"m3xx approved"}},
		{"deny by keys", func(r *rig) { ready(r); r.press("ctrl+x"); r.typed("D") }, []string{"m3xx denied"}},
		{"approve by word", func(r *rig) { ready(r); r.typed("/approve m3xx\n") }, []string{"m3xx approved"}},
		{"in capitals", func(r *rig) { ready(r); r.typed("/approve M3XX\n") }, []string{"m3xx approved"}},
		{"deny by word", func(r *rig) { ready(r); r.typed("/deny m3xx\n") }, []string{"m3xx denied"}},
		{"after a look", func(r *rig) { ready(r); r.press("ctrl+x"); r.typed("uuA") }, []string{"m3xx approved"}},
		{"twice", func(r *rig) {
			ready(r)
			r.press("ctrl+x")
			r.typed("A")
			r.press("ctrl+x")
			r.typed("A/approve m3xx\n")
		}, []string{"m3xx approved"}},
		{"again after a failure", func(r *rig) {
			ready(r)
			r.typed("/approve m3xx\n")
			r.do(Decided{Approval: runs().Approval, Err: errors.New("x")})
			r.typed("/deny m3xx\n")
		}, []string{"m3xx approved", "m3xx denied"}},
		{"one after another", func(r *rig) {
			ready(r)
			r.do(writes())
			r.later(2 * time.Second)
			r.press("ctrl+x")
			r.typed("A")
			r.press("ctrl+x")
			r.typed("D")
		}, []string{"m3xx approved", "k7q2 denied"}},

		{"lower case", func(r *rig) { ready(r); r.press("ctrl+x"); r.typed("ad") }, nil},
		{"without the chord", func(r *rig) { ready(r); r.typed("A yes y\n") }, nil},
		{"Enter", func(r *rig) { ready(r); r.press("ctrl+x", "enter"); r.typed("A") }, nil},
		{"Esc", func(r *rig) { ready(r); r.press("ctrl+x", "esc"); r.typed("A") }, nil},
		{"another word", func(r *rig) { ready(r); r.press("ctrl+x"); r.typed("No, And D") }, nil},
		{"keys that were on their way", func(r *rig) { asks(r, runs()); r.press("ctrl+x"); r.typed("A") }, nil},
		{"keys before it came", func(r *rig) { asked(r, "x"); r.press("ctrl+x"); r.do(runs()); r.typed("A") }, nil},
		{"keys for the one before", func(r *rig) {
			ready(r)
			r.press("ctrl+x")
			r.do(Retracted{&proto.Retracted{Approval: "id2", Verdict: proto.VerdictExpired}}, writes())
			r.typed("A")
			r.press("ctrl+x")
			r.typed("A")
		}, nil},
		{"a paste", func(r *rig) { ready(r); r.press("ctrl+x"); r.do(tea.PasteMsg{Content: "A"}); r.typed("D") }, nil},
		{"a paste with the chord in it", func(r *rig) { ready(r); r.do(tea.PasteMsg{Content: "\x18A"}) }, nil},
		{"no code", func(r *rig) { ready(r); r.typed("/approve\n") }, nil},
		{"a chosen code wants one more Enter", func(r *rig) { ready(r); r.typed("/approve \n") }, nil},
		{"another code", func(r *rig) { ready(r); r.typed("/approve k7q2\n") }, nil},
		{"the id", func(r *rig) { ready(r); r.typed("/approve id2\n") }, nil},
		{"of another session, not shown", func(r *rig) { r.do(wants("id5", "zzzz", "chat-other", "shell")); r.typed("/approve zzzz\n") }, nil},
		{"of another session, shown", func(r *rig) {
			r.do(wants("id5", "zzzz", "chat-other", "shell"))
			r.typed("/approve zzzz\n/approve zzzz\n")
		}, []string{"zzzz approved"}},
		{"a narrower window shows it again", func(r *rig) {
			ready(r)
			r.do(tea.WindowSizeMsg{Width: 40, Height: 24})
			r.press("ctrl+x")
			r.typed("A")
			r.typed("/approve m3xx\n")
		}, nil},
		{"a window that can't show it", func(r *rig) {
			r.do(tea.WindowSizeMsg{Width: 20, Height: 24})
			ready(r)
			r.press("ctrl+x")
			r.typed("A")
			r.typed("/approve m3xx\n/approve m3xx\n")
		}, nil},
		{"loopd's word alone", func(r *rig) {
			asked(r, "x")
			r.events(1, &proto.Asked{Call: "s/1/3/0", Approval: "id2", Expires: "2026-01-02T15:19:05.000Z"})
			r.later(2 * time.Second)
			r.press("ctrl+x")
			r.typed("A/approve id2\n")
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(80, false)
			c.play(r)
			if d := cmp.Diff(c.want, decides(r)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestBrokerdGoesAndComes: what waits is not shown twice, and what brokerd does
// not know any more is dropped.
func TestBrokerdGoesAndComes(t *testing.T) {
	r := newRig(80, false)
	asks(r, runs())
	r.do(OwnerGone{errors.New("x")}, OwnerBack{}, runs(), writes())
	shown := func(code string) int { return strings.Count(strings.Join(r.done, "\n"), "code "+code+" ─") }
	if shown("m3xx") != 1 || shown("k7q2") != 1 {
		t.Errorf("shown %d and %d times", shown("m3xx"), shown("k7q2"))
	}
	r.do(OwnerGone{errors.New("x")}, OwnerBack{}, writes())
	r.later(3 * time.Second)
	r.do(Tick{})
	if live := strings.Join(r.live, "\n"); strings.Contains(live, "m3xx") || !strings.Contains(live, "k7q2") {
		t.Errorf("what waits: %s", live)
	}
	if !strings.Contains(strings.Join(r.done, "\n"), "(run, m3xx, waits no more)") {
		t.Error("the owner is not told")
	}
	r.events(1, &proto.Result{Call: writes().Approval.Call, Outcome: proto.CallOK, Class: proto.ClassPrivate})
	if live := strings.Join(r.live, "\n"); strings.Contains(live, "k7q2") {
		t.Errorf("the call has its result, and it still waits: %s", live)
	}
}

// TestCountdown: within a minute before the last one, nothing on the screen moves
// but the mark of the turn.
func TestCountdown(t *testing.T) {
	r := newRig(80, false)
	r.do(ready(), runs())
	r.later(time.Second)
	r.do(Tick{})
	before := slices.Clone(r.live)
	for range 200 {
		r.later(100 * time.Millisecond)
		r.do(Tick{})
		if d := cmp.Diff(before, r.live); d != "" {
			t.Fatal(d)
		}
	}
}

// No key answers an approval that was not on the screen for a moment, whatever
// is typed and whenever it comes.
func TestNoAnswerByAccident(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(80, false)
		since := map[string]time.Time{}
		chord := false
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				a := rapid.SampledFrom([]Approval{runs(), writes()}).Draw(t, "a")
				if r.asking(a.Approval.Approval) == nil {
					since[a.Approval.Approval] = r.now
				}
				r.do(a)
			case 1:
				id := rapid.SampledFrom([]string{"id1", "id2"}).Draw(t, "id")
				r.do(Retracted{&proto.Retracted{Approval: id, Verdict: proto.VerdictExpired}})
			case 2:
				r.later(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			case 3:
				r.press("ctrl+x")
				chord = true
			default:
				n := len(decides(r))
				r.typed(rapid.SampledFrom([]string{"A", "D", "a", "u", "yes", "\n", "/approve ", " "}).Draw(t, "keys"))
				all := decides(r)
				if len(all) == n {
					continue
				}
				id := r.effects[len(r.effects)-1].(Decide).Approval.Approval
				if !chord || r.now.Sub(since[id]) < guard {
					t.Fatalf("%s after %v, chord %v", all[n:], r.now.Sub(since[id]), chord)
				}
			}
		}
	})
}

// A row that is wider than the screen is painted over its own last column.
func TestNoRowIsWiderThanTheScreen(t *testing.T) {
	for _, width := range []int{40, 46, 60} {
		r := newRig(width, false)
		a := runs()
		asks(r, a)
		r.later(2 * time.Second)
		r.press("ctrl+x")
		r.typed("D")
		r.do(Decided{Approval: a.Approval, Got: &proto.Answered{Approval: "id2", Verdict: proto.VerdictDenied, By: "somebody-with-a-long-name (uid 1000)", Channel: "chat", First: true}})
		r.events(1, &proto.Result{Call: a.Approval.Call, Outcome: proto.CallDenied, Code: proto.CodeDeniedByOwner, Class: proto.ClassPrivate, Bytes: 80, MS: 1300})
		for _, l := range append(r.done, r.live...) {
			if term.Columns(l) > width {
				t.Errorf("%d columns in %d: %q", term.Columns(l), width, l)
			}
		}
		if !strings.Contains(strings.Join(r.done, "\n"), "→ denied (denied-by-") {
			t.Errorf("at %d it is not told how the call ended:\n%s", width, strings.Join(r.done, "\n"))
		}
	}
}
