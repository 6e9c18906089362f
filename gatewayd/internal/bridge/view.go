package bridge

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"boxmaker/gatewayd/internal/queue"
	"boxmaker/gatewayd/internal/split"
	"boxmaker/internal/proto"
)

// A view is what the post that says to wait has to tell.
type view struct {
	away   bool
	queued int
	doing  string
	tools  int
}

// see takes an event of loopd.
func (v *view) see(m proto.Message) {
	v.away = false
	switch m := m.(type) {
	case *proto.Accepted:
		v.queued = m.Queued
	case *proto.Waiting:
		v.waiting(m)
	case *proto.Prefill:
		v.queued = 0
		if v.doing = "Reading"; m.Total > 0 {
			v.doing = fmt.Sprintf("Reading, %d %% of %d tokens", min(m.Done, m.Total)*100/m.Total, m.Total)
		}
	case *proto.Thinking:
		v.queued, v.doing = 0, "Thinking"
	case *proto.Text:
		v.queued, v.doing = 0, "Writing"
	case *proto.ToolStarted:
		v.tools++
		v.doing = "Using " + toolName(m.Tool)
	case *proto.Result:
		if v.doing = "Going on"; m.Outcome != proto.CallOK {
			v.doing = "Going on after a call that was not done (" + string(m.Code) + ")"
		}
	case *proto.Asked:
		v.doing = "Waiting for your approval"
	default: // nothing to show
	}
}

func (v *view) waiting(m *proto.Waiting) {
	switch m.Reason {
	case proto.WaitQueue:
		v.queued = max(m.Ahead, 1)
	case proto.WaitModel:
		v.doing = "Waiting for the model's server"
	case proto.WaitSlot:
		v.doing = "Waiting for another conversation"
	case proto.WaitApproval:
		v.doing = "Waiting for your approval"
	default:
		v.doing = "Waiting"
	}
}

// toolName shows the name that a model gave, if it is one.
func toolName(s string) string {
	if s == "" || len(s) > 64 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return "a tool"
	}
	return "`" + s + "`"
}

// works reports whether the agent is at it, and not somebody else.
func (v *view) works() bool {
	return !v.away && v.queued == 0 && v.doing != "" && !strings.HasPrefix(v.doing, "Waiting")
}

func (v *view) text(since time.Duration, files bool) string {
	var s string
	switch {
	case v.away:
		s = "The agent is away. Your message is kept, and is taken up when it is back"
	case v.queued > 0:
		s = fmt.Sprintf("Queued: %s before this one in this conversation", count(v.queued, "message is", "messages are"))
	default:
		s = cmp.Or(v.doing, "Working")
		if v.tools > 1 {
			s += fmt.Sprintf(" · %d calls", v.tools)
		}
	}
	switch {
	case since >= time.Minute:
		s += fmt.Sprintf(" · %d min", int(since/time.Minute))
	case since >= 10*time.Second:
		s += fmt.Sprintf(" · %d s", int(since/(10*time.Second))*10)
	}
	s = "⏳ _" + s + "_"
	if files {
		s += "\n_" + noFiles + "_"
	}
	return s
}

const noFiles = "Attached files are not read."

// headRunes is how much of an answer stands over the file that has all of it.
const headRunes = 1500

// answer makes posts of a turn's end.
func (m *Machine) answer(d *proto.Done, files bool) []queue.Part {
	raw := d.Answer
	var tail []string
	if d.Outcome != proto.TurnAnswered {
		tail = append(tail, "**"+ended(d.Outcome)+"** "+split.Harmless(sentence(d.Text, d.Runbook)))
	}
	if files {
		tail = append(tail, "_"+noFiles+"_")
	}
	whole := split.Harmless(raw)
	if len(tail) > 0 {
		whole = strings.TrimLeft(strings.TrimRight(whole, "\n ")+"\n\n"+strings.Join(tail, "\n"), "\n")
	}
	parts := split.Parts(whole, m.cfg.Limit)
	if len(parts) <= m.cfg.Parts {
		var out []queue.Part
		for _, p := range parts {
			out = append(out, queue.Part{Text: p})
		}
		return out
	}
	head := split.Head(split.Harmless(raw), min(headRunes, m.cfg.Limit/2))
	head = strings.TrimRight(head, "\n ") + "\n\n_The answer goes on: all of it is in the file below._"
	if len(tail) > 0 {
		head += "\n" + split.Head(strings.Join(tail, "\n"), m.cfg.Limit/3)
	}
	return []queue.Part{{Text: head}, {Text: "_The whole answer:_", File: raw}}
}

func ended(o proto.TurnOutcome) string {
	switch o {
	case proto.TurnStopped:
		return "Stopped."
	case proto.TurnCapped:
		return "Ended early."
	case proto.TurnContextFull:
		return "The context is full."
	default:
		return "This did not work."
	}
}

// sentence gives an error's words and its runbook key, once.
func sentence(text, key string) string {
	text, _, _ = strings.Cut(text, " (see runbook:")
	if key != "" {
		text = strings.TrimSpace(text) + " (see runbook: " + key + ")"
	}
	return text
}
