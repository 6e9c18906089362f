package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

// maskApproval takes out what differs between two approvals, and the marks of a
// turn that goes on.
func maskApproval(s string) string {
	s = spinner.ReplaceAllString(s, "*")
	for _, m := range []struct{ re, to string }{
		{`\b[0-9A-Z]{6}\b`, "CODE00"},
		{`in \d+ min\b`, "in 0 min"},
		{`(waiting for your approval) · [\d.]+ m?s`, "$1"},
		{`(?m) ─+$`, " ─"},
		// The length of the home's path decides where these are cut or broken.
		{`(?m)^([*✓✗]) (\w+) ?(?:\{.*?|…)( → .*)?$`, "$1 $2 <arguments>$3"},
		{"(?s)\n```\n.*?\n```\n", "\n<result>\n"},
		{`(?m)^(CODE00  \w+  ).*$`, "$1<argument>"},
		{`(?m)^[✓✗] \w+ \(CODE00\) was .*\n\n`, ""}, // it may come before the result or after it
		{`/\S*?/workspace`, "<workspace>"},
	} {
		s = regexp.MustCompile(m.re).ReplaceAllString(s, m.to)
	}
	return mask(s)
}

// still waits until want is on the screen and nothing but the mark of the turn
// moves.
func (x *tmux) still(want string) string {
	x.s.TB.Helper()
	last := ""
	x.s.WaitUntil(fmt.Sprintf("the screen with %q", want), func() bool {
		now := maskApproval(x.screen())
		ok := strings.Contains(now, want) && now == last
		last = now
		return ok
	})
	return last
}

// TestChatApprovals: what waits is shown in the chat with its difference, and is
// answered there by keys, by its code, or elsewhere.
func TestChatApprovals(t *testing.T) {
	stack.Containers(t)
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("NOT RUN: there is no tmux here, which the approvals of the chat are tested in")
	}
	for _, width := range []int{60, 80, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			s := stack.New(t)
			s.Must("", "init", "--practice")
			s.Workspace("list.txt", "milk\nbread\n")
			s.Up()
			s.WaitTools()
			x := newTmux(t, s, width)
			var all strings.Builder
			shot := func(name, want string) { fmt.Fprintf(&all, "=== %s\n%s", name, x.still(want)) }
			line := func(text string) { x.text(text); x.keys("Enter") }
			line("bxctl chat")
			x.settled("practice model · ")

			x.fresh()
			line("change milk to oats in list.txt")
			shot("an edit waits", "‖ ")
			x.text("A typed on, y")
			s.WaitUntil("keys for the approval", func() bool { // they are taken a second after it appeared
				x.keys("C-x")
				return strings.Contains(x.screen(), "A approve")
			})
			shot("keys", "A approve")
			if b, err := os.ReadFile(filepath.Join(s.Layout.Workspace, "list.txt")); err != nil || string(b) != "milk\nbread\n" {
				t.Errorf("before the answer the file is %q, %v", b, err)
			}
			x.text("A")
			x.settled("The tool says")
			x.settled("was approved by")
			x.keys("C-c") // what was typed on
			x.settled("─\n>\n")
			fmt.Fprintf(&all, "=== approved\n%s", tail(maskApproval(x.screen())))
			if b, err := os.ReadFile(filepath.Join(s.Layout.Workspace, "list.txt")); err != nil || string(b) != "oats\nbread\n" {
				t.Errorf("after it the file is %q, %v", b, err)
			}

			x.fresh()
			line("run uname -a")
			x.still("‖ ")
			line("/deny " + strings.ToLower(s.WaitApproval().Code))
			x.settled("I will not try")
			x.settled("was denied by")
			fmt.Fprintf(&all, "=== denied\n%s", tail(maskApproval(x.screen())))

			x.fresh()
			line("run uname -r")
			x.still("‖ ")
			s.Answer(s.WaitApproval(), proto.VerdictDenied)
			x.settled("I will not try")
			x.settled("was denied by")
			fmt.Fprintf(&all, "=== denied elsewhere\n%s", tail(maskApproval(x.screen())))
			line("/quit")
			x.settled("Go on later with")
			compareApprovals(t, width, all.String())
		})
	}
}

// tail leaves the end of the frame and what follows: what is above has scrolled
// by as much as the lines that are masked.
func tail(screen string) string {
	if i := strings.LastIndex(screen, "└─"); i >= 0 {
		return screen[i:]
	}
	return screen
}

func compareApprovals(t *testing.T, width int, got string) {
	t.Helper()
	path := filepath.Join("testdata", "screens", fmt.Sprintf("approvals-%d.txt", width))
	if *updateScreens {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("%d columns: -want +got (go test ./e2e -run TestChatApprovals -update-screens writes them anew)\n%s", width, d)
	}
}
