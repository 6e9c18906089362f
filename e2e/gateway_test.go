package e2e

import (
	"testing"

	"boxmaker/e2e/chatstory"
	"boxmaker/e2e/stack"
	"boxmaker/internal/testkit/fakemost"
)

// A fakeTown is the story's town on the fake server, which can be made to misbehave.
type fakeTown struct {
	chatstory.Town
	fake  *fakemost.Server
	owner *fakemost.User
	bot   *fakemost.User
}

func newTown(t *testing.T) *fakeTown {
	t.Helper()
	f := fakemost.New(t)
	owner, stranger, admin, bot := f.AddUser("owner"), f.AddUser("stranger"), f.AddAdmin("admin"), f.AddBot("boxmaker")
	person := func(u *fakemost.User) *chatstory.Person {
		return &chatstory.Person{ID: u.ID, Name: u.Name, Token: u.Token, URL: f.URL}
	}
	town := &fakeTown{fake: f, owner: owner, bot: bot, Town: chatstory.Town{
		URL: f.URL, Me: person(owner), Stranger: person(stranger), Admin: person(admin), Bot: person(bot),
		DM: f.Direct(owner, bot), Foreign: f.Direct(stranger, bot), Ops: f.Channel("O", "ops", owner, stranger, bot),
	}}
	town.Hook = func(text string) { f.Webhook(owner, town.DM, text) }
	town.Edits = func(post string) int { _, n := f.Get(post); return n }
	return town
}

// TestGatewayStory: see package chatstory; e2e/realmost tells the same of a real
// server.
func TestGatewayStory(t *testing.T) {
	stack.Containers(t)
	chatstory.Tell(t, &newTown(t).Town)
}
