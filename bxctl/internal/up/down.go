package up

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/config"

	"golang.org/x/sys/unix"
)

// downGrace is how long up may take to stop everything: the graces of its
// roles and some.
const downGrace = 20 * time.Second

// Down ends the up that runs for a home and tells in a line what it stopped.
func Down(ctx context.Context, l config.Layout, now time.Time) (string, error) {
	pid, err := Holder(l)
	switch {
	case err != nil:
		return "", broken("look at run/up.lock", err)
	case pid == 0 && RunBySystemd(l):
		return "", &fault.Fault{
			What: "systemd runs Boxmaker here, not bxctl up", Do: "stop it with: " + Systemctl() + " stop " + Target, Key: "run-by-systemd",
		}
	case pid == 0:
		return "", loop.NotRunning(nil)
	case pid < 0:
		return "", &fault.Fault{
			What: "Boxmaker runs where this bxctl can't reach it", Means: "the lock is held in another container",
			Do: "end it there", Key: "down-elsewhere",
		}
	}
	was, _ := State(l) // only for the words
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return "", broken("reach the process of the running up", err)
	}
	defer unix.Close(fd)
	if again, err := Holder(l); err != nil || again != pid { // the descriptor is the holder's
		return "", loop.NotRunning(nil)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil {
		return "", &fault.Fault{
			What: fmt.Sprintf("the running up (pid %d) can't be signalled", pid), Err: err,
			Do: "run bxctl down as the user that ran bxctl up", Key: "down-refused",
		}
	}
	forced := ""
	if !gone(ctx, fd, downGrace) {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		if !gone(ctx, fd, 5*time.Second) {
			return "", &fault.Fault{
				What: fmt.Sprintf("the running up (pid %d) does not end", pid), Err: errors.New("not even killed"),
				Means: "it hangs in the kernel, most often in a disk or a device", Do: "look at the machine's log", Key: "down-refused",
			}
		}
		forced = " It had to be killed."
	}
	return stopped(pid, was, now) + forced, nil
}

// awaitEnding waits for the end of an up that is on its way out. It reports
// whether there was one.
func awaitEnding(ctx context.Context, l config.Layout) bool {
	pid, err := Holder(l)
	if err != nil || pid <= 0 {
		return false
	}
	state, _ := State(l)
	ends := state != nil && state.PID == pid && state.State != "running"
	if !ends && !dying(pid) {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	return gone(ctx, fd, downGrace)
}

// gone waits for the end of a process, in steps so that ctx can end the wait.
func gone(ctx context.Context, fd int, limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end) && ctx.Err() == nil; {
		if waitGone(fd, 100*time.Millisecond) {
			return true
		}
	}
	return false
}

func stopped(pid int, was *report.Up, now time.Time) string {
	if was == nil || was.PID != pid {
		return fmt.Sprintf("Stopped Boxmaker (pid %d).", pid)
	}
	var names []string
	for _, r := range was.Roles {
		if r.PID != 0 {
			names = append(names, r.Name)
		}
	}
	return fmt.Sprintf("Stopped Boxmaker (pid %d, up for %s): %s.", pid, term.Span(now.Sub(was.Since)), strings.Join(names, ", "))
}

// Inspect gives the state of the running up; nil if none runs. Of an up that
// failed, last holds the reason.
func Inspect(l config.Layout) (state *report.Up, last string, err error) {
	pid, err := Holder(l)
	if err != nil {
		return nil, "", broken("look at run/up.lock", err)
	}
	state, err = State(l)
	if err != nil {
		return nil, "", broken("read run/up.json", err)
	}
	if pid == 0 {
		if state != nil && state.State == "failed" {
			last = state.Reason
		}
		return nil, last, nil
	}
	return state, "", nil
}
