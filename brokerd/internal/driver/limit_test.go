package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/internal/proto"
)

// TestAFloodOfDenials: a loopd in other hands fills neither the log nor the
// memory; the owner reads that it happened, and how often; and other sessions
// go on.
func TestAFloodOfDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		w.limits.Rate = 6 // a minute; 60 at once, of which one session has half
		w.grant("10-read.toml", grantRead)
		w.start()
		busy := 0
		n := 0
		flood := func(session string, calls, args int) {
			for range calls {
				n++
				c := read(fmt.Sprintf("%s/1/%d/0", session, n), "/etc/a"+strings.Repeat("x", args))
				r, err := w.d.Call(context.Background(), c, nil)
				var e *proto.Error
				switch {
				case err == nil && (r.Code == proto.CodeNoGrant || r.Code == proto.CodeInvalidArguments):
				case errors.As(err, &e) && e.Code == proto.ErrNotReady && e.Runbook == "brokerd-busy":
					busy++
				default:
					t.Fatal(r, err)
				}
			}
		}
		flood("bad", 1000, 0)
		if got := strings.Count(w.story(), "decision deny"); got > 30 || busy != 1000-got {
			t.Errorf("%d denials on record, %d were refused", got, busy)
		}
		if r := w.call(read("good/1/1/0", "/data/a")); r.Outcome != proto.CallOK {
			t.Errorf("another session: %+v", r)
		}
		time.Sleep(10 * time.Second) // of the bubble: half a call more for the bad one
		flood("bad", 1000, 0)
		flood("worse", 20, 200_000) // few and long are many too
		time.Sleep(2 * time.Minute)
		flood("bad", 5, 0)
		w.end()
		var refused int64
		records, denials := 0, 0
		for _, r := range w.records() {
			switch r := r.(type) {
			case *proto.AuditLimited:
				records++
				refused += r.Refused
			case *proto.AuditDecision:
				denials++
			}
		}
		if refused != int64(busy) || records > 3 || denials > 60 {
			t.Errorf("%d records count %d refused calls, and there were %d; %d decisions", records, refused, busy, denials)
		}
		if fi, err := os.ReadDir(w.dir + "/audit"); err != nil || len(fi) == 0 {
			t.Error(fi, err)
		}
	})
}

// A replayed id is a record too, and counts as one.
func TestAFloodOfReplays(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.limits.Rate = 2
	w.grant("10-read.toml", grantRead)
	w.start()
	defer w.end()
	w.call(read("s/2/1/0", "/etc/x"))
	for range 500 {
		_, _ = w.d.Call(context.Background(), read("s/1/1/0", "/etc/y"), nil)
	}
	if got := strings.Count(w.story(), "decision"); got > 12 {
		t.Errorf("%d records", got)
	}
}

// A call that was refused for its rate can be made later with the id
// that it has.
func TestARefusedIDIsNotUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		w.limits.Rate = 2
		w.grant("10-read.toml", grantRead)
		w.start()
		defer w.end()
		id := ""
		for n := 1; id == ""; n++ {
			next := fmt.Sprintf("s/1/%d/0", n)
			if _, err := w.d.Call(context.Background(), read(next, "/data/a"), nil); err != nil {
				id = next
			}
		}
		time.Sleep(2 * time.Minute)
		if r := w.call(read(id, "/data/a")); r.Outcome != proto.CallOK || w.runner.count(id) != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// TestARestoredSession: its numbers lie behind those of the log. It gets nothing
// run, and the text says what happened and what to do.
func TestARestoredSession(t *testing.T) {
	w := setUp(t)
	w.call(read("s/5/1/0", "/data/a"))
	for _, tc := range []struct{ id, want string }{
		{"s/2/9/0", "begin a new session (runbook: session-replayed)"},
		{"s/5/0/0", "begin a new session (runbook: session-replayed)"}, // a restart alone begins no epoch
	} {
		r := w.call(read(tc.id, "/data/a"))
		if r.Code != proto.CodeReplayedCall || !strings.HasPrefix(r.Text, "replayed-call: ") || !strings.Contains(r.Text, tc.want) || w.runner.count(tc.id) != 0 {
			t.Errorf("%s: %+v", tc.id, r)
		}
	}
	for _, id := range []string{"t/1/1/0", "t/1/2/0"} { // burnt ones, of a session that is well
		_, _ = w.d.Fate(t.Context(), id)
		if r := w.call(read(id, "/data/a")); r.Code != proto.CodeReplayedCall || strings.Contains(r.Text, "backup") {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if r := w.call(read("s/6/1/0", "/data/a")); r.Outcome != proto.CallOK {
		t.Errorf("a later one: %+v", r)
	}
}

// TestOldResultsMakeRoom: what nobody takes does not stop all tools for ever. Who
// asks for one that was dropped hears that nobody knows, and it never runs again.
func TestOldResultsMakeRoom(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.limits.Kept.Count = 2
	w.grant("10-read.toml", grantRead)
	w.start()
	for i := range 2 {
		w.call(read(fmt.Sprintf("gone/1/%d/0", i+1), "/data/a"))
	}
	w.end()
	w.start() // what was there before this start is not young
	defer w.end()
	if r := w.call(read("s/1/1/0", "/data/a")); r.Outcome != proto.CallOK {
		t.Fatalf("%+v", r)
	}
	m, err := w.d.Fate(t.Context(), "gone/1/1/0")
	if u, ok := m.(*proto.Unknown); err != nil || !ok || u.Never {
		t.Errorf("%+v %v", m, err)
	}
	if m, err := w.d.Fate(t.Context(), "gone/1/2/0"); err != nil || m.(*proto.CallResult).Text != "done" {
		t.Errorf("the newer one: %+v %v", m, err)
	}
	if r := w.call(read("gone/1/1/0", "/data/a")); r.Code != proto.CodeReplayedCall || w.runner.count("gone/1/1/0") != 1 {
		t.Errorf("%+v", r)
	}
}
