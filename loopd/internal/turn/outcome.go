package turn

import (
	"fmt"

	"boxmaker/internal/proto"
)

// atEnd: the newest completion ended where the window does, not at max_tokens.
func (s *State) atEnd() bool {
	return s.Finish == "length" && s.Window > 0 && s.Context >= s.Window
}

func (s *State) answered() proto.TurnEnd {
	if s.atEnd() {
		s.Full = true
		return contextFull()
	}
	if s.Stopped {
		return stopped()
	}
	return proto.TurnEnd{Outcome: proto.TurnAnswered}
}

func stopped() proto.TurnEnd {
	return proto.TurnEnd{Outcome: proto.TurnStopped, Text: "You stopped this turn."}
}

func contextFull() proto.TurnEnd {
	return proto.TurnEnd{
		Outcome: proto.TurnContextFull, Runbook: "context-full",
		Text: "The conversation no longer fits the model's context window. Your next message starts a fresh window; the old one stays in the log.",
	}
}

func (s *State) capped() proto.TurnEnd {
	return proto.TurnEnd{Outcome: proto.TurnCapped, Text: "The turn was ended: " + s.notice + ".", Runbook: "runaway-stopped"}
}

// reasons says what the owner reads when a completion failed for good.
var reasons = map[proto.Why]struct{ text, runbook string }{
	proto.WhyStalled:      {"The inference server went silent in the middle of its answer. What had come is kept in the log.", "server-stalled"},
	proto.WhyCut:          {"The inference server ended its answer before the end mark, twice.", "server-cut"},
	proto.WhyServerError:  {"The inference server reported an error.", "server-error"},
	proto.WhyUnreachable:  {"The inference server cannot be reached. Your message is kept; send another when the server is back.", "server-unreachable"},
	proto.WhyUnauthorised: {"The inference server asks for an API key. Boxmaker's inference path holds no credentials.", "server-unauthorised"},
	proto.WhyBadData:      {"The inference server sent something that llama-server does not send.", "server-bad-data"},
	proto.WhyEmpty:        {"The model gave an empty answer, twice.", "answer-unusable"},
	proto.WhyLength:       {"The model used up its token limit before it came to an answer.", "answer-unusable"},
	proto.WhyMarkup:       {"The model wrote a tool call as plain text, twice; nothing of it was run.", "answer-unusable"},
	proto.WhyBadCall:      {"The model made a tool call that does not parse; nothing of it was run.", "answer-unusable"},
}

func failed(r *proto.Incomplete) proto.TurnEnd {
	why, ok := reasons[r.Why]
	if !ok {
		why.text, why.runbook = "The completion failed.", "server-error"
	}
	text := why.text
	if r.Detail != "" {
		text = fmt.Sprintf("%s (%s)", text, r.Detail)
	}
	return proto.TurnEnd{Outcome: proto.TurnFailed, Text: text, Runbook: why.runbook}
}
