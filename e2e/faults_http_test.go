package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// What stands on the wire where an answer of llama-server should: byte for byte,
// through the real inferproxy. Each is an outcome of the turn, and the next turn is
// answered.
func TestFault_Server_OddHTTP(t *testing.T) {
	t.Parallel()
	s, llama := scripted(t)
	quick(s)
	s.Up()
	const (
		stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
		hello  = `data: {"choices":[{"index":0,"finish_reason":null,"delta":{"content":"half"}}]}` + "\n\n"
		end    = `data: {"choices":[{"index":0,"finish_reason":"stop","delta":{}}]}` + "\n\ndata: [DONE]\n\n"
	)
	chunked := func(parts ...string) string {
		var b strings.Builder
		b.WriteString(stream + "Transfer-Encoding: chunked\r\n\r\n")
		for _, p := range parts {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
		}
		return b.String()
	}
	for i, c := range []struct {
		name, raw, key, says string
	}{
		{"not a byte", "", "server-cut", "ended before the answer did"},
		{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n", "server-bad-data", "not what llama-server sends"},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-Ty", "server-cut", "ended before the answer did"},
		{"a head without end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 200), "server-bad-data", "head too large"},
		{"redirect", "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n", "server-bad-data", "Found"},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", "server-bad-data", "No Content"},
		{"not found", "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<h1>no</h", "server-bad-data", "Not Found"},
		{"a gateway's page", "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<h1>", "server-error", "Bad Gateway"},
		{"JSON instead of a stream", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", "server-bad-data", "application/json"},
		{"no content type", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "server-bad-data", "content type"},
		{"empty stream", stream + "Content-Length: 0\r\n\r\n", "server-cut", ""},
		{"short of its length", stream + "Content-Length: 5000\r\n\r\n" + hello, "server-cut", ""},
		{"longer than its length", stream + "Content-Length: 20\r\n\r\n" + hello + end, "server-cut", ""},
		{"chunk without size", stream + "Transfer-Encoding: chunked\r\n\r\n" + hello, "server-bad-data", "chunk"},
		{"chunk that is cut", chunked(hello) + "500\r\nda", "server-cut", ""},
		{"end of the chunks before the mark", chunked(hello, ""), "server-cut", ""},
		{"events after the mark", chunked(hello, end, hello, ""), "", "half"},
		{"mark without an end", chunked(hello, "data: [DONE]\n\n"), "server-cut", ""},
		{"interim answers, which nobody asked for", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + chunked(hello, end, ""), "server-bad-data", "Continue"},
		{"HTTP/1.0 up to the end of the connection", "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + hello + end, "", "half"},
		{"other line ends", "HTTP/1.1 200 OK\nContent-Type: text/event-stream; charset=utf-8\n\n" + strings.ReplaceAll(hello+end, "\n", "\r\n"), "", "half"},
	} {
		t.Run(c.name, func(t *testing.T) {
			session := fmt.Sprintf("chat-http-%d", i)
			answered(t, s, session, "This is "+session+".")
			llama.Handle("/v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = conn.Write([]byte(c.raw))
				_ = conn.Close()
			})
			_, done, r := askEvents(t, s, session, "And now?")
			llama.Handle("/v1/chat/completions", nil)
			if c.key == "" {
				if done.Outcome != proto.TurnAnswered || done.Answer != c.says {
					t.Errorf("%s, %q, %s", done.Outcome, done.Answer, done.Text)
				}
			} else {
				view{exitUnanswered, c.key, []string{c.says}}.check(t, r)
			}
			if got := answered(t, s, session, "Are you back?"); got != "ok" {
				t.Errorf("turn after: %q", got)
			}
		})
	}
	wantGrowth(t, settled(t, s), llama.Bodies())
	s.Down()
}
