package browse

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
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

var update = flag.Bool("update", false, "write golden files anew")

func newModel(width, height int) *Model {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	return New(term.Plain(&bytes.Buffer{}), func() time.Time { return now }, "chat-x", width, height)
}

func press(m *Model, names ...string) (left bool) {
	for _, n := range names {
		k := tea.KeyPressMsg{Code: rune(n[0]), Text: n}
		switch n {
		case "tab":
			k = tea.KeyPressMsg{Code: tea.KeyTab}
		case "enter":
			k = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "pgup":
			k = tea.KeyPressMsg{Code: tea.KeyPgUp}
		case "G":
			k = tea.KeyPressMsg{Code: 'g', ShiftedCode: 'G', Mod: tea.ModShift, Text: "G"}
		case "home":
			k = tea.KeyPressMsg{Code: tea.KeyHome}
		case "down":
			k = tea.KeyPressMsg{Code: tea.KeyDown}
		}
		left = m.Key(k) || left
	}
	return left
}

func items() []archive.Item {
	at := time.Date(2026, 1, 2, 14, 0, 0, 0, time.UTC)
	return []archive.Item{
		{Time: at, Role: "user", Text: "what time\nis it, and where \x1b[2J is that?"},
		{Time: at, Role: "assistant", Thinking: "The owner wants the time, and with so many words that a row is not enough for all of them."},
		{Time: at, Role: "call", Text: "Friday 日本\nsecond row", Call: &archive.Call{Tool: "clock", Args: `{"zone":"UTC","more":[1,2]}`, Ended: true, Outcome: proto.CallOK, Class: proto.ClassPublic, MS: 12, Dropped: 2000}},
		{Time: at, Role: "call", Text: "no-grant: it was denied", Call: &archive.Call{Tool: "fetch", Args: "not json", Ended: true, Outcome: proto.CallDenied, Code: proto.CodeNoGrant, Class: proto.ClassPrivate}},
		{Time: at, Role: "assistant", Text: "It is **Friday**.\n\n| a | b |\n|---|---|\n| 1 | 2 |"},
		{Time: at, Role: "turn"},
		{Time: at, Role: "user", Text: "and then?"},
		{Time: at, Role: "turn", Text: "failed. the server is gone"},
	}
}

func TestViews(t *testing.T) {
	for _, width := range []int{60, 80, 200} {
		var all strings.Builder
		show := func(name string, m *Model) {
			rows := m.View()
			if len(rows) != m.height {
				t.Errorf("%s: %d rows in a window of %d", name, len(rows), m.height)
			}
			for _, l := range rows {
				if term.Columns(l) > width {
					t.Errorf("%s: %d columns: %q", name, term.Columns(l), l)
				}
			}
			fmt.Fprintf(&all, "=== %s\n%s\n", name, strings.Join(rows, "\n"))
		}
		m := newModel(width, 24)
		show("reading", m)
		m.Older(items(), true, nil)
		show("folded", m)
		press(m, "tab", "enter")
		show("a call", m)
		press(m, "a", "home")
		show("all", m)
		press(m, "a", "/")
		for _, c := range "friday" {
			press(m, string(c))
		}
		show("typing a search", m)
		press(m, "enter", "n")
		show("found", m)
		m = newModel(width, 6)
		m.Older(nil, false, errors.New("damaged\x1b[2J"))
		show("failed", m)

		path := filepath.Join("testdata", fmt.Sprintf("views-%d.txt", width))
		if *update {
			if err := os.WriteFile(path, []byte(all.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), all.String()); d != "" {
			t.Errorf("%d: -want +got\n%s", width, d)
		}
	}
}

// TestOlderComesWhenNear: a reader at the end loads a little; one who scrolls
// up loads more, and the rows on the screen stay where they are.
func TestOlderComesWhenNear(t *testing.T) {
	m := newModel(80, 10)
	if m.Wants() {
		t.Fatal("wants more while the first rows are being read")
	}
	many := func(name string) (out []archive.Item) {
		for i := range 40 {
			out = append(out, archive.Item{Role: "user", Text: fmt.Sprint(name, i)})
		}
		return out
	}
	m.Older(many("new"), false, nil)
	if m.Wants() {
		t.Fatal("wants more at the end")
	}
	for !m.Wants() {
		press(m, "pgup")
	}
	before := m.View()[:9]
	m.Older(many("old"), true, nil)
	if d := cmp.Diff(before, m.View()[:9]); d != "" {
		t.Errorf("the screen moved: %s", d)
	}
	press(m, "home", "home")
	if got := m.View()[0]; got != "  > old0" {
		t.Errorf("the first row is %q", got)
	}
	if m.Wants() {
		t.Error("wants more than there is")
	}
}

// TestHoldsLittle: a reader who goes to the start of a long session holds a part
// of it, and comes back to its end.
func TestHoldsLittle(t *testing.T) {
	m := newModel(80, 10)
	n := 0
	for range 60 {
		var items []archive.Item
		for range 100 {
			n++
			items = append(items, archive.Item{Role: "user", Text: fmt.Sprint("message ", n)})
		}
		m.Older(items, false, nil)
		press(m, "home")
		m.View()
		if len(m.parts) > keepParts+100 {
			t.Fatalf("%d parts are held", len(m.parts))
		}
	}
	if m.WantsNewest() {
		t.Error("wants the end while the start is shown")
	}
	press(m, "G")
	if !m.WantsNewest() || len(m.parts) > 0 {
		t.Error("the end was not asked for")
	}
}

func TestLeaves(t *testing.T) {
	m := newModel(80, 10)
	m.Older(items(), true, nil)
	if press(m, "/", "q", "enter") {
		t.Error("a q in a search text left")
	}
	if !press(m, "q") {
		t.Error("q did not leave")
	}
}

func TestNothingActs(t *testing.T) {
	bit := rapid.SampledFrom([]string{"\x1b[2J", "\u009b", "\x00", "\r", "\n", "\t", "\u202e", "\xff", "&#27;[", "a", "**", "日", "`", "```\n", "{\"a\":1}"})
	rapid.Check(t, func(t *rapid.T) {
		s := func() string { return strings.Join(rapid.SliceOfN(bit, 0, 10).Draw(t, "bits"), "") }
		m := newModel(rapid.IntRange(20, 100).Draw(t, "width"), 40)
		m.Older([]archive.Item{
			{Role: "user", Text: s()},
			{Role: "assistant", Text: s(), Thinking: s()},
			{Role: "turn", Text: s()},
			{Role: "call", Text: s(), Call: &archive.Call{Tool: s(), Args: s(), Ended: true, Outcome: proto.CallOutcome(s()), Code: proto.Code(s()), Class: proto.Class(s())}},
		}, true, nil)
		press(m, "a")
		for _, l := range m.View() {
			if term.Safe(l) != l || strings.ContainsAny(l, "\n\t") || !utf8.ValidString(l) {
				t.Fatalf("%q", l)
			}
		}
	})
}
