package llama

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// FuzzChat feeds whole streams. Whatever they hold: a chat without an error has
// an end, and text or whole calls; and nobody was shown any markup.
func FuzzChat(f *testing.F) {
	for _, name := range []string{"canned_answer", "canned_two_calls_parallel_true", "canned_bad_args", "tools_required_stream_fragments_seed1", "tools_required_thinking"} {
		f.Add(readStream(f, name))
	}
	f.Add(pieces(3))
	f.Add("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"<tool_call>\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + stream
		c := New(Config{Dial: func(context.Context) (net.Conn, error) { return &canned{r: strings.NewReader(answer)}, nil }})
		o := chatOnce(t, c)
		for _, m := range markers() {
			if strings.Contains(o.shown(), m) {
				t.Errorf("showed %q", m)
			}
		}
		if !strings.HasPrefix(o.got.Content, o.shown()) {
			t.Errorf("shown %q of %q", o.shown(), o.got.Content)
		}
		if o.err != nil {
			if o.err.Message == "" || o.err.Why.Validate() != nil || strings.ContainsAny(o.err.Message, "\n\x1b") {
				t.Errorf("error %+v", o.err)
			}
			return
		}
		if !o.got.Complete || o.got.Finish == "" || strings.TrimSpace(o.got.Content) == "" && len(o.got.Calls) == 0 {
			t.Errorf("no error, and %+v", o.got)
		}
		ids := map[string]bool{}
		for _, call := range o.got.Calls {
			if v := jsontext.Value(call.Arguments); call.ID == "" || call.Name == "" || ids[call.ID] || !v.IsValid() || v.Kind() != '{' {
				t.Errorf("call %+v", call)
			}
			ids[call.ID] = true
		}
	})
}

// FuzzAnswer feeds whole HTTP answers to a query and to a chat.
func FuzzAnswer(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	f.Add("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n\r\n" + `{"error":{"code":400,"message":"x","type":"exceed_context_size_error","n_prompt_tokens":3620,"n_ctx":1024}}`)
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	f.Add("HTTP/1.1 503 x\r\n\r\n")
	f.Fuzz(func(t *testing.T, answer string) {
		c := New(Config{Limits: Limits{Load: 1, Reach: 1}, Dial: func(context.Context) (net.Conn, error) { return &canned{r: strings.NewReader(answer)}, nil }})
		_, _ = c.Props(t.Context())
		_, _ = c.Slots(t.Context())
		o := chatOnce(t, c)
		if o.err != nil && (o.err.Message == "" || o.err.Why.Validate() != nil) {
			t.Errorf("error %+v", o.err)
		}
	})
}

// Calls come back byte for byte, however their arguments are cut up.
func TestCallsSurviveFragments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []Call
		var b strings.Builder
		event := func(delta string) {
			fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"finish_reason\":null,\"delta\":%s}]}\n\n", delta)
		}
		quote := func(s string) string {
			q, err := jsontext.AppendQuote(nil, s)
			if err != nil {
				t.Fatal(err)
			}
			return string(q)
		}
		for i := range rapid.IntRange(1, 5).Draw(t, "calls") {
			args, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "args"), json.Deterministic(true))
			if err != nil {
				t.Fatal(err)
			}
			call := Call{ID: fmt.Sprint("id", i), Name: rapid.StringN(1, 20, 60).Draw(t, "name"), Arguments: " " + string(args) + "\n"}
			want = append(want, call)
			left := call.Arguments
			event(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, i, quote(call.ID), quote(call.Name)))
			for left != "" {
				runes := []rune(left)
				n := rapid.IntRange(1, len(runes)).Draw(t, "piece")
				event(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(string(runes[:n]))))
				left = string(runes[n:])
			}
		}
		b.WriteString("data: {\"choices\":[{\"index\":0,\"finish_reason\":\"tool_calls\",\"delta\":{}}]}\n\ndata: [DONE]\n\n")
		answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b.String()
		c := New(Config{Dial: func(context.Context) (net.Conn, error) { return &canned{r: strings.NewReader(answer)}, nil }})
		got, err := c.Chat(context.Background(), []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if i >= len(got.Calls) || got.Calls[i] != want[i] {
				t.Fatalf("call %d: %+v, want %+v", i, got.Calls, want[i])
			}
		}
	})
}
