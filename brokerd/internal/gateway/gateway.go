// Package gateway is brokerd's side of gateway.sock: it has the approvals that
// wait shown to the owner in a chat, takes the answers, and has a head of the
// audit log posted each day.
//
// It guarantees that an answer is taken only on the connection on which that
// very approval was asked, with its digest, and only if the settings let it be
// answered in a chat; what then counts is the desk's own rule, the first answer
// before the expiry. What is shown there is taken back when it ended elsewhere,
// also while either side was away. Nothing of this holds a decision up: gatewayd
// follows the desk as every other client, and is left behind if it is slow.
//
// It does not know the owner's face: that an answer is the owner's is gatewayd's
// word, and the chat server's.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Channel is what the records say of an answer that came this way.
const Channel = "mattermost"

const (
	askTime  = 5 * time.Second // for what gatewayd only has to note
	backMin  = 500 * time.Millisecond
	backMax  = 30 * time.Second
	dayLong  = 24 * time.Hour
	lookEach = 10 * time.Minute // whether a day is over
)

// Rules say which approvals may be answered in a chat.
type Rules struct {
	Approve  bool
	MaxTaint proto.Class
	Never    []string // tools
}

// Config is what a Client works with.
type Config struct {
	Socket     string
	Desk       *approval.Desk
	Rules      Rules
	State      *os.Root // for when the last head was posted
	Head       func() proto.AuditHead
	Checkpoint func() (*proto.Head, error)
	Now        func() time.Time
	Rand       func() float64 // [0, 1), for the jitter
	Log        *slog.Logger
}

// A Client speaks to gatewayd.
type Client struct {
	cfg Config

	posted *last // the newest head that gatewayd noted; of the one goroutine of a session

	mu  sync.Mutex // guards err
	err error      // why the last connection ended; nil while one stands
}

// New makes a client. Run does its work.
func New(c Config) *Client { return &Client{cfg: c, err: ErrNotYet} }

// ErrNotYet is the trouble of a client that has just begun.
var ErrNotYet = errors.New("not asked yet")

// Trouble says why gatewayd is not spoken to; nil if it is.
func (c *Client) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Client) set(err error) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = (c.err == nil) != (err == nil)
	c.err = err
	return changed
}

