package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"boxmaker/e2e/stack"

	"github.com/google/go-cmp/cmp"
)

var updateScreens = flag.Bool("update-screens", false, "write the golden screens of the chat anew")

// tmux is a terminal with a chat in it.
type tmux struct {
	s      *stack.Stack
	env    []string
	socket string
}

func newTmux(t *testing.T, s *stack.Stack, width int) *tmux {
	t.Helper()
	x := &tmux{s: s, env: append(s.Command(t.Context(), "version").Env, "TZ=UTC", "LANG=C.UTF-8", "LC_ALL=C.UTF-8"), socket: filepath.Join(s.Home, "tmux")}
	x.run("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", "30", "cd "+s.Home+" && PS1='$ ' exec sh")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := x.cmd("capture-pane", "-p", "-S", "-30").CombinedOutput()
			t.Logf("the screen:\n%s", out)
		}
		_ = x.cmd("kill-server").Run() // it may have ended
	})
	return x
}

func (x *tmux) cmd(args ...string) *exec.Cmd {
	c := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...)
	c.Env = x.env
	return c
}

func (x *tmux) run(args ...string) string {
	x.s.TB.Helper()
	out, err := x.cmd(args...).CombinedOutput()
	if err != nil {
		x.s.TB.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (x *tmux) keys(names ...string) {
	x.s.TB.Helper()
	x.run(append([]string{"send-keys"}, names...)...)
}

// text types text as it is.
func (x *tmux) text(s string) { x.s.TB.Helper(); x.run("send-keys", "-l", s) }

func (x *tmux) screen() string {
	x.s.TB.Helper()
	return strings.TrimRight(x.run("capture-pane", "-p"), "\n \t") + "\n"
}

var spinner = regexp.MustCompile(`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]`)

// settled waits until want is on the screen, nothing moves on it, and gives it.
func (x *tmux) settled(want string) string {
	x.s.TB.Helper()
	last := ""
	x.s.WaitUntil(fmt.Sprintf("the screen with %q", want), func() bool {
		now := x.screen()
		ok := strings.Contains(now, want) && !spinner.MatchString(now) && now == last
		last = now
		return ok
	})
	return last
}

// fresh clears the screen, so that it shows one step only.
func (x *tmux) fresh() {
	x.s.TB.Helper()
	x.keys("C-l")
	x.s.WaitUntil("a clear screen", func() bool { return strings.HasPrefix(x.screen(), "──") })
}

// mask takes out what differs between two runs.
func mask(s string) string {
	for _, m := range []struct{ re, to string }{
		{`chat-\d{8}-[a-z0-9]{6}`, "chat-00000000-aaaaaa"},
		{`(?m)^\d[\d.]* (?:ms|s) · (?:.+\n)+?\n`, "<sums>\n\n"},
		{`∴ thought for [\d.]+ m?s`, "∴ thought"},
		{`(?m)\w+day \d{4}-.*(?:\n +(?:week )?\d+)?$`, "<the time>"},
		{`(chat-0{8}-a{6}) +\d\d:\d\d +[\d.]+ K?i?B  `, "$1  <when and size>  "},
		{`\d\d:\d\d`, "00:00"},
		{`(?: · \d+ B)? · [\d.]+ m?s\b`, " · 0 s"},
		{`[\d.]+ [KM]?i?B\b`, "0 B"},
		{`/\S*/bm-\d+`, "<home>"},
		{`context \d+% of`, "context 0% of"},
	} {
		s = regexp.MustCompile(m.re).ReplaceAllString(s, m.to)
	}
	return s
}

// maskFigures leaves of /context what is not a measurement.
func maskFigures(s string) string {
	s = regexp.MustCompile(`(?m)^.*[┤┼].*\n`).ReplaceAllString(s, "")
	s = regexp.MustCompile(`(?m)^( *\d+ )[░█▒].*$`).ReplaceAllString(s, "$1<bar>")
	s = regexp.MustCompile(`(?m)^window [░█]+`).ReplaceAllString(s, "window <bar>")
	s = regexp.MustCompile(`[\d,.]+(/s| tokens| reused| generated| of|%)`).ReplaceAllString(s, "0$1")
	s = regexp.MustCompile(`(?: · |\n)(?:reading|writing) 0/s`).ReplaceAllString(s, "")
	return s
}

type step struct {
	name string
	do   func(x *tmux)
	want string
	mask func(string) string
}

func steps() []step {
	line := func(s string) func(*tmux) { return func(x *tmux) { x.text(s); x.keys("Enter") } }
	return []step{
		{"an answer with a list", line("what are roles?"), "context", nil},
		{"a tool", line("what time is it?"), ", week", nil},
		{"several lines", func(x *tmux) {
			x.text("日本語, é and 👍: the first line, long enough to be broken in a narrow window")
			x.keys("M-Enter")
			x.text("the second line")
		}, "the second line", nil},
		{"taken away", func(x *tmux) { x.keys("C-c") }, "─\n>\n", nil},
		{"what was typed before", func(x *tmux) { x.keys("Up", "Up") }, "> what are roles?", nil},
		{"back to the draft", func(x *tmux) { x.keys("Down", "Down") }, "─\n>\n", nil},
		{"commands", func(x *tmux) { x.text("/") }, "/sessions", nil},
		{"completed", func(x *tmux) { x.text("exp"); x.keys("Tab") }, "> /export", nil},
		{"exported", line("saved.md"), "saved.md,", nil},
		{"not twice", line("/export saved.md"), "export-exists", nil},
		{"help", line("/help"), "Ctrl-Z", nil},
		{"status", line("/status"), "slot background", nil},
		{"sessions", line("/sessions"), "what are ro", nil},
		{"context", line("/context"), "no cold cache", maskFigures},
		{"unknown", line("/nonsense"), "no command", nil},
		{"unfolded", func(x *tmux) { x.keys("C-t"); line("what time is it?")(x) }, "result: ", nil},
		{"folded again", line("/details"), "context", nil},
		{"transcript", func(x *tmux) { x.keys("C-o") }, "q back", nil},
		{"transcript, a call unfolded", func(x *tmux) { x.keys("Tab", "BTab", "Enter") }, "arguments:", nil},
		{"transcript, its start", func(x *tmux) { x.keys("g") }, "what are roles?", nil},
		{"back in the chat", func(x *tmux) { x.keys("q") }, "/help", nil},
		{"a new session", line("/new"), "new session", nil},
		{"nothing runs", line("/stop"), "no turn runs", nil},
		{"resume, which?", func(x *tmux) { x.text("/resume ") }, "what are", nil},
		{"resumed", func(x *tmux) { x.keys("C-u"); line("/resume")(x) }, "── session", nil},
	}
}

// TestChatScreens drives the chat through every command at three widths.
func TestChatScreens(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("NOT RUN: there is no tmux here, which the screens of the chat are tested in")
	}
	for _, width := range []int{60, 80, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			s := stack.New(t)
			s.Must("", "init", "--practice")
			s.Up()
			x := newTmux(t, s, width)
			x.text("bxctl chat")
			x.keys("Enter")
			x.settled("practice model · ")
			var all strings.Builder
			for _, st := range steps() {
				if !strings.HasPrefix(st.name, "transcript, ") && !strings.HasPrefix(st.name, "back") && st.name != "completed" {
					x.fresh()
				}
				st.do(x)
				screen := x.settled(st.want)
				if st.mask != nil {
					screen = st.mask(screen)
				}
				fmt.Fprintf(&all, "=== %s\n%s", st.name, mask(screen))
			}
			compareScreens(t, width, all.String())
			if st, err := os.Stat(filepath.Join(s.Home, "saved.md")); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("the exported file: %v, %v", st, err)
			}
			x.keys("C-u")
			x.text("/quit")
			x.keys("Enter")
			x.settled("Go on later with: bxctl chat --session chat-")
		})
	}
}

