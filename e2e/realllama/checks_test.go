package realllama

import (
	"bytes"
	"slices"
	"testing"

	"boxmaker/internal/proto"
)

// wantExtensions checks that each request strictly extends the one before, byte
// for byte, and that the log holds the messages of the last one.
func wantExtensions(t *testing.T, h *house, session string, xs []exchange) {
	t.Helper()
	for i := 1; i < len(xs); i++ {
		a, b := xs[i-1].Body, xs[i].Body
		if bytes.Equal(a, b) {
			continue // the same request once more
		}
		head, ok := bytes.CutSuffix(a, []byte("]}"))
		if !ok || !bytes.HasPrefix(b, append(bytes.Clone(head), ',')) || !bytes.HasSuffix(b, []byte("]}")) {
			at := 0
			for at < min(len(a), len(b)) && a[at] == b[at] {
				at++
			}
			t.Errorf("request %d of %s does not extend the one before: they part at byte %d of %d:\n%.200q\n%.200q", i, session, at, len(a), a[at:], b[at:])
		}
	}
	if len(xs) == 0 {
		return
	}
	last := bytes.TrimSuffix(xs[len(xs)-1].Body, []byte("]}"))
	if i := bytes.Index(last, []byte(`"messages":[`)); !bytes.HasPrefix(h.log(session).Messages(), last[i+len(`"messages":[`):]) {
		t.Errorf("the log of %s does not hold the messages that were sent", session)
	}
}

// wantExactCache checks that each request took from the cache all that the one
// before had left there, which is the most that is possible.
func wantExactCache(t *testing.T, xs []exchange) {
	t.Helper()
	for i, x := range xs {
		if x.Stream.Timings == nil {
			t.Fatalf("request %d has no timings: %+v", i, x.Stream)
		}
		if i > 0 {
			wantExact(t, *xs[i-1].Stream.Timings, &x.Stream)
		}
	}
}

// wantFigures checks that the log has the server's figures.
func wantFigures(t *testing.T, h *house, session string, xs []exchange) {
	t.Helper()
	var got, want []timings
	for _, r := range records[*proto.Completion](h, session) {
		got = append(got, timings{int(r.CacheN), int(r.PromptN), int(r.PredictedN)})
	}
	for _, x := range xs {
		if x.Stream.Timings != nil {
			want = append(want, *x.Stream.Timings)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("figures in the log of %s: %v, want %v", session, got, want)
	}
}

// wantUsable checks that a session goes on after a fault: the next turn is
// answered, its request extends the ones before, and the log is in order.
func wantUsable(t *testing.T, h *house, d *desk, session string) {
	t.Helper()
	if d.server.model.tiny() {
		d.say(0, "bye")
	}
	o := h.turn(session, "Are you still there?", proto.TurnAnswered)
	if d.server.model.tiny() && o.Done.Answer != replies()["bye"].say {
		t.Errorf("answer %q", o.Done.Answer)
	}
	wantExtensions(t, h, session, d.exchanges(0))
	ends := records[*proto.TurnEnd](h, session)
	users := records[*proto.User](h, session)
	if len(ends) != len(users) || ends[len(ends)-1].Outcome != proto.TurnAnswered {
		t.Errorf("%d turns began, %d ended", len(users), len(ends))
	}
}
