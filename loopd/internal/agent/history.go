package agent

import (
	"cmp"
	"fmt"
	"slices"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/session"
	"boxmaker/loopd/internal/turn"

	"github.com/go-json-experiment/json/jsontext"
)

// past shows a record as a client sees it in a session's history: an assistant's
// message with several calls is several.
func past(id string, epoch int, h proto.Header, r proto.Record) []*proto.Past {
	p := &proto.Past{Record: h.N, Epoch: epoch, Time: proto.Time(h.Time)}
	all := []*proto.Past{p}
	switch r := r.(type) {
	case *proto.User:
		p.Role = "user"
		p.Text, _ = prompt.ParseUser(r.Message)
		p.Origin, p.Surface = r.Origin, r.Surface
	case *proto.Assistant:
		m, err := prompt.ParseAssistant(r.Message)
		if err != nil {
			return nil
		}
		p.Role, p.Text, p.Thinking = "assistant", m.Content, clip(m.Reasoning, maxPast, "…")
		for i, call := range m.Calls {
			if i > 0 {
				p = &proto.Past{Record: p.Record, Epoch: p.Epoch, Time: p.Time, Role: p.Role}
				all = append(all, p)
			}
			p.Tool, p.Args = call.Name, clip(call.Arguments, maxShownArgs, "…")
			p.Call = proto.CallID{Session: id, Epoch: epoch, Record: h.N, Index: i}.String()
		}
	case *proto.Tool:
		p.Role = "tool"
		_, p.Text, _ = prompt.ParseTool(r.Message)
		p.Call, p.Outcome, p.Code, p.Class, p.MS = r.Call, r.Outcome, r.Code, r.Class, r.MS
	case *proto.TurnEnd:
		p.Role, p.Text, p.Origin = "turn", string(r.Outcome), r.Origin
	default:
		return nil
	}
	all[0].Text = clip(all[0].Text, maxPast, "…")
	return all
}

// maxPast bounds a text of the history, so that two of them fit a frame whatever
// JSON makes of them. The log has them whole.
const maxPast = 256 << 10

// History gives the past of a session to visit, oldest first: all epochs if
// w.After is 0, else the records behind it in w.Epoch (0: the newest) and all
// later epochs. It reads the files and disturbs nobody. It ends with record end
// of epoch last; last 0 means all that is there.
func (a *Agent) History(w *proto.Watch, last int, end int64, visit func(*proto.Past) error) error {
	id, after := w.Session, w.After
	from := cmp.Or(w.Epoch, last)
	if from == 0 && after > 0 {
		info, err := a.cfg.Store.Info(id)
		if err != nil {
			return err
		}
		from = info.Epoch
	}
	return a.cfg.Store.Read(id, func(epoch int, h proto.Header, r proto.Record) error {
		if last > 0 && (epoch > last || epoch == last && h.N > end) {
			return nil
		}
		if after > 0 && (epoch < from || epoch == from && h.N <= after) {
			return nil
		}
		for _, p := range past(id, epoch, h, r) {
			if err := visit(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// rejoin answers a message that is known already.
func (c *conversation) rejoin(origin string, o session.Origin) joined {
	first := []proto.Message{&proto.Accepted{Record: o.Record, Known: true}}
	if o.End != nil {
		done, err := c.endOf(origin)
		if err != nil {
			return joined{err: sessionError(c.id, err)}
		}
		return joined{stream: c.hub.subscribe(origin, append(first, done)...)}
	}
	if i := slices.IndexFunc(c.log.Pending(), func(q proto.Queued) bool { return q.Origin == origin }); i >= 0 {
		first = append(first, &proto.Waiting{Reason: proto.WaitQueue, Ahead: i + 1})
	}
	return joined{stream: c.hub.subscribe(origin, first...)}
}

// endOf finds in the log what the clients of an ended turn were told.
func (c *conversation) endOf(origin string) (*proto.Done, error) {
	s := turn.State{Session: c.id}
	var done *proto.Done
	err := c.a.cfg.Store.Read(c.id, func(epoch int, h proto.Header, r proto.Record) error {
		next, _, err := turn.Next(s, epoch, h.N, r)
		if end, ok := r.(*proto.TurnEnd); ok && end.Origin == origin {
			done = doneOf(s, end)
		}
		s = next
		return err
	})
	if err == nil && done == nil {
		err = fmt.Errorf("agent: the end of message %s is not in the log", origin)
	}
	return done, err
}

// maxCarried bounds each text that a new epoch takes over from the old one.
const maxCarried = 2 << 10

// carry is what an epoch starts with that follows another: the last exchange,
// cut short, said to be what it is. Compaction will put its summary here.
func (c *conversation) carry() []jsontext.Value {
	var asked, answered string
	_ = c.a.cfg.Store.Read(c.id, func(_ int, _ proto.Header, r proto.Record) error {
		switch r := r.(type) {
		case *proto.User:
			asked, _ = prompt.ParseUser(r.Message)
		case *proto.Assistant:
			if m, err := prompt.ParseAssistant(r.Message); err == nil && m.Content != "" {
				answered = m.Content
			}
		}
		return nil
	})
	text := "(Boxmaker: the conversation goes on in a fresh context window. The last exchange, cut short, was:)"
	if asked != "" {
		text += "\nOwner: " + clip(asked, maxCarried, " […]")
	}
	if answered != "" {
		text += "\nYou: " + clip(answered, maxCarried, " […]")
	}
	text, _ = c.a.serving.Neutral.Text(text) // an answer may quote anything
	return []jsontext.Value{prompt.UserMessage(text)}
}
