package testkit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func client(l *Llama) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) },
	}}
}

func post(t *testing.T, l *Llama, path, body string) (int, string) {
	t.Helper()
	resp, err := client(l).Post("http://llama"+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestLlamaDefaultAnswer(t *testing.T) {
	l := NewLlama(t)
	status, got := post(t, l, "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
	if status != http.StatusOK || !strings.Contains(got, `{"content":"ok"}`) || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("status %d, stream:\n%s", status, got)
	}
	if n := len(l.Bodies()); n != 1 {
		t.Errorf("%d bodies recorded", n)
	}
}

func TestLlamaCacheFollowsTheBytes(t *testing.T) {
	l := NewLlama(t)
	var cached []int
	l.On(func(_ int, _ []byte, s *Stream) {
		cached = append(cached, s.CacheN)
		s.Answer("ok")
	})
	long := strings.Repeat("x", 400)
	post(t, l, "/v1/chat/completions", `{"id_slot":1,"messages":[{"role":"user","content":"`+long+`"}]}`)
	post(t, l, "/v1/chat/completions", `{"id_slot":1,"messages":[{"role":"user","content":"`+long+`"},{"role":"assistant","content":"ok"}]}`)
	post(t, l, "/v1/chat/completions", `{"id_slot":1,"messages":[{"role":"user","content":"y`+long+`"}]}`)
	l.Evict(1)
	post(t, l, "/v1/chat/completions", `{"id_slot":1,"messages":[{"role":"user","content":"y`+long+`"}]}`)
	if len(cached) != 4 || cached[0] != 0 || cached[1] < 100 || cached[2] > 20 || cached[3] != 0 {
		t.Errorf("cache_n %v", cached)
	}
}

func TestLlamaCallsWhenRequired(t *testing.T) {
	l := NewLlama(t)
	_, got := post(t, l, "/v1/chat/completions",
		`{"tools":[{"type":"function","function":{"name":"clock"}}],"tool_choice":"required","messages":[{"role":"user","content":"hi"}]}`)
	if !strings.Contains(got, `"name":"clock","arguments":"{}"`) {
		t.Errorf("no call in:\n%s", got)
	}
}

func TestLlamaLoading(t *testing.T) {
	l := NewLlama(t)
	l.Loading(1)
	status, got := post(t, l, "/tokenize", `{"content":"abcde"}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(got, "Loading model") {
		t.Errorf("status %d, %s", status, got)
	}
	if status, got = post(t, l, "/tokenize", `{"content":"abcde"}`); status != http.StatusOK || got != `{"tokens":[0,1]}` {
		t.Errorf("status %d, %s", status, got)
	}
}

// A bubble's clock moves while the server waits, so the in-memory server must
// not hold anything that blocks outside the bubble.
func TestLlamaInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemoryLlama(t)
		l.On(func(_ int, _ []byte, s *Stream) {
			s.Role()
			time.Sleep(time.Hour)
			s.Text("late")
			s.Cut()
		})
		resp, err := client(l).Post("http://llama/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		start, lines := time.Now(), 0
		r := bufio.NewReader(resp.Body)
		for {
			if _, err = r.ReadString('\n'); err != nil {
				break
			}
			lines++
		}
		if lines != 4 || time.Since(start) != time.Hour || err != io.ErrUnexpectedEOF {
			t.Errorf("%d lines, %v, error %v", lines, time.Since(start), err)
		}
	})
}
