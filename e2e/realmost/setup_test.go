package realmost

import (
	"strings"
	"testing"

	"boxmaker/e2e/stack"
)

// TestSetup goes the owner's way, from the bot's token to an answer: bxctl mattermost
// setup, up, a message; then a token that is revoked, and a new one that a running
// Boxmaker takes over.
func TestSetup(t *testing.T) {
	server := pool.Get(t)
	ann, bot := server.Person(t, "ann"), server.Bot(t, "box")
	if err := server.Join(bot); err != nil {
		t.Fatal(err)
	}
	town := server.Channel(t, "town", ann, bot)
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.NoTools()
	setup := func(token string, more ...string) stack.Result {
		t.Helper()
		return s.Bxctl(token, append([]string{"mattermost", "setup", "--url", server.URL, "--token-file", "-"}, more...)...)
	}
	if r := setup(ann.Token, "--owner", ann.Name); r.Code != 1 || !strings.Contains(r.Stderr, "a person's account") {
		t.Errorf("a person's token: %+v", r)
	}
	if r := setup(bot.Token, "--owner", ann.Name, "--channel", town); r.Code != 0 || strings.Contains(r.Stdout+r.Stderr, bot.Token) {
		t.Fatalf("%+v", r)
	}
	dm := server.Direct(t, ann, bot)
	messages := func() (n int, all string) {
		var got struct {
			Posts map[string]struct {
				Message string `json:"message"`
				User    string `json:"user_id"`
			} `json:"posts"`
		}
		ann.Must(t, "GET", "/channels/"+dm+"/posts", nil, &got)
		for _, p := range got.Posts {
			if p.User == bot.ID {
				n, all = n+1, all+p.Message+"\n"
			}
		}
		return n, all
	}
	if n, all := messages(); n != 1 || !strings.Contains(all, "Boxmaker's bot") {
		t.Errorf("%d messages: %s", n, all)
	}
	s.Up()
	ann.Post(t, dm, "", "answer with: over the hills")
	s.WaitUntil("an answer", func() bool { _, all := messages(); return strings.Contains(all, "over the hills") })

	server.Admin.Must(t, "POST", "/users/tokens/revoke", map[string]string{"token_id": bot.TokenID}, nil)
	if r := s.Bxctl("", "mattermost", "check"); r.Code != 1 || !strings.Contains(r.Stderr, "was revoked") {
		t.Errorf("%+v", r)
	}
	var fresh struct {
		Token string `json:"token"`
	}
	server.Admin.Must(t, "POST", "/users/"+bot.ID+"/tokens", map[string]string{"description": "another"}, &fresh)
	if r := setup(fresh.Token, "--owner", ann.Name, "--yes"); r.Code != 0 || !strings.Contains(r.Stdout, "takes it over by itself") {
		t.Errorf("%+v", r)
	}
	ann.Post(t, dm, "", "answer with: and far away")
	s.WaitUntil("an answer with the new token", func() bool { _, all := messages(); return strings.Contains(all, "and far away") })
	if r := s.Bxctl("", "mattermost", "check"); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	s.Down()
}
