package toolset

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Request is a decoded call of one of the declared tools.
type Request interface{ request() }

type (
	// ClockRequest asks for the time in a zone; "" is the owner's.
	ClockRequest struct{ Zone string }
	// FindRequest looks for tools.
	FindRequest struct{ Query string }
	// CallRequest runs a tool by brokerd. Args is a JSON object, byte for byte as
	// the model wrote it; whether it fits the tool is for brokerd to say.
	CallRequest struct{ Tool, Args string }
)

func (ClockRequest) request() {}
func (FindRequest) request()  {}
func (CallRequest) request()  {}

// A CallError is why a call cannot be carried out. Its text is what the model
// reads: one sentence that begins with the code. It repeats nothing of what the
// model wrote but plain names.
type CallError struct {
	Code proto.Code // unknown-tool or invalid-arguments
	Text string
}

// Error gives "code: text".
func (e *CallError) Error() string { return string(e.Code) + ": " + e.Text }

func invalid(format string, args ...any) error {
	return &CallError{Code: proto.CodeInvalidArguments, Text: fmt.Sprintf(format, args...)}
}

func unknown(name string) error {
	what := "there is no such tool"
	if proto.CheckTool(name) == nil {
		what = fmt.Sprintf("there is no tool %q to call directly", name)
	}
	return &CallError{Code: proto.CodeUnknownTool, Text: what + "; find tools with find_tool and run them with call_tool."}
}

// Arguments, with the members of the schemas in tools/.
type (
	clockArgs struct {
		Zone *string `json:"zone"`
	}
	findArgs struct {
		Query *string `json:"query"`
	}
	callArgs struct {
		Name      *string        `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
)

// DecodeCall reads a call of the model. argsJSON is the text of its arguments as
// the server gave it; an empty one counts as {}. Small models get three things
// wrong so often that they are let through: arguments of call_tool that are
// missing, that are a string which holds the object, and clock or find_tool
// named in call_tool. Every error is a *[CallError].
func DecodeCall(name, argsJSON string) (Request, error) {
	switch name {
	case clock:
		var a clockArgs
		if err := decode(name, argsJSON, &a, "zone"); err != nil {
			return nil, err
		}
		zone := value(a.Zone)
		if _, err := time.LoadLocation(zone); err != nil {
			return nil, invalid("clock does not know this time zone; use an IANA name such as Europe/Berlin, or leave it out.")
		}
		return ClockRequest{Zone: zone}, nil
	case findTool:
		var a findArgs
		if err := decode(name, argsJSON, &a, "query"); err != nil {
			return nil, err
		}
		if a.Query == nil {
			return nil, invalid("find_tool needs \"query\", a few words.")
		}
		return FindRequest{Query: *a.Query}, nil
	case callTool:
		var a callArgs
		if err := decode(name, argsJSON, &a, "name", "arguments"); err != nil {
			return nil, err
		}
		return decodeInner(a)
	default:
		return nil, unknown(name)
	}
}

// decodeInner reads what stands in a call_tool.
func decodeInner(a callArgs) (Request, error) {
	if a.Name == nil {
		return nil, invalid("call_tool needs \"name\", a tool that find_tool has shown.")
	}
	args, err := innerArguments(a.Arguments)
	if err != nil {
		return nil, err
	}
	switch name := *a.Name; {
	case name == callTool:
		return nil, invalid("call_tool cannot call itself.")
	case name == clock || name == findTool:
		return DecodeCall(name, args)
	case proto.CheckTool(name) != nil:
		return nil, unknown(name)
	default:
		return CallRequest{Tool: name, Args: args}, nil
	}
}

// innerArguments gives the text of an object.
func innerArguments(v jsontext.Value) (string, error) {
	switch v.Kind() {
	case '{':
		return string(v), nil
	case '"':
		inner, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			break
		}
		text := strings.TrimSpace(string(inner))
		if text == "" {
			return "{}", nil
		}
		if obj := jsontext.Value(text); obj.Kind() == '{' && obj.IsValid() {
			return text, nil
		}
	default:
		if len(v) == 0 {
			return "{}", nil
		}
	}
	return "", invalid("\"arguments\" of call_tool must be a JSON object.")
}

// decode reads an object with the given members into v, and says in one sentence
// what is wrong with it.
func decode(tool, text string, v any, members ...string) error {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if jsontext.Value(text).Kind() != '{' {
		return invalid("the arguments of %s must be a JSON object.", tool)
	}
	err := json.Unmarshal([]byte(text), v, json.RejectUnknownMembers(true))
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsontext.ErrDuplicateName):
		return invalid("a name stands twice in the arguments of %s; send each once.", tool)
	case errors.Is(err, json.ErrUnknownName):
		return invalid("%s takes only \"%s\".", tool, strings.Join(members, `" and "`))
	case errors.As(err, &semantic):
		return invalid("\"%s\" of %s has the wrong type; it must be a string.", memberOf(semantic.JSONPointer, members), tool)
	default:
		return invalid("the arguments of %s are not valid JSON.", tool)
	}
}

// memberOf names the member that a pointer leads to, never the model's own text.
func memberOf(p jsontext.Pointer, members []string) string {
	for _, m := range members {
		if string(p) == "/"+m {
			return m
		}
	}
	return members[0]
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
