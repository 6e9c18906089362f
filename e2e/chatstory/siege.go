package chatstory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// Siege kills programs with SIGKILL at random moments while the owner writes in
// several threads and decides on calls by reaction and by reply. In the end each
// message must have one answer and one turn, each approval at most one end on
// record, and all logs verify. seed repeats the choices of a run, not its timing.
func Siege(t *testing.T, town *Town, kills int, seed uint64) {
	p := Start(t, town, func(s *stack.Stack) {
		s.Set("bxctl.toml", "practice", "args", []string{"-gen-tps", "3000"}) // slow enough to be hit in the middle of a turn
	})
	p.WaitTools()
	p.besieged = true
	s := &siege{Place: p, end: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 1))}
	var talkers, owner sync.WaitGroup
	for i := range 2 {
		talkers.Go(func() { s.thread(i, rand.New(rand.NewPCG(seed, uint64(10+i)))) })
	}
	talkers.Go(func() { s.burst(rand.New(rand.NewPCG(seed, 20))) })
	deciding, stop := context.WithCancel(t.Context())
	owner.Go(func() { s.decide(deciding, rand.New(rand.NewPCG(seed, 30))) })
	counts := s.fight(kills)
	close(s.end)
	talkers.Wait()
	for _, m := range s.asked {
		m.Answer()
	}
	stop()
	owner.Wait()
	t.Logf("kills: %v; %d messages", counts, len(s.asked))
	s.judge()
	p.NoListener()
	p.Down()
	p.NoToken()
}

type siege struct {
	*Place
	end    chan struct{} // closed: begin nothing new
	random *rand.Rand    // of fight

	lock  sync.Mutex
	asked []*Message
}

func (s *siege) over() bool {
	select {
	case <-s.end:
		return true
	default:
		return false
	}
}

func (s *siege) ask(root, text string) *Message {
	m := s.Ask(root, text)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.asked = append(s.asked, m)
	return m
}

// thread writes one message after another in a thread, each when the one before is
// answered.
func (s *siege) thread(n int, random *rand.Rand) {
	root := ""
	for i := 0; !s.over(); i++ {
		text := fmt.Sprintf("answer with: %d.%d", n, i)
		switch random.IntN(4) {
		case 0:
			text = "run uname -s"
		case 1:
			text = fmt.Sprintf("count to %d", 300+random.IntN(1000))
		}
		m := s.ask(root, text)
		root = m.Root
		m.Answer()
	}
}

// burst begins threads without waiting for answers. The pauses are the test's
// subject: messages come at any moment of a program's life.
func (s *siege) burst(random *rand.Rand) {
	for i := 0; !s.over(); i++ {
		s.ask("", fmt.Sprintf("answer with: top %d", i))
		time.Sleep(time.Duration(100+random.IntN(900)) * time.Millisecond)
	}
}

// decide answers the cards that it sees, one way or another.
func (s *siege) decide(ctx context.Context, random *rand.Rand) {
	done := map[string]bool{}
	for ctx.Err() == nil {
		posts, err := s.Me.Channel(s.DM)
		for _, o := range posts {
			code := codeIn.FindStringSubmatch(o.Message)
			if err != nil || o.UserID != s.Bot.ID || code == nil || !strings.Contains(o.Message, "wants your approval") || done[o.ID] {
				continue
			}
			done[o.ID] = true
			switch random.IntN(4) {
			case 0:
				err = s.Me.React(o.ID, no)
			case 1:
				_, err = s.Me.Post(s.DM, o.RootID, "approve "+code[1])
			default:
				err = s.Me.React(o.ID, yes)
			}
			if err != nil {
				s.T.Error(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond): // the owner looks again
		}
	}
}

// fight kills n times, at random places of the turns.
func (s *siege) fight(n int) map[string]int {
	counts := map[string]int{}
	victims := []string{"gatewayd", "gatewayd", "gatewayd", "loopd", "loopd", "brokerd", "brokerd", "inferproxy", "practice", "runnerd", "egressd", "up"}
	for range n {
		victim := victims[s.random.IntN(len(victims))]
		if s.random.IntN(4) > 0 {
			s.WaitReady()
			time.Sleep(time.Duration(s.random.IntN(1300)) * time.Millisecond)
		} else {
			time.Sleep(time.Duration(s.random.IntN(300)) * time.Millisecond)
		}
		if victim == "up" {
			s.KillUp()
			s.Start()
		} else {
			s.WaitUntil(victim+" runs and is killed", func() bool { return s.Kill(victim) })
		}
		counts[victim]++
	}
	return counts
}

func (s *siege) judge() {
	s.Exact()
	ends := map[string]int{}
	for _, a := range stack.AuditOf[*proto.AuditApproval](s.Audit()) {
		if ends[a.Approval]++; ends[a.Approval] > 1 {
			s.T.Errorf("the approval %s has ended twice", a.Approval)
		}
	}
	cards := map[string]int{}
	whole := 0
	for _, o := range Must[[]Post](s.T)(s.Me.Channel(s.DM)) {
		if o.UserID != s.Bot.ID {
			continue
		}
		if code := codeIn.FindStringSubmatch(o.Message); code != nil {
			if cards[code[1]]++; cards[code[1]] > 1 {
				s.T.Errorf("the card of %s stands there twice", code[1])
			}
		}
		if !strings.Contains(o.Message, "This did not work") {
			whole++
		}
	}
	if whole < len(s.asked)/2 {
		s.T.Errorf("of %d answers only %d are answers: nothing was tried", len(s.asked), whole)
	}
}
