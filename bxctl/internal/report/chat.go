package report

import (
	"slices"
	"strings"

	"boxmaker/bxctl/internal/term"
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

// Rows are those of a status that gatewayd gave itself.
func Rows(st *proto.GatewayStatus) []proto.Check {
	return slices.Concat([]proto.Check{{Name: "gatewayd", State: "ok", Detail: "gatewayd " + st.Version}}, st.Checks, st.Confinement)
}

// chat is for a gatewayd of which brokerd does not tell.
func (w *writer) chat(f Full) {
	switch {
	case f.Chat != nil:
		w.checks("chat", Rows(f.Chat))
	case f.ChatError != "":
		w.title("chat")
		w.row("error", w.sc.Bad(term.Line(f.ChatError)))
	}
}
