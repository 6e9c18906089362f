// Package driver carries out what package calls says: it decides on calls, asks
// the owner, runs containers, keeps results, and answers for each call's fate.
//
// It guarantees that an id is decided and run at most once, across restarts;
// that nothing runs before the record that allows it is synced; that a result
// leaves only after secrets were taken out of it, the session's taint was raised,
// the result was kept and its outcome is on record; and that after a failed
// write nothing more is answered: [Driver.Run] returns that error, and the next
// start goes on from what is on disk.
//
// It believes nothing of a call but what it asks for. It can't tell whether a
// container that was killed had done its work.
package driver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/brokerd/internal/calls"
	"boxmaker/brokerd/internal/rate"
	"boxmaker/internal/proto"
)

// Config is what a Driver works with.
type Config struct {
	Audit   Audit
	Rules   Rules
	Taint   Taint
	Runner  Runner
	Doors   Doors // nil: there is no way out
	Secrets Secrets
	Results *calls.Results
	Desk    *approval.Desk
	Book    *calls.Book // of the whole log
	Limits  Limits
	Now     func() time.Time
	Log     *slog.Logger
	Fault   func(step string) error // for tests: fails before ("x") and after ("x done") each effect
}

// Limits bound what goes on at a time.
type Limits struct {
	Running int           // containers
	Live    int           // calls that have no end
	Session int           // of these in one session
	Expires time.Duration // of an approval
	Egress  int64         // bytes over the network of one call
	Kept    calls.Bounds  // of results that loopd has not confirmed
	Rate    int           // calls a minute, see newMeter; 0: no bound
}

// ErrEnding is given to those who wait when brokerd ends before their call.
var ErrEnding = errors.New("brokerd is ending")

// A Driver runs calls. Its methods may be called from several goroutines.
type Driver struct {
	cfg    Config
	places chan struct{} // for containers
	ctx    context.Context
	cancel context.CancelCauseFunc // with the error that ends everything
	wg     sync.WaitGroup          // of the calls

	mu      sync.Mutex // guards what follows
	live    map[string]*entry
	newest  chan struct{} // closed when the call that was let in last is decided on
	ended   ended
	ending  bool
	halt    haltState
	meter   *rate.Meter // nil: no bound
	limited limited
}

type haltState struct {
	on     bool
	reason string
}

// New makes a Driver. Calls that the log has no end of go on with
// [Driver.Restore].
func New(cfg Config) *Driver {
	d := &Driver{cfg: cfg, places: make(chan struct{}, max(1, cfg.Limits.Running)), live: map[string]*entry{}}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	d.meter = newMeter(cfg.Limits.Rate)
	d.halt = haltState{cfg.Book.Halted, cfg.Book.HaltReason}
	return d
}

// Run works until ctx ends or a write fails; the error is that failure. Running
// calls are then ended, and what waits for the owner waits on after the next start.
func (d *Driver) Run(ctx context.Context) error {
	d.await(ctx)
	d.mu.Lock()
	d.ending = true
	_ = d.tellLimited() // the error is d.ctx's cause then
	for _, e := range d.live {
		e.post(calls.Ending{})
	}
	d.mu.Unlock()
	d.wg.Wait()
	var err error
	if d.ctx.Err() != nil {
		err = context.Cause(d.ctx)
	}
	d.cancel(ErrEnding)
	return err
}

// fail ends everything.
func (d *Driver) fail(err error) {
	if d.ctx.Err() == nil {
		d.cfg.Log.Error("brokerd cannot go on", "error", err.Error())
	}
	d.cancel(err)
}

// start lets a call live. Precondition: mu is held, and the id is not live.
func (d *Driver) start(e *entry, first calls.Event) {
	d.live[e.call.ID] = e
	d.wg.Go(func() { d.drive(e, first) })
}

// Counts says how much goes on.
type Counts struct{ Running, Pending, Kept int }

// Counts gives the figures of the status.
func (d *Driver) Counts() Counts {
	return Counts{Running: len(d.places), Pending: len(d.cfg.Desk.IDs()), Kept: d.cfg.Results.Count()}
}

// Halted says whether everything is stopped, and why.
func (d *Driver) Halted() (bool, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.halt.on, d.halt.reason
}

// A fault is a step that failed on purpose, in a test.
func (d *Driver) fault(step string) error {
	if d.cfg.Fault == nil {
		return nil
	}
	return d.cfg.Fault(step)
}

// ended remembers results of calls that did not run: those are not kept on
// disk, since their records say all of it.
type ended struct {
	all   map[string]finished
	order []string
}

type finished struct {
	digest string
	result *proto.CallResult
}

// maxEnded bounds them. A loopd confirms within seconds.
const maxEnded = 1024

func (n *ended) put(id string, f finished) {
	if n.all == nil {
		n.all = map[string]finished{}
	}
	n.all[id] = f
	n.order = append(n.order, id)
	if len(n.order) > maxEnded {
		delete(n.all, n.order[0])
		n.order = n.order[1:]
	}
}
