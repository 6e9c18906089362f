package chat

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

func (m *Model) called(t *turn, c *proto.ToolStarted) {
	if a := t.again; a != nil {
		a.i++
		a.buf.Reset()
	}
	if t.known["call "+c.Call] {
		return
	}
	t.again = nil
	m.endPart(t)
	t.known["call "+c.Call] = true
	t.calls = append(t.calls, c)
}

func callLine(c *proto.ToolStarted) string {
	args := term.Line(c.Args)
	if args == "{}" {
		args = ""
	}
	return strings.TrimSpace(term.Line(c.Tool) + " " + args)
}

func (m *Model) result(t *turn, r *proto.Result) {
	if t.known["result "+r.Call] {
		return
	}
	t.known["result "+r.Call] = true
	t.ask = nil
	m.settled(r.Call)
	c := &proto.ToolStarted{Tool: "a tool"}
	if i := slices.IndexFunc(t.calls, func(c *proto.ToolStarted) bool { return c.Call == r.Call }); i >= 0 {
		c = t.calls[i]
		t.calls = slices.Delete(t.calls, i, i+1)
	}
	end := " → " + outcome(r.Outcome, r.Code) + " · " + string(r.Class) + " · " + term.Bytes(r.Bytes) + " · " + term.Span(time.Duration(r.MS)*time.Millisecond)
	m.callRow(callLine(c), end, r.Outcome)
	if !m.details {
		return
	}
	if args := strings.TrimSpace(c.Args); args != "" && args != "{}" {
		m.unfold("arguments: " + pretty(args))
	}
	if r.Untrusted {
		m.unfold("(the result is untrusted)")
	}
	t.asked = r.Call // what comes next stands below the result
	m.after = append(m.after, Query{AskResult, m.cfg.Session, r.Call})
}

// maxResult is how many rows of a result are unfolded in the chat.
const maxResult = 12

// resultText unfolds the text of a result, as far as it does not flood the
// screen.
func (m *Model) resultText(r Result) {
	if len(m.jobs) == 0 || m.jobs[0].asked != r.Call {
		return
	}
	t := m.jobs[0]
	t.asked = ""
	defer m.release(t)
	if r.Text == "" {
		return
	}
	rows := wrapText("result: "+term.Safe(strings.TrimSpace(r.Text)), m.room()-2)
	for i, l := range rows {
		if i == maxResult {
			m.say(m.sc.Dim(fmt.Sprintf("  … %d more rows (Ctrl-O)", len(rows)-i)))
			return
		}
		m.say(m.sc.Dim(term.Indent(l)))
	}
}

func outcome(o proto.CallOutcome, code proto.Code) string {
	if o == proto.CallOK || code == "" {
		return term.Line(string(o))
	}
	return term.Line(string(o) + " (" + string(code) + ")")
}

// callRow finishes the one line of a call.
func (m *Model) callRow(head, end string, o proto.CallOutcome) {
	mark, paint := "✓ ", m.sc.Dim
	if o != proto.CallOK {
		mark, paint = "✗ ", m.sc.Warn
	}
	name, _, _ := strings.Cut(mark+head+" {", " {") // how it ended matters more than with what
	head = term.Clip(mark+head, max(m.room()-term.Columns(end), term.Columns(name)))
	m.say(paint(term.Clip(head+end, m.room())))
}
