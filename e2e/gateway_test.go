package e2e

import (
	"testing"
	"time"

	"boxmaker/e2e/chatstory"
	"boxmaker/e2e/stack"
)

// TestGatewayStory: see package chatstory; e2e/realmost tells the same of a real
// server.
func TestGatewayStory(t *testing.T) {
	t.Parallel()
	stack.Containers(t)
	chatstory.Tell(t, &chatstory.NewFakeTown(t).Town)
}

// TestGatewayKill kills every program at random moments; BOXMAKER_KILLS says how
// often (default 6), BOXMAKER_SEED repeats the choices of a run.
func TestGatewayKill(t *testing.T) {
	t.Parallel()
	stack.Containers(t)
	kills, seed := number(t, "BOXMAKER_KILLS", 6), number(t, "BOXMAKER_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("BOXMAKER_KILLS=%d BOXMAKER_SEED=%d", kills, seed)
	chatstory.Siege(t, &chatstory.NewFakeTown(t).Town, kills, uint64(seed))
}
