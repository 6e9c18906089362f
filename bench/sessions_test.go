package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// extension has many random conversations, with tool calls, with turns that are
// stopped and with loopd killed in between, and counts the requests that do not
// extend the one before in their session.
func extension(t *testing.T) []row {
	s, server := recorded(t)
	total := pick(500, 6)
	random := rand.New(rand.NewPCG(1, 2))
	const batch = 25
	for first := 0; first < total; first += batch {
		var wg sync.WaitGroup
		for i := first; i < min(first+batch, total); i++ {
			seed := random.Uint64()
			wg.Add(1)
			go func() { defer wg.Done(); converse(t, s, i, rand.New(rand.NewPCG(seed, 0))) }()
		}
		if first/batch%2 == 1 {
			s.Kill("loopd") // in the middle of the batch's turns
		}
		wg.Wait()
	}
	s.WaitQuiet()

	sent := map[string][][]byte{}
	for _, body := range requests(t, server, markStart) {
		_, rest, _ := bytes.Cut(body, []byte(markStart))
		number, _, _ := bytes.Cut(rest, []byte(")"))
		sent[string(number)] = append(sent[string(number)], body)
	}
	compared, same := 0, 0
	for i := range total {
		bodies := sent[strconv.Itoa(i)]
		if len(bodies) == 0 {
			t.Errorf("session %d sent nothing", i)
		}
		for k := 1; k < len(bodies); k++ {
			compared++
			if err := stack.Extends(bodies[k-1], bodies[k]); err != nil {
				t.Errorf("session %d, request %d: %v", i, k, err)
				continue
			}
			same++
		}
	}
	percent := 100 * float64(same) / float64(max(compared, 1))
	return []row{{
		fmt.Sprintf("requests that extend the one before, %d sessions", total), fmt.Sprintf("%.2f%%", percent), "100%",
		compared > 0 && same == compared, fmt.Sprintf("%d of %d", same, compared),
	}}
}

const markStart = "(conversation "

// mark stands in every message of a session.
func mark(i int) string { return markStart + strconv.Itoa(i) + ")" }

func converse(t *testing.T, s *stack.Stack, i int, random *rand.Rand) {
	says := []string{"what time is it?", "list my notes", "what can you do?", "hello", "answer with one two three four five", "run uname -a"}
	session := fmt.Sprintf("chat-bench-%d", i)
	for k := range 2 + random.IntN(4) {
		ctx, cancel := context.WithTimeout(t.Context(), stack.Patience)
		if random.IntN(5) == 0 { // stop it as soon as the model thinks
			stopAtFirst(ctx, s, session, fmt.Sprintf("bench-%d-%d", i, k), mark(i)+" tell me what grants are")
		} else if _, err := s.Deliver(ctx, &proto.Submit{
			Session: session, Origin: fmt.Sprintf("bench-%d-%d", i, k), Surface: proto.SurfaceChat,
			Text: mark(i) + " " + says[random.IntN(len(says))],
		}, nil); err != nil {
			t.Errorf("%s: %v", session, err)
		}
		cancel()
	}
}

// stopAtFirst submits a message and stops its turn at the first piece of
// thinking. What becomes of the stop does not matter: loopd may be killed.
func stopAtFirst(ctx context.Context, s *stack.Stack, session, origin, text string) {
	stopped := false
	_, _ = s.Submit(ctx, &proto.Submit{Session: session, Origin: origin, Text: text, Surface: proto.SurfaceChat}, func(e proto.Message) {
		if _, ok := e.(*proto.Thinking); ok && !stopped {
			stopped = true
			_, _ = s.Ask(ctx, &proto.Stop{Session: session})
		}
	})
}
