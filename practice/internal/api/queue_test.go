package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"boxmaker/practice/internal/brain"
	"boxmaker/practice/internal/fault"
	"boxmaker/practice/internal/slots"
)

// A busy slot queues without a byte, and another slot is not held up.
func TestBusySlotQueues(t *testing.T) {
	b := newBox(t, func(c *Config) { c.GenTPS = 200 })
	ctx, cancel := context.WithCancel(t.Context())
	first := b.open(t, ctx, `{"messages":[{"role":"user","content":"think for 3000 words"}],"id_slot":0,`+usual+`}`)
	if _, err := first.until("reasoning_content"); err != nil {
		t.Fatal(err)
	}
	second := make(chan answer)
	go func() { second <- b.chat(t, `{`+quiet+say+`"id_slot":0,`+usual+`}`) }()
	waitFor(t, "the queue", func() bool { return b.api.Pool.Stats().Deferred == 1 })
	if s := read(t, b.chat(t, `{`+quiet+say+`"id_slot":1,`+usual+`}`).body); !s.done {
		t.Error("slot 1 had to wait")
	}
	select {
	case a := <-second:
		t.Fatalf("the second request did not wait: %d %s", a.status, a.body)
	default:
	}
	if m := b.do(t, "GET", "/metrics", "").body; !strings.Contains(m, "\nllamacpp:requests_deferred 1\n") || !strings.Contains(m, "\nllamacpp:requests_processing 1\n") {
		t.Errorf("metrics:\n%s", m)
	}
	cancel() // closing a stream ends it
	if s := read(t, (<-second).body); !s.done {
		t.Error("the second request was not served")
	}
}

// What a cancelled stream has processed stays in the slot.
func TestCancelKeepsWhatWasDone(t *testing.T) {
	b := newBox(t, func(c *Config) { c.GenTPS = 200 })
	ctx, cancel := context.WithCancel(t.Context())
	body := `{"messages":[{"role":"user","content":"think for 3000 words"}],"id_slot":0,` + usual + `}`
	l := b.open(t, ctx, body)
	if _, err := l.until("reasoning_content"); err != nil {
		t.Fatal(err)
	}
	cancel()
	waitFor(t, "the end of the cancelled request", func() bool { return b.api.Pool.Stats().Processing == 0 })
	if n := b.api.Pool.Held(0); n < 5 || n > 1000 {
		t.Errorf("the slot holds %d tokens", n)
	}
	s := read(t, b.chat(t, strings.Replace(body, `"id_slot":0`, `"id_slot":0,"max_tokens":1`, 1)).body)
	if s.timings.PromptN != 1 {
		t.Errorf("the same prompt again: %+v", s.timings)
	}
}

func TestCancelInPrefill(t *testing.T) {
	b := newBox(t, func(c *Config) { c.Pool, c.PromptTPS = slots.New(1, 65536), 8*batch })
	ctx, cancel := context.WithCancel(t.Context())
	l := b.open(t, ctx, `{"messages":[{"role":"user","content":"`+strings.Repeat("item ", 30000)+`"}],"return_progress":true,`+usual+`}`)
	if _, err := l.until(`"processed":2048`); err != nil {
		t.Fatal(err)
	}
	cancel()
	waitFor(t, "the end of the cancelled request", func() bool { return b.api.Pool.Stats().Processing == 0 })
	if n := b.api.Pool.Held(0); n%batch != 0 || n == 0 {
		t.Errorf("the slot holds %d tokens, which is no whole number of batches", n)
	}
}

// A client that goes while it is queued is noticed at its turn, and what it had
// sent has cut the slot back.
func TestCancelInQueueRollsBack(t *testing.T) {
	b := newBox(t, func(c *Config) { c.GenTPS = 1000 })
	first := b.open(t, t.Context(), `{"messages":[{"role":"user","content":"say 100 words"}],"id_slot":0,`+usual+`}`)
	if _, err := first.until("reasoning_content"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", b.URL+"/v1/chat/completions", strings.NewReader(`{"messages":[{"role":"user","content":"other"}],"id_slot":0,`+usual+`}`))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error)
	go func() {
		resp, err := b.Client().Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	waitFor(t, "the queue", func() bool { return b.api.Pool.Stats().Deferred == 1 })
	cancel()
	if err := <-gone; err == nil {
		t.Error("the queued request was answered")
	}
	if _, err := first.until("[DONE]"); err != nil {
		t.Error(err)
	}
	waitFor(t, "the idle server", func() bool { st := b.api.Pool.Stats(); return st.Processing == 0 && st.Deferred == 0 })
	if n := b.api.Pool.Held(0); n > 5 { // <|im_start|>user\n
		t.Errorf("the slot holds %d tokens; it should be cut back to what the two prompts share", n)
	}
}

// A document is made to its end even if nobody waits for it.
func TestDocumentIsNotCancelled(t *testing.T) {
	s := New(Config{Context: t.Context(), Pool: slots.New(1, 4096), Brain: brain.New().Reply, Faults: new(fault.Box)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/v1/chat/completions", strings.NewReader(`{`+say+`"max_tokens":5}`)))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"completion_tokens":5`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
