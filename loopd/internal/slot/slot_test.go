package slot

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestPriorityThenArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Slot{"main", 0}, Slot{"background", 1})
		ctx := t.Context()
		release, err := g.Acquire(ctx, 1, Cron, "job-0", nil)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		var places []int
		var wg sync.WaitGroup
		enter := func(name string, p Priority, watch func(int)) {
			wg.Go(func() {
				release, err := g.Acquire(ctx, 1, p, name, watch)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				release()
				release() // a second release is nothing
			})
			synctest.Wait()
		}
		enter("heartbeat", Heartbeat, func(n int) { places = append(places, n) })
		enter("cron-1", Cron, nil)
		enter("cron-2", Cron, nil)
		enter("subagent", Subagent, nil)
		if s := g.States()[1]; s.Session != "job-0" || s.Waiting != 4 {
			t.Errorf("%+v", s)
		}
		other, err := g.Acquire(ctx, 0, Live, "chat-x", nil) // another slot is free
		if err != nil {
			t.Fatal(err)
		}
		other()
		release()
		wg.Wait()
		want := []string{"subagent", "cron-1", "cron-2", "heartbeat"}
		for i, w := range want {
			if order[i] != w {
				t.Fatalf("order %v, want %v", order, want)
			}
		}
		// On the way to the front it may be served before it has read its place.
		if len(places) < 4 || !slices.Equal(places[:4], []int{1, 2, 3, 4}) {
			t.Errorf("places %v", places)
		}
		if s := g.States()[1]; s.Session != "" {
			t.Errorf("still held: %+v", s)
		}
	})
}

// TestNeverTwoHolders: under random arrivals and cancellations a slot has one
// holder at a time and is free in the end.
func TestNeverTwoHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New(Slot{"main", 0})
		n := rapid.IntRange(1, 20).Draw(t, "n")
		var mu sync.Mutex
		holders, worst := 0, 0
		var wg sync.WaitGroup
		for range n {
			cancelled := rapid.Bool().Draw(t, "cancel")
			p := Priority(rapid.IntRange(0, 5).Draw(t, "prio"))
			wg.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if cancelled {
					go cancel()
				}
				release, err := g.Acquire(ctx, 0, p, "s", nil)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						panic(err)
					}
					return
				}
				mu.Lock()
				holders++
				worst = max(worst, holders)
				mu.Unlock()
				mu.Lock()
				holders--
				mu.Unlock()
				release()
			})
		}
		wg.Wait()
		if worst > 1 {
			t.Fatalf("%d holders at once", worst)
		}
		if s := g.States()[0]; s.Session != "" || s.Waiting != 0 {
			t.Fatalf("left over: %+v", s)
		}
	})
}
