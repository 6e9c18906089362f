// Package turn is the state machine of one session's turns.
//
// It is pure: [Next] folds one log record into the state and says what to do
// next. The same fold runs live and at start-up, so a turn that a crash cut off
// goes on exactly where its log ends. The package guarantees that every turn
// that starts is followed to an end, that each call of the model gets exactly
// one result before the next request, and that a failed request is sent again
// at most once. It does no I/O and knows no clock.
package turn

import (
	"errors"
	"fmt"
	"slices"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"
)

// ErrOrder reports a record that cannot follow the ones before it.
var ErrOrder = errors.New("turn: record out of order")

// Limits bound one turn.
type Limits struct {
	Rounds int // completions that ask for tools
}

// Phase is where a session stands.
type Phase int

// Phases.
const (
	Resting Phase = iota // no turn
	Wanting              // a completion is wanted
	Calling              // calls of the last message have no result yet
	Ending               // only the end record is missing
)

// State is the fold of a session's records. Its zero value is a session with no
// record; set Limits before the first [Next].
type State struct {
	Limits Limits

	Session string
	Phase   Phase
	Origin  string
	Surface proto.Surface

	// Of the running turn.
	Rounds  int
	Tries   int       // failed tries of the request that is wanted now
	Stopped bool      // the owner asked to stop
	Calls   []Pending // of the last assistant message
	Done    int       // how many of Calls have a result
	Answer  string    // content of the newest assistant message
	Usage   proto.Usage
	end     proto.TurnEnd
	history []string // signatures of the turn's calls, oldest first
	notice  string   // why the calls that are left are refused
	refusal proto.Code
	front   int // the call that was in front at the stop; -1: none that could run

	// Of the epoch.
	Finish  string // of the newest completion
	Window  int64  // n_ctx
	Context int64  // tokens in the window after the newest completion
	Added   int64  // bytes of the results behind the newest assistant message
	Expect  int64  // tokens that the slot's cache should hold at least
	Full    bool   // the epoch's context is used up: the next turn needs a new one
}

// Next folds the record with number n of the given epoch into s.
func Next(s State, epoch int, n int64, r proto.Record) (State, Action, error) {
	var err error
	switch r := r.(type) {
	case *proto.Baseline:
		err = s.baseline(r)
	case *proto.User:
		err = s.user(r)
	case *proto.Completion:
		err = s.completion(r)
	case *proto.Assistant:
		err = s.assistant(epoch, n, r)
	case *proto.Incomplete:
		err = s.incomplete(r)
	case *proto.Tool:
		err = s.tool(r)
	case *proto.StopAsked:
		err = s.stop()
	case *proto.TurnEnd:
		err = s.turnEnd(r)
	case *proto.CallAsked:
		if s.Phase != Calling {
			err = ErrOrder
		}
	case *proto.Queued, *proto.Recovered, *proto.Delivered:
		// The queue is the session's; neither changes a turn.
	default:
		err = fmt.Errorf("turn: no rule for record %T", r)
	}
	if err != nil {
		return s, nil, fmt.Errorf("%w: %s in phase %d", err, r.Kind(), s.Phase)
	}
	return s, s.todo(), nil
}

func (s *State) baseline(r *proto.Baseline) error {
	if s.Phase != Resting {
		return ErrOrder
	}
	s.Window, s.Context, s.Added, s.Expect, s.Full, s.Finish = r.Window, 0, 0, 0, false, ""
	return nil
}

func (s *State) user(r *proto.User) error {
	if s.Phase != Resting {
		return ErrOrder
	}
	s.Phase, s.Origin, s.Surface = Wanting, r.Origin, r.Surface
	s.Rounds, s.Tries, s.Stopped, s.Answer = 0, 0, false, ""
	s.Calls, s.Done, s.history, s.notice, s.refusal, s.front = nil, 0, nil, "", "", -1
	s.Usage = proto.Usage{Window: s.Window, Context: s.Context}
	return nil
}

func (s *State) completion(r *proto.Completion) error {
	if s.Phase != Wanting {
		return ErrOrder
	}
	u := &s.Usage
	u.Completions++
	u.Prompt += r.PromptN
	u.Cached += r.CacheN
	u.Generated += r.PredictedN
	u.PromptMS += r.PromptUS / 1000
	u.GenerateMS += r.PredictedUS / 1000
	s.Finish = r.Finish
	if total := r.CacheN + r.PromptN; total > 0 {
		s.Expect, s.Context = total, total+r.PredictedN
		u.Context = s.Context
	}
	return nil
}

