package driver

import (
	"errors"

	"boxmaker/brokerd/internal/calls"
	"boxmaker/internal/proto"
)

// judge says what came of a container. A text of ours is public; one with words
// of a tool in it has the class of the grant, whatever the tool says.
func judge(e *entry) proto.CallResult {
	ours := func(o proto.CallOutcome, code proto.Code, text string) proto.CallResult {
		if text == "" {
			text = calls.Text(code, o)
		}
		return proto.CallResult{Outcome: o, Code: code, Class: proto.ClassPublic, Text: text}
	}
	stopped := e.stop == proto.CodeStopped || e.stop == proto.CodeHalted
	var s *setback
	switch {
	case e.runErr == nil:
	case errors.As(e.runErr, &s) && s.code == proto.CodeHalted:
		return ours(proto.CallDenied, s.code, s.text)
	case s != nil && s.code != "":
		return ours(proto.CallFailed, s.code, s.text)
	case s != nil && stopped:
		return ours(proto.CallDenied, e.stop, "")
	case s != nil:
		return ours(proto.CallDenied, proto.CodeInternal, "")
	case stopped: // the connection to runnerd was closed, which ends the container
		return ours(proto.CallFailed, e.stop, "")
	default:
		return ours(proto.CallUnknown, proto.CodeUnknownFate, "")
	}
	switch ended := e.ran.Ended; ended.Reason {
	case proto.EndExit:
		return e.said()
	case proto.EndTimeout:
		return ours(proto.CallFailed, proto.CodeToolTimeout, "")
	case proto.EndMemory:
		return ours(proto.CallFailed, proto.CodeToolFailed, "tool-failed: the tool needed more memory than it may have and was ended; what it did until then stays.")
	case proto.EndOutput:
		return ours(proto.CallFailed, proto.CodeTooLarge, "")
	case proto.EndKilled:
		if stopped {
			return ours(proto.CallFailed, e.stop, "")
		}
		return ours(proto.CallUnknown, proto.CodeUnknownFate, "")
	case proto.EndLimit:
		return ours(proto.CallFailed, proto.CodeLimitNotEnforceable, "")
	case proto.EndMount:
		return ours(proto.CallFailed, proto.CodeToolFailed, "tool-failed: a path that the owner granted is not there, or is a link, so nothing ran. Tell the owner.")
	case proto.EndNoRoom:
		return ours(proto.CallFailed, proto.CodeTooLarge, "too-large: the disk that this call may write is nearly full, so nothing ran. Tell the owner.")
	case proto.EndDisk:
		return ours(proto.CallFailed, proto.CodeTooLarge, "too-large: the disk that this call may write got nearly full, so it was ended; what it did until then stays. Tell the owner.")
	case proto.EndNoRuntime:
		return ours(proto.CallFailed, proto.CodeNoRuntime, "")
	case proto.EndNoUserland:
		return ours(proto.CallFailed, proto.CodeNotConfigured, "not-configured: the root file system that the grant names is not there, so nothing ran. Tell the owner.")
	default:
		return ours(proto.CallFailed, proto.CodeInternal, "")
	}
}

// said is the result of a tool that ran to its end.
func (e *entry) said() proto.CallResult {
	out := e.ran.Output
	r := proto.CallResult{
		Outcome: proto.CallOK, Class: e.facts.Grant.ResultClass, Untrusted: e.facts.Grant.Untrusted,
		Text: out.Text, Dropped: sum(out.Dropped, e.ran.Ended.Dropped),
	}
	if out.Code != "" {
		r.Outcome, r.Code = proto.CallFailed, out.Code
		if out.Code.Validate() != nil { // a tool's own invention
			r.Code = proto.CodeToolFailed
		}
	}
	return r
}
