package driver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
	"boxmaker/internal/strict"
)

// TestAReportFitsItsRecord: whatever egressd tells, the outcome goes on record,
// with a number for what does not stand in it.
func TestAReportFitsItsRecord(t *testing.T) {
	one := proto.EgressConn{Host: "a.example:443", Verdict: proto.EgressPassed}
	long := proto.EgressConn{Host: strings.Repeat("\x01", 1<<20), Address: strings.Repeat("\x01", 1<<20), Verdict: proto.EgressPassed}
	for _, tc := range []struct {
		name string
		rows []proto.EgressConn
		more int64
		want int64
	}{
		{"few", []proto.EgressConn{one}, 0, 0},
		{"as many as are listed", slices.Repeat([]proto.EgressConn{one}, 256), 3, 3},
		{"many", slices.Repeat([]proto.EgressConn{one}, 20_000), 7, 20_000 - 256 + 7},
		{"long", slices.Repeat([]proto.EgressConn{long}, 300), 0, 44},
		{"a number that is at its end", slices.Repeat([]proto.EgressConn{one}, 300), math.MaxInt64, math.MaxInt64},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := setUp(t)
			w.grant("30-fetch.toml", grantFetch)
			w.doors.report, w.doors.more = tc.rows, tc.more
			if r := w.call(fetch("s/1/1/0")); r.Outcome != proto.CallOK {
				t.Fatalf("%+v", r)
			}
			records := w.records()
			o, ok := records[len(records)-1].(*proto.AuditOutcome)
			if !ok || len(o.Egress) != min(len(tc.rows), 256) || o.More != tc.want {
				t.Fatalf("%d connections, %d more", len(o.Egress), o.More)
			}
			if b, err := strict.Marshal(o); err != nil || len(b) > appendlog.MaxRecord/2 || len(b) > frame.MaxBytes {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
}

// TestNumbersThatAProgramMadeUp: a program can write over what the first process
// of its container says. It must not end brokerd by that.
func TestNumbersThatAProgramMadeUp(t *testing.T) {
	w := setUp(t)
	for i, n := range []int64{math.MaxInt64, math.MinInt64, -1} {
		w.runner.set(func(context.Context, policy.Spec) (Ran, error) {
			r := said(strings.Repeat("x", 1<<20))
			r.Output.Dropped, r.Ended.Dropped = n, n
			return r, nil
		})
		if r := w.call(read(fmt.Sprintf("s/1/%d/0", i+1), "/data/a")); r.Outcome != proto.CallOK || r.Dropped < 1<<19 {
			t.Errorf("%d: %v, %d dropped", n, r.Outcome, r.Dropped)
		}
	}
}

// TestALostReportIsOnRecord: no connections, and nobody knows, are not the same.
func TestALostReportIsOnRecord(t *testing.T) {
	w := setUp(t)
	w.grant("30-fetch.toml", grantFetch)
	w.doors.lost = errors.New("egressd is gone with hunter2-hunter2")
	if r := w.call(fetch("s/1/1/0")); r.Outcome != proto.CallOK {
		t.Fatalf("%+v", r)
	}
	records := w.records()
	o, _ := records[len(records)-1].(*proto.AuditOutcome)
	if o == nil || o.Detail != "what passed over the network is not known: egressd is gone with [secret token]" {
		t.Errorf("%+v", o)
	}
}
