package measure

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"boxmaker/bxctl/internal/loopdconf"
	"boxmaker/bxctl/internal/measure/api"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A message of a conversation, in the form of the API.
type message struct {
	Role      string  `json:"role"`
	Content   *string `json:"content,omitzero"`
	Reasoning string  `json:"reasoning_content,omitzero"`
	Calls     []call  `json:"tool_calls,omitempty"`
	CallID    string  `json:"tool_call_id,omitzero"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func system(text string) message { return message{Role: "system", Content: &text} }
func user(text string) message   { return message{Role: "user", Content: &text} }
func tool(id, text string) message {
	return message{Role: "tool", Content: &text, CallID: id}
}

// answer is a completion as a conversation goes on with it: the message, and a
// result for each of its calls. A call whose arguments were cut off is left out.
func answer(c *api.Completion) []message {
	m := message{Role: "assistant", Content: &c.Content, Reasoning: c.Reasoning}
	var results []message
	for _, k := range c.Calls {
		if !jsontext.Value(k.Arguments).IsValid() {
			continue
		}
		one := call{ID: k.ID, Type: "function"}
		one.Function.Name, one.Function.Arguments = k.Name, k.Arguments
		m.Calls = append(m.Calls, one)
		results = append(results, tool(k.ID, "12:00"))
	}
	return append([]message{m}, results...)
}

// request makes bodies as loopd does: constant members first, messages last.
type request struct {
	Model    string
	Slot     int
	Sampling loopdconf.Sampling
}

// mark is the text that ends capped thinking. As with loopd's own, its form
// decides whether the next turn hits the cache: a space first, a letter last.
const mark = " I have thought long enough and answer now"

// shape is what differs between the requests of a measurement.
type shape struct {
	max, think int // tokens; think < 0: no cap is sent
	tools      []jsontext.Value
	extra      string // further members: `"ignore_eos":true`
}

func (q request) body(s shape, messages []message) ([]byte, error) {
	model, err := json.Marshal(q.Model)
	if err != nil {
		return nil, err
	}
	b := append([]byte(`{"model":`), model...)
	b = fmt.Appendf(b, `,"id_slot":%d,"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"cache_prompt":true`, q.Slot)
	b = fmt.Appendf(b, `,"temperature":%s,"top_p":%s,"top_k":%d,"max_tokens":%d`, q.Sampling.Temperature, q.Sampling.TopP, q.Sampling.TopK, s.max)
	if s.think >= 0 {
		b = fmt.Appendf(b, `,"reasoning_budget_tokens":%d,"reasoning_budget_message":%s`, s.think, strconv.Quote(mark))
	}
	b = append(b, `,"sse_ping_interval":1`...)
	if s.extra != "" {
		b = append(append(b, ','), s.extra...)
	}
	if len(s.tools) > 0 {
		b = append(b, `,"tools":[`...)
		for i, t := range s.tools {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, t...)
		}
		b = append(b, ']')
	}
	list, err := json.Marshal(messages)
	if err != nil {
		return nil, err
	}
	return append(append(append(b, `,"messages":`...), list...), '}'), nil
}

// A target is one tool, with a request for it that has one right answer.
type target struct {
	name, asks, args string
	schema           string
}

// targets are four tools of different shapes: no arguments, a text, two numbers,
// an object in a list. The requests name the tool, so that a rule-based stand-in
// understands them too.
func targets() []target {
	return []target{
		{"clock", "Call the tool clock with {}", `{}`, `{"type":"object","properties":{}}`},
		{
			"find_tool", `Call the tool find_tool with {"query":"read a file"}`, `{"query":"read a file"}`,
			`{"type":"object","properties":{"query":{"type":"string","description":"what the tool should do"}},"required":["query"]}`,
		},
		{
			"add", `Call the tool add with {"a":17,"b":25}`, `{"a":17,"b":25}`,
			`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`,
		},
		{
			"save_items", `Call the tool save_items with {"items":[{"name":"tea","count":2},{"name":"milk \"fresh\"","count":1}]}`,
			`{"items":[{"name":"tea","count":2},{"name":"milk \"fresh\"","count":1}]}`,
			`{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"count":{"type":"integer"}},"required":["name","count"]}}},"required":["items"]}`,
		},
	}
}

func schemas(all []target) []jsontext.Value {
	var out []jsontext.Value
	for _, t := range all {
		out = append(out, jsontext.Value(fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":%q,"parameters":%s}}`, t.name, "The tool "+t.name+".", t.schema)))
	}
	return out
}

const instruction = "You are a careful assistant under test. Do exactly what is asked, with the tools that there are, and answer briefly."

// prose makes text of about n tokens that no cache has seen, of plain words. per
// is how many tokens the server makes of a thousand of these words.
func prose(n int64, per int, seed uint64) string {
	words := strings.Fields("the river carries small boats past gardens where people drink tea and talk about old houses long winters and the price of bread while a clock " +
		"on the tower counts hours nobody needs and children draw maps of islands that were never there")
	rng := rand.New(rand.NewPCG(seed, 7))
	count := max(1, int(n*1000/int64(max(per, 1))))
	out := make([]string, count)
	for i := range out {
		out[i] = words[rng.IntN(len(words))]
	}
	return strings.Join(slices.Clip(out), " ")
}

// density asks the server how many tokens a thousand words of prose are.
func (r *run) density() (int, error) {
	text := prose(1000, 1000, 1)
	n, err := r.Server.Tokenize(r.ctx, text)
	if err != nil {
		return 0, err
	}
	return max(n, 1), nil
}

// seed makes prompts of this run unlike those of any other.
func (r *run) seed(salt uint64) uint64 {
	return uint64(r.res.Started.UnixNano()) ^ salt*0x9e3779b97f4a7c15
}