// Run goes on until ctx ends, whatever gatewayd does.
func (c *Client) Run(ctx context.Context) {
	pause := backMin
	for ctx.Err() == nil {
		up := false
		err := c.session(ctx, func() {
			up = true
			if c.set(nil) {
				c.cfg.Log.Info("approvals are shown in the chat")
			}
		})
		if ctx.Err() != nil {
			return
		}
		if up {
			pause = backMin
		}
		if c.set(err) {
			c.cfg.Log.Warn("gatewayd is away; approvals go on elsewhere", "error", err.Error(), "runbook", "gatewayd-away")
		}
		wait := time.NewTimer(pause/2 + time.Duration(c.cfg.Rand()*float64(pause/2)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
		pause = min(2*pause, backMax)
	}
}

// session is the time between two breaks. Each begins in the same way: what
// ended unseen is taken back, then all that waits is asked.
func (c *Client) session(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	follow := c.cfg.Desk.Follow()
	defer follow.Close()
	if err := c.tidy(ctx); err != nil {
		return err
	}
	ready()
	all.Go(func() { c.anchors(ctx, cancel) })
	asks := map[string]context.CancelFunc{}
	for {
		m, err := follow.Next(ctx)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *proto.Approval:
			if c.cfg.Desk.Get(m.Approval) == nil { // it has ended meanwhile
				continue
			}
			one, stop := context.WithCancel(ctx)
			asks[m.Approval] = stop
			all.Go(func() {
				defer stop()
				if err := c.ask(one, c.request(m)); err != nil && one.Err() == nil {
					cancel(err)
				}
			})
		case *proto.Retracted:
			if stop := asks[m.Approval]; stop != nil {
				stop()
				delete(asks, m.Approval)
			}
			if err := c.note(ctx, &proto.Retract{Approval: m.Approval, Verdict: m.Verdict, By: m.By, Channel: m.Channel}); err != nil {
				return err
			}
		default:
			return fmt.Errorf("gateway: a desk does not tell %T", m)
		}
	}
}

// tidy tells the ends that gatewayd has missed. What is asked for the first time
// after the list was made is unknown there, and so it is not stale.
func (c *Client) tidy(ctx context.Context) error {
	got, err := c.once(ctx, &proto.StillWaiting{Approvals: append([]string{}, c.cfg.Desk.IDs()...)})
	if err != nil {
		return err
	}
	stale, ok := got.(*proto.Stale)
	if !ok {
		return fmt.Errorf("gatewayd answered with %s", got.Tag())
	}
	for _, id := range stale.Approvals {
		if c.cfg.Desk.Get(id) != nil { // it says so of one that was in the list
			return errors.New("gatewayd calls an approval stale that waits")
		}
		m := &proto.Retract{Approval: id, Verdict: proto.VerdictWithdrawn, Channel: "brokerd"}
		if end, ok := c.cfg.Desk.End(id); ok {
			m.Verdict, m.By, m.Channel = end.Verdict, end.By, end.Channel
		}
		if err := c.note(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// request is what gatewayd learns of an approval.
func (c *Client) request(a *proto.Approval) *proto.Ask {
	m := &proto.Ask{
		Approval: a.Approval, Asked: a.Asked, Expires: a.Expires, Session: a.Session, Tool: a.Tool,
		Fields: []proto.Field{}, Read: []string{}, Write: []string{}, Hosts: []string{}, Secrets: []string{},
		Class: a.Class, Taint: a.Taint, Untrusted: a.Untrusted, Grant: a.Grant,
	}
	if !c.cfg.Rules.allow(a) {
		return m
	}
	m.Code, m.Digest, m.Reason, m.Diff, m.DiffNote = a.Code, a.Digest, a.Reason, a.Diff, a.DiffNote
	m.Fields, m.Read, m.Write, m.Hosts, m.Secrets = a.Fields, a.Read, a.Write, a.Hosts, a.Secrets
	return m
}

// allow reports whether an approval may be shown and answered in a chat.
func (r Rules) allow(a *proto.Approval) bool {
	return r.Approve && rank(a.Taint) <= rank(r.MaxTaint) && !slices.Contains(r.Never, a.Tool)
}

func rank(c proto.Class) int {
	return slices.Index([]proto.Class{proto.ClassPublic, proto.ClassPrivate, proto.ClassSecret}, c)
}

// ask has one approval shown, and takes the answer to it. An error ends the
// session; gatewayd's no to this one does not.
func (c *Client) ask(ctx context.Context, m *proto.Ask) error {
	conn, err := ipc.Dial(ctx, c.cfg.Socket, proto.GatewayEvents)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Send(m); err != nil {
		return err
	}
	for {
		got, err := conn.Recv()
		switch got := got.(type) {
		case *proto.Shown:
			continue
		case *proto.ChatAnswer:
			return c.take(ctx, m, got)
		case *proto.Error:
			c.cfg.Log.Warn("gatewayd does not show an approval", "approval", m.Approval, "error", got.Error())
			return nil
		default:
			if err == nil || errors.Is(err, io.EOF) {
				err = fmt.Errorf("gatewayd let go of an approval: %w", io.ErrUnexpectedEOF)
			}
			return err
		}
	}
}

// take gives an answer to the desk, if it is one to what was asked.
func (c *Client) take(ctx context.Context, m *proto.Ask, got *proto.ChatAnswer) error {
	if m.Elsewhere() || got.Approval != m.Approval || got.Digest != m.Digest {
		return errors.New("gatewayd answered what it was not asked; nothing was decided by that")
	}
	end, err := c.cfg.Desk.Answer(ctx, &proto.Answer{
		Approval: got.Approval, Digest: got.Digest, Verdict: got.Verdict, Channel: Channel,
	}, got.By)
	var no *proto.Error
	switch {
	case errors.As(err, &no):
		c.cfg.Log.Warn("an answer from the chat counts for nothing", "approval", m.Approval, "error", no.Error())
		return nil
	case err != nil:
		return err
	case !end.First:
		c.cfg.Log.Info("an answer from the chat came too late", "approval", m.Approval, "verdict", string(end.Verdict))
	}
	return nil
}

// note asks what is answered with "noted".
func (c *Client) note(ctx context.Context, m proto.Message) error {
	got, err := c.once(ctx, m)
	if err != nil {
		return err
	}
	if _, ok := got.(*proto.Noted); !ok {
		return fmt.Errorf("gatewayd answered with %s", got.Tag())
	}
	return nil
}

func (c *Client) once(ctx context.Context, m proto.Message) (proto.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return ipc.Ask(ctx, c.cfg.Socket, proto.GatewayEvents, m)
}
