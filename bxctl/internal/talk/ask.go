package talk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// Ask is one question and its answer.
type Ask struct {
	Client     loop.Client
	Out        term.Screen // the answer alone
	Err        term.Screen // the rest, if it is a terminal
	JSON       bool        // each event as a line of JSON on Out instead
	Interrupts <-chan os.Signal
	Now        func() time.Time
}

// Run submits the message and shows its turn. An error is a fault.
func (a Ask) Run(ctx context.Context, m *proto.Submit) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.watch(ctx, m.Session, leave)
	}()
	v := &View{Answer: a.Out, Notes: a.Err, Stream: a.Out.Terminal, Now: a.Now}
	v.Status("(asking)")
	done, err := a.Client.Turn(ctx, m, a.hooks(v))
	v.clear()
	v.endLine()
	cause := context.Cause(ctx)
	leave(nil)
	<-watched
	switch {
	case errors.Is(cause, ErrLeft):
		return left(m.Session)
	case err != nil:
		return err
	case done.Outcome != proto.TurnAnswered:
		return Unanswered(done)
	default:
		return nil
	}
}

func (a Ask) hooks(v *View) loop.Hooks {
	h := loop.Hooks{
		Event: v.Event,
		Lost: func(err error) {
			v.clear()
			v.endLine()
			fmt.Fprintln(a.Err.W, "bxctl: loopd went away; joining the turn again as soon as it is back (nothing is lost)")
		},
		Back: v.Rejoined,
	}
	if a.JSON {
		h.Event = func(m proto.Message) { writeJSON(a.Out, m) }
		h.Back = nil
	}
	return h
}

func writeJSON(s term.Screen, m proto.Message) {
	b, err := proto.Encode(m)
	if err != nil { // it came out of Decode, which accepts only what encodes
		b = []byte(`{"type":"error"}`)
	}
	s.W.Write(append(bytes.Clone(term.JSON(b)), '\n')) //nolint:errcheck // a reader that left ends the program by SIGPIPE
}

// watch stops the turn at the first interrupt and leaves at the second.
func (a Ask) watch(ctx context.Context, session string, leave context.CancelCauseFunc) {
	select {
	case <-a.Interrupts:
	case <-ctx.Done():
		return
	}
	fmt.Fprintln(a.Err.W, "\nbxctl: stopping the turn; Ctrl-C once more leaves at once")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if _, err := a.Client.Stop(short, session); err != nil && ctx.Err() == nil {
			fmt.Fprint(a.Err.W, fault.Text(err))
		}
	}()
	select {
	case <-a.Interrupts:
		leave(ErrLeft)
	case <-ctx.Done():
	}
	<-stopped
}

func left(session string) error {
	return &fault.Fault{
		Code: fault.Unanswered, What: "left before the turn ended", Means: "what was sent is on disk, and the turn may go on",
		Do: "see bxctl sessions show " + session, Key: "turn-left",
	}
}

// Unanswered is the fault of a turn that ended in another way than with an answer.
func Unanswered(d *proto.Done) error {
	f := &fault.Fault{Code: fault.Unanswered, Key: d.Runbook}
	why := map[proto.TurnOutcome]string{
		proto.TurnStopped: "the turn was stopped", proto.TurnFailed: "the turn failed",
		proto.TurnCapped: "the turn was ended by the runaway control", proto.TurnContextFull: "the context is full",
	}
	f.What = why[d.Outcome]
	if d.Text != "" && d.Outcome != proto.TurnStopped { // who stopped it knows
		f.Means = loop.Sentence(d.Text)
	}
	if d.Outcome == proto.TurnContextFull {
		f.Do = "start a new session"
	}
	return f
}
