// Package calls is the life of a tool call in brokerd: a pure state machine,
// the fold of the audit log that says which calls there were, and the results
// that are kept until loopd has them.
//
// [Next] guarantees, whatever comes in whatever order, that a call is decided
// once, that it runs at most once and only after a decision or an approval
// allowed it, and that each call that was decided comes to one end. It does no
// I/O and knows no clock: a driver carries out the effects, one at a time, and
// tells what came of each.
package calls

import (
	"errors"
	"fmt"

	"boxmaker/internal/proto"
)

// ErrOrder reports an event that cannot come now.
var ErrOrder = errors.New("calls: event out of order")

// Phase says which effect is under way.
type Phase int

// Phases.
const (
	Fresh      Phase = iota
	Deciding         // grants are asked; the decision goes on record
	Previewing       // a container finds out what a write would change
	Holding          // the approval is made durable
	Waiting          // for the owner
	Settling         // the end of the approval goes on record, and grants are asked again
	Running          // in its container
	Sealing          // secrets are taken out of the result, and the session's taint raised
	Keeping          // the result is made durable
	Recording        // the outcome goes on record
	Ended            // there is a result
	Gone             // and loopd has it
	Parked           // brokerd ends; the approval waits on after the next start
)

// State is where a call stands. The zero value is one that just came.
type State struct {
	Phase Phase
	// Stop is why the call shall end early: stopped, halted, or unknown-fate if
	// brokerd itself ends. Empty: it shall not.
	Stop proto.Code
	// Ending: brokerd itself ends, and the question that is being made durable
	// waits for its next start.
	Ending bool
}

// Next folds one event into the state of a call and says what to do.
func Next(s State, e Event) (State, []Effect, error) {
	switch e := e.(type) {
	case Cancelled:
		return s.stop(e.Code)
	case Ending:
		switch s.Phase {
		case Waiting:
			s.Phase = Parked
			return s, []Effect{Interrupt{}}, nil
		case Holding:
			s.Ending = true
			return s, nil, nil
		default:
			return s.stop(proto.CodeUnknownFate)
		}
	}
	if _, late := e.(Answered); s.Phase == Parked || late && s.Stop != "" {
		return s, nil, nil // the next start goes on; an answer that came too late
	}
	next, effects := s.follow(e)
	if effects == nil {
		return s, nil, fmt.Errorf("%w: %T in phase %d", ErrOrder, e, s.Phase)
	}
	return next, effects, nil
}

// follow gives no effects for an event that cannot come now.
func (s State) follow(e Event) (State, []Effect) {
	to := func(p Phase, effects ...Effect) (State, []Effect) {
		s.Phase = p
		return s, effects
	}
	switch e := e.(type) {
	case Begun:
		if s.Phase == Fresh {
			return to(Deciding, Decide{})
		}
	case Found:
		if s.Phase == Fresh {
			return to(Recording, Record{})
		}
	case Lost:
		if s.Phase == Fresh {
			return to(Keeping, Make{Outcome: proto.CallUnknown, Code: proto.CodeUnknownFate}, Keep{})
		}
	case Pending:
		if s.Phase == Fresh {
			return to(Waiting, Wait{})
		}
	case Ruled:
		if s.Phase == Deciding {
			return s.ruled(e)
		}
	case Previewed:
		if s.Phase == Previewing {
			return s.orWithdraw(Holding, Hold{})
		}
	case Held:
		if s.Phase == Holding && s.Ending && s.Stop == "" {
			s.Phase = Parked
			return s, []Effect{}
		}
		if s.Phase == Holding {
			return s.orWithdraw(Waiting, Wait{})
		}
	case Answered:
		if s.Phase == Waiting {
			return to(Settling, Settle{Verdict: e.Verdict})
		}
	case Settled:
		switch {
		case s.Phase == Settling && e.Allowed:
			return s.run()
		case s.Phase == Settling:
			return to(Ended, Publish{})
		}
	case Ran:
		if s.Phase == Running {
			return to(Sealing, Seal{})
		}
	case Sealed:
		if s.Phase == Sealing {
			return to(Keeping, Keep{})
		}
	case Stored:
		if s.Phase == Keeping {
			return to(Recording, Record{})
		}
	case Recorded:
		if s.Phase == Recording {
			return to(Ended, Publish{})
		}
	case Confirmed:
		if s.Phase == Ended {
			return to(Gone, Drop{})
		}
	}
	return s, nil
}

func (s State) ruled(e Ruled) (State, []Effect) {
	switch e.Verdict {
	case proto.VerdictAllow:
		return s.run()
	case proto.VerdictAsk:
		if e.Preview {
			return s.orWithdraw(Previewing, Preview{})
		}
		return s.orWithdraw(Holding, Hold{})
	case proto.VerdictDeny:
		s.Phase = Ended
		return s, []Effect{Publish{}}
	default:
		return s, nil
	}
}

// run starts an allowed call, unless it shall not run any more.
func (s State) run() (State, []Effect) {
	if s.Stop != "" {
		s.Phase = Keeping
		return s, []Effect{Make{Outcome: proto.CallDenied, Code: s.notRun()}, Keep{}}
	}
	s.Phase = Running
	return s, []Effect{Run{}}
}

// orWithdraw goes on with an approval, unless nobody wants it any more.
func (s State) orWithdraw(p Phase, e Effect) (State, []Effect) {
	if s.Stop != "" {
		s.Phase = Settling
		return s, []Effect{Settle{Verdict: proto.VerdictWithdrawn, Code: s.notRun()}}
	}
	s.Phase = p
	return s, []Effect{e}
}

// notRun is the code of a call that was stopped before it ran.
func (s State) notRun() proto.Code {
	if s.Stop == proto.CodeUnknownFate { // but its fate is known: it did not run
		return proto.CodeInternal
	}
	return s.Stop
}

// stop notes that the call shall end. What cannot be stopped any more goes on.
func (s State) stop(code proto.Code) (State, []Effect, error) {
	if s.Stop != "" {
		return s, nil, nil
	}
	switch s.Phase {
	case Fresh, Sealing, Keeping, Recording, Ended, Gone, Parked:
		return s, nil, nil
	case Deciding, Holding, Settling:
		s.Stop = code
		return s, nil, nil
	case Previewing, Running:
		s.Stop = code
		return s, []Effect{Interrupt{}}, nil
	case Waiting:
		s.Stop, s.Phase = code, Settling
		return s, []Effect{Interrupt{}, Settle{Verdict: proto.VerdictWithdrawn, Code: s.notRun()}}, nil
	default:
		return s, nil, fmt.Errorf("calls: no rule for a stop in phase %d", s.Phase)
	}
}
