package e2e

import (
	"testing"
	"time"

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
	return town
}

// Posts posts as the owner without a request, which a fault would meet.
func (f *fakeTown) Posts(channel string) func(root, text string) (string, error) {
	return func(root, text string) (string, error) { return f.fake.Post(f.owner, channel, root, text).ID, nil }
}

// TestGatewayStory: see package chatstory; e2e/realmost tells the same of a real
// server.
func TestGatewayStory(t *testing.T) {
	stack.Containers(t)
	chatstory.Tell(t, &newTown(t).Town)
}

// TestGatewayKill kills every program at random moments; BOXMAKER_KILLS says how
// often (default 6), BOXMAKER_SEED repeats the choices of a run.
func TestGatewayKill(t *testing.T) {
	stack.Containers(t)
	kills, seed := number(t, "BOXMAKER_KILLS", 6), number(t, "BOXMAKER_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("BOXMAKER_KILLS=%d BOXMAKER_SEED=%d", kills, seed)
	chatstory.Siege(t, &newTown(t).Town, kills, uint64(seed))
}
