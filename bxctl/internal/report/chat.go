package report

import (
	"slices"
	"strings"

	"boxmaker/internal/proto"
)

// Chat parts the rows of gatewayd, without its name before them, from the others.
func Chat(st *proto.BrokerStatus) (chat, others []proto.Check) {
	for _, c := range st.Checks {
		name, of := strings.CutPrefix(c.Name, "gateway: ")
		switch {
		case of:
			c.Name = name
			chat = append(chat, c)
		case c.Name == "gateway":
			c.Name = "gatewayd"
			chat = append(chat, c)
		default:
			others = append(others, c)
		}
	}
	return chat, others
}

// unasked is for a gatewayd that nobody asks how it is.
func (w *writer) unasked(f Full) {
	if f.Broker == nil && f.Up != nil && slices.ContainsFunc(f.Up.Roles, func(r Role) bool { return r.Name == "gatewayd" }) {
		w.title("chat")
		w.row("state", w.sc.Warn("not known: brokerd, which asks gatewayd, does not answer or run; bxctl logs gatewayd tells"))
	}
}
