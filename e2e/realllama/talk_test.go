package realllama

import (
	"fmt"
	"maps"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object of a request.
type object = map[string]any

// tools are declarations in the manner of loopd's own three.
const tools = `[{"type":"function","function":{"name":"clock","description":"Tells the time.","parameters":{"type":"object","properties":{"zone":{"type":"string"}},"additionalProperties":false}}},
{"type":"function","function":{"name":"find_tool","description":"Finds tools.","parameters":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"],"additionalProperties":false}}},
{"type":"function","function":{"name":"call_tool","description":"Runs a tool.","parameters":{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name","arguments"],"additionalProperties":false}}}]`

// A talk is a conversation straight with a server, without Boxmaker.
type talk struct {
	s        *server
	slot     int
	messages []object
	last     *stream
}

func newTalk(s *server, slot int) *talk {
	return &talk{s: s, slot: slot, messages: []object{{"role": "system", "content": "You are a test."}}}
}

func (k *talk) user(format string, args ...any) *talk {
	k.messages = append(k.messages, object{"role": "user", "content": fmt.Sprintf(format, args...)})
	return k
}

// body is the request for the next reply; more replaces members.
func (k *talk) body(more object) []byte {
	k.s.t.Helper()
	req := object{
		"id_slot": k.slot, "stream": true, "stream_options": object{"include_usage": true}, "cache_prompt": true,
		"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": 1000,
		"tools": jsontext.Value(tools), "messages": k.messages,
	}
	maps.Copy(req, more)
	b, err := json.Marshal(req)
	if err != nil {
		k.s.t.Fatal(err)
	}
	return b
}

// reply asks for the next reply, which must come through, and takes it into the
// history, with results for its calls.
func (k *talk) reply(more object) *stream {
	k.s.t.Helper()
	st := k.s.chat(k.body(more))
	if st.Status != 200 || st.Error != "" || !st.Done || st.Timings == nil {
		k.s.t.Fatalf("reply: %+v", st)
	}
	m := object{"role": "assistant", "content": st.Content, "reasoning_content": st.Reasoning}
	var calls []object
	var results []object
	for i, c := range st.Calls {
		name, args := splitCall(c)
		id := fmt.Sprintf("call%d-%d", len(k.messages), i)
		calls = append(calls, object{"id": id, "type": "function", "function": object{"name": name, "arguments": args}})
		results = append(results, object{"role": "tool", "tool_call_id": id, "content": "Monday, 12:00"})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	k.messages = append(append(k.messages, m), results...)
	k.last = st
	return st
}

// scripted is reply with a scripted reply.
func (k *talk) scripted(name string) *stream {
	k.s.t.Helper()
	id, ok := k.s.model.tokens["reply "+name]
	if !ok {
		k.s.t.Fatalf("no reply %q", name)
	}
	return k.reply(object{"logit_bias": [][2]int{{id, 100}}})
}

// splitCall undoes what a stream joined.
func splitCall(c string) (name, args string) {
	for i := range c {
		if c[i] == '{' {
			return c[:i], c[i:]
		}
	}
	return c, ""
}

// wantExact checks that st took all that the reply before it left in the cache.
func wantExact(t *testing.T, before timings, st *stream) {
	t.Helper()
	if got, want := st.Timings.Cache, before.next(); got != want {
		t.Errorf("cache_n %d, want %d (before: %+v, now: %+v)", got, want, before, *st.Timings)
	}
}
