package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/session"
	"boxmaker/loopd/internal/toolset"
	"boxmaker/loopd/internal/turn"
)

// Letters to a conversation.
type (
	submit struct {
		m     *proto.Submit
		reply chan joined
	}
	follow struct{ reply chan joined }
	stop   struct{ reply chan bool }
	resume struct{}
	// delivered notes that an answer is in the owner's chat.
	delivered struct {
		key   string
		reply chan error
	}
	// asked and finished come from the conversation's own operation.
	asked    struct{ m *proto.Asked }
	finished struct {
		records []proto.Record
		confirm string // call id that brokerd may forget once the record is on disk
		open    bool   // nobody knows how that call ended, or whether it has
	}
)

type joined struct {
	stream *Stream
	epoch  int
	place  int64
	err    error
}

// A conversation is one open session.
type conversation struct {
	a    *Agent
	id   string
	hub  *hub
	busy atomic.Bool // a turn runs

	mu   sync.Mutex // guards mail
	mail []any
	wake chan struct{} // capacity 1

	// Owned by run.
	log     *session.Session
	prompt  *prompt.Prompt
	slotID  int   // of the epoch, as its baseline says
	from    int64 // the record behind which the hub has the running turn's events
	state   turn.State
	next    turn.Action
	resumed bool               // the call in front may have been sent before a restart
	cancel  context.CancelFunc // of the running operation; nil if none
	ops     sync.WaitGroup
}

func newConversation(a *Agent, id string) *conversation {
	c := &conversation{a: a, id: id, hub: newHub(), wake: make(chan struct{}, 1), next: turn.Rest{}}
	c.state = turn.State{Session: id, Limits: turn.Limits{Rounds: a.cfg.Settings.Limits.ToolRounds}}
	return c
}

func (c *conversation) put(m any) {
	c.mu.Lock()
	c.mail = append(c.mail, m)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conversation) take() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.mail
	c.mail = nil
	return m
}

// putBack returns letters that were taken and not handled.
func (c *conversation) putBack(letters []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mail = append(letters, c.mail...)
}

func (c *conversation) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mail) > 0
}

func (c *conversation) close() {
	if c.log != nil {
		c.log.Close()
	}
}

// run is the conversation's life: open the log, then letters and work until it
// has been idle for a while, the agent ends, or the log fails.
func (c *conversation) run(ctx context.Context) {
	if err := c.openLog(); err != nil {
		c.refuse(sessionError(c.id, err))
		return
	}
	idle := time.NewTimer(lingering)
	defer idle.Stop()
	for {
		if err := c.work(ctx); err != nil {
			if written(err) {
				c.die(err)
			} else {
				c.giveUp(err)
			}
			return
		}
		select {
		case <-c.wake:
			idle.Reset(lingering)
		case <-idle.C:
			if c.busy.Load() || c.hub.watched() || !c.a.retire(c, false) {
				idle.Reset(lingering)
				continue
			}
			return
		case <-ctx.Done():
			if c.cancel != nil {
				c.cancel()
			}
			c.ops.Wait()
			c.hub.fail(errEnding)
			c.a.retire(c, true)
			return
		}
	}
}

// work handles all letters and does all that can be done without waiting.
func (c *conversation) work(ctx context.Context) error {
	for {
		letters := c.take()
		for i, m := range letters {
			if err := c.handle(ctx, m); err != nil {
				c.putBack(letters[i+1:])
				return err
			}
		}
		for c.cancel == nil {
			more, err := c.advance(ctx)
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
		c.busy.Store(c.state.Phase != turn.Resting)
		if !c.waiting() {
			return nil
		}
	}
}

// advance takes one step and reports whether another can follow at once.
func (c *conversation) advance(ctx context.Context) (bool, error) {
	if !c.a.Ready() || ctx.Err() != nil {
		return false, nil
	}
	resumed := c.resumed
	c.resumed = false // whatever comes now is done with it
	switch act := c.next.(type) {
	case turn.Rest:
		if p := c.log.Pending(); len(p) > 0 {
			return true, c.begin(&proto.User{Origin: p[0].Origin, Surface: p[0].Surface, Message: p[0].Message})
		}
		return false, nil
	case turn.Infer:
		c.startInfer(ctx, act)
		return false, nil
	case turn.Run:
		c.startCall(ctx, act, resumed)
		return false, nil
	case turn.Refuse:
		req, _ := toolset.DecodeCall(act.Pending.Call.Name, act.Pending.Call.Arguments)
		if _, sent := req.(toolset.CallRequest); sent && resumed && act.Begun {
			c.resumeStop(ctx, act.Pending, req)
			return false, nil
		}
		return true, c.refuseCall(act, req)
	case turn.End:
		return true, c.end(act.Record)
	default:
		return false, errors.New("agent: no rule for this action")
	}
}

// begin starts the turn of a user record, in a new epoch if the old one is of no
// more use.
func (c *conversation) begin(u *proto.User) error {
	why := c.worn()
	if c.log.Epoch() == 0 || why != "" {
		if err := c.newEpoch(); err != nil {
			return err
		}
	}
	n, err := c.append(u)
	if err != nil {
		return err
	}
	c.busy.Store(true)
	c.from = n
	c.hub.begin(u.Origin)
	for _, p := range past(c.id, c.log.Epoch(), proto.Header{N: n, Time: c.a.cfg.Now()}, u) {
		c.hub.tell(p)
	}
	if c.log.Epoch() > 1 && n == 1 {
		c.hub.send(&proto.Notice{
			Kind: proto.NoticeNewEpoch,
			Text: cmp.Or(why, "The old context is of no more use") + ", so this message starts a fresh window with a short reminder of the last exchange. The old one stays in the log.",
		})
	}
	return nil
}

// worn tells why the epoch can take no further message, or "".
func (c *conversation) worn() string {
	switch slots := c.a.serving.Slots; {
	case c.log.Epoch() == 0:
		return ""
	case c.state.Full:
		return "The context was full"
	case slots > 0 && c.slotID >= slots: // such a request would wait for ever
		return fmt.Sprintf("The server no longer has slot %d, which this conversation used", c.slotID)
	default:
		return ""
	}
}

// end closes the turn and tells everybody.
func (c *conversation) end(rec proto.TurnEnd) error {
	rec.Queued = len(c.log.Pending())
	done := doneOf(c.state, &rec)
	if _, err := c.append(&rec); err != nil {
		return err
	}
	c.hub.finish(done)
	return nil
}

// doneOf is what the clients of a turn are told at its end. s is the state before
// the end's record.
func doneOf(s turn.State, end *proto.TurnEnd) *proto.Done {
	d := &proto.Done{Outcome: end.Outcome, Text: end.Text, Runbook: end.Runbook, Answer: s.Answer, Usage: s.Usage}
	if end.Outcome == proto.TurnStopped || end.Outcome == proto.TurnFailed {
		d.Answer = "" // what the model said before does not answer the message
	}
	return d
}
