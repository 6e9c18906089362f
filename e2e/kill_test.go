package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// TestKill kills programs with SIGKILL at random moments while several sessions
// talk, and then holds what was promised against what is on disk and what went
// over the wire. BOXMAKER_KILLS says how often (default 20), BOXMAKER_SEED
// repeats the choices of a run, though not its timing.
func TestKill(t *testing.T) {
	kills := number(t, "BOXMAKER_KILLS", 20)
	seed := number(t, "BOXMAKER_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("BOXMAKER_KILLS=%d BOXMAKER_SEED=%d", kills, seed)
	for _, tt := range []struct {
		name    string
		victims []string
		kills   int
		// answered: no turn may fail. A server that dies twice in a turn fails it,
		// and so it may when the connection to it does; loopd's own death may not.
		answered bool
	}{
		{"every program", []string{"loopd", "loopd", "inferproxy", "practice", "up"}, kills - kills/4, false},
		{"loopd alone", []string{"loopd"}, kills / 4, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stack.New(t)
			server := s.Serve("-gen-tps", "5000") // slow enough to be hit in the middle of a turn
			s.Up()
			b := &battle{t: t, s: s, end: make(chan struct{}), sent: map[string]*message{}, asked: map[string]bool{}}
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() { b.talk(fmt.Sprintf("chat-kill-%d", i)) })
			}
			wg.Go(func() { b.clients("chat-kill-cli", rand.New(rand.NewPCG(uint64(seed), 2))) })
			counts := b.fight(tt.kills, tt.victims, rand.New(rand.NewPCG(uint64(seed), 1)))
			close(b.end)
			wg.Wait()
			s.WaitQuiet()
			s.Down()

			t.Logf("kills: %v", counts)
			b.check(tt.answered)
			checkBodies(t, s, server.Record)
		})
	}
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

// A message is one that a test has sent.
type message struct {
	session, text string
	accepted      bool
	done          *proto.Done
}

type battle struct {
	t   *testing.T
	s   *stack.Stack
	end chan struct{} // closed: send nothing new

	mu   sync.Mutex // guards sent and asked
	sent map[string]*message
	// asked are the messages of `bxctl ask`, which makes its own origins, by text;
	// true if the command ended well.
	asked map[string]bool
}

func (b *battle) over() bool {
	select {
	case <-b.end:
		return true
	default:
		return false
	}
}

// talk sends one message after another, each until its turn has ended.
func (b *battle) talk(session string) {
	says := []string{"What time is it?", "Tell me what you can do.", "list my notes", "Hello, how are you?"}
	for i := 0; !b.over(); i++ {
		m := &message{session: session, text: fmt.Sprintf("(%s %d) %s", session, i, says[i%len(says)])}
		origin := fmt.Sprintf("%s-%d", session, i)
		b.mu.Lock()
		b.sent[origin] = m
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(b.t.Context(), stack.Patience)
		done, err := b.s.Deliver(ctx, &proto.Submit{Session: session, Origin: origin, Text: m.text, Surface: proto.SurfaceChat}, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			m.accepted = true
		})
		cancel()
		if err != nil {
			b.t.Errorf("%s was not answered: %v", origin, err)
			return
		}
		b.mu.Lock()
		m.done = done
		b.mu.Unlock()
	}
}

// clients runs `bxctl ask` and kills every other one.
func (b *battle) clients(session string, random *rand.Rand) {
	for i := 0; !b.over(); i++ {
		text := fmt.Sprintf("(%s %d) What time is it?", session, i)
		ctx, cancel := context.WithTimeout(b.t.Context(), stack.Patience)
		if i%2 == 0 {
			ctx, cancel = context.WithTimeout(b.t.Context(), time.Duration(random.IntN(150))*time.Millisecond)
		}
		err := b.s.Command(ctx, "ask", "--session", session, text).Run()
		cancel()
		b.mu.Lock()
		b.asked[text] = err == nil
		b.mu.Unlock()
	}
}

