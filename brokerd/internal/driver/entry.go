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

// An entry is a call that has no end yet. One goroutine at a time owns it, apart
// from what mu guards.
type entry struct {
	call    proto.Call
	digest  string
	outside chan calls.Event // a stop, or brokerd's end
	before  <-chan struct{}  // closed when the call that was let in before is decided on
	decided chan struct{}    // closed when this one is

	work    *work // the effect that is under way and takes its time
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
	lost    error // why report does not tell all
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

func newEntry(c *proto.Call, digest string) *entry {
	return &entry{call: *c, digest: digest, outside: make(chan calls.Event, 4), changed: make(chan struct{})}
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

// lead takes a new call as far as it goes without waiting, on the caller's
// goroutine: to start another one costs as much as a denial without its record.
func (d *Driver) lead(e *entry) {
	more, err := d.advance(e, calls.Begun{})
	if err == nil && more {
		go func() {
			defer d.wg.Done()
			d.end(e, d.follow(e))
		}()
		return
	}
	d.end(e, err)
	d.wg.Done()
}

// drive leads one call to its end.
func (d *Driver) drive(e *entry, first calls.Event) {
	more, err := d.advance(e, first)
	if err == nil && more {
		err = d.follow(e)
	}
	d.end(e, err)
}

// end tells those who still wait.
func (d *Driver) end(e *entry, err error) {
	if err != nil {
		d.fail(err)
	}
	if e.work != nil {
		e.work.cancel(errInterrupted)
		e.over()
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

// over waits for what is under way, which was interrupted.
func (e *entry) over() {
	if e.work != nil {
		<-e.work.done
		e.work = nil
	}
}

// follow waits for what is under way, until the call has its end.
func (d *Driver) follow(e *entry) error {
	for {
		var ev calls.Event
		select {
		case got := <-e.work.done:
			e.work.cancel(nil)
			e.work = nil
			if got.err != nil {
				return got.err
			}
			ev = got.event
		case ev = <-e.outside:
		case <-d.ctx.Done(): // something else failed
			return context.Cause(d.ctx)
		}
		if more, err := d.advance(e, ev); err != nil || !more {
			return err
		}
	}
}

// advance takes an event, and those that come of it, until an effect is under
// way that takes its time. Without more the call is at its end.
func (d *Driver) advance(e *entry, ev calls.Event) (more bool, err error) {
	for queue := []calls.Event{ev}; len(queue) > 0; queue = queue[1:] {
		next, effects, err := calls.Next(e.state, queue[0])
		if err != nil {
			return false, err
		}
		e.state = next
		for _, f := range effects {
			switch f := f.(type) {
			case calls.Interrupt:
				if e.work != nil {
					e.work.cancel(errInterrupted)
				}
			case calls.Make:
				d.make(e, f)
			case calls.Publish:
				return false, d.publish(e)
			case calls.Preview, calls.Wait, calls.Run:
				d.begin(e, f)
			default:
				got, err := d.write(e, f)
				if err != nil {
					return false, err
				}
				queue = append(queue, got...)
			}
		}
		if e.state.Phase == calls.Parked {
			return false, nil
		}
	}
	return true, nil
}

// write carries out an effect that takes no longer than a write. Stops that came
// meanwhile were before its end.
func (d *Driver) write(e *entry, f calls.Effect) ([]calls.Event, error) {
	e.over()
	e.stop = e.state.Stop
	ev, err := d.do(d.ctx, e, f)
	if err != nil {
		return nil, err
	}
	var all []calls.Event
	for {
		select {
		case stop := <-e.outside:
			all = append(all, stop)
		default:
			return append(all, ev), nil
		}
	}
}

// begin starts an effect. It may read and write the entry until it is done.
func (d *Driver) begin(e *entry, f calls.Effect) {
	e.over()
	ctx, cancel := context.WithCancelCause(d.ctx)
	w := &work{cancel: cancel, done: make(chan did, 1)}
	e.work, e.stop = w, e.state.Stop
	go func() {
		ev, err := d.do(ctx, e, f)
		w.done <- did{ev, err}
	}()
}
