package prompt

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// This file is the one place where messages are encoded. Members stand in a
// fixed order and strings have one escape each, so that the same message always
// has the same bytes. Text in valid UTF-8 is kept byte for byte; JSON cannot
// hold anything else, so a byte that is not UTF-8 becomes U+FFFD (the stream
// reader and the neutraliser let none through).

// A Call is one tool call of the model.
type Call struct {
	ID        string // as the server made it
	Name      string
	Arguments string // JSON text, byte for byte as received
}

// An Assistant is a message of the model.
type Assistant struct {
	Content   string
	Reasoning string
	Calls     []Call
}

// SystemMessage encodes the system message.
func SystemMessage(text string) jsontext.Value { return plain("system", text) }

// UserMessage encodes a message of the owner.
func UserMessage(text string) jsontext.Value { return plain("user", text) }

func plain(role, text string) jsontext.Value {
	b := quote([]byte(`{"role":"`+role+`","content":`), text)
	return append(b, '}')
}

// ToolMessage encodes the result of the call with that id.
func ToolMessage(callID, text string) jsontext.Value {
	b := quote([]byte(`{"role":"tool","tool_call_id":`), callID)
	b = quote(append(b, `,"content":`...), text)
	return append(b, '}')
}

// AssistantMessage encodes a message of the model. content is always a string;
// reasoning_content and tool_calls are left out if there is nothing in them.
func AssistantMessage(content, reasoning string, calls []Call) jsontext.Value {
	b := quote([]byte(`{"role":"assistant","content":`), content)
	if reasoning != "" {
		b = quote(append(b, `,"reasoning_content":`...), reasoning)
	}
	for i, c := range calls {
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = quote(append(b, `{"id":`...), c.ID)
		b = quote(append(b, `,"type":"function","function":{"name":`...), c.Name)
		b = quote(append(b, `,"arguments":`...), c.Arguments)
		b = append(b, "}}"...)
	}
	if len(calls) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// ParseUser reads what [UserMessage] wrote, and nothing else.
func ParseUser(raw []byte) (text string, err error) {
	w, err := decode("user", raw)
	if err != nil {
		return "", err
	}
	return *w.Content, same(raw, UserMessage(*w.Content))
}

// ParseTool reads what [ToolMessage] wrote, and nothing else.
func ParseTool(raw []byte) (callID, text string, err error) {
	w, err := decode("tool", raw)
	if err != nil {
		return "", "", err
	}
	return w.ToolCallID, *w.Content, same(raw, ToolMessage(w.ToolCallID, *w.Content))
}

// ParseAssistant reads what [AssistantMessage] wrote, and nothing else.
func ParseAssistant(raw []byte) (Assistant, error) {
	w, err := decode("assistant", raw)
	if err != nil {
		return Assistant{}, err
	}
	a := Assistant{Content: *w.Content, Reasoning: w.Reasoning}
	for _, c := range w.Calls {
		a.Calls = append(a.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return a, same(raw, AssistantMessage(a.Content, a.Reasoning, a.Calls))
}

// wire has the members of all roles; the byte comparison after decoding rejects
// those that do not belong to the role.
type wire struct {
	Role       string     `json:"role"`
	ToolCallID string     `json:"tool_call_id"`
	Content    *string    `json:"content"`
	Reasoning  string     `json:"reasoning_content"`
	Calls      []wireCall `json:"tool_calls"`
}

type wireCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function wireFunc `json:"function"`
}

type wireFunc struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func decode(role string, raw []byte) (wire, error) {
	var w wire
	if err := json.Unmarshal(raw, &w, json.RejectUnknownMembers(true)); err != nil {
		return w, fmt.Errorf("%w: %s message: %w", ErrForm, role, err)
	}
	if w.Role != role || w.Content == nil {
		return w, fmt.Errorf("%w: not a %s message with content", ErrForm, role)
	}
	return w, nil
}

func same(raw, again []byte) error {
	if !bytes.Equal(raw, again) {
		at, _ := firstDiff(raw, again)
		return fmt.Errorf("%w: the message differs from its canonical form at byte %d", ErrForm, at)
	}
	return nil
}

// quote appends s as a JSON string. The only error of AppendQuote is invalid
// UTF-8, and then it has replaced the bytes already.
func quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
