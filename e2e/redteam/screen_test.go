package redteam

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A screen is a real terminal, in which the owner's programs run.
type screen struct {
	r      *rig
	env    []string
	socket string
}

func newScreen(r *rig, width int) *screen {
	r.t.Helper()
	return newScreenAt(r, width, fmt.Sprintf("tmux-%d", r.n.Add(1)))
}

func newScreenAt(r *rig, width int, socket string) *screen {
	r.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		r.t.Skip("NOT RUN: there is no tmux here, so that nothing was seen of what the owner sees")
	}
	x := &screen{r: r, env: append(r.Command(r.context(), "version").Env, "TZ=UTC", "LANG=C.UTF-8", "LC_ALL=C.UTF-8"), socket: filepath.Join(r.Home, socket)}
	x.run("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", "200", "cd "+r.Home+" && PS1='$ ' exec timeout --foreground 900 sh") // ends by itself, should the test be killed
	x.run("set-option", "-g", "set-clipboard", "on")
	x.run("select-pane", "-T", "untouched")
	r.t.Cleanup(func() { _ = x.cmd("kill-server").Run() }) // it may have ended
	x.see("$")
	return x
}

func (x *screen) cmd(args ...string) *exec.Cmd {
	c := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...)
	c.Env = x.env
	return c
}

func (x *screen) run(args ...string) string {
	x.r.t.Helper()
	out, err := x.cmd(args...).CombinedOutput()
	if err != nil {
		x.r.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (x *screen) keys(names ...string) {
	x.r.t.Helper()
	x.run(append([]string{"send-keys"}, names...)...)
}

// line types a line.
func (x *screen) line(s string) {
	x.r.t.Helper()
	x.run("send-keys", "-l", s)
	x.keys("Enter")
}

func (x *screen) rows() []string {
	x.r.t.Helper()
	return strings.Split(strings.TrimRight(x.run("capture-pane", "-p", "-S", "-2000"), "\n \t"), "\n")
}

// see waits until what is wanted stands in a row.
func (x *screen) see(want string) []string {
	x.r.t.Helper()
	var rows []string
	x.r.WaitUntil(fmt.Sprintf("the screen shows %q", want), func() bool {
		rows = x.rows()
		return slices.ContainsFunc(rows, func(s string) bool { return strings.Contains(s, want) })
	})
	return rows
}

// card waits for the end of a frame, which stands at the left edge: the same words
// may stand in a call.
func (x *screen) card(end string) []string {
	x.r.t.Helper()
	var rows []string
	x.r.WaitUntil("the end of the frame", func() bool {
		rows = x.rows()
		return slices.ContainsFunc(rows, func(s string) bool { return strings.HasPrefix(s, end) })
	})
	return rows
}

// unharmed: nothing that the attacker wrote was obeyed by the terminal.
func (x *screen) unharmed() {
	x.r.t.Helper()
	if got := strings.TrimSpace(x.run("display-message", "-p", "#{pane_title}")); got != "untouched" {
		x.r.t.Errorf("the terminal's title is %q", got)
	}
	if out := x.run("list-buffers"); out != "" {
		x.r.t.Errorf("the clipboard has %q", out)
	}
	x.r.shownSafely(strings.Join(x.rows(), "\n"), "the screen")
}

// shownSafely: no rune that a terminal obeys, hides or reorders.
func (r *rig) shownSafely(text, where string) {
	r.t.Helper()
	for _, c := range text {
		if unicode.IsControl(c) && c != '\n' && c != '\t' || strings.ContainsRune("\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2060\ufeff\u2028\u2029\u00ad\u3164\u180e", c) {
			r.t.Errorf("%s has %U", where, c)
			return
		}
	}
}

var (
	cardTop = regexp.MustCompile(`^┌.* code (\S+)`)
	cardRow = regexp.MustCompile(`^│ (.{8}) ( |┆)`)
)

// cards gives the codes of the frames that begin at the left edge, in order, and
// the rows between their top and their end.
func cards(rows []string) (codes []string, bodies [][]string) {
	var body []string
	in := false
	for _, row := range rows {
		switch m := cardTop.FindStringSubmatch(row); {
		case m != nil:
			codes, body, in = append(codes, m[1]), nil, true
		case in && strings.HasPrefix(row, "└"):
			bodies, in = append(bodies, body), false
		case in:
			body = append(body, row)
		}
	}
	return codes, bodies
}

// trueCards: each frame on the screen is one that brokerd asked about, nothing
// breaks out of it, and nothing beside it begins as a row of the program does.
func (r *rig) trueCards(rows []string, known ...string) {
	r.t.Helper()
	codes, bodies := cards(rows)
	for _, c := range codes {
		if !slices.Contains(known, c) {
			r.t.Errorf("a frame that nobody asked about, with the code %s:\n%s", c, strings.Join(rows, "\n"))
		}
	}
	if len(known) > 0 && len(codes) == 0 || len(bodies) != len(codes) {
		r.t.Errorf("%d frames begin and %d end; want those of %q:\n%s", len(codes), len(bodies), known, strings.Join(rows, "\n"))
	}
	inCard := false
	for _, row := range rows {
		switch {
		case strings.HasPrefix(row, "┌"):
			inCard = true
		case inCard && strings.HasPrefix(row, "└"):
			inCard = false
		case inCard && !cardRow.MatchString(row+strings.Repeat(" ", 12)):
			r.t.Errorf("a row of the frame that is none: %q", row)
		case !inCard && (strings.HasPrefix(row, "│") || strings.HasPrefix(row, "└") || strings.HasPrefix(row, "‖") && !slices.ContainsFunc(known, func(c string) bool { return strings.Contains(row, "("+c+")") })):
			r.t.Errorf("a row outside of every frame begins like one of ours: %q", row)
		}
	}
}
