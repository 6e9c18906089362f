// Package realmost tests Boxmaker against a real Mattermost server: all programs
// as they are, the server in its own process, people acting over REST.
//
// The tests need the server: MATTERMOST_SERVER names its folder, as
// scripts/mattermost-server.sh builds it. Without it they are skipped, or fail
// where BOXMAKER_MATTERMOST=require.
package realmost

import (
	"os"
	"strconv"
	"testing"
	"time"

	"boxmaker/e2e/chatstory"
	"boxmaker/e2e/stack"
	"boxmaker/internal/testkit/realmost"
)

// pool is the one server of these tests.
var pool realmost.Pool

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	defer pool.Close()
	if os.Getenv("MATTERMOST_SERVER") == "" {
		return m.Run() // every test skips itself and says why
	}
	return stack.Main(m)
}

// newTown gives the story's town, with accounts of its own.
func newTown(t *testing.T) (*chatstory.Town, *realmost.Server) {
	t.Helper()
	return townOn(t, pool.Get(t)), pool.Get(t)
}

func townOn(t *testing.T, s *realmost.Server) *chatstory.Town {
	t.Helper()
	owner, stranger, bot := s.Person(t, "owner"), s.Person(t, "stranger"), s.Bot(t, "boxmaker")
	if err := s.Join(bot); err != nil {
		t.Fatal(err)
	}
	person := func(u *realmost.User) *chatstory.Person {
		return &chatstory.Person{ID: u.ID, Name: u.Name, Token: u.Token, URL: s.URL}
	}
	town := &chatstory.Town{
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

// TestStory: see package chatstory.
func TestStory(t *testing.T) {
	town, _ := newTown(t)
	stack.Containers(t)
	chatstory.Tell(t, town)
}

// TestKill kills every program of Boxmaker at random moments; BOXMAKER_KILLS says
// how often (default 5), BOXMAKER_SEED repeats the choices of a run.
func TestKill(t *testing.T) {
	town, _ := newTown(t)
	stack.Containers(t)
	kills, seed := number(t, "BOXMAKER_KILLS", 5), number(t, "BOXMAKER_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("BOXMAKER_KILLS=%d BOXMAKER_SEED=%d", kills, seed)
	chatstory.Siege(t, town, kills, uint64(seed))
}

// number reads a whole number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
