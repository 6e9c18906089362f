package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/testkit/fakemost"
)

// TestSetupOnATerminal: bxctl mattermost setup as a dialogue. What is wrong is asked for
// again, the token is never on the screen, and what is there is replaced on a yes alone.
func TestSetupOnATerminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("NOT RUN: there is no tmux here, which bxctl mattermost setup is answered in")
	}
	s := stack.New(t)
	s.Must("", "init", "--practice")
	chat := fakemost.New(t)
	bot, ann := chat.AddBot("box"), chat.AddUser("ann")
	chat.AddBot("robot")
	town := chat.Channel("O", "town", bot, ann)
	file := filepath.Join(s.Layout.Config, "gatewayd.toml")
	text := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}

	x := newTmux(t, s, 150)
	line := func(text string) { x.text(text); x.keys("Enter") }
	begin := func(args string) {
		x.run("send-keys", "-R")
		x.run("clear-history")
		line("clear; bxctl mattermost setup" + args + "; echo code $?")
	}
	ask := func(question string, answers ...string) string {
		screen := x.settled(question)
		for _, a := range answers {
			line(a)
		}
		return screen
	}

	// Left before the end: nothing is there.
	begin("")
	ask("Address of the server, such as https://chat.example.com:")
	x.keys("C-d")
	x.settled("code 1\n")
	begin("")
	ask("https://chat.example.com:", chat.URL)
	ask("Token of the bot (it is not shown):")
	x.keys("C-c")
	x.settled("code 1\n")
	begin(" --url " + chat.URL)
	for i := range 5 {
		x.s.WaitUntil("the question", func() bool { return strings.Count(x.screen(), "Token of the bot") == i+1 })
		line("short")
	}
	x.settled("see runbook: mattermost-setup)\ncode 1\n")
	if _, err := os.Stat(file); err == nil {
		t.Fatal("a setup that was left wrote its file")
	}

	begin("")
	ask("https://chat.example.com:", strings.Replace(chat.URL, "http:", "https:", 1))
	ask("see runbook: mattermost-url", chat.URL)
	x.settled("ok    server")
	ask("Token of the bot (it is not shown):", strings.Repeat("x", 26))
	ask("see runbook: mattermost-token", bot.Token)
	x.settled("the bot is @box")
	ask("Your user name there", "robot")
	ask("see runbook: mattermost-owner", "ann") // said before anything else is asked
	ask("Channels where you may name the bot", "nowhere")
	x.settled("see runbook: mattermost-channel")
	if n := len(chat.Posts(chat.Direct(bot, ann))); n != 0 {
		t.Errorf("%d posts before all was well", n)
	}
	line("town")
	screen := x.settled("code 0\n")
	if strings.Contains(screen, bot.Token) || strings.Contains(x.run("capture-pane", "-p", "-S", "-200"), bot.Token) {
		t.Errorf("the token is on the screen:\n%s", screen)
	}
	if n := strings.Count(screen, "the bot is @box"); n != 1 {
		t.Errorf("a step is shown %d times:\n%s", n, screen)
	}
	for _, want := range []string{chat.URL, ann.ID, town} {
		if !strings.Contains(text(), `"`+want+`"`) {
			t.Errorf("no %s in\n%s", want, text())
		}
	}
	if n := len(chat.Posts(chat.Direct(bot, ann))); n != 1 {
		t.Errorf("%d posts", n)
	}

	// Enter keeps everything.
	before := text()
	begin("")
	ask("https://chat.example.com ["+chat.URL+"]:", "")
	ask("Enter keeps the one that is stored", "")
	ask("["+ann.ID+"]:", "")
	ask("["+town+"]:", "")
	x.settled("nothing was changed.\ncode 0\n")

	// Something else is shown, and replaced on a yes alone.
	for _, no := range []string{"n", ""} {
		begin(" --url " + chat.URL + " --owner ann --channel ''")
		ask("Enter keeps the one that is stored", "")
		if screen := ask("Replace it? [y/N]", no); !strings.Contains(screen, `channels: ["`+town+`"] -> []`) {
			t.Errorf("the difference is not shown:\n%s", screen)
		}
		if x.settled("code 1\n"); text() != before {
			t.Fatalf("changed after %q:\n%s", no, text())
		}
	}
	begin(" --url " + chat.URL + " --owner ann --channel ''")
	ask("Enter keeps the one that is stored", "")
	ask("Replace it? [y/N]", "yes")
	x.settled("code 0\n")
	if text() != strings.Replace(before, `channels = ["`+town+`"]`, "channels = []", 1) {
		t.Errorf("it is\n%s", text())
	}
	tokenNowhere(t, s.Home, bot.Token)
}

// tokenNowhere looks through every file below a folder.
func tokenNowhere(t *testing.T, dir, token string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), token) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