func (s *State) assistant(epoch int, n int64, r *proto.Assistant) error {
	if s.Phase != Wanting {
		return ErrOrder
	}
	m, err := prompt.ParseAssistant(r.Message)
	if err != nil {
		return err
	}
	s.Tries, s.Answer, s.Added = 0, m.Content, 0
	if len(m.Calls) == 0 {
		s.finish(s.answered())
		return nil
	}
	s.Rounds++
	s.Phase, s.Calls, s.Done = Calling, nil, 0
	s.history = slices.Clip(s.history) // its spare room is shared with older states
	for i, c := range m.Calls {
		s.history = append(s.history, signature(c.Name, c.Arguments))
		id := proto.CallID{Session: s.Session, Epoch: epoch, Record: n, Index: i}
		s.Calls = append(s.Calls, Pending{ID: id, Call: c, verdict: judge(s.history)})
	}
	if s.Limits.Rounds > 0 && s.Rounds > s.Limits.Rounds {
		s.refuseRest(proto.CodeTurnLimit, fmt.Sprintf("the limit of %d rounds of tool calls in one turn is reached", s.Limits.Rounds))
	}
	if s.Stopped {
		s.refuseRest(proto.CodeStopped, stoppedText)
	}
	return nil
}

const stoppedText = "the owner stopped the turn; this call was not run"

// refuseRest makes every call that has no result yet end without being run.
func (s *State) refuseRest(code proto.Code, text string) {
	if s.refusal == "" {
		s.refusal, s.notice = code, text
	}
}

func (s *State) incomplete(r *proto.Incomplete) error {
	if s.Phase != Wanting {
		return ErrOrder
	}
	s.Tries++
	switch {
	case s.Stopped || r.Why == proto.WhyStopped:
		s.finish(stopped())
	case r.Why == proto.WhyContextFull, r.Why == proto.WhyLength && s.atEnd():
		s.Full = true
		s.finish(contextFull())
	case !r.Retry || s.Tries > 1:
		s.finish(failed(r))
	}
	return nil
}

func (s *State) tool(r *proto.Tool) error {
	if s.Phase != Calling || s.Done >= len(s.Calls) || s.Calls[s.Done].ID.String() != r.Call {
		return ErrOrder
	}
	s.Done++
	s.Added += int64(len(r.Message))
	if s.Done < len(s.Calls) {
		return nil
	}
	switch {
	case s.Stopped:
		s.finish(stopped())
	case s.refusal != "":
		s.finish(s.capped())
	default:
		s.Phase = Wanting
	}
	return nil
}

func (s *State) stop() error {
	switch s.Phase {
	case Wanting:
		s.Stopped = true
	case Calling:
		s.Stopped = true
		if s.refusal == "" && s.Calls[s.Done].verdict == pass {
			s.front = s.Done
		}
		s.refuseRest(proto.CodeStopped, stoppedText)
	default:
		return ErrOrder
	}
	return nil
}

func (s *State) turnEnd(r *proto.TurnEnd) error {
	if s.Phase == Resting || r.Origin != s.Origin {
		return ErrOrder
	}
	s.Phase, s.Calls, s.Done, s.history = Resting, nil, 0, nil
	s.Full = s.Full || r.Outcome == proto.TurnContextFull
	return nil
}

func (s *State) finish(end proto.TurnEnd) {
	end.Origin = s.Origin
	s.Phase, s.end = Ending, end
}

// todo derives the next action. While a request runs the driver does not act;
// after a stop it appends what came of the request and then does what stands here.
func (s *State) todo() Action {
	switch s.Phase {
	case Wanting:
		if s.Stopped {
			end := stopped()
			end.Origin = s.Origin
			return End{Record: end}
		}
		return Infer{Again: s.Tries > 0}
	case Calling:
		return s.nextCall()
	case Ending:
		return End{Record: s.end}
	default:
		return Rest{}
	}
}

func (s *State) nextCall() Action {
	p := s.Calls[s.Done]
	switch {
	case s.refusal != "":
		return Refuse{Pending: p, Code: s.refusal, Text: s.notice, Begun: s.Done == s.front}
	case p.verdict == halt:
		s.refuseRest(proto.CodeRepeatedCall, "the same calls came again and again")
		return Refuse{Pending: p, Code: s.refusal, Text: s.notice}
	case p.verdict == refuse:
		return Refuse{
			Pending: p, Code: proto.CodeRepeatedCall,
			Text: "you made this call before with the same arguments; it was not run again. Answer with what you have, or do something else",
		}
	default:
		return Run{Pending: p}
	}
}
