package loop

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Hooks are told what happens in a turn or a session, one call at a time.
type Hooks struct {
	Event func(proto.Message) // every event, the terminal one included
	// Lost: the connection went, and is tried again. Back: the turn is joined
	// again, and all its events come once more from its start.
	Lost func(error)
	Back func()
}

const (
	patience   = 2 * time.Minute
	restart    = 3 * time.Second // what bxctl down and bxctl up take
	firstPause = 50 * time.Millisecond
	longPause  = time.Second
)

// Turn submits a message and follows its turn to the end. If loopd goes away
// it submits the same origin again, for as long as Patience. The error is a
// fault, or the context's.
func (c Client) Turn(ctx context.Context, m *proto.Submit, h Hooks) (*proto.Done, error) {
	t := turn{client: c, submit: m, hooks: h}
	if t.client.Patience == 0 {
		t.client.Patience = patience
	}
	pause := firstPause
	tries := tries{client: t.client}
	for first := true; ; first = false {
		heard, done, err := t.once(ctx, first)
		switch {
		case err == nil:
			return done, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case first && Away(err), !passing(err):
			return nil, Explain(err)
		}
		if heard || tries.since.IsZero() {
			pause = firstPause
			if h.Lost != nil {
				h.Lost(err)
			}
		}
		if tries.over(!heard, err) {
			return nil, t.givenUp(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		pause = min(pause*3/2, longPause)
	}
}

// tries knows how long loopd has been away.
type tries struct {
	client Client
	since  time.Time
}

// over reports whether a turn is waited for no longer. still says that nothing was
// heard of loopd since the last time.
func (t *tries) over(still bool, err error) bool {
	now := time.Now()
	if !still || t.since.IsZero() {
		t.since = now
	}
	away := now.Sub(t.since)
	return away >= t.client.Patience || away >= restart && Away(err) && t.client.Gone != nil && t.client.Gone()
}

// passing reports whether a second try can help: loopd, or this connection to
// it, went away, or loopd said so.
func passing(err error) bool {
	var e *proto.Error
	if errors.As(err, &e) {
		return e.Code == proto.ErrNotReady || e.Code == proto.ErrSlowClient
	}
	for _, target := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.EAGAIN} {
		if errors.Is(err, target) {
			return true
		}
	}
	return Away(err)
}

type turn struct {
	client   Client
	submit   *proto.Submit
	hooks    Hooks
	accepted bool
}

// once runs one connection. heard says that loopd sent something.
func (t *turn) once(ctx context.Context, first bool) (heard bool, done *proto.Done, err error) {
	conn, err := ipc.Dial(ctx, t.client.Path, proto.LoopEvents)
	if err != nil {
		return false, nil, err
	}
	defer conn.Close()
	if err := conn.Send(t.submit); err != nil {
		return false, nil, err
	}
	for {
		m, err := conn.Recv()
		if err != nil {
			return heard, nil, err
		}
		if !heard && !first && t.hooks.Back != nil {
			t.hooks.Back()
		}
		heard = true
		switch m := m.(type) {
		case *proto.Error:
			if m.Code != proto.ErrNotReady && m.Code != proto.ErrSlowClient {
				t.event(m)
			}
			return heard, nil, m
		case *proto.Done:
			t.event(m)
			return heard, m, nil
		case *proto.Accepted:
			t.accepted = true
			t.event(m)
		default:
			if proto.Terminal(m) {
				return heard, nil, odd(m)
			}
			t.event(m)
		}
	}
}

func (t *turn) event(m proto.Message) {
	if t.hooks.Event != nil {
		t.hooks.Event(m)
	}
}

func (t *turn) givenUp(err error) error {
	f := &fault.Fault{
		Code: fault.NotRunning, What: "loopd went away and did not come back", Err: err, Key: "loopd-away",
		Means: "it is not known whether the message was taken", Do: "start it with: bxctl up --detach; then ask again",
	}
	if t.accepted {
		f.Means = "the message is on disk and is answered when Boxmaker runs again"
		f.Do = "start it with: bxctl up --detach; then read the answer with: bxctl sessions show " + t.submit.Session
	}
	return f
}
