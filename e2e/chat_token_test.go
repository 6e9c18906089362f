package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/testkit/fakemost"
)

// TestTokenIsNowhereElse: from the setup to a token that was revoked under a running
// Boxmaker, the bot's token is in no argument, environment, file, log or error; and it
// goes to no server but the one.
func TestTokenIsNowhereElse(t *testing.T) {
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.NoTools()
	chat := fakemost.New(t)
	bot, ann := chat.AddBot("box"), chat.AddUser("ann")
	clean := func(what, text string) {
		t.Helper()
		if strings.Contains(text, bot.Token) {
			t.Errorf("%s holds the token:\n%s", what, text)
		}
	}

	// While gatewayd asks with it, the server sends it back in an error, and it hangs.
	chat.Inject(fakemost.Fault{Kind: fakemost.Echo, Path: "/users/me", Times: 1})
	r := s.Bxctl(bot.Token, "mattermost", "setup", "--url", chat.URL, "--owner", "ann", "--token-file", "-", "--json")
	if r.Code == 0 || !strings.Contains(r.Stderr, "[secret]") {
		t.Errorf("a server that tells the token: %+v", r)
	}
	clean("an error", r.Stdout+r.Stderr)
	mend := chat.Inject(fakemost.Fault{Kind: fakemost.HangBefore, Path: "/users/me"})
	cmd := s.Command(t.Context(), "mattermost", "setup", "--url", chat.URL, "--owner", "ann", "--token-file", "-")
	cmd.Stdin = strings.NewReader(bot.Token)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.WaitUntil("gatewayd asks", func() bool { return len(chat.Requests("GET", "/users/me")) > 1 })
	if n := inProcesses(t, bot.Token); n != 0 {
		t.Errorf("%d processes show the token", n)
	}
	if n := inProcesses(t, "mattermost\x00setup\x00--url\x00"+chat.URL); n != 1 {
		t.Errorf("%d processes found where there is one: what looks for the token sees nothing", n)
	}
	_ = cmd.Process.Kill() // gatewayd ends with it
	_ = cmd.Wait()
	s.WaitUntil("gatewayd is gone", func() bool { return inProcesses(t, "BOXMAKER_HOME="+s.Home) == 0 })
	mend()
	if _, err := os.Stat(filepath.Join(s.Layout.Config, "gatewayd.toml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a setup that was killed wrote its file: %v", err)
	}

	// The whole way.
	r = s.Bxctl(bot.Token+"\n", "mattermost", "setup", "--url", chat.URL, "--owner", "ann", "--token-file", "-")
	if r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	clean("the setup", r.Stdout+r.Stderr)
	s.Up()
	chat.WaitConnected(bot)
	if n := inProcesses(t, bot.Token); n != 0 {
		t.Errorf("%d processes show the token", n)
	}
	chat.Post(ann, chat.Direct(bot, ann), "", "what time is it?")
	s.WaitUntil("an answer", func() bool {
		for _, p := range chat.Posts(chat.Direct(bot, ann)) {
			if strings.Contains(p.Message, "The clock says") {
				return true
			}
		}
		return false
	})
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"doctor"}, {"logs", "-n", "500"}, {"mattermost", "check"}} {
		r := s.Bxctl("", args...)
		clean(strings.Join(args, " "), r.Stdout+r.Stderr)
	}
	chat.Revoke(bot)
	chat.CutAll()
	if r := s.Bxctl("", "mattermost", "check"); !strings.Contains(r.Stderr, "was revoked") {
		t.Errorf("a revoked token: %+v", r)
	}
	s.WaitUntil("gatewayd notes it", func() bool {
		return strings.Contains(s.Bxctl("", "logs", "gatewayd", "-n", "500").Stdout, "token")
	})
	r = s.Bxctl("", "logs", "-n", "500")
	clean("the logs", r.Stdout+r.Stderr)
	s.Down()
	tokenNowhere(t, s.Home, bot.Token)
	for _, req := range chat.Requests("", "") {
		if req.Token && strings.Contains(req.Path+req.Body, bot.Token) {
			t.Errorf("the token is in a request beside its header: %+v", req)
		}
	}
}

// inProcesses counts the processes with a text among their arguments or variables.
func inProcesses(t *testing.T, text string) (n int) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range procs {
		for _, file := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && strings.Contains(string(b), text) {
				n++
				break
			}
		}
	}
	return n
}
