package boot

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/internal/proto"
)

// A clock that is set while brokerd runs brings no grant back and takes none away:
// what has passed has passed.
func TestAGrantThatHasExpiredStaysSo(t *testing.T) {
	const hour = int64(time.Hour)
	var wall, boot atomic.Int64
	noon := time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)
	h := newHouse(t)
	h.clock = &approval.Clock{
		Now:  func() time.Time { return noon.Add(time.Duration(wall.Load())) },
		Boot: func() (string, time.Duration) { return "boot", time.Duration(boot.Load()) },
	}
	h.grant("10-read.toml", "tool = \"read_file\"\nmode = \"auto\"\nexpires = 2026-12-02T13:00:00Z\n[paths]\nread = [\"/data\"]\n")
	n := 0
	allows := func(when string, want bool) {
		t.Helper()
		n++
		m, err := h.broker(call(fmt.Sprintf("s/1/%d/0", n), "read_file", `{"path":"/data/a"}`))
		h.try(err)
		if got := m.(*proto.CallResult).Outcome == proto.CallOK; got != want {
			t.Errorf("%s: %+v", when, m)
		}
		e := owner[*proto.Explained](h, &proto.Explain{Tool: "read_file", Args: `{"path":"/data/a"}`})
		if got := e.Verdict == proto.VerdictAllow; got != want {
			t.Errorf("%s, as the owner is told: %+v", when, e)
		}
		m, err = h.broker(&proto.FindTools{Session: "s", Query: "read a file"})
		h.try(err)
		if got := m.(*proto.ToolList).Tools; (len(got) > 0 && got[0].Name == "read_file") != want {
			t.Errorf("%s, to be found: %+v", when, got)
		}
	}
	h.start()
	allows("at first", true)
	wall.Store(2 * hour) // the clock alone
	allows("the clock was set ahead", false)
	wall.Store(0)
	allows("the clock was set right", true)
	boot.Store(2 * hour)
	wall.Store(2 * hour)
	allows("two hours later", false)
	wall.Store(0)
	allows("the clock was set back", false)
	wall.Store(-2 * hour)
	allows("and further", false)
}
