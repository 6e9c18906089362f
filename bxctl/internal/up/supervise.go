package up

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/report"
)

// A keeper keeps one role running.
type keeper struct {
	role  Role
	dir   string // working folder
	socks *listening
	log   *journal
	start *starter
	board *board
	out   *console

	// last, if set, is called right before a role that runs is ended.
	last func()

	stop chan struct{} // closed: end the role
	done chan struct{} // closed: it has ended
}

// run starts the role again and again until it is told to stop, or gives up
// and tells why.
func (k *keeper) run(failed func(error)) {
	defer close(k.done)
	var h history
	k.log.watch(k.lacks)
	for restarts := 0; ; restarts++ {
		k.note(func(r *report.Role) { r.Restarts, r.Missing = restarts, nil })
		k.log.forget()
		began := time.Now()
		c, err := k.start.launch(k.role, k.dir, k.socks, k.log)
		end := exit{code: 1, err: err}
		if err == nil {
			k.running(c)
			select {
			case <-c.ended:
				end = c.exit
			case <-k.stop:
				c.stop(k.role.Grace)
				k.note(func(r *report.Role) { r.State, r.PID, r.Start, r.Exit = "stopped", 0, 0, c.exit.String() })
				return
			}
		}
		v := h.ended(time.Now(), time.Since(began), end)
		k.note(func(r *report.Role) { r.State, r.PID, r.Start, r.Exit = "waiting", 0, 0, end.String() })
		if v.stop != "" {
			k.note(func(r *report.Role) { r.State = "stopped" })
			failed(k.gaveUp(v.stop, end))
			return
		}
		k.tell(end, v, &h)
		select {
		case <-time.After(v.delay):
		case <-k.stop:
			k.note(func(r *report.Role) { r.State = "stopped" })
			return
		}
	}
}

func (k *keeper) note(f func(*report.Role)) { k.board.role(k.role.Name, f) }

func (k *keeper) running(c *child) {
	k.note(func(r *report.Role) {
		r.State, r.PID, r.Start, r.Since = "running", c.pid, c.start, c.since.UTC()
	})
	if c.bare != "" {
		k.lacks(c.bare)
	}
}

// lacks notes protection that the running process does not have.
func (k *keeper) lacks(what string) {
	k.note(func(r *report.Role) {
		if !slices.Contains(r.Missing, what) {
			r.Missing = append(r.Missing, what)
		}
	})
}

// tell says why the role ended, and what comes next.
func (k *keeper) tell(e exit, v verdict, h *history) {
	why := e.String()
	reason, _ := k.log.reason()
	k.note(func(r *report.Role) { r.Reason = reason })
	if reason != "" {
		why += ": " + fault.Line(&fault.Fault{What: reason})
	}
	text := fmt.Sprintf("%s ended (%s); starting it again in %s", k.role.Name, why, v.delay)
	if n := len(h.crashes); n > 1 {
		text += fmt.Sprintf("; this is end %d within a minute, and %d stop everything", n, maxCrashes)
	}
	k.out.say(text, slog.LevelWarn, "role ended", "of", k.role.Name, "exit", e.String(), "reason", reason, "delay", v.delay.String())
}

// gaveUp is the fault of a role that can't be kept running.
func (k *keeper) gaveUp(why string, e exit) error {
	f := &fault.Fault{
		What: fmt.Sprintf("%s can't be kept running: %s (%s)", k.role.Name, why, e), Tail: k.log.last(), Key: "role-crashes",
		Do: "mend what it says, then start again with: bxctl up; more is in: bxctl logs " + k.role.Name,
	}
	if e.code == exitRefused {
		f.What = k.role.Name + " refused to start"
		f.Key = ""
	}
	reason, whole := k.log.reason()
	k.note(func(r *report.Role) { r.Reason = reason })
	if f.Means = reason; whole {
		f.Tail = nil
	}
	return f
}

// keepAll runs the roles until ctx ends or one of them gives up, then stops them in
// the reverse of their order, so that loopd can end its turns while the others
// still answer. It returns the reason of the role that gave up.
func keepAll(ctx context.Context, keepers []*keeper) error {
	var wg sync.WaitGroup
	fails := make(chan error, len(keepers))
	for _, k := range keepers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			k.run(func(err error) { fails <- err })
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-fails:
	}
	if len(keepers) > 0 {
		keepers[0].out.say("stopping", slog.LevelInfo, "stopping")
		keepers[0].board.change(func(u *report.Up) {
			u.State = "stopping"
			if err != nil {
				u.State, u.Reason = "failed", fault.Line(err)
			}
		})
	}
	for _, k := range slices.Backward(keepers) {
		if k.last != nil && k.board.runs(k.role.Name) {
			k.last()
		}
		close(k.stop)
		<-k.done
	}
	wg.Wait()
	return err
}

func newKeeper(r Role, dir, logs string, st *starter, b *board, out *console) (*keeper, error) {
	j, err := openJournal(r.Name, logs, r.Loud, out)
	if err != nil {
		return nil, err
	}
	return &keeper{role: r, dir: dir, log: j, start: st, board: b, out: out, stop: make(chan struct{}), done: make(chan struct{})}, nil
}
