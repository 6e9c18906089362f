package calls

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

// tell folds events and gives the effects as text.
func tell(t *testing.T, events ...Event) (State, string) {
	t.Helper()
	var s State
	var said []string
	for _, e := range events {
		next, effects, err := Next(s, e)
		if err != nil {
			t.Fatalf("%T: %v", e, err)
		}
		for _, f := range effects {
			said = append(said, strings.TrimPrefix(fmt.Sprintf("%T%v", f, f), "calls."))
		}
		s = next
	}
	return s, strings.ReplaceAll(strings.Join(said, " "), "{}", "")
}

func TestLives(t *testing.T) {
	allow, ask := Ruled{Verdict: proto.VerdictAllow}, Ruled{Verdict: proto.VerdictAsk}
	asked := []Event{Begun{}, ask, Held{}}
	stop := Cancelled{Code: proto.CodeStopped}
	for _, tc := range []struct {
		name   string
		events []Event
		phase  Phase
		want   string
	}{
		{"allowed", []Event{Begun{}, allow, Ran{}, Sealed{}, Stored{}, Recorded{}, Confirmed{}}, Gone, "Decide Run Seal Keep Record Publish Drop"},
		{"denied", []Event{Begun{}, Ruled{Verdict: proto.VerdictDeny}}, Ended, "Decide Publish"},
		{"approved", append(asked, Answered{proto.VerdictApproved}, Settled{Allowed: true}), Running, "Decide Hold Wait Settle{approved } Run"},
		{"approved, but the grant is gone", append(asked, Answered{proto.VerdictApproved}, Settled{}), Ended, "Decide Hold Wait Settle{approved } Publish"},
		{"denied by the owner", append(asked, Answered{proto.VerdictDenied}, Settled{}), Ended, "Decide Hold Wait Settle{denied } Publish"},
		{"with a preview", []Event{Begun{}, Ruled{Verdict: proto.VerdictAsk, Preview: true}, Previewed{}, Held{}}, Waiting, "Decide Preview Hold Wait"},
		{"stopped while decided", []Event{Begun{}, stop, allow, Stored{}, Recorded{}}, Ended, "Decide Make{denied stopped} Keep Record Publish"},
		{"stopped before it is asked", []Event{Begun{}, stop, ask, Settled{}}, Ended, "Decide Settle{withdrawn stopped} Publish"},
		{"stopped in its preview", []Event{Begun{}, Ruled{Verdict: proto.VerdictAsk, Preview: true}, stop, Previewed{}}, Settling, "Decide Preview Interrupt Settle{withdrawn stopped}"},
		{"stopped while held", []Event{Begun{}, ask, stop, Held{}}, Settling, "Decide Hold Settle{withdrawn stopped}"},
		{"stopped while it waits", append(asked, stop, Settled{}), Ended, "Decide Hold Wait Interrupt Settle{withdrawn stopped} Publish"},
		{"an answer after the stop", append(asked, stop, Answered{proto.VerdictApproved}, Settled{}), Ended, "Decide Hold Wait Interrupt Settle{withdrawn stopped} Publish"},
		{"stopped after the answer", append(asked, Answered{proto.VerdictApproved}, stop, Settled{Allowed: true}), Keeping, "Decide Hold Wait Settle{approved } Make{denied stopped} Keep"},
		{"halted while it runs", []Event{Begun{}, allow, Cancelled{proto.CodeHalted}, stop, Ran{}}, Sealing, "Decide Run Interrupt Seal"},
		{"stopped too late", []Event{Begun{}, allow, Ran{}, stop, Sealed{}, stop, Stored{}, stop, Recorded{}, stop}, Ended, "Decide Run Seal Keep Record Publish"},
		{"brokerd ends while it waits", append(asked, Ending{}, Answered{proto.VerdictApproved}), Parked, "Decide Hold Wait Interrupt"},
		{"brokerd ends while the question is made durable", []Event{Begun{}, Ruled{Verdict: proto.VerdictAsk}, Ending{}, Held{}}, Parked, "Decide Hold"},
		{"and the turn was stopped as well", []Event{Begun{}, Ruled{Verdict: proto.VerdictAsk}, Ending{}, Cancelled{proto.CodeStopped}, Held{}, Settled{}}, Ended, "Decide Hold Settle{withdrawn stopped} Publish"},
		{"brokerd ends while it runs", []Event{Begun{}, allow, Ending{}, Ran{}}, Sealing, "Decide Run Interrupt Seal"},
		{"brokerd ends before it runs", []Event{Begun{}, Ending{}, allow}, Keeping, "Decide Make{denied internal} Keep"},
		{"found", []Event{Found{}, Recorded{}}, Ended, "Record Publish"},
		{"lost", []Event{Lost{}, Stored{}, Recorded{}}, Ended, "Make{unknown unknown-fate} Keep Record Publish"},
		{"pending", []Event{Pending{}, Answered{proto.VerdictExpired}, Settled{}}, Ended, "Wait Settle{expired } Publish"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, got := tell(t, tc.events...)
			if s.Phase != tc.phase || got != tc.want {
				t.Errorf("phase %d, %s\nwant  %d, %s", s.Phase, got, tc.phase, tc.want)
			}
		})
	}
}

