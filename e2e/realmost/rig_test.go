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
	s := pool.Get(t)
	return chatstory.NewRealTown(t, s), s
}

// TestStory: see package chatstory.
func TestStory(t *testing.T) {
	town, _ := newTown(t)
	t.Parallel()
	stack.Containers(t)
	chatstory.Tell(t, town)
}

// TestKill kills every program of Boxmaker at random moments; BOXMAKER_KILLS says
// how often (default 5), BOXMAKER_SEED repeats the choices of a run.
func TestKill(t *testing.T) {
	town, _ := newTown(t)
	t.Parallel()
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
