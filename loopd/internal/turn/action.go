package turn

import (
	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"
)

// Pending is one call of the newest assistant message.
type Pending struct {
	ID      proto.CallID
	Call    prompt.Call
	verdict verdict
}

// An Action is what [Next] wants done.
type Action interface{ action() }

type (
	// Rest: nothing to do until a user record comes.
	Rest struct{}
	// Infer: send the request. Again is set if it was sent before and failed.
	Infer struct{ Again bool }
	// Run: carry out a call and append its Tool record.
	Run struct{ Pending Pending }
	// Refuse: append a Tool record that tells the model why the call was not run.
	Refuse struct {
		Pending Pending
		Code    proto.Code
		Text    string
		Begun   bool // the stop came when it was this call's turn: a driver that was restarted may have sent it
	}
	// End: append this record.
	End struct{ Record proto.TurnEnd }
)

func (Rest) action()   {}
func (Infer) action()  {}
func (Run) action()    {}
func (Refuse) action() {}
func (End) action()    {}