func TestWrongOrder(t *testing.T) {
	for _, e := range []Event{Ruled{Verdict: proto.VerdictAllow}, Ran{}, Settled{Allowed: true}, Answered{proto.VerdictApproved}, Confirmed{}, Stored{}} {
		if _, effects, err := Next(State{}, e); !errors.Is(err, ErrOrder) || effects != nil {
			t.Errorf("%T: %v %v", e, effects, err)
		}
	}
	if _, _, err := Next(State{Phase: Deciding}, Ruled{Verdict: proto.VerdictApproved}); !errors.Is(err, ErrOrder) {
		t.Errorf("a verdict that no grant gives: %v", err)
	}
}

// Whatever comes: one decision, at most one run, a run only once it was allowed,
// and one result in the end.
func TestAlwaysOneEndAndNeverTwoRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SampledFrom([]Event{
			Begun{},
			Ruled{Verdict: proto.VerdictAllow},
			Ruled{Verdict: proto.VerdictAsk},
			Ruled{Verdict: proto.VerdictAsk, Preview: true},
			Ruled{Verdict: proto.VerdictDeny},
			Previewed{},
			Held{},
			Answered{proto.VerdictApproved},
			Answered{proto.VerdictDenied},
			Settled{Allowed: true},
			Settled{},
			Ran{},
			Sealed{},
			Stored{},
			Recorded{},
			Confirmed{},
			Found{},
			Lost{},
			Pending{},
			Cancelled{proto.CodeStopped},
			Cancelled{proto.CodeHalted},
			Ending{},
		})
		var s State
		count := map[string]int{}
		allowed := false
		step := func(e Event) {
			next, effects, err := Next(s, e)
			if err != nil {
				if next != s || effects != nil {
					t.Fatalf("%T was refused and changed something", e)
				}
				return
			}
			switch e := e.(type) {
			case Ruled:
				allowed = allowed || e.Verdict == proto.VerdictAllow
			case Settled:
				allowed = allowed || e.Allowed
			}
			for _, f := range effects {
				name := fmt.Sprintf("%T", f)
				count[name]++
				if _, run := f.(Run); run && (!allowed || s.Stop != "") {
					t.Fatalf("%T led to a run", e)
				}
			}
			s = next
		}
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			step(all.Draw(t, "event"))
		}
		// From anywhere, the answers to the effects lead to the end.
		for range 12 {
			switch s.Phase {
			case Fresh:
				step(Begun{})
			case Deciding:
				step(Ruled{Verdict: proto.VerdictAllow})
			case Previewing:
				step(Previewed{})
			case Holding:
				step(Held{})
			case Waiting:
				step(Answered{proto.VerdictExpired})
			case Settling:
				step(Settled{})
			case Running:
				step(Ran{})
			case Sealing:
				step(Sealed{})
			case Keeping:
				step(Stored{})
			case Recording:
				step(Recorded{})
			}
		}
		if s.Phase != Ended && s.Phase != Gone && s.Phase != Parked {
			t.Fatalf("the call stays in phase %d", s.Phase)
		}
		for name, most := range map[string]int{"calls.Run": 1, "calls.Decide": 1, "calls.Publish": 1, "calls.Keep": 1, "calls.Record": 1, "calls.Settle": 1, "calls.Drop": 1} {
			if count[name] > most {
				t.Fatalf("%s %d times", name, count[name])
			}
		}
		if s.Phase != Parked && count["calls.Publish"] != 1 {
			t.Fatalf("published %d times", count["calls.Publish"])
		}
	})
}
