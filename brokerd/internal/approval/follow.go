package approval

import (
	"context"
	"errors"

	"boxmaker/internal/proto"
)

// ErrSlow reports a follower that did not take its events.
var ErrSlow = errors.New("approval: the follower does not keep up")

// A Follower gets each approval that waits, then those to come and their ends.
type Follower struct {
	desk   *Desk
	events chan proto.Message
	lost   chan struct{} // closed when it was left behind
}

// queue is how many events may wait for a follower, beyond those at its start.
const queue = 64

// Follow starts to follow: what waits now comes first, and nothing is missed.
func (d *Desk) Follow() *Follower {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.list()
	f := &Follower{desk: d, events: make(chan proto.Message, len(all)+queue), lost: make(chan struct{})}
	for i := range all {
		f.events <- &all[i]
	}
	d.followers[f] = true
	return f
}

// Next gives the next event.
func (f *Follower) Next(ctx context.Context) (proto.Message, error) {
	select {
	case m := <-f.events:
		return m, nil
	case <-f.lost:
		return nil, ErrSlow
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends it.
func (f *Follower) Close() {
	f.desk.mu.Lock()
	defer f.desk.mu.Unlock()
	delete(f.desk.followers, f)
}

// tell sends m to all followers. Precondition: mu is held.
func (d *Desk) tell(m proto.Message) {
	for f := range d.followers {
		select {
		case f.events <- m:
		default:
			delete(d.followers, f)
			close(f.lost)
		}
	}
}
