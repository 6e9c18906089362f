package e2e

import (
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"boxmaker/e2e/stack"
)

// TestUpInATerminal looks at `bxctl up` where its owner does.
func TestUpInATerminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("TMUX IS NOT ON THIS MACHINE: the status view of bxctl up was NOT looked at")
	}
	for _, width := range []int{60, 80, 200} {
		s := stack.New(t)
		s.Must("", "init", "--practice")
		x := newTmux(t, s, width)
		shows := func(pattern string) string {
			t.Helper()
			last, re := "", regexp.MustCompile(pattern)
			s.WaitUntil("a screen with "+pattern, func() bool {
				last = x.screen()
				return re.MatchString(last)
			})
			return last
		}
		shows(`^\$`)
		x.text("bxctl up")
		x.keys("Enter")
		view := shows(`(?s)^Boxmaker \S+ · ready.*loopd +running +\d+.*self-test +█+ \d+ of \d+\n.*── log ─.*up +ready after`)
		if strings.Contains(view, "$ bxctl up") || (width >= 60) != strings.Contains(view, "memory") {
			t.Errorf("%d columns:\n%s", width, view)
		}

		// A role that dies is told of, in its row and in the log.
		x.text("not shown") // keys are not for it
		pid := 0
		for _, p := range stack.Processes(s.Home) {
			if p.Program == "practice" {
				pid = p.PID
			}
		}
		if pid == 0 {
			t.Fatal("the practice model does not run")
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		view = shows(`(?s)practice +running.*restarts: 1, last end: killed by signal 9.*up +practice ended`)
		if strings.Contains(view, "not shown") {
			t.Errorf("keys are on the screen:\n%s", view)
		}

		// A smaller screen, and back.
		x.run("resize-window", "-x", "40", "-y", "12")
		shows(`^Boxmaker \S+ · ready\n(.*\n){0,11}$`)
		x.run("resize-window", "-x", "80", "-y", "30")

		// At its end what stood there before is back.
		x.keys("C-c")
		view = shows(`up +stopped\n\$`)
		if strings.Contains(view, "self-test ") && strings.Contains(view, "── log") {
			t.Errorf("the view is still there:\n%s", view)
		}
		x.text("echo typed")
		x.keys("Enter")
		shows(`\$ echo typed\ntyped\n`) // the terminal echoes again
	}
}

// In a terminal that wants no colours, up prints lines.
func TestUpInLines(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("TMUX IS NOT ON THIS MACHINE: the lines of bxctl up were NOT looked at")
	}
	for _, c := range []string{"NO_COLOR=1 bxctl up", "TERM=dumb bxctl up", "bxctl up --plain", "bxctl up 2>&1 | cat"} {
		t.Run(c, func(t *testing.T) {
			s := stack.New(t)
			s.Must("", "init", "--practice")
			x := newTmux(t, s, 80)
			x.settled("$")
			x.text(c)
			x.keys("Enter")
			view := x.settled("ready after")
			if strings.Contains(view, "── log") || !regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d up +Boxmaker `).MatchString(view) {
				t.Errorf("%s", view)
			}
			x.keys("C-c")
			s.WaitUntil("the end", func() bool { return strings.HasSuffix(strings.TrimSpace(x.screen()), "$") })
		})
	}
}
