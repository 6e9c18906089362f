package api

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"boxmaker/practice/internal/fault"
	"boxmaker/practice/internal/slots"
)

// Each row: an order, and what the next chat request must get. The one after
// that goes well, on the same server.
func TestFaults(t *testing.T) {
	tests := []struct {
		order string
		ok    func(t *testing.T, a answer) bool
	}{
		{`{"kind":"loading"}`, func(_ *testing.T, a answer) bool {
			return a.status == 503 && strings.Contains(a.body, `"Loading model"`)
		}},
		{`{"kind":"unauthorised"}`, func(_ *testing.T, a answer) bool {
			return a.status == 401 && strings.Contains(a.body, "authentication_error")
		}},
		{`{"kind":"html"}`, func(_ *testing.T, a answer) bool {
			return a.status == 200 && strings.HasPrefix(a.body, "<!DOCTYPE html>") && a.header.Get("Content-Type") == "text/html"
		}},
		{`{"kind":"exceeded"}`, func(_ *testing.T, a answer) bool {
			return a.status == 400 && strings.Contains(a.body, `"type":"exceed_context_size_error","n_prompt_tokens":`)
		}},
		{`{"kind":"server-error"}`, func(_ *testing.T, a answer) bool {
			return a.status == 500 && strings.Contains(a.body, "peg-native")
		}},
		{`{"kind":"cut","after":5}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return a.err == nil && !s.done && s.finish == "" && s.reasoning != ""
		}},
		{`{"kind":"cut"}`, func(_ *testing.T, a answer) bool { return a.err == nil && a.body == "" }},
		{`{"kind":"cut","after":100000}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return !s.done && s.finish == "" && len(s.calls) == 1
		}},
		{`{"kind":"disconnect","after":5}`, func(t *testing.T, a answer) bool {
			return errors.Is(a.err, io.ErrUnexpectedEOF) && read(t, a.body).reasoning != ""
		}},
		{`{"kind":"error","after":3}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return strings.Contains(s.failure, "peg-native") && !s.done && s.reasoning != ""
		}},
		{`{"kind":"kv-full","after":3}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return s.failure == "Context size has been exceeded." && !s.done
		}},
		{`{"kind":"context-full","after":3}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return s.done && s.finish == "length" && s.usage.Total == 4096
		}},
		{`{"kind":"drip","after":2,"ms":1}`, func(t *testing.T, a answer) bool { return read(t, a.body).done }},
		{`{"kind":"bad-utf8","after":2}`, func(_ *testing.T, a answer) bool {
			return !utf8.ValidString(a.body) && strings.HasSuffix(a.body, "data: [DONE]\n\n")
		}},
		{`{"kind":"bad-json","after":2}`, func(_ *testing.T, a answer) bool {
			return strings.Contains(a.body, "data: {\"choices\":[{\"finish_reason\":nu\n\n") && strings.HasSuffix(a.body, "data: [DONE]\n\n")
		}},
		{`{"kind":"big-event","after":2}`, func(t *testing.T, a answer) bool {
			return read(t, a.body).done && len(a.body) > 10<<20 && strings.Contains(a.body, strings.Repeat("x", 10<<20))
		}},
		{`{"kind":"empty"}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return s.done && s.finish == "stop" && s.reasoning+s.content == "" && len(s.calls) == 0
		}},
		{`{"kind":"thought-only"}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return s.done && s.finish == "stop" && s.reasoning != "" && s.content == "" && len(s.calls) == 0
		}},
		{`{"kind":"cut-arguments"}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return s.finish == "length" && len(s.calls) == 1 && strings.HasPrefix(s.calls[0].Arguments, `{"note":`) && !jsontext.Value(s.calls[0].Arguments).IsValid()
		}},
		{`{"kind":"markup"}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return s.finish == "stop" && len(s.calls) == 0 && strings.Contains(s.content, "<tool_call>\n<function=clock>")
		}},
		{`{"kind":"duplicate-index"}`, func(_ *testing.T, a answer) bool {
			return strings.Count(a.body, `{"index":0,"id":"`) == 2 && !strings.Contains(a.body, `{"index":1`) && strings.Contains(a.body, `"finish_reason":"tool_calls"`)
		}},
		{`{"kind":"unknown-tool"}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return s.finish == "tool_calls" && s.calls[0].Name == "no_such_tool"
		}},
		{`{"kind":"bad-json-args"}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return s.finish == "tool_calls" && s.calls[0].Arguments == `{"a": `
		}},
		{`{"kind":"long-thought"}`, func(t *testing.T, a answer) bool {
			s := read(t, a.body)
			return s.finish == "length" && s.content == "" && len(s.reasoning) > 10000
		}},
	}
	tried := map[fault.Kind]bool{fault.Clear: true, fault.Stall: true, fault.Evict: true} // these have tests of their own
	for _, tc := range tests {
		t.Run(tc.order, func(t *testing.T) {
			f, err := fault.Decode([]byte(tc.order))
			if err != nil {
				t.Fatal(err)
			}
			tried[f.Kind] = true
			b := newBox(t)
			b.fault(t, tc.order)
			body := `{"reasoning_budget_tokens":50,` + clock + usual + `}`
			if a := b.chat(t, body); !tc.ok(t, a) {
				t.Errorf("%d, %v: %.2000s", a.status, a.err, a.body)
			}
			s := read(t, b.chat(t, body).body)
			if !s.done || s.finish != "tool_calls" || s.calls[0] != (bodyFunction{"clock", "{}"}) {
				t.Errorf("afterwards %+v", s)
			}
		})
	}
	for _, k := range fault.Kinds() {
		if !tried[k] {
			t.Errorf("fault %q has no test", k)
		}
	}
}

