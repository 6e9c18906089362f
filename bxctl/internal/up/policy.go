package up

import (
	"fmt"
	"syscall"
	"time"
)

const (
	firstDelay = 200 * time.Millisecond
	longDelay  = 10 * time.Second
	settled    = 10 * time.Second // a role that lived so long starts at firstDelay again
	window     = time.Minute
	maxCrashes = 5 // in window
	// exitRefused (EX_CONFIG) says that starting again can't help.
	exitRefused = 78
)

// An exit is how a process ended.
type exit struct {
	code   int // -1 if by a signal
	signal syscall.Signal
	err    error // it could not even be started
}

func (e exit) String() string {
	switch {
	case e.err != nil:
		return e.err.Error()
	case e.code < 0:
		return fmt.Sprintf("killed by signal %d (%s)", int(e.signal), e.signal)
	default:
		return fmt.Sprintf("exit code %d", e.code)
	}
}

// A verdict is what to do about an exit.
type verdict struct {
	delay time.Duration // until the next start
	stop  string        // why everything is to stop instead; empty: go on
}

// A history remembers how often one role ended.
type history struct {
	crashes []time.Time // in the window
	streak  int         // short lives in a row
}

// ended takes an exit that nobody asked for. Five crashes in a minute are
// reason to stop. A SIGKILL comes from outside (the owner, the kernel's memory
// killer), so it is no crash of the program: it only slows the next start if
// the life before was short.
func (h *history) ended(now time.Time, lived time.Duration, e exit) verdict {
	killed := e.code < 0 && e.signal == syscall.SIGKILL
	switch {
	case e.code == exitRefused:
		return verdict{stop: "it refused to start: something has to be changed first"}
	case lived >= settled || killed && lived >= time.Second:
		h.streak = 0
	default:
		h.streak++
	}
	if !killed {
		kept := h.crashes[:0]
		for _, t := range h.crashes {
			if now.Sub(t) < window {
				kept = append(kept, t)
			}
		}
		if h.crashes = append(kept, now); len(h.crashes) >= maxCrashes {
			return verdict{stop: fmt.Sprintf("it ended %d times within a minute", len(h.crashes))}
		}
	}
	delay := firstDelay
	for range max(h.streak-1, 0) {
		delay = min(2*delay, longDelay)
	}
	return verdict{delay: delay}
}
