package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"boxmaker/practice/internal/slots"
)

// A talk is a client that does what loopd does: it sends the whole
// conversation again, with what it was answered byte for byte.
type talk struct {
	slot     int
	extra    string
	messages []string
}

func quote(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (k *talk) user(text string) {
	k.messages = append(k.messages, `{"role":"user","content":`+quote(text)+`}`)
}

func (k *talk) body() string {
	tools := `{"type":"function","function":{"name":"clock","description":"Tells the time.","parameters":{"type":"object","properties":{}}}},` +
		`{"type":"function","function":{"name":"find_tool","parameters":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}}},` +
		`{"type":"function","function":{"name":"call_tool","parameters":{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name","arguments"]}}}`
	return fmt.Sprintf(`{"model":"x","id_slot":%d,"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"cache_prompt":true,%s"tools":[%s],"messages":[%s]}`,
		k.slot, k.extra, tools, strings.Join(k.messages, ","))
}

// answered adds the reply, and a result for each call.
func (k *talk) answered(s said, result string) {
	m := `{"role":"assistant","content":` + quote(s.content)
	if s.reasoning != "" {
		m += `,"reasoning_content":` + quote(s.reasoning)
	}
	if len(s.calls) > 0 {
		m += `,"tool_calls":[`
		for i, c := range s.calls {
			if i > 0 {
				m += ","
			}
			m += `{"id":"` + s.ids[i] + `","type":"function","function":{"name":"` + c.Name + `","arguments":` + quote(c.Arguments) + `}}`
		}
		m += `]`
	}
	k.messages = append(k.messages, m+`}`)
	for _, id := range s.ids {
		k.messages = append(k.messages, `{"role":"tool","tool_call_id":"`+id+`","content":`+quote(result)+`}`)
	}
}

// On a strict extension the cache holds all but the last token of what was
// there, over a conversation with many turns and tool calls, on two slots that
// do not disturb each other.
func TestCacheArithmetic(t *testing.T) {
	b := newBox(t, func(c *Config) { c.Pool = slots.New(3, 65536) })
	results := map[string]string{"find_tool": `[{"name":"list_files","line":"lists","schema":"{}"}]`, "call_tool": "a.md\n\n  b.md  ", "clock": "2026-11-30T12:00:00Z"}
	talks := []*talk{
		{slot: 0, messages: []string{`{"role":"system","content":"Test agent."}`}},
		{slot: 2, extra: `"reasoning_budget_tokens":5,"reasoning_budget_message":"\nEnough.\n",`, messages: []string{`{"role":"system","content":"Another agent."}`}},
		{slot: 1, extra: `"chat_template_kwargs":{"enable_thinking":false},`},
	}
	next := map[int]int{}
	requests := 0
	for _, text := range []string{"hello", "what time is it?", "list my notes", "call clock and list my notes in parallel", "say 200 words", "what are grants?", "call clock 4 times", "answer with  a\n\nb  \n", "run uname -a", "think hard"} {
		for _, k := range talks {
			k.user(text)
			for range 10 {
				a := b.chat(t, k.body())
				s := read(t, a.body)
				requests++
				if a.status != 200 || !s.done {
					t.Fatalf("%d %s", a.status, a.body)
				}
				if got := s.timings.CacheN; got != next[k.slot] {
					t.Fatalf("slot %d, %q: cache_n %d, want %d", k.slot, text, got, next[k.slot])
				}
				if total := s.timings.CacheN + s.timings.PromptN; total != s.usage.Prompt || s.usage.Details.Cached != s.timings.CacheN || s.usage.Completion != s.timings.PredictedN {
					t.Errorf("usage %+v and timings %+v do not agree", s.usage, s.timings)
				}
				next[k.slot] = s.timings.CacheN + s.timings.PromptN + s.timings.PredictedN - 1
				name := ""
				if len(s.calls) > 0 {
					name = s.calls[0].Name
				}
				k.answered(s, results[name])
				if name == "" {
					break
				}
			}
		}
	}
	if requests < 50 {
		t.Errorf("only %d requests were made", requests)
	}
}

// A changed beginning shows, and so does a change at the end.
func TestBrokenPrefixShows(t *testing.T) {
	b := newBox(t)
	k := &talk{messages: []string{`{"role":"system","content":"It is 12:00."}`}}
	k.user("hello")
	first := read(t, b.chat(t, k.body()).body)
	k.answered(first, "")
	k.user("hello again")
	second := read(t, b.chat(t, k.body()).body)
	if want := first.timings.PromptN + first.timings.PredictedN - 1; second.timings.CacheN != want {
		t.Fatalf("cache_n %d, want %d", second.timings.CacheN, want)
	}
	if again := read(t, b.chat(t, k.body()).body); again.timings.PromptN != 1 {
		t.Errorf("the same again processed %d tokens, want 1", again.timings.PromptN)
	}
	k.messages[0] = `{"role":"system","content":"It is 12:01."}`
	if third := read(t, b.chat(t, k.body()).body); third.timings.CacheN >= 300 || third.timings.PromptN < first.timings.PromptN/4 {
		t.Errorf("the clock in the system prompt moved, and still cache_n is %d of %d", third.timings.CacheN, third.usage.Prompt)
	}
	if fourth := read(t, b.chat(t, strings.Replace(k.body(), `"name":"clock"`, `"name":"watch"`, 1)).body); fourth.timings.CacheN > 40 {
		t.Errorf("a tool has another name, and still cache_n is %d", fourth.timings.CacheN)
	}
}

// Cut by max_tokens anywhere, what was cut is still a prefix of what comes.
func TestCacheAfterCut(t *testing.T) {
	b := newBox(t)
	rapid.Check(t, func(rt *rapid.T) {
		k := &talk{slot: 1, extra: fmt.Sprintf(`"max_tokens":%d,`, rapid.IntRange(1, 60).Draw(rt, "max_tokens"))}
		k.user(rapid.SampledFrom([]string{"hello", "what are grants?", "say 100 words", "list my notes"}).Draw(rt, "message"))
		s := read(t, b.chat(t, k.body()).body)
		if len(s.calls) > 0 {
			return // half a call is never sent again
		}
		k.answered(s, "")
		k.user("on")
		next := read(t, b.chat(t, k.body()).body)
		want := s.usage.Prompt + s.timings.PredictedN - 1
		if got := next.timings.CacheN; got > want || got < want-3 { // a blank or half a line feed at the cut
			rt.Fatalf("cache_n %d, want %d: %q %q", got, want, s.reasoning, s.content)
		}
	})
}

// Timings and usage are what was done: nothing is made up.
func TestProgress(t *testing.T) {
	b := newBox(t, func(c *Config) { c.Pool = slots.New(1, 65536) })
	k := &talk{}
	k.user("answer with ok " + strings.Repeat("item ", 9000))
	s := read(t, b.chat(t, k.body()).body)
	n := s.usage.Prompt
	if n < 9000 {
		t.Fatalf("the prompt has %d tokens", n)
	}
	if len(s.progress) != 1+(n+batch-1)/batch {
		t.Errorf("%d progress events for %d tokens", len(s.progress), n)
	}
	for i, p := range s.progress {
		if want := min(i*batch, n); p.Processed != want || p.Total != n || p.Cache != 0 {
			t.Errorf("event %d: %+v, want %d processed", i, p, want)
		}
	}
	k.answered(s, "")
	k.user("hello")
	again := read(t, b.chat(t, k.body()).body)
	if len(again.progress) != 2 || again.progress[0].Processed != again.timings.CacheN || again.progress[1].Processed != again.usage.Prompt {
		t.Errorf("warm: %+v", again.progress)
	}
}