func TestFaultsOfDocuments(t *testing.T) {
	tests := []struct {
		kind string
		ok   func(a answer) bool
	}{
		{"error", func(a answer) bool { return a.status == 500 }},
		{"disconnect", func(a answer) bool { return a.err != nil }},
		{"context-full", func(a answer) bool { return strings.Contains(a.body, `"total_tokens":4096`) }},
		{"empty", func(a answer) bool { return strings.Contains(a.body, `"message":{"role":"assistant","content":""}`) }},
		{"bad-json-args", func(a answer) bool { return strings.Contains(a.body, `"arguments":"{\"a\": "`) }},
	}
	for _, tc := range tests {
		t.Run(tc.kind, func(t *testing.T) {
			b := newBox(t)
			b.fault(t, `{"kind":"`+tc.kind+`","after":2}`)
			if a := b.chat(t, `{`+clock+`"max_tokens":100}`); !tc.ok(a) {
				t.Errorf("%d, %v: %s", a.status, a.err, a.body)
			}
		})
	}
}

// A stall sends nothing more, not even a ping, until the client goes; then the
// slot is free again.
func TestStall(t *testing.T) {
	b := newBox(t, func(c *Config) { c.Ping = time.Millisecond })
	b.fault(t, `{"kind":"stall","after":4,"slot":1}`)
	if s := read(t, b.chat(t, `{"id_slot":0,`+say+usual+`}`).body); !s.done {
		t.Error("the stall hit another slot")
	}
	ctx, cancel := context.WithCancel(t.Context())
	l := b.open(t, ctx, `{"id_slot":1,`+say+usual+`}`)
	for range 4 {
		if _, err := l.until("reasoning_content"); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the stall", func() bool { return len(b.api.Faults.Left()) == 0 })
	read := make(chan bool)
	go func() { read <- l.Scan() && l.Text() != "" || l.Scan() }() // a blank line ends the event
	select {
	case got := <-read:
		t.Errorf("something came: %v %q", got, l.Text())
	case <-time.After(20 * time.Millisecond): // 20 pings would have come; too short can only hide a fault
	}
	cancel()
	<-read
	waitFor(t, "the free slot", func() bool { return b.api.Pool.Stats().Processing == 0 })
}

func TestEvict(t *testing.T) {
	b := newBox(t)
	body := `{"id_slot":0,` + say + usual + `}`
	read(t, b.chat(t, body).body)
	if s := read(t, b.chat(t, body).body); s.timings.CacheN == 0 {
		t.Fatal("not warm")
	}
	b.fault(t, `{"kind":"evict"}`)
	if s := read(t, b.chat(t, body).body); s.timings.CacheN != 0 || !s.done {
		t.Errorf("evicted, and still %+v", s.timings)
	}
}

// "loading" is for every route but the practice model's own.
func TestLoadingOnEveryRoute(t *testing.T) {
	b := newBox(t)
	b.fault(t, `{"kind":"loading","times":-1}`)
	for _, route := range []string{"GET /health", "GET /props", "GET /slots", "GET /v1/models", "POST /tokenize", "POST /v1/chat/completions"} {
		method, path, _ := strings.Cut(route, " ")
		if a := b.do(t, method, path, "{}"); a.status != 503 {
			t.Errorf("%s: %d", route, a.status)
		}
	}
	if a := b.do(t, "GET", "/practice/fault", ""); a.status != 200 || !strings.Contains(a.body, `"loading"`) {
		t.Errorf("the orders: %d %s", a.status, a.body)
	}
	b.fault(t, `{"kind":"clear"}`)
	if a := b.do(t, "GET", "/health", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// Without -faults neither the route nor the message does anything.
func TestFaultsAreOff(t *testing.T) {
	b := newBox(t, func(c *Config) { c.FaultRoute = false })
	if a := b.do(t, "POST", "/practice/fault", `{"kind":"cut"}`); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if s := read(t, b.chat(t, `{"messages":[{"role":"user","content":"!fault cut"}],`+usual+`}`).body); !s.done || !strings.Contains(s.content, "does nothing") {
		t.Errorf("%+v", s)
	}
}

// In a message an order is for that message alone, and for one try.
func TestFaultInBand(t *testing.T) {
	b := newBox(t, func(c *Config) { c.Pool = slots.New(1, 4096) })
	body := `{"messages":[{"role":"user","content":"!fault cut after=2\nhello"}],` + usual + `}`
	if s := read(t, b.chat(t, body).body); s.done {
		t.Error("nothing was cut")
	}
	if s := read(t, b.chat(t, body).body); !s.done || !strings.Contains(s.content, "Hello.") {
		t.Errorf("the second try: %+v", s)
	}
	if s := read(t, b.chat(t, `{"messages":[{"role":"user","content":"!fault cut after=2"},{"role":"assistant","content":"x"},{"role":"user","content":"hello"}],`+usual+`}`).body); !s.done {
		t.Error("an old order was obeyed")
	}
	if a := b.do(t, "POST", "/practice/fault", `{"kind":"explode"}`); a.status != 400 || !strings.Contains(a.body, "unknown kind") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
