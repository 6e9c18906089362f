// Package agent drives the turns of many sessions.
//
// Each open session has one goroutine that owns its log, its prompt and its
// state; all that happens to a session goes through its mailbox. A record is on
// disk before anything acts on it. What to do next is decided by package turn
// alone, live and after a restart, so that the agent has no second way to go on.
//
// The package guarantees: an accepted message is on disk and gets exactly one
// turn; requests of a session only ever grow; a call that may have been sent
// before a crash is looked up and never repeated.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/broker"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/neutral"
	"boxmaker/loopd/internal/session"
	"boxmaker/loopd/internal/settings"
	"boxmaker/loopd/internal/slot"
)

// lingering is how long a session without work and followers stays in memory.
const lingering = 2 * time.Minute

// Config is what an Agent works with.
type Config struct {
	Store    *session.Store
	Model    *llama.Client
	Broker   *broker.Client
	Gate     *slot.Gate
	Settings settings.Settings
	// RetryPause stands before a request that is sent again: a server that has
	// just died takes a moment to be seen as gone.
	RetryPause time.Duration
	Log        *slog.Logger
	Now        func() time.Time
}

// Serving is what is known of the inference server once the self-test has passed.
type Serving struct {
	// Baseline makes the first record of a new epoch on a slot.
	Baseline func(slot int) *proto.Baseline
	Neutral  *neutral.Neutraliser
	Slots    int // of the server; 0: unknown
	// ThinkingMark is the text that the server puts at the end of capped thinking.
	ThinkingMark string
}

// An Agent runs sessions. Make it with [New], tell it with [Agent.Serve] that the
// server is ready, and wait for its end with [Agent.Wait].
type Agent struct {
	cfg     Config
	ready   chan struct{} // closed by Serve
	serving Serving       // written before ready is closed

	ctx    context.Context // ends all work
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // conversations and confirmations

	mu    sync.Mutex // guards what follows, and the mailboxes' being open
	open  map[string]*conversation
	ended bool // no conversation is opened any more
}

// New makes an agent. No turn starts before [Agent.Serve].
func New(ctx context.Context, cfg Config) *Agent {
	a := &Agent{cfg: cfg, ready: make(chan struct{}), open: map[string]*conversation{}}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	return a
}

// Serve tells that the server has passed the self-test; turns may start. It is
// called once.
func (a *Agent) Serve(s Serving) error {
	a.serving = s
	close(a.ready)
	ids, err := a.cfg.Store.Unfinished()
	if err != nil {
		return err
	}
	for _, id := range ids {
		a.cfg.Log.Info("going on with a session that was cut off", "session", id)
		a.post(id, resume{})
	}
	return nil
}

// Wait returns when ctx has ended, or with the error that broke a log. All
// conversations have then ended.
func (a *Agent) Wait() error {
	<-a.ctx.Done()
	a.mu.Lock()
	a.ended = true // a post that did not see the end has added to wg by now
	a.mu.Unlock()
	a.wg.Wait()
	return context.Cause(a.ctx)
}

// End makes [Agent.Wait] return: requests are dropped, and the logs say where to
// go on.
func (a *Agent) End() { a.cancel(context.Canceled) }

// fatal stops the whole process: after a failed write the state of a log on
// disk is unknown, and only start-up recovery finds it out.
func (a *Agent) fatal(err error) { a.cancel(err) }

// Submit takes a message of the owner. The stream begins with Accepted, which
// says that the message is on disk. Errors are *proto.Error.
func (a *Agent) Submit(ctx context.Context, m *proto.Submit) (*Stream, error) {
	if err := checkText(m.Text, int64(a.cfg.Settings.Limits.Message)); err != nil {
		return nil, err
	}
	select {
	case <-a.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-a.ctx.Done():
		return nil, errEnding
	}
	j, err := a.join(ctx, m.Session, func(reply chan joined) any { return submit{m, reply} })
	return j.stream, err
}

// Ready reports whether turns may start.
func (a *Agent) Ready() bool {
	select {
	case <-a.ready:
		return true
	default:
		return false
	}
}

// Follow joins a session. place is the last record that is not in the stream: of a
// running turn the stream has all events, so it is the record that began it.
func (a *Agent) Follow(ctx context.Context, id string) (s *Stream, epoch int, place int64, err error) {
	j, err := a.join(ctx, id, func(reply chan joined) any { return follow{reply} })
	return j.stream, j.epoch, j.place, err
}

// join posts a letter that is answered with a stream. The stream of an answer that
// nobody waits for any more is closed.
func (a *Agent) join(ctx context.Context, id string, letter func(chan joined) any) (joined, error) {
	reply := make(chan joined, 1)
	a.post(id, letter(reply))
	j, err := await(ctx, a, reply)
	if err == nil {
		return j, j.err
	}
	go func() {
		select {
		case j := <-reply:
			if j.stream != nil {
				j.stream.Close()
			}
		case <-a.ctx.Done():
		}
	}()
	return joined{}, err
}

// await gives the answer to a letter.
func await[T any](ctx context.Context, a *Agent, reply chan T) (answer T, err error) {
	select {
	case answer = <-reply:
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-a.ctx.Done():
	}
	select {
	case answer = <-reply: // a failed write ends the agent and tells why
		return answer, nil
	default:
		return answer, errEnding
	}
}

// Stop ends the running turn of a session and reports whether there was one. A turn
// that a restart cut off counts as running, even while the server is not ready.
func (a *Agent) Stop(ctx context.Context, id string) (bool, error) {
	a.mu.Lock()
	_, open := a.open[id]
	a.mu.Unlock()
	if !open {
		info, err := a.cfg.Store.Info(id)
		switch {
		case errors.Is(err, session.ErrNoSession):
			return false, nil
		case err != nil:
			return false, err
		case !info.Open:
			return false, nil
		}
	}
	reply := make(chan bool, 1)
	a.post(id, stop{reply})
	return await(ctx, a, reply)
}

// Delivered notes that an answer of a session is in the owner's chat. When it
// returns nil, that is on disk.
func (a *Agent) Delivered(ctx context.Context, id, key string) error {
	reply := make(chan error, 1)
	a.post(id, delivered{key, reply})
	noted, err := await(ctx, a, reply)
	return errors.Join(noted, err)
}

// OpenTurns counts the sessions with a turn.
func (a *Agent) OpenTurns() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, c := range a.open {
		if c.busy.Load() {
			n++
		}
	}
	return n
}

// post puts m into the session's mailbox and opens the session if need be.
func (a *Agent) post(id string, m any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.ctx.Err() != nil {
		return
	}
	c := a.open[id]
	if c == nil {
		c = newConversation(a, id)
		a.open[id] = c
		a.wg.Add(1)
		go func() {
			defer a.wg.Done()
			c.run(a.ctx)
		}()
	}
	c.put(m)
}

// retire takes c out if its mailbox is empty, and closes its log while nobody
// can open it a second time.
func (a *Agent) retire(c *conversation, force bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !force && c.waiting() {
		return false
	}
	delete(a.open, c.id)
	c.close()
	return true
}
