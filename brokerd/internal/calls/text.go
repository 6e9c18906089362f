package calls

import "boxmaker/internal/proto"

// Text is what a model reads of a call that gave no output of its own: one
// short sentence or two that begin with the code.
func Text(code proto.Code, o proto.CallOutcome) string {
	return string(code) + ": " + sentence(code, o)
}

func sentence(code proto.Code, o proto.CallOutcome) string {
	ran := o != proto.CallDenied && o != proto.CallExpired
	switch code {
	case proto.CodeNoGrant:
		return "nothing that the owner granted covers this call. Do not try it again; offer another way."
	case proto.CodeDeniedByGrant:
		return "the owner has ruled this out. Do not try it again; offer another way."
	case proto.CodeDeniedByOwner:
		return "the owner was asked and said no. Do not try it again; offer another way."
	case proto.CodeApprovalExpired:
		return "the owner was asked and did not answer in time, so the call did not run."
	case proto.CodeTaintTooHigh:
		return "this session has seen text that must not leave this way."
	case proto.CodeInvalidArguments:
		return "the arguments do not fit the tool's schema; nothing ran."
	case proto.CodeUnknownTool:
		return "there is no tool of that name. find_tool shows those that can be used."
	case proto.CodeHalted:
		if ran {
			return "the owner stopped everything while the call ran; what it did until then stays."
		}
		return "the owner has stopped all tools; the call did not run."
	case proto.CodeStopped:
		if ran {
			return "the call was ended while it ran; what it did until then stays."
		}
		return "the call was withdrawn before it ran."
	case proto.CodeRateLimited:
		return "too many calls for now; this one did not run."
	case proto.CodeReplayedCall:
		return "this call's id was used before, so nothing ran."
	case proto.CodeUnknownFate:
		return "it is not known whether this call ran: the broker ended while it was under way. Do not repeat it; check its effect another way, or tell the owner."
	case proto.CodeNoRuntime:
		return "containers cannot be started on this machine now, so the call did not run. Tell the owner."
	case proto.CodeNoEgress:
		return "the way out to the network is closed now, so the call did not run. Tell the owner."
	case proto.CodeNotConfigured:
		return "something that this tool needs is not set up, so the call did not run. Tell the owner."
	case proto.CodeLimitNotEnforceable:
		return "a limit of the grant cannot be enforced on this machine, so the call did not run. Tell the owner."
	case proto.CodeToolTimeout:
		return "the call took longer than it may and was ended; what it did until then stays."
	case proto.CodeTooLarge:
		return "the tool wrote more than it may and was ended; what it did until then stays."
	case proto.CodeToolFailed:
		return "the tool failed."
	default:
		if ran {
			return "something went wrong in the broker."
		}
		return "something went wrong in the broker; the call did not run."
	}
}
