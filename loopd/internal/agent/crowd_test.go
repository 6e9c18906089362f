package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// TestACrowd: clients of all kinds at once, some of whom leave early, and a loopd
// that ends twice among them. Every message that was accepted gets one turn.
func TestACrowd(t *testing.T) {
	r := newRig(t)
	r.set.Limits.Queue = 10000
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		switch n % 5 {
		case 0:
			s.CallTool(fmt.Sprint("id", n), "call_tool", callTool("t", fmt.Sprintf(`{"n":%d}`, n)))
		case 1:
			s.Role()
			s.Text("cut")
			s.Cut()
		case 2:
			s.Overflow(40000, 32768)
		default:
			s.Answer(fmt.Sprint("answer ", n))
		}
	})
	accepted := map[string]bool{} // session/origin
	for life := range 3 {
		r.start()
		var mu sync.Mutex
		var crowd sync.WaitGroup
		for client := range 16 {
			crowd.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(life), uint64(client)))
				for i := range 6 {
					id := fmt.Sprint("chat-", rnd.IntN(3))
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					switch rnd.IntN(5) {
					case 0:
						if s, _, _, err := r.agent.Follow(ctx, id); err == nil {
							go cancel()
							_, _ = s.Next(ctx) // perhaps nothing ever comes
							s.Close()
						}
					case 1:
						_, _ = r.agent.Stop(ctx, id)
					case 2: // leaves before it is answered
						go cancel()
						fallthrough
					default:
						origin := fmt.Sprint("o-", life, "-", client, "-", i)
						s, err := r.agent.Submit(ctx, &proto.Submit{Session: id, Origin: origin, Text: "go", Surface: proto.SurfaceAsk})
						if err == nil {
							mu.Lock()
							accepted[id+"/"+origin] = true
							mu.Unlock()
							if rnd.IntN(2) == 0 {
								_, _ = s.Next(ctx)
							}
							s.Close()
						}
					}
					cancel()
				}
			})
		}
		if life < 2 {
			r.until(r.submit("chat-0", fmt.Sprint("last-", life), "go"), is[*proto.Accepted])
			r.kill() // in the middle of it all; who waits is told
		}
		crowd.Wait()
	}
	for id := range 3 { // behind everything that is queued
		r.done(r.submit(fmt.Sprint("chat-", id), "end", "go"))
	}
	turns := map[string]int{}
	for id := range 3 {
		session := fmt.Sprint("chat-", id)
		for _, rec := range r.records(session) {
			if e, ok := rec.(*proto.TurnEnd); ok {
				turns[session+"/"+e.Origin]++
			}
		}
	}
	for m := range accepted {
		if turns[m] == 0 {
			t.Errorf("message %s was accepted and has no turn", m)
		}
	}
	for m, n := range turns {
		if n != 1 {
			t.Errorf("message %s has %d turns", m, n)
		}
	}
	if len(accepted) == 0 {
		t.Error("nobody got through")
	}
}
