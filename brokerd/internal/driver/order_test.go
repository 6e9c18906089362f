package driver

import (
	"context"
	"fmt"
	"testing"
)

// Calls of one session that come at once may be decided in another order than
// that in which they were let in. The next start must take such a log.
func TestCallsAtOnceLeaveALogThatCanBeRead(t *testing.T) {
	w := setUp(t)
	for round := range 40 {
		var all []*entry
		for i := range 4 {
			e, fresh, r, err := w.d.admit(read(fmt.Sprintf("s/1/%d/%d", round+1, i), "/data/a"))
			if err != nil || r != nil || !fresh {
				t.Fatal(r, err)
			}
			all = append(all, e)
			go w.d.lead(e)
		}
		for _, e := range all {
			if _, err := e.wait(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	w.start()
}
