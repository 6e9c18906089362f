package probe

import (
	"os"
	"strings"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
	"boxmaker/internal/testkit/realmost"
)

var real realmost.Pool

func TestMain(m *testing.M) {
	code := m.Run()
	real.Close()
	os.Exit(code)
}

// TestRealProbe: the steps, and what an owner gets wrong, on a real server.
func TestRealProbe(t *testing.T) {
	s := real.Get(t)
	ann, bot := s.Person(t, "ann"), s.Bot(t, "box")
	if err := s.Join(bot); err != nil {
		t.Fatal(err)
	}
	town := s.Channel(t, "town", ann, bot)
	den := s.Channel(t, "den", ann)
	run := func(token string, ask proto.Probe) *proto.Probed {
		t.Helper()
		if ask.URL == "" {
			ask.URL = s.URL
		}
		return Run(t.Context(), Config{}, &ask, secret.NewText(token))
	}
	out := run(bot.Token, proto.Probe{Owners: []string{ann.Name}, Channels: []string{town}, Greet: true})
	if p, failed := out.Failed(); failed {
		t.Fatal(p)
	}
	if out.Owners[0].ID != ann.ID || out.Bot.ID != bot.ID || out.Channels[0].ID != town || !strings.HasPrefix(out.Version, "11.") {
		t.Errorf("%+v", out)
	}
	var got struct {
		Message string `json:"message"`
		User    string `json:"user_id"`
	}
	ann.Must(t, "GET", "/posts/"+out.Post, nil, &got)
	if got.Message != greeting || got.User != bot.ID {
		t.Errorf("the owner finds %+v", got)
	}
	if again := run(bot.Token, proto.Probe{Owners: []string{ann.ID}, Channels: []string{out.Channels[0].Name}}); again.Owners[0].Name != ann.Name || again.Channels[0].ID != town || again.Post != "" {
		t.Errorf("by id and by name: %+v", again)
	}
	gone := s.Person(t, "gone")
	s.Admin.Must(t, "DELETE", "/users/"+gone.ID, nil, nil)
	old := s.Channel(t, "old", ann, bot)
	s.Admin.Must(t, "DELETE", "/channels/"+old, nil, nil)
	revoked := s.Bot(t, "box")
	s.Admin.Must(t, "POST", "/users/tokens/revoke", map[string]string{"token_id": revoked.TokenID}, nil)
	for _, c := range []struct {
		name  string
		token string
		ask   proto.Probe
		words string
	}{
		{"another path", bot.Token, proto.Probe{URL: s.URL + "/team/channels"}, "mattermost-not-one"},
		{"wrong token", strings.Repeat("x", 26), proto.Probe{}, "does not take the token"},
		{"revoked", revoked.Token, proto.Probe{}, "does not take the token"},
		{"a person's", ann.Token, proto.Probe{}, "a person's account"},
		{"nobody", bot.Token, proto.Probe{Owners: []string{"nobody-here"}}, "no account"},
		{"no such id", bot.Token, proto.Probe{Owners: []string{town}}, "no account"},
		{"the bot", bot.Token, proto.Probe{Owners: []string{bot.Name}}, "the bot itself"},
		{"another bot", bot.Token, proto.Probe{Owners: []string{revoked.Name}}, "is a bot"},
		{"deactivated", bot.Token, proto.Probe{Owners: []string{gone.Name}}, "deactivated"},
		{"not in the channel", bot.Token, proto.Probe{Owners: []string{ann.Name}, Channels: []string{den}}, "invite it"},
		{"archived", bot.Token, proto.Probe{Owners: []string{ann.Name}, Channels: []string{old}}, "archived"},
	} {
		if _, state, words := last(run(c.token, c.ask)); state != "failed" || !strings.Contains(words, c.words) {
			t.Errorf("%s: %s %s", c.name, state, words)
		}
	}
}
