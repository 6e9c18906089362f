package chat

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s: -want +got\n%s", name, d)
	}
}

// rig is a chat whose clock stands until the test moves it.
type rig struct {
	*Model
	now     time.Time
	effects []Effect
	done    []string // all finished lines
	live    []string
	origins int
}

func newRig(width int, colour bool) *rig {
	r := &rig{now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	sc := term.Plain(&bytes.Buffer{})
	sc.Colour = colour
	r.Model = New(Config{
		Screen: sc, Now: func() time.Time { return r.now }, Session: "chat-20260102-abcdef",
		NewID:     func() string { return "chat-20260102-ghijkl" },
		NewOrigin: func() string { r.origins++; return fmt.Sprintf("o%d", r.origins) },
	})
	r.do(tea.WindowSizeMsg{Width: width, Height: 24})
	return r
}

func (r *rig) do(msgs ...any) {
	for _, m := range msgs {
		r.effects = append(r.effects, r.Update(m)...)
		f := r.Frame()
		r.done, r.live = append(r.done, f.Done...), f.Live
	}
}

// typed types text; \n is Enter.
func (r *rig) typed(s string) {
	for _, c := range s {
		if c == '\n' {
			r.press("enter")
		} else {
			r.do(tea.KeyPressMsg{Code: c, Text: string(c)})
		}
	}
}

func (r *rig) press(names ...string) {
	keys := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "alt+enter": {Code: tea.KeyEnter, Mod: tea.ModAlt}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
		"tab": {Code: tea.KeyTab}, "esc": {Code: tea.KeyEscape}, "backspace": {Code: tea.KeyBackspace}, "left": {Code: tea.KeyLeft},
		"home": {Code: tea.KeyHome}, "pgup": {Code: tea.KeyPgUp}, "delete": {Code: tea.KeyDelete},
	}
	for _, n := range names {
		k, ok := keys[n]
		if !ok { // ctrl+x, alt+x
			k = tea.KeyPressMsg{Code: rune(n[len(n)-1]), Mod: tea.ModCtrl}
			if strings.HasPrefix(n, "alt") {
				k.Mod = tea.ModAlt
			}
		}
		r.do(k)
	}
}

func (r *rig) events(job int, ms ...proto.Message) {
	for _, m := range ms {
		r.do(Events{Job: job, Events: []proto.Message{m}})
	}
}

func (r *rig) later(d time.Duration) { r.now = r.now.Add(d) }

// screen is all that there is to see.
func (r *rig) screen() string {
	return strings.Join(r.done, "\n") + "\n~~~ live\n" + strings.Join(r.live, "\n") + "\n"
}

func ready() Health {
	return Health{Status: &proto.Status{State: "ready", Server: proto.Server{Practice: true, Context: 32768, Slots: 3}}}
}

const answer = "Here is **the answer** with `code`, and a list:\n\n- first, long enough to be broken in a narrow window, so it is\n- 日本語の文字\n\n```go\nfunc main() {} // nothing\n```\n\nThe end."

func done(outcome proto.TurnOutcome, text string) *proto.Done {
	return &proto.Done{Outcome: outcome, Answer: text, Usage: proto.Usage{
		Completions: 2, Prompt: 412, Cached: 2800, Generated: 312, GenerateMS: 6000, PromptMS: 900, Context: 3950, Window: 32768,
	}}
}
