package archive

import (
	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json"
)

// message is what is shown of a message as it was sent. Members that this
// program does not know are passed over.
type message struct {
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content"`
	Calls     []struct {
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// parse reads a raw message. A log that loopd wrote holds no other form; what
// can't be read is shown as it stands.
func parse(raw []byte) message {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		return message{Content: string(raw)}
	}
	return m
}

// past shows a record as rows of the history: an assistant's message with
// several calls gives several.
func past(id string, epoch int, h proto.Header, r proto.Record) []*proto.Past {
	p := proto.Past{Record: h.N, Epoch: epoch, Time: proto.Time(h.Time)}
	switch r := r.(type) {
	case *proto.User:
		p.Role, p.Text, p.Origin, p.Surface = "user", parse(r.Message).Content, r.Origin, r.Surface
	case *proto.Assistant:
		m := parse(r.Message)
		p.Role, p.Text, p.Thinking = "assistant", m.Content, m.Reasoning
		return withCalls(id, p, m)
	case *proto.Tool:
		p.Role, p.Text = "tool", parse(r.Message).Content
		p.Call, p.Outcome, p.Code, p.Class, p.MS = r.Call, r.Outcome, r.Code, r.Class, r.MS
	case *proto.TurnEnd:
		p.Role, p.Text, p.Origin = "turn", string(r.Outcome), r.Origin
	default:
		return nil
	}
	return []*proto.Past{&p}
}

func withCalls(id string, first proto.Past, m message) []*proto.Past {
	out := []*proto.Past{&first}
	for i, c := range m.Calls {
		p := &first
		if i > 0 {
			p = &proto.Past{Record: first.Record, Epoch: first.Epoch, Time: first.Time, Role: first.Role}
			out = append(out, p)
		}
		p.Tool, p.Args = c.Function.Name, c.Function.Arguments
		p.Call = proto.CallID{Session: id, Epoch: first.Epoch, Record: first.Record, Index: i}.String()
	}
	return out
}
