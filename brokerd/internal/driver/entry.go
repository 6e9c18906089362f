package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/brokerd/internal/calls"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"
)

// An entry is a call that has no end yet. Its goroutine owns it, apart from
// what mu guards.
type entry struct {
	call    proto.Call
	digest  string
	outside chan calls.Event // a stop, or brokerd's end
	before  <-chan struct{}  // closed when the call that was let in before is decided on
	decided chan struct{}    // closed when this one is

	state   calls.State
	stop    proto.Code      // state.Stop as it was when the effect began
	facts   policy.Facts    // what was decided on
	permit  policy.Decision // to run
	asks    policy.Asks     // if the owner is asked
	held    *approval.Held
	end     proto.Answered // of the approval
	seen    string         // the file that the diff was made from
	ran     Ran
	report  proto.EgressReport
	runErr  error
	started time.Time
	kept    *calls.Kept
	denied  *proto.CallResult // if it did not run

	mu      sync.Mutex // guards what follows
	asked   *proto.Asked
	result  *proto.CallResult
	err     error         // why there will be no result
	changed chan struct{} // closed at each change
}

func newEntry(c *proto.Call) *entry {
	return &entry{call: *c, digest: policy.Digest(c), outside: make(chan calls.Event, 4), changed: make(chan struct{})}
}

// post tells the call of a stop. A call that has been told often enough is not
// told again.
func (e *entry) post(ev calls.Event) {
	select {
	case e.outside <- ev:
	default:
	}
}

// change tells those who wait.
func (e *entry) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	close(e.changed)
	e.changed = make(chan struct{})
}

// wait gives the result of the call. onAsked is called when the owner is asked.
func (e *entry) wait(ctx context.Context, onAsked func(*proto.Asked)) (*proto.CallResult, error) {
	told := false
	for {
		e.mu.Lock()
		asked, result, err, changed := e.asked, e.result, e.err, e.changed
		e.mu.Unlock()
		if asked != nil && !told && onAsked != nil {
			told = true
			onAsked(asked)
		}
		if result != nil || err != nil {
			return result, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// A work is an effect that is under way.
type work struct {
	cancel context.CancelCauseFunc
	done   chan did
}

type did struct {
	event calls.Event
	err   error
}

var errInterrupted = errors.New("driver: interrupted")

// drive leads one call to its end.
func (d *Driver) drive(e *entry, first calls.Event) {
	err := d.follow(e, first)
	if err != nil {
		d.fail(err)
	}
	d.mu.Lock()
	delete(d.live, e.call.ID)
	d.mu.Unlock()
	e.change(func() {
		if e.result == nil {
			e.err = ErrEnding
		}
	})
}

func (d *Driver) follow(e *entry, ev calls.Event) error {
	var now *work
	defer func() {
		if now != nil {
			now.cancel(errInterrupted)
			<-now.done
		}
	}()
	for {
		next, effects, err := calls.Next(e.state, ev)
		if err != nil {
			return err
		}
		e.state = next
		for _, f := range effects {
			switch f := f.(type) {
			case calls.Interrupt:
				now.cancel(errInterrupted)
			case calls.Make:
				d.make(e, f)
			case calls.Publish:
				return d.publish(e)
			default:
				if now != nil { // only a wait that was interrupted can be under way here
					<-now.done
				}
				now = d.begin(e, f)
			}
		}
		if e.state.Phase == calls.Parked {
			return nil
		}
		select {
		case got := <-now.done:
			now.cancel(nil)
			now = nil
			if got.err != nil {
				return got.err
			}
			ev = got.event
		case ev = <-e.outside:
		case <-d.ctx.Done(): // something else failed
			return context.Cause(d.ctx)
		}
	}
}

// begin starts an effect. It may read and write the entry until it is done.
func (d *Driver) begin(e *entry, f calls.Effect) *work {
	ctx, cancel := context.WithCancelCause(d.ctx)
	w := &work{cancel: cancel, done: make(chan did, 1)}
	e.stop = e.state.Stop
	go func() {
		ev, err := d.do(ctx, e, f)
		w.done <- did{ev, err}
	}()
	return w
}