func compareScreens(t *testing.T, width int, got string) {
	t.Helper()
	path := filepath.Join("testdata", "screens", fmt.Sprintf("chat-%d.txt", width))
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
		t.Errorf("%d columns: -want +got (go test ./e2e -run TestChatScreens -update-screens writes them anew)\n%s", width, d)
	}
}

// TestChatSurvives: a stop, a queued message, a narrower window, and a loopd
// that is killed in the middle of an answer.
func TestChatSurvives(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("NOT RUN: there is no tmux here, which the chat is tested in")
	}
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.Set("bxctl.toml", "practice", "args", []string{"-gen-tps", "100"})
	s.Up()
	x := newTmux(t, s, 80)
	x.text("bxctl chat")
	x.keys("Enter")
	x.settled("practice model · ")
	see := func(want string) {
		t.Helper()
		x.s.WaitUntil(fmt.Sprintf("the screen with %q", want), func() bool { return strings.Contains(x.run("capture-pane", "-p", "-S", "-"), want) })
	}

	x.text("say 3000 words")
	x.keys("Enter")
	see("writing")
	x.text("what is 日本?")
	x.keys("Enter")
	see("⋯ waits: what is 日本?")
	x.keys("C-c")
	see("(stopped)")
	see("> what is 日本?")
	x.settled("context")

	x.text("say 300 words")
	x.keys("Enter")
	see("the box holds")
	x.run("resize-window", "-x", "50", "-y", "20")
	if !s.Kill("loopd") {
		t.Fatal("loopd does not run")
	}
	see("loopd is away")
	see("(loopd is back; going on)")
	x.settled("context")
	if n := strings.Count(x.run("capture-pane", "-p", "-S", "-"), "> say 300 words"); n != 1 {
		t.Errorf("the message is shown %d times", n)
	}
	x.keys("C-d")
	x.settled("Go on later with")

	x.run("clear-history")
	x.text("clear; bxctl sessions resume")
	x.keys("Enter")
	see("── session chat-")
	see("> say 300 words")
	x.keys("C-d")
	x.settled("Go on later with")
}

