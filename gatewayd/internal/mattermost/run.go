package mattermost

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run keeps a connection for events and hands them to tell, one at a time and in
// order. tell must not block for long: the server drops a client that does not
// read. Run returns when ctx ends, with its error, or with an error for which
// TokenRefused holds: the token is wrong, was revoked, or its bot is disabled.
// Everything else it outlasts.
func (c *Client) Run(ctx context.Context, tell func(Event)) error {
	r := runner{c: c, tell: tell}
	for failed := 0; ; failed++ {
		began := time.Now()
		err := r.connection(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.doubt(err) {
			if _, asked := c.Me(ctx); TokenRefused(asked) {
				return asked
			} else if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if r.up && time.Since(began) > c.cfg.PingEvery {
			failed = 0
		}
		wait := c.backOff(failed, err)
		c.cfg.Log.Warn("no events from the Mattermost server", "error", err.Error(), "retry", wait.String())
		tell(Down{Err: err, Retry: wait})
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// backOff is the pause after a number of attempts that failed in a row: it doubles
// up to a limit, and half of it is chance, so that many clients of a server that
// comes back do not come back together.
func (c *Client) backOff(failed int, err error) time.Duration {
	d := c.cfg.BackMax
	if failed < 20 {
		d = min(c.cfg.BackMin<<failed, c.cfg.BackMax)
	}
	d = d/2 + time.Duration(c.cfg.Rand()*float64(d/2))
	var busy *Busy
	if errors.As(err, &busy) {
		d += busy.After
	}
	return d
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// A runner holds what outlives a connection.
type runner struct {
	c     *Client
	tell  func(Event)
	me    string
	track track
	open  bool // the last attempt got a connection
	up    bool // and something arrived on it
}

// Reasons for which a connection is given up.
var (
	errSession = errors.New("the server no longer counts this connection's token")
	errSilent  = errors.New("nothing came over the connection, not even an answer to our own ping")
	errFrame   = errors.New("the server sent an event that cannot be read")
)

// doubt reports an end for which the token may be the reason. A bad token gets its
// connection, and then a bare end of it.
func (r *runner) doubt(err error) bool {
	return r.open && !r.up || errors.Is(err, errSession) || TokenRefused(err)
}

// connection is the life of one connection.
func (r *runner) connection(ctx context.Context) error {
	r.open, r.up = false, false
	if r.me == "" {
		u, err := r.c.Me(ctx)
		if err != nil {
			return err
		}
		r.me = u.ID
	}
	resumed := r.track.begin()
	s, err := r.c.dial(ctx, r.track.id, r.track.next)
	if err != nil {
		return err
	}
	r.open = true
	err = s.run(ctx, r.frame)
	// A connection that could not be taken up again, or that brought what cannot be
	// read, is not asked for a second time.
	if resumed && !r.up || errors.Is(err, errFrame) || errors.Is(err, ErrTooBig) {
		r.track = track{}
	}
	return err
}

// frame is called with each frame that arrives.
func (r *runner) frame(b []byte) error {
	f, err := decodeFrame(b)
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, r.c.cleanErr(err))
	}
	evs, err := r.track.feed(f, r.me)
	r.up = r.track.up
	for _, e := range evs {
		r.tell(e)
	}
	if err != nil && !errors.Is(err, errSession) {
		err = fmt.Errorf("%w: %w", errFrame, r.c.cleanErr(err))
	}
	return err
}
