// Package boot binds brokerd together: it opens what is on disk, in the order
// that recovery needs, and runs the sockets and the driver.
//
// It guarantees that nobody is answered before the whole audit log was verified
// and read, and that the end of any part ends all.
package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/brokerd/internal/audit"
	"boxmaker/brokerd/internal/calls"
	"boxmaker/brokerd/internal/driver"
	"boxmaker/brokerd/internal/gateway"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/brokerd/internal/serve"
	"boxmaker/brokerd/internal/settings"
	"boxmaker/brokerd/internal/taint"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"

	"golang.org/x/sync/errgroup"
)

// Config is what brokerd works with.
type Config struct {
	Audit, State *os.Root
	Grants       *grant.Dir
	Secrets      secret.Config
	Settings     settings.Settings
	Runner       driver.Runner
	Doors        driver.Doors // nil: no way out
	Gateway      string       // socket of gatewayd; empty: there is no chat
	Clock        approval.Clock
	Version      string
	Name         func(uid uint32) string
	Looks        []Look // of parts outside brokerd
	Confined     []proto.Check
	Log          *slog.Logger
	Fault        func(step string) error // for tests

	Known  []proto.AuditHead // heads that the audit log must have
	Accept *proto.AuditHead  // see [audit.Config]
}

// maxKept is how many results may wait for loopd, which takes each within
// seconds. What a call of a deleted session left counts too, and goes first.
const (
	maxKept      = 1024
	maxKeptBytes = 256 << 20
)

// A Broker is everything that is opened.
type Broker struct {
	cfg     Config
	log     *audit.Log
	signer  *audit.Signer
	secrets *vault
	engine  *policy.Engine
	taint   *taint.Store
	desk    *approval.Desk
	driver  *driver.Driver
	health  *health
	gateway *gateway.Client // nil: there is no chat
	since   time.Time
	now     func() time.Time // that grants expire by
}

// Open opens the state and the audit log.
func Open(c Config) (*Broker, error) {
	b := &Broker{cfg: c, since: c.Clock.Now(), now: forward(c.Clock)}
	var err error
	if b.secrets, err = openVault(c.Secrets, c.Log); err != nil {
		return nil, &Refused{err}
	}
	if b.taint, err = taint.Open(c.State); err != nil {
		return nil, err
	}
	if b.signer, err = audit.OpenSigner(c.State); err != nil {
		return nil, &Refused{err}
	}
	results, bad, err := calls.OpenResults(c.State)
	if err != nil {
		return nil, fmt.Errorf("%w (see runbook: brokerd-state)", err)
	}
	book, history, floor, newest := calls.NewBook(), policy.NewHistory(), taint.NewFloor(), time.Time{}
	b.log, err = audit.Open(audit.Config{Root: c.Audit, State: c.State, Known: c.Known, Accept: c.Accept, Version: c.Version, Now: c.Clock.Now, Visit: func(h proto.AuditHeader, r proto.AuditRecord) error {
		if h.Time.After(newest) {
			newest = h.Time
		}
		floor.Seen(r)
		return errors.Join(book.Fold(r), history.Seen(h, r))
	}})
	if err != nil {
		return nil, lasting(err)
	}
	if err := b.taint.Lift(floor); err != nil {
		return nil, errors.Join(err, b.log.Close())
	}
	desk, badToo, err := approval.Open(approval.Config{
		Root: c.State, Clock: c.Clock, Floor: newest, Ended: book.Approvals(), Most: c.Settings.Approval.Waiting,
	})
	if err != nil {
		return nil, errors.Join(err, b.log.Close())
	}
	b.desk = desk
	for _, f := range append(bad, badToo...) {
		c.Log.Error("a file of the state is damaged and was set aside", "file", f, "runbook", "brokerd-state")
	}
	b.engine = policy.New(policy.Config{
		Audit: b.log, Grants: c.Grants, Taint: b.taint, History: history, Now: b.now,
		Trouble: func(err error) {
			c.Log.Error("denied, because grants or taint cannot be read", "error", err.Error())
		},
	})
	b.driver = driver.New(driver.Config{
		Audit: b.log, Rules: b.engine, Taint: b.taint, Runner: c.Runner, Doors: c.Doors, Secrets: b.secrets,
		Results: results, Desk: desk, Book: book, Now: c.Clock.Now, Log: c.Log, Fault: c.Fault,
		Limits: driver.Limits{
			Running: c.Settings.Calls.Running, Live: c.Settings.Calls.Live, Session: c.Settings.Calls.Session,
			Expires: time.Duration(c.Settings.Approval.Expires), Egress: int64(c.Settings.Limits.Egress), Kept: calls.Bounds{Count: maxKept, Bytes: maxKeptBytes}, Rate: c.Settings.Calls.Rate,
		},
	})
	b.chat()
	b.health = newHealth(b.cfg.Looks, c.Clock.Now)
	return b, nil
}

// lasting marks a damaged log: starting again finds the same.
func lasting(err error) error {
	var fault *chain.Fault
	if errors.As(err, &fault) || errors.Is(err, appendlog.ErrCorrupt) {
		return &Refused{err}
	}
	return err
}

// Close closes the audit log.
func (b *Broker) Close() error { return b.log.Close() }

// A Door is a listening socket and who may use it.
type Door struct {
	Listener net.Listener
	Peers    []uint32
}

// Serve goes on with what was under way and answers both sockets, until ctx ends
// (nil) or something fails that brokerd cannot go on after.
func (b *Broker) Serve(ctx context.Context, loopd, owner Door, ready func()) error {
	g, ctx := errgroup.WithContext(ctx)
	cfg := serve.Config{
		Driver: b.driver, Desk: b.desk, Grants: b.cfg.Grants.Read, Taint: b.taint.Get, Explain: b.explain, Checkpoint: b.checkpoint, Status: b.status,
		Name: b.cfg.Name, Now: b.now, Log: b.cfg.Log,
	}
	if err := b.driver.Restore(); err != nil {
		return err
	}
	g.Go(func() error { return b.driver.Run(ctx) })
	g.Go(func() error { return serve.Broker(ctx, loopd.Listener, loopd.Peers, cfg) })
	g.Go(func() error { return serve.Owner(ctx, owner.Listener, owner.Peers, cfg) })
	g.Go(func() error { b.health.watch(ctx); return nil })
	if b.gateway != nil {
		g.Go(func() error { b.gateway.Run(ctx); return nil })
	}
	ready()
	return g.Wait()
}

func (b *Broker) checkpoint() (*proto.Head, error) {
	h, err := b.log.Checkpoint(b.signer)
	if err != nil {
		return nil, err
	}
	return &h, nil
}

// isMissing tells a store that was never made from one that cannot be read.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