// TestChatFollows: turns that are asked for elsewhere appear in an idle chat, once,
// and a loopd that goes away is a line there too.
func TestChatFollows(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("NOT RUN: there is no tmux here, which the chat is tested in")
	}
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.Set("bxctl.toml", "practice", "args", []string{"-gen-tps", "100"})
	s.Up()
	x := newTmux(t, s, 80)
	all := func() string { return x.run("capture-pane", "-p", "-S", "-") }
	see := func(want string, times int) {
		t.Helper()
		x.s.WaitUntil(fmt.Sprintf("the screen with %q", want), func() bool { return strings.Count(all(), want) == times })
	}
	x.text("bxctl chat --session chat-both")
	x.keys("Enter")
	x.settled("practice model · ")

	s.Must("", "ask", "--session", "chat-both", "what are roles?") // the session begins elsewhere
	see("from bxctl ask", 1)
	see("> what are roles?", 1)
	x.settled("context")
	x.text("what is a slot?")
	x.keys("Enter")
	see("> what is a slot?", 1)
	x.settled("context")
	s.Must("", "ask", "--session", "chat-both", "what time is it?")
	see("from bxctl ask", 2)
	see("✓ clock", 1)
	x.settled("context")

	if !s.Kill("loopd") {
		t.Fatal("loopd does not run")
	}
	see("loopd does not answer; what you send waits until it is back", 1)
	see("(loopd is back)", 1)
	s.Must("", "ask", "--session", "chat-both", "what is an epoch?")
	see("> what is an epoch?", 1)
	x.settled("context")

	// A chat that joins a running turn keeps it when loopd goes away.
	long := s.Command(t.Context(), "ask", "--session", "chat-both", "say 300 words")
	if err := long.Start(); err != nil {
		t.Fatal(err)
	}
	see("the box holds", 1)
	x.keys("C-d")
	see("Go on later with", 1)
	x.text("clear; bxctl chat --session chat-both")
	x.keys("Enter")
	see("── session chat-both", 1)
	see("> say 300 words", 1)
	see("the box holds", 1)
	if !s.Kill("loopd") {
		t.Fatal("loopd does not run")
	}
	see("loopd is away", 1)
	see("(loopd is back; going on)", 1)
	if err := long.Wait(); err != nil {
		t.Fatal(err)
	}
	x.settled("context")
	see("> say 300 words", 1)
	if !strings.Contains(all(), "tokens written") {
		t.Error("the turn's end is not shown")
	}
	x.keys("C-d")
	see("Go on later with", 1)
}
