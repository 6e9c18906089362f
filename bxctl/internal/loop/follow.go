package loop

import (
	"context"
	"errors"
	"sync"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// BehindAll is a record number that no log reaches: nothing past is told.
const BehindAll = 1 << 40

// A Place is a record of a session.
type Place struct {
	Epoch  int
	Record int64
}

// Where says in words where a message was sent; empty for another chat, or one
// that nobody knows of.
func Where(s proto.Surface) string {
	switch s {
	case proto.SurfaceAsk:
		return "from bxctl ask"
	case proto.SurfaceMattermost:
		return "from Mattermost"
	case proto.SurfaceChat:
		return ""
	default:
		return "from elsewhere"
	}
}

// unborn is how often a session is looked for that is not there yet.
const unborn = time.Second

// Follow hands on what happens in a session: what is past behind a place, then
// everything live, until ctx ends. If loopd goes away it joins again, behind the
// last message of the owner that it told of, so that all of a turn that was cut
// off comes once more. A session that is not there is waited for. The error is a
// fault, or the context's.
func (c Client) Follow(ctx context.Context, session string, after Place, h Hooks) error {
	f := &follower{client: c, session: session, after: after, hooks: h}
	pause := firstPause
	for {
		heard, err := f.once(ctx)
		var e *proto.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &e) && e.Code == proto.ErrNoSession:
			pause = unborn
		case !passing(err):
			return Explain(err)
		case f.away(heard):
			pause = firstPause
			h.Lost(err)
		default:
			pause = min(pause*3/2, longPause)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// quiet is how long a connection that was lost before stands without a word until
// loopd counts as back: in an idle session it has nothing to say.
const quiet = 300 * time.Millisecond

type follower struct {
	client  Client
	session string
	after   Place
	hooks   Hooks

	mu   sync.Mutex // guards what follows, and is held while a hook runs
	lost bool       // and nothing was heard since
}

// away notes that the connection went. It reports whether that is news.
func (f *follower) away(heard bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := heard || !f.lost
	f.lost = true
	return news
}

// back tells once that the connection is there again. Called with mu held.
func (f *follower) back() {
	if f.lost {
		f.lost = false
		f.hooks.Back()
	}
}

// once runs one connection, which ends with an error only.
func (f *follower) once(ctx context.Context) (heard bool, err error) {
	conn, err := ipc.Dial(ctx, f.client.Path, proto.LoopEvents)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := conn.Send(&proto.Watch{Session: f.session, Epoch: f.after.Epoch, After: f.after.Record, Follow: true}); err != nil {
		return false, err
	}
	ended := false // guarded by f.mu
	stands := time.AfterFunc(quiet, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !ended {
			f.back()
		}
	})
	defer stands.Stop()
	for {
		m, err := conn.Recv()
		f.mu.Lock()
		if err != nil {
			ended = true
			f.mu.Unlock()
			return heard, err
		}
		if e, ok := m.(*proto.Error); ok {
			ended = true
			if e.Code == proto.ErrNoSession { // it is there, and the session is not yet
				f.back()
			}
			f.mu.Unlock()
			return heard, e
		}
		heard = true
		f.back()
		if p, ok := m.(*proto.Past); ok && p.Role == "user" {
			f.after = Place{p.Epoch, p.Record}
		}
		f.hooks.Event(m)
		f.mu.Unlock()
	}
}
