package boot

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/internal/proto"
)

// TestASlowTrialIsWaitedFor: a machine on which the first containers take their
// time gets its tools in the end; until then the row says that nothing is known.
func TestASlowTrialIsWaitedFor(t *testing.T) {
	for _, tc := range []struct {
		name  string
		look  Look
		state string
	}{
		{"runner", runnerLook("x.sock"), "ok"},
		{"another", Look{Name: "another"}, "failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.look.Ask = func(ctx context.Context) []proto.Check {
					select {
					case <-time.After(time.Minute):
						return []proto.Check{{Name: tc.name, State: "ok"}}
					case <-ctx.Done():
						return failed(tc.name, ctx.Err(), "runnerd-away")
					}
				}
				h := newHealth([]Look{tc.look}, time.Now)
				if rows := h.checks(); len(rows) != 1 || rows[0].State != "pending" {
					t.Errorf("%+v", rows)
				}
				h.look(t.Context(), 0)
				if rows := h.checks(); len(rows) != 1 || rows[0].State != tc.state {
					t.Errorf("%+v", rows)
				}
			})
		})
	}
}
