package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// tokenToPaint measures from a token's leaving for `bxctl chat` to its standing
// on the terminal, while 200 tokens come every second. In the place of loopd
// stands a socket that knows when it sent what. How late a timer of a
// millisecond fires meanwhile tells what of it is the machine's.
func tokenToPaint(t *testing.T) []row {
	s := stack.New(t)
	s.Must("", "init", "--practice")
	f := &tokens{ask: make(chan int), sent: make(chan time.Time), end: make(chan struct{})}
	if err := os.MkdirAll(filepath.Dir(s.Socket()), 0o700); err != nil {
		t.Fatal(err)
	}
	ln := must[net.Listener](t)(ipc.Listen(s.Socket()))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		srv := ipc.Server{Listener: ln, Requests: proto.LoopRequests, Handle: f.handle}
		served <- srv.Serve(ctx)
	}()
	c := startChat(t, s)
	c.wait(t, "/help")
	c.keys(t, "go\r")
	c.wait(t, "> go")
	late, stop := make(chan []time.Duration), make(chan struct{})
	go lateness(late, stop)
	var all []time.Duration
	for i := range pick(3000, 5) {
		f.ask <- i
		at := <-f.sent
		c.wait(t, fmt.Sprintf("mark%d", i))
		all = append(all, time.Since(at))
		time.Sleep(time.Duration(i%17) * time.Millisecond) // so that marks come at any time of a frame
	}
	close(stop)
	timer := <-late
	close(f.end)
	c.wait(t, "tokens written")
	c.leave(t)
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	at := func(percent int) time.Duration { return percentile(all, percent) }
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
	const target = 30 * time.Millisecond
	return []row{
		{"token to paint at 200 tokens/s, 99 of 100", ms(at(99)), "<= 30 ms", at(99) <= target, "half of them: " + ms(at(50)) + ", 95 of 100: " + ms(at(95))},
		{fmt.Sprintf("the same, the longest of %d", len(all)), ms(at(100)), "<= 30 ms", at(100) <= target, "a timer of 1 ms beside it was late by up to " + ms(percentile(timer, 100)) + ", 1 of 100 by " + ms(percentile(timer, 99))},
	}
}

// lateness gives how late timers of a millisecond were.
func lateness(all chan<- []time.Duration, stop <-chan struct{}) {
	var late []time.Duration
	for {
		select {
		case <-stop:
			all <- late
			return
		default:
		}
		late = append(late, took(func() { time.Sleep(time.Millisecond) })-time.Millisecond)
	}
}

// percentile sorts d.
func percentile(d []time.Duration, percent int) time.Duration {
	slices.Sort(d)
	return d[(len(d)-1)*percent/100]
}

// tokens stands in for loopd: one turn that goes on until end is closed.
type tokens struct {
	ask  chan int
	sent chan time.Time
	end  chan struct{}
}

func (f *tokens) handle(ctx context.Context, req proto.Message, out *ipc.Stream) {
	send := func(m proto.Message) { _ = out.Send(m) } // a client that left is seen by what it does not draw
	switch req.(type) {
	case *proto.GetStatus:
		send(&proto.Status{State: "ready", Since: proto.Time(time.Now()), Server: proto.Server{Model: "tokens"}, Checks: []proto.Check{}, Slots: []proto.SlotState{}, Confinement: []proto.Check{}})
	case *proto.ListSessions:
		send(&proto.SessionList{Sessions: []proto.SessionInfo{}})
	case *proto.Submit:
		f.turn(ctx, send)
	default:
		send(&proto.Error{Code: proto.ErrNoSession, Text: "there is none"})
	}
}

func (f *tokens) turn(ctx context.Context, send func(proto.Message)) {
	send(&proto.Accepted{Record: 1})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	words := []string{" word", " **bold**", " and", "\n", " `code`", "\n\n"}
	for n := 0; ; n++ {
		select {
		case i := <-f.ask:
			at := time.Now()
			send(&proto.Text{Text: fmt.Sprintf(" mark%d", i)})
			f.sent <- at
		case <-tick.C:
			send(&proto.Text{Text: words[n%len(words)]})
		case <-f.end:
			send(&proto.Done{Outcome: proto.TurnAnswered, Usage: proto.Usage{Generated: int64(n)}})
			return
		case <-ctx.Done():
			return
		}
	}
}
