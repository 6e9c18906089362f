package up

import (
	"context"
	"strings"
	"time"

	"boxmaker/bxctl/internal/loop"
)

const (
	lookOften  = 15 * time.Millisecond
	lookSeldom = 500 * time.Millisecond
)

// Await returns when loopd is ready, or with the error of ctx. Each new state
// on the way is told, in words.
func Await(ctx context.Context, c loop.Client, tell func(state string)) error {
	last := ""
	for pause := lookOften; ; pause = min(pause*11/10, lookSeldom) {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		st, err := c.Status(short)
		cancel()
		if err == nil {
			if st.State == "ready" {
				return nil
			}
			if state := strings.TrimSuffix(st.State+": "+st.Detail, ": "); state != last && st.State != "starting" {
				last = state
				tell(state)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
