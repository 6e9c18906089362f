package chat

import (
	"errors"
	"strings"
	"testing"

	"boxmaker/practice/internal/template"
)

const hi = `"messages":[{"role":"user","content":"Hi"}]`

func TestDecode(t *testing.T) {
	tests := []struct {
		name, body string
		ok         func(r *Request) bool
	}{
		{"defaults", `{` + hi + `}`, func(r *Request) bool {
			return r.Slot == AnySlot && r.MaxTokens == -1 && r.Budget == -1 && r.Parallel && r.Thinking && r.CachePrompt && !r.Stream && r.Choice == Auto
		}},
		{"everything", `{"model":"x","id_slot":2,"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"cache_prompt":false,"temperature":0.6,"max_tokens":8192,"reasoning_budget_tokens":4096,"reasoning_budget_message":"m","parallel_tool_calls":false,"reasoning_control":true,"timings_per_token":true,"sse_ping_interval":1,"tool_choice":"required",` + hi + `}`, func(r *Request) bool {
			return r.Slot == 2 && r.Stream && r.IncludeUsage && r.Progress && !r.CachePrompt && r.MaxTokens == 8192 && r.Budget == 4096 && r.BudgetMessage == "m" && !r.Parallel && r.Armed && r.TimingsPerToken && r.Ping == 1 && r.Choice == Required
		}},
		{"sample ok_unknown_field", `{"banana":1,"logit_bias":[[1,false]],` + hi + `}`, func(r *Request) bool { return len(r.Messages) == 1 }},
		{"sample err_slot_string: any slot", `{"id_slot":"1",` + hi + `}`, func(r *Request) bool { return r.Slot == AnySlot }},
		{"sample ok_slot_minus1", `{"id_slot":-1,` + hi + `}`, func(r *Request) bool { return r.Slot == AnySlot }},
		{"sample err_empty_messages: taken", `{"messages":[]}`, func(r *Request) bool { return len(r.Messages) == 0 }},
		{"sample reasoning_effort_none", `{"reasoning_effort":"none",` + hi + `}`, func(r *Request) bool { return !r.Thinking }},
		{"sample enable_thinking_false", `{"chat_template_kwargs":{"enable_thinking":false},` + hi + `}`, func(r *Request) bool { return !r.Thinking }},
		{"sample thinking_disabled_obj: ignored", `{"thinking":{"type":"disabled"},"thinking_budget":5,"reasoning_budget":5,` + hi + `}`, func(r *Request) bool { return r.Thinking && r.Budget == -1 }},
		{"sample budget_thinking_budget_tokens_5", `{"thinking_budget_tokens":5,` + hi + `}`, func(r *Request) bool { return r.Budget == 5 }},
		{"sample tool_choice_named: not forced", `{"tool_choice":{"type":"function","function":{"name":"f"}},` + hi + `}`, func(r *Request) bool { return r.Choice == Auto }},
		{"doubled members: the last", `{"id_slot":1,"id_slot":2,` + hi + `}`, func(r *Request) bool { return r.Slot == 2 }},
		{"of another type, ignored", `{"reasoning_budget_tokens":"5","reasoning_budget_message":5,"parallel_tool_calls":"x","reasoning_control":"x","chat_template_kwargs":{"enable_thinking":5},` + hi + `}`, func(r *Request) bool { return r.Budget == -1 && r.Parallel && !r.Armed && r.Thinking }},
		{"content null", `{"messages":[{"role":"assistant","content":null},{"role":"user","content":null}]}`, func(r *Request) bool { return len(r.Messages) == 2 }},
		{"developer is system", `{"messages":[{"role":"developer","content":"x"}]}`, func(r *Request) bool { return r.Messages[0].Role == "system" }},
		{"typed content", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, func(r *Request) bool { return r.Messages[0].Content == "a\nb" }},
		{"null is the default", `{"max_tokens":null,"stream":null,"tools":null,` + hi + `}`, func(r *Request) bool { return r.MaxTokens == -1 && len(r.Tools) == 0 }},
		{"a tool conversation", `{"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"reasoning_content":"r\n","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"y"}]}`, func(r *Request) bool {
			m := r.Messages[1]
			return r.Tools[0].Name == "f" && m.Reasoning == "r\n" && len(m.Calls) == 1 && m.Calls[0].Name == "f" && string(m.Calls[0].Arguments) == `{"a":1}`
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r, err := Decode([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if !tc.ok(r) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// The texts are those of the samples named.
func TestDecodeErrors(t *testing.T) {
	const parse = "Failed to parse messages: "
	tests := []struct{ name, body, message string }{
		// seen on the running server, without a sample (500 where the text says "Failed to parse")
		{"no content", `{"messages":[{"role":"user"}]}`, "All non-assistant messages must contain 'content'"},
		{"no object", `{"messages":[5]}`, "All non-assistant messages must contain 'content'"},
		{"assistant without anything", `{"messages":[{"role":"assistant"}]}`, "Assistant message must contain either 'content' or 'tool_calls'!"},
		{"calls at the end", `{"messages":[{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}]}`, "Cannot continue an assistant message that contains tool calls."},
		{"messages are text", `{"messages":"x"}`, "Expected 'messages' to be an array"},
		{"no role", `{"messages":[{"content": "x"}]}`, parse + `Missing 'role' in message: {"content":"x"}`},
		{"role is a number", `{"messages":[{"role":5,"content":"x"}]}`, parse + "[json.exception.type_error.302] type must be string, but is number"},
		{"call without type", `{"messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]}`, parse + `Missing tool call type: {"function":{}}`},
		{"call without name", `{"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{}}]}]}`, parse + `Missing tool call name: {"type":"function","function":{}}`},
		{"broken arguments", `{"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"a\":"}}]},{"role":"tool","content":"x"}]}`, "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1, column 6: "},
		{"no arguments", `{"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","content":"x"}]}`, "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1, column 1: attempting to parse an empty input"},
		{"tool without type", `{"tools":[{}],` + hi + `}`, "Failed to parse tools: Missing tool type: {}; tools = [\n  {}\n]"},
		{"tool without name", `{"tools":[{"type":"function","function":{}}],` + hi + `}`, "Failed to parse tools: [json.exception.out_of_range.403] key 'name' not found; tools = [\n  {\n    \"type\": \"function\",\n    \"function\": {}\n  }\n]"},
		{"temperature is text", `{"temperature":"x",` + hi + `}`, "Field 'temperature': [json.exception.type_error.302] type must be number, but is string"},
		{"include_usage is text", `{"stream":true,"stream_options":{"include_usage":"x"},` + hi + `}`, "Field 'include_usage': [json.exception.type_error.302] type must be boolean, but is string"},
		{"budget below -1", `{"reasoning_budget_tokens":-5,` + hi + `}`, "Field 'reasoning_budget_tokens': Value must be between -1 <= value <= 2147483647, but got -5"},
		{"too large a number", `{"max_tokens":3000000000,` + hi + `}`, "Field 'max_tokens': Value must be between -1 <= value <= 2147483647, but got -2147483648"},
		{"err_no_messages", `{"model":"tiny","stream":true}`, "'messages' is required"},
		{"err_not_object", `[1,2]`, "'messages' is required"},
		{"err_content_type", `{"messages":[{"role":"user","content":5}]}`, "Expected 'content' to be a string or an array"},
		{"err_max_tokens_neg", `{"max_tokens":-5,` + hi + `}`, "Field 'max_tokens': Value must be between -1 <= value <= 2147483647, but got -5"},
		{"err_max_tokens_string", `{"max_tokens":"3",` + hi + `}`, "Field 'max_tokens': [json.exception.type_error.302] type must be number, but is string"},
		{"err_tool_choice", `{"tool_choice":"banana",` + hi + `}`, "Invalid tool_choice: banana"},
		{"err_two_assistants", `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]}`, "Cannot have 2 or more assistant messages at the end of the list."},
		{"enable_thinking_string", `{"chat_template_kwargs":{"enable_thinking":"false"},` + hi + `}`, `invalid type for "enable_thinking" (expected boolean, got string)`},
		{"err_grammar_and_tools", `{"grammar":"root ::= \"a\"","tools":[{"type":"function","function":{"name":"f"}}],` + hi + `}`, "Cannot use custom grammar constraints with tools."},
		{"err_bad_json", `{"messages": [`, "[json.exception.parse_error.101] parse error at line 1, column 15: syntax error while parsing value - "},
		{"something behind", `{} {}`, "[json.exception.parse_error.101]"},
		{"no UTF-8", "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "[json.exception.parse_error.101]"},
		{"stream is text", `{"stream":"yes",` + hi + `}`, "Field 'stream': [json.exception.type_error.302] type must be boolean, but is string"},
		{"nothing", ``, "[json.exception.parse_error.101] parse error at line 1, column 1"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode([]byte(tc.body))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			status, kind := 400, "invalid_request_error"
			if strings.HasPrefix(e.Message, "Failed to parse") {
				status, kind = 500, "server_error"
			}
			if e.Status != status || e.Type != kind || !strings.HasPrefix(e.Message, tc.message) {
				t.Errorf("got %v, want %q", e, tc.message)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id_slot":1,"stream":true,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],` + hi + `}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"a\":[1,{\"b\":null}]}"}}]},{"role":"tool","content":[{"type":"text","text":"x"}]}]}`))
	f.Add([]byte(`{"messages":[{"role":"system","content":"x"}],"max_tokens":1e400,"chat_template_kwargs":{"enable_thinking":1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Decode(body)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || e.Status != 400 && e.Status != 500 {
				t.Fatalf("error %v", err)
			}
			return
		}
		_, err = template.Render(r.Input())
		var x *template.Exception
		if err != nil && !errors.Is(err, template.ErrArguments) && !errors.As(err, &x) {
			t.Errorf("rendering: %v", err)
		}
	})
}
