package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// firstByte compares the time until the model's first word arrives: through
// loop.sock, loopd and inferproxy, a synced log included; through the whole of
// `bxctl ask`, the start of a process included; and by a direct POST of the very
// same body to the same server, on a slot of its own whose cache grows alike.
func firstByte(t *testing.T) []row {
	s, server := recorded(t)
	direct := client("tcp", server.Address, false)
	var path, ask, bare []time.Duration
	// In blocks that take turns, so that a machine that gets busier does so for
	// all three. Each block is a session of its own.
	for block := range pick(10, 1) {
		mark := fmt.Sprintf("(block %d)", block)
		for i := range pick(20, 3) {
			path = append(path, throughLoop(t, s, fmt.Sprintf("chat-bench-loop-%d", block), fmt.Sprintf("%s hello %d", mark, i)))
		}
		for i := range pick(20, 3) {
			ask = append(ask, throughAsk(t, s, fmt.Sprintf("chat-bench-ask-%d", block), fmt.Sprintf("(ask %d) hello %d", block, i)))
		}
		for _, body := range requests(t, server, mark) {
			bare = append(bare, post(t, direct, body))
		}
	}
	if len(bare) != len(path) {
		t.Fatalf("%d requests were recorded, want %d", len(bare), len(path))
	}
	a, b, c := median(path), median(ask), median(bare)
	line := func(what string, d time.Duration) row {
		return row{
			what, fmt.Sprintf("%.2f ms", (d-c).Seconds()*1e3), "<= 3 ms", d-c <= 3*time.Millisecond,
			fmt.Sprintf("median %.2f ms against %.2f ms", d.Seconds()*1e3, c.Seconds()*1e3),
		}
	}
	return []row{
		line("added time to first byte, path of ask (loop.sock to word)", a),
		line("the same with the process of bxctl ask", b),
	}
}

func word(e proto.Message) bool {
	switch e.(type) {
	case *proto.Thinking, *proto.Text:
		return true
	default:
		return false
	}
}

func throughLoop(t *testing.T, s *stack.Stack, session, text string) time.Duration {
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience)
	defer cancel()
	start := time.Now()
	var first time.Duration
	end, err := s.Submit(ctx, &proto.Submit{Session: session, Origin: origin(text), Text: text, Surface: proto.SurfaceAsk}, func(e proto.Message) {
		if first == 0 && word(e) {
			first = time.Since(start)
		}
	})
	if err != nil || first == 0 {
		t.Fatalf("%q: %v %v", text, end, err)
	}
	return first
}

func origin(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, text)
}

func throughAsk(t *testing.T, s *stack.Stack, session, text string) time.Duration {
	cmd := s.Command(t.Context(), "ask", "--json", "--session", session, text)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var first time.Duration
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if first == 0 && (bytes.HasPrefix(lines.Bytes(), []byte(`{"type":"thinking"`)) || bytes.HasPrefix(lines.Bytes(), []byte(`{"type":"text"`))) {
			first = time.Since(start)
		}
	}
	if err := cmd.Wait(); err != nil || first == 0 {
		t.Fatalf("bxctl ask: %v, first word after %v", err, first)
	}
	return first
}

// post sends a recorded body to another slot and gives the time to the first
// piece of the answer.
func post(t *testing.T, c *http.Client, body []byte) time.Duration {
	body = bytes.Replace(body, []byte(`"id_slot":0`), []byte(`"id_slot":2`), 1)
	start := time.Now()
	r, err := c.Post("http://llama/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var first time.Duration
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if first == 0 && (bytes.Contains(lines.Bytes(), []byte(`"reasoning_content":"`)) || bytes.Contains(lines.Bytes(), []byte(`"content":"`))) {
			first = time.Since(start)
		}
	}
	if first == 0 {
		t.Fatalf("the server said nothing (status %d)", r.StatusCode)
	}
	return first
}

// tokenCost takes the processor time of loopd over long streams, and divides it
// by the tokens that the server counted.
func tokenCost(t *testing.T) []row {
	s, _ := recorded(t)
	pid := s.PID("loopd")
	long := strings.Repeat("one two three four five six seven eight nine ten ", pick(250, 2))
	s.Say("chat-bench-warm", "bench-warm", "answer with "+long)
	before := cpu(t, pid)
	tokens := int64(0)
	for i := range pick(12, 1) {
		done := s.Say(fmt.Sprintf("chat-bench-long-%d", i), fmt.Sprintf("bench-long-%d", i), "answer with "+long)
		tokens += done.Usage.Generated
	}
	used := cpu(t, pid) - before
	if tokens == 0 {
		t.Fatal("no tokens were generated")
	}
	each := used / time.Duration(tokens)
	return []row{{
		"processor time of loopd a streamed token", fmt.Sprintf("%.1f us", float64(each)/1e3), "<= 30 us", each <= 30*time.Microsecond,
		fmt.Sprintf("%v over %d tokens", used, tokens),
	}}
}
