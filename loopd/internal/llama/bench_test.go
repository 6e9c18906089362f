package llama

import (
	"context"
	"net"
	"strings"
	"testing"
)

// pieces is a stream of n pieces of content as the server writes it.
func pieces(n int) string {
	const common = `"created":1796051242,"id":"chatcmpl-5qeThISDFdGZUdxl4nKnDJ14pIF29pO9","model":"tiny","system_fingerprint":"b11669-Debian","object":"chat.completion.chunk"}` + "\n\n"
	return `data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],` + common +
		strings.Repeat(`data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":" con"}}],`+common, n) +
		`data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],` + common + "data: [DONE]\n\n"
}

// BenchmarkToken measures the whole path of one streamed token in this package,
// from the bytes on the connection to the event. The server's side is in it too.
func BenchmarkToken(b *testing.B) {
	const n = 1000
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + pieces(n)
	c := New(Config{Dial: func(context.Context) (net.Conn, error) { return &canned{r: strings.NewReader(answer)}, nil }})
	count := 0
	on := func(ev Event) {
		if _, ok := ev.(Text); ok {
			count++
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%n != 0 {
			continue
		}
		if _, err := c.Chat(context.Background(), []byte(`{}`), on); err != nil {
			b.Fatal(err)
		}
	}
	if count == 0 {
		b.Fatal("no text")
	}
}

func BenchmarkDecode(b *testing.B) {
	event := []byte(`{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" con"}}],"created":1796051242,"id":"chatcmpl-5qeThISDFdGZUdxl4nKnDJ14pIF29pO9","model":"tiny","system_fingerprint":"b11669-Debian","object":"chat.completion.chunk"}`)
	var c chunk
	b.ReportAllocs()
	for b.Loop() {
		if err := c.decode(event); err != nil {
			b.Fatal(err)
		}
	}
}
