package chatstory

import (
	"testing"

	"boxmaker/internal/testkit/fakemost"
	"boxmaker/internal/testkit/realmost"
)

// A FakeTown is on the fake server, which can be made to misbehave.
type FakeTown struct {
	Town
	Fake       *fakemost.Server
	Owner, Bot *fakemost.User
}

// NewFakeTown starts a fake server and makes the people.
func NewFakeTown(t testing.TB) *FakeTown {
	t.Helper()
	f := fakemost.New(t)
	owner, stranger, admin, bot := f.AddUser("owner"), f.AddUser("stranger"), f.AddAdmin("admin"), f.AddBot("boxmaker")
	person := func(u *fakemost.User) *Person { return &Person{ID: u.ID, Name: u.Name, Token: u.Token, URL: f.URL} }
	town := &FakeTown{Fake: f, Owner: owner, Bot: bot, Town: Town{
		URL: f.URL, Me: person(owner), Stranger: person(stranger), Admin: person(admin), Bot: person(bot),
		DM: f.Direct(owner, bot), Foreign: f.Direct(stranger, bot), Ops: f.Channel("O", "ops", owner, stranger, bot),
	}}
	town.Hook = func(text string) { f.Webhook(owner, town.DM, text) }
	return town
}

// Post posts as the owner in the direct channel, without a request that a fault
// could meet.
func (f *FakeTown) Post(root, text string) (string, error) {
	return f.Fake.Post(f.Owner, f.DM, root, text).ID, nil
}

// NewRealTown makes the people on a real server.
func NewRealTown(t testing.TB, s *realmost.Server) *Town {
	t.Helper()
	owner, stranger, bot := s.Person(t, "owner"), s.Person(t, "stranger"), s.Bot(t, "boxmaker")
	if err := s.Join(bot); err != nil {
		t.Fatal(err)
	}
	person := func(u *realmost.User) *Person { return &Person{ID: u.ID, Name: u.Name, Token: u.Token, URL: s.URL} }
	town := &Town{
		URL: s.URL, Me: person(owner), Stranger: person(stranger), Admin: person(s.Admin), Bot: person(bot),
		DM: s.Direct(t, owner, bot), Foreign: s.Direct(t, stranger, bot), Ops: s.Channel(t, "ops", owner, stranger, bot),
	}
	hook := s.Hook(t, owner, s.Channel(t, "hooks", owner))
	town.Hook = func(text string) {
		status, b, err := owner.Call("POST", hook, map[string]any{"channel": "@" + bot.Name, "text": text}, nil)
		if err != nil || status != 200 {
			t.Fatalf("the webhook does not post: %d %s %v", status, b, err)
		}
	}
	return town
}
