package brain

import (
	"regexp"
	"strings"
)

// A refusal is a tool result that says why a call did not give what was asked.
type refusal struct {
	code string
	text string // what stood behind the code
}

// leading is the code that a result of brokerd or loopd begins with.
var leading = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)*)\s*(?::|\.|,|$)\s*(.*)`)

func readRefusal(result string) (refusal, bool) {
	line, _, _ := strings.Cut(strings.TrimSpace(result), "\n")
	m := leading.FindStringSubmatch(line)
	if m == nil {
		return refusal{}, false
	}
	code, rest := m[1], m[2]
	if code == "denied" || code == "failed" {
		if next := leading.FindStringSubmatch(rest); next != nil && meaning(next[1]) != "" {
			code, rest = next[1], next[2]
		} else if strings.HasPrefix(rest, "no broker") {
			code = "no-broker"
		}
	}
	if meaning(code) == "" {
		return refusal{}, false
	}
	return refusal{code, rest}, true
}

// meaning is a code in plain words, with what the owner can do; "" for what is
// no code.
func meaning(code string) string {
	switch code {
	case "no-broker":
		return "There is no broker: `brokerd`, the program that decides on tool calls and runs them, is not running (or not part of this build yet). Without it nothing can be done outside this conversation, and that is on purpose. Look at `bxctl status`."
	case "no-grant":
		return "No grant covers this call. A grant is a small file that you write in the `grants` folder; what no grant allows is denied. If you want this to work, write one."
	case "denied-by-grant":
		return "One of your grants forbids exactly this. A matching `deny` wins over every other grant. To change it, edit that file."
	case "denied-by-owner", "denied":
		return "The answer was no. A denial is final: I do not try the same call again."
	case "approval-expired", "expired":
		return "The call needed your approval and the time for it ran out, which counts as a no. Ask me again when you are there to answer."
	case "taint-too-high":
		return "This session has seen text of a higher class than the grant lets out, so the call was refused. A new session starts clean."
	case "invalid-arguments":
		return "The tool did not accept the arguments. I build them by simple rules: name the path, the command or the address more exactly."
	case "unknown-tool":
		return "There is no such tool."
	case "not-configured":
		return "The tool exists, but it is not set up yet in the configuration."
	case "tool-failed", "failed":
		return "The tool ran and failed."
	case "tool-timeout":
		return "The tool ran into its time limit and was stopped."
	case "limit-not-enforceable":
		return "A limit of the grant cannot be enforced on this machine, so the call did not run at all."
	case "no-runtime":
		return "There is no container runtime to run tools in. Install `crun`, then ask again."
	case "too-large":
		return "Something in the call or its result is larger than allowed."
	case "unknown-fate", "unknown":
		return "Something stopped while the call ran, and nobody knows whether it took effect. It is not run again by itself: look, and then decide."
	case "repeated-call":
		return "The same call came again and again, so it was not passed on."
	case "turn-limit":
		return "This turn has made as many tool calls as one turn may."
	case "halted":
		return "You have halted everything with `bxctl halt`. `bxctl resume` ends that."
	case "rate-limited":
		return "The grant allows only so many calls in an hour, and these are used up. Wait, or raise `calls_per_hour` in it."
	case "replayed-call":
		return "The number of this call was used before, so it did not run again."
	case "no-egress":
		return "The door out (`egressd`) is not there, so nothing was sent. `bxctl status` says why."
	case "stopped":
		return "You stopped the turn before the call."
	case "internal":
		return "Something inside Boxmaker went wrong. The log says what."
	default:
		return ""
	}
}

// explain is the answer to a refused call. The call is not made again.
func explain(what string, r refusal) string {
	var b strings.Builder
	b.WriteString("I asked for " + what + " and it did not work out (`" + r.code + "`).\n\n" + meaning(r.code))
	if r.text != "" {
		b.WriteString("\n\nThe message was: " + inert(oneLine(r.text, 300)))
	}
	b.WriteString("\n\nI will not try the same call again.")
	return b.String()
}