// fight kills n times. The pauses are the test's subject: they put the kills at
// random places of the turns. Most lives last long enough that up does not start
// the next one late; some are ended in the middle of their start.
func (b *battle) fight(n int, victims []string, random *rand.Rand) map[string]int {
	counts := map[string]int{}
	for range n {
		victim := victims[random.IntN(len(victims))]
		if random.IntN(4) > 0 {
			b.s.WaitReady()
			time.Sleep(time.Duration(random.IntN(1300)) * time.Millisecond)
		} else {
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		if victim == "up" {
			b.s.KillUp()
			b.s.Start()
		} else {
			b.s.WaitUntil(victim+" runs and is killed", func() bool { return b.s.Kill(victim) })
		}
		counts[victim]++
	}
	return counts
}

// check compares the logs with what the clients were told.
func (b *battle) check(allAnswered bool) {
	epochs, err := b.s.Epochs()
	if err != nil {
		b.t.Fatalf("the logs don't verify: %v", err)
	}
	turns := map[string]*turnRecord{}
	for _, e := range epochs {
		if e.Torn != 0 {
			b.t.Errorf("%s/%d has a torn tail after a clean end", e.Session, e.Number)
		}
		readTurns(b.t, e, turns)
	}
	answered := 0
	for origin, m := range b.sent {
		r := turns[origin]
		switch {
		case r == nil && m.accepted:
			b.t.Errorf("%s was acknowledged and is lost", origin)
		case r == nil:
		case m.done != nil && m.done.Outcome != r.outcome:
			b.t.Errorf("%s: the client heard %q, the log says %q", origin, m.done.Outcome, r.outcome)
		}
		if m.done != nil && m.done.Outcome == proto.TurnAnswered {
			answered++
		} else if m.done != nil && allAnswered {
			b.t.Errorf("%s was not answered: %s %s", origin, m.done.Outcome, m.done.Text)
		}
	}
	b.t.Logf("%d messages, %d answered, %d clients", len(b.sent), answered, len(b.asked))
	if answered == 0 {
		b.t.Error("nothing was answered: the test proves nothing")
	}
	byText := map[string]int{}
	for _, r := range turns {
		byText[r.text]++
	}
	for text, fine := range b.asked {
		if n := byText[text]; n > 1 || fine && n == 0 {
			b.t.Errorf("%q has %d turns (its command ended well: %v)", text, n, fine)
		}
	}
}

// A turnRecord is what the log says of one origin.
type turnRecord struct {
	text    string
	outcome proto.TurnOutcome
}

// readTurns checks the order of one log: each origin starts one turn and each
// turn ends once, before the next begins; an answered turn has one answer; each
// call has one result, in order.
func readTurns(t *testing.T, e stack.Epoch, turns map[string]*turnRecord) {
	t.Helper()
	at := func(i int) string { return fmt.Sprintf("%s/%d record %d", e.Session, e.Number, i) }
	var now string // origin of the open turn
	var answers int
	var calls []string // ids of calls without a result
	for i, l := range e.Lines {
		switch r := l.Record.(type) {
		case *proto.User:
			if now != "" {
				t.Errorf("%s: a turn begins inside that of %s", at(i), now)
			}
			if turns[r.Origin] != nil {
				t.Errorf("%s: a second turn of %s", at(i), r.Origin)
			}
			now, answers, calls = r.Origin, 0, nil
			turns[now] = &turnRecord{text: content(t, r.Message)}
		case *proto.Assistant:
			var m struct {
				ToolCalls []struct{ ID string } `json:"tool_calls"`
			}
			if err := json.Unmarshal(r.Message, &m); err != nil {
				t.Errorf("%s: %v", at(i), err)
			}
			if len(calls) > 0 {
				t.Errorf("%s: an answer while calls wait: %v", at(i), calls)
			}
			if len(m.ToolCalls) == 0 {
				answers++
			}
			for k := range m.ToolCalls {
				calls = append(calls, proto.CallID{Session: e.Session, Epoch: e.Number, Record: int64(i), Index: k}.String())
			}
		case *proto.Tool:
			if len(calls) == 0 || calls[0] != r.Call {
				t.Errorf("%s: a result of %s; waiting: %v", at(i), r.Call, calls)
				continue
			}
			calls = calls[1:]
		case *proto.TurnEnd:
			if r.Origin != now {
				t.Errorf("%s: the turn of %q ends inside that of %q", at(i), r.Origin, now)
				continue
			}
			if r.Outcome == proto.TurnAnswered && (answers != 1 || len(calls) > 0) {
				t.Errorf("%s: %s was answered %d times; calls without result: %v", at(i), now, answers, calls)
			}
			turns[now].outcome, now = r.Outcome, ""
		}
	}
	if now != "" {
		t.Errorf("%s/%d: the turn of %s never ended", e.Session, e.Number, now)
	}
}

func content(t *testing.T, raw []byte) string {
	t.Helper()
	var m struct{ Content string }
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m.Content
}

// checkBodies proves of each session that every request which reached the server
// extends the one before, and that all are what the log says. A request may come
// twice in the same bytes: after a restart, or as the one permitted retry.
func checkBodies(t *testing.T, s *stack.Stack, recording string) {
	t.Helper()
	epochs, err := s.Epochs()
	if err != nil {
		t.Fatal(err)
	}
	all, err := stack.Requests(recording)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string][]byte{}
	requests := 0
	for _, r := range all {
		session := sessionOf(string(r.Body))
		if session == "" {
			continue // the self-test
		}
		requests++
		if before := last[session]; before != nil {
			if err := stack.Extends(before, r.Body); err != nil {
				t.Errorf("%s: %v", session, err)
			}
		}
		last[session] = r.Body
	}
	for _, e := range epochs {
		_, messages, ok := bytes.Cut(last[e.Session], []byte(`"messages":[`))
		if !ok {
			t.Errorf("no request of %s reached the server", e.Session)
			continue
		}
		if !bytes.HasPrefix(e.Messages(), bytes.TrimSuffix(messages, []byte("]}"))) {
			t.Errorf("%s: what was sent is not what the log says", e.Session)
		}
	}
	t.Logf("%d requests of %d sessions", requests, len(last))
}

// sessionOf finds the session's name that the test puts into each text.
func sessionOf(body string) string {
	_, rest, ok := strings.Cut(body, "(chat-kill-")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return "chat-kill-" + name
}
