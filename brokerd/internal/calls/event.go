package calls

import "boxmaker/internal/proto"

// An Event is what happened to a call.
type Event interface{ event() }

// Events. Each effect but Interrupt, Publish and Drop is answered by one.
type (
	// Begun: a call came that was never seen before.
	Begun struct{}
	// Ruled: the decision is on record.
	Ruled struct {
		Verdict proto.Verdict // allow, ask, deny
		Preview bool          // there is something to preview
	}
	// Previewed: the preview has ended, well or not.
	Previewed struct{}
	// Held: the approval is durable.
	Held struct{}
	// Answered: the wait for the owner has ended.
	Answered struct{ Verdict proto.Verdict }
	// Settled: the end of the approval is on record.
	Settled struct{ Allowed bool }
	// Ran: the container has ended, or never started.
	Ran struct{}
	// Sealed: the result may leave.
	Sealed struct{}
	// Stored: the result is durable.
	Stored struct{}
	// Recorded: the outcome is on record.
	Recorded struct{}
	// Confirmed: loopd has logged the result.
	Confirmed struct{}

	// Cancelled: the owner stopped the turn (stopped) or everything (halted).
	Cancelled struct{ Code proto.Code }
	// Ending: brokerd is told to end.
	Ending struct{}

	// Found, Lost and Pending are what a start makes of a call that the audit
	// log has no end of: its result was kept; nothing is known; its approval
	// waits.
	Found   struct{}
	Lost    struct{}
	Pending struct{}
)

// An Effect is what the driver shall do now.
type Effect interface{ effect() }

// Effects.
type (
	// Decide asks the grants.
	Decide struct{}
	// Preview runs the preview that the decision allowed.
	Preview struct{}
	// Hold makes the approval durable.
	Hold struct{}
	// Wait waits for the owner, or the expiry.
	Wait struct{}
	// Settle puts the end of the approval on record. Code says why it was
	// withdrawn.
	Settle struct {
		Verdict proto.Verdict
		Code    proto.Code
	}
	// Run runs the call.
	Run struct{}
	// Interrupt ends the effect that is under way.
	Interrupt struct{}
	// Make makes the result of a call that did not run, or perhaps ran.
	Make struct {
		Outcome proto.CallOutcome
		Code    proto.Code
	}
	// Seal makes the result fit to leave.
	Seal struct{}
	// Keep makes the result durable.
	Keep struct{}
	// Record puts the outcome on record.
	Record struct{}
	// Publish gives the result to those who wait.
	Publish struct{}
	// Drop forgets the kept result.
	Drop struct{}
)

func (Begun) event()     {}
func (Ruled) event()     {}
func (Previewed) event() {}
func (Held) event()      {}
func (Answered) event()  {}
func (Settled) event()   {}
func (Ran) event()       {}
func (Sealed) event()    {}
func (Stored) event()    {}
func (Recorded) event()  {}
func (Confirmed) event() {}
func (Cancelled) event() {}
func (Ending) event()    {}
func (Found) event()     {}
func (Lost) event()      {}
func (Pending) event()   {}

func (Decide) effect()    {}
func (Preview) effect()   {}
func (Hold) effect()      {}
func (Wait) effect()      {}
func (Settle) effect()    {}
func (Run) effect()       {}
func (Interrupt) effect() {}
func (Make) effect()      {}
func (Seal) effect()      {}
func (Keep) effect()      {}
func (Record) effect()    {}
func (Publish) effect()   {}
func (Drop) effect()      {}
