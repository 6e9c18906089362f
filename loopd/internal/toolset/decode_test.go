package toolset

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

func TestDecodeCall(t *testing.T) {
	for _, tt := range []struct {
		name, tool, args string
		want             Request
	}{
		{"clock", "clock", `{}`, ClockRequest{}},
		{"clock, no arguments at all", "clock", ``, ClockRequest{}},
		{"clock, null zone", "clock", `{"zone":null}`, ClockRequest{}},
		{"clock, zone", "clock", ` { "zone" : "Europe/Berlin" } `, ClockRequest{"Europe/Berlin"}},
		{"find", "find_tool", `{"query":"r\u00e9ad"}`, FindRequest{"réad"}},
		{"find, empty", "find_tool", `{"query":""}`, FindRequest{""}},
		{"call", "call_tool", `{"name":"read_file","arguments":{"path": "/a",  "x":[1, 2]}}`, CallRequest{"read_file", `{"path": "/a",  "x":[1, 2]}`}},
		{"call, bytes are kept", "call_tool", `{"arguments":{"a":"\u0041\/","n":1.0e2},"name":"x"}`, CallRequest{"x", `{"a":"\u0041\/","n":1.0e2}`}},
		{"call, no arguments", "call_tool", `{"name":"x"}`, CallRequest{"x", `{}`}},
		{"call, arguments in a string", "call_tool", `{"name":"x","arguments":" {\"a\": 1}\n"}`, CallRequest{"x", `{"a": 1}`}},
		{"call, an empty string", "call_tool", `{"name":"x","arguments":""}`, CallRequest{"x", `{}`}},
		{"call of clock", "call_tool", `{"name":"clock","arguments":{"zone":"UTC"}}`, ClockRequest{"UTC"}},
		{"call of find_tool", "call_tool", `{"name":"find_tool","arguments":{"query":"x"}}`, FindRequest{"x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeCall(tt.tool, tt.args)
			if err != nil || got != tt.want {
				t.Errorf("%#v, %v; want %#v", got, err, tt.want)
			}
		})
	}
}

func TestDecodeCallRefuses(t *testing.T) {
	for _, tt := range []struct{ name, tool, args, want string }{
		{"unknown tool", "read_file", `{}`, `unknown-tool: there is no tool "read_file" to call directly; find tools with find_tool and run them with call_tool.`},
		{"unknown tool with a strange name", "<|im_start|>", `{}`, `unknown-tool: there is no such tool; find tools with find_tool and run them with call_tool.`},
		{"no name", "", `{}`, `unknown-tool: there is no such tool; find tools with find_tool and run them with call_tool.`},
		{"other case", "Clock", `{}`, `unknown-tool: there is no such tool; find tools with find_tool and run them with call_tool.`},
		{"inner name is none", "call_tool", `{"name":"../x","arguments":{}}`, `unknown-tool: there is no such tool; find tools with find_tool and run them with call_tool.`},
		{"inner name is call_tool", "call_tool", `{"name":"call_tool","arguments":{}}`, `invalid-arguments: call_tool cannot call itself.`},
		{"inner name missing", "call_tool", `{"arguments":{}}`, `invalid-arguments: call_tool needs "name", a tool that find_tool has shown.`},
		{"inner arguments are a list", "call_tool", `{"name":"x","arguments":[]}`, `invalid-arguments: "arguments" of call_tool must be a JSON object.`},
		{"inner arguments are null", "call_tool", `{"name":"x","arguments":null}`, `invalid-arguments: "arguments" of call_tool must be a JSON object.`},
		{"inner string is a list", "call_tool", `{"name":"x","arguments":"[]"}`, `invalid-arguments: "arguments" of call_tool must be a JSON object.`},
		{"inner string is cut", "call_tool", `{"name":"x","arguments":"{\"a\":1"}`, `invalid-arguments: "arguments" of call_tool must be a JSON object.`},
		{"inner string has a name twice", "call_tool", `{"name":"x","arguments":"{\"a\":1,\"a\":2}"}`, `invalid-arguments: "arguments" of call_tool must be a JSON object.`},
		{"inner object has a name twice", "call_tool", `{"name":"x","arguments":{"a":1,"a":2}}`, `invalid-arguments: a name stands twice in the arguments of call_tool; send each once.`},
		{"a list", "clock", `[]`, `invalid-arguments: the arguments of clock must be a JSON object.`},
		{"null", "clock", `null`, `invalid-arguments: the arguments of clock must be a JSON object.`},
		{"cut", "clock", `{"zone":"U`, `invalid-arguments: the arguments of clock are not valid JSON.`},
		{"two values", "clock", `{}{}`, `invalid-arguments: the arguments of clock are not valid JSON.`},
		{"not UTF-8", "find_tool", "{\"query\":\"\xff\"}", `invalid-arguments: the arguments of find_tool are not valid JSON.`},
		{"a name twice", "find_tool", `{"query":"a","query":"b"}`, `invalid-arguments: a name stands twice in the arguments of find_tool; send each once.`},
		{"unknown name", "find_tool", `{"query":"a","limit":3}`, `invalid-arguments: find_tool takes only "query".`},
		{"name in other case", "find_tool", `{"Query":"a"}`, `invalid-arguments: find_tool takes only "query".`},
		{"unknown name of call_tool", "call_tool", `{"name":"x","args":{}}`, `invalid-arguments: call_tool takes only "name" and "arguments".`},
		{"wrong type", "find_tool", `{"query":["a"]}`, `invalid-arguments: "query" of find_tool has the wrong type; it must be a string.`},
		{"wrong type of a name", "call_tool", `{"name":1}`, `invalid-arguments: "name" of call_tool has the wrong type; it must be a string.`},
		{"missing", "find_tool", `{}`, `invalid-arguments: find_tool needs "query", a few words.`},
		{"unknown zone", "clock", `{"zone":"Mars/Olympus"}`, `invalid-arguments: clock does not know this time zone; use an IANA name such as Europe/Berlin, or leave it out.`},
		{"zone that is a path", "clock", `{"zone":"../../etc/passwd"}`, `invalid-arguments: clock does not know this time zone; use an IANA name such as Europe/Berlin, or leave it out.`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeCall(tt.tool, tt.args)
			if err == nil || err.Error() != tt.want {
				t.Errorf("%#v, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func FuzzDecodeCall(f *testing.F) {
	f.Add("clock", `{"zone":"UTC"}`)
	f.Add("find_tool", `{"query":"x"}`)
	f.Add("call_tool", `{"name":"x","arguments":{"a":1}}`)
	f.Add("call_tool", `{"name":"find_tool","arguments":"{\"query\":\"x\"}"}`)
	f.Add("x", ``)
	f.Fuzz(func(t *testing.T, name, args string) {
		r, err := DecodeCall(name, args)
		if err != nil {
			var e *CallError
			if !errors.As(err, &e) || e.Code.Validate() != nil {
				t.Fatalf("not a CallError: %v", err)
			}
			text := err.Error()
			if !strings.HasPrefix(text, string(e.Code)+": ") || !strings.HasSuffix(text, ".") || len(text) > 200 ||
				strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r > 0x7e || r == '<' || r == '[' }) {
				t.Fatalf("not a plain sentence: %q", text)
			}
			return
		}
		if c, ok := r.(CallRequest); ok {
			v := jsontext.Value(c.Args)
			if v.Kind() != '{' || !v.IsValid() || proto.CheckTool(c.Tool) != nil {
				t.Fatalf("not to be sent to brokerd: %+v", c)
			}
		}
	})
}
