package boot

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxmaker/brokerd/internal/approval"
)

// Clock is the machine's. It must be made before the process is confined.
func Clock() (approval.Clock, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return approval.Clock{}, fmt.Errorf("the id of this boot cannot be read: %w", err)
	}
	boot := strings.TrimSpace(string(id))
	return approval.Clock{Now: time.Now, Boot: func() (string, time.Duration) {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			return "", 0 // no kernel that Go runs on is without it
		}
		return boot, time.Duration(ts.Nano())
	}}, nil
}

// forward gives the time that grants expire by: the owner's clock, but never less
// than it was at the start and what has passed since, also while the machine slept.
// So a clock that is set back while brokerd runs, by whoever answers for the time
// over the network, say, brings no grant back. A clock that was ahead for a while is
// forgotten when it is set right; one that was ahead at the start counts until the
// next.
func forward(c approval.Clock) func() time.Time {
	start := c.Now()
	_, began := c.Boot()
	return func() time.Time {
		_, at := c.Boot()
		now, least := c.Now(), start.Round(0).Add(at-began) // by the wall's clock alone
		if now.Before(least) {
			return least
		}
		return now
	}
}
