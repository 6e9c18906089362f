package realllama

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
)

// A tap stands before the server and keeps the bodies of the chat requests.
type tap struct {
	addr string

	mu     sync.Mutex // guards bodies
	bodies [][]byte
}

func newTap(t *testing.T, s *server) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{addr: ln.Addr().String()}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", s.addr },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
		}},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // a client that left
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			p.mu.Lock()
			p.bodies = append(p.bodies, b)
			p.mu.Unlock()
			r.Body = io.NopCloser(bytes.NewReader(b))
		}
		pass.ServeHTTP(w, r)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return p
}

// tokensOf renders a request and counts its tokens, with the server's template and
// tokenizer but without its cache.
func tokensOf(s *server, body []byte) []int {
	s.t.Helper()
	var out struct {
		Prompt string `json:"prompt"`
	}
	if code := s.post("/apply-template", body, &out); code != 200 {
		s.t.Fatalf("apply-template: status %d", code)
	}
	return s.tokenize(out.Prompt)
}

// compareIndependently counts for itself what measure reports of its requests, and
// sends them once more, by plain HTTP, to a slot that measure did not use.
func compareIndependently(t *testing.T, s *server, m model, p *tap, got measured) {
	t.Helper()
	var depths int
	for _, row := range got.Raw {
		if row.Step == "throughput" {
			depths++
		}
	}
	// The order of the steps: two requests of the slots, eight of the cache, …, the throughput.
	if len(p.bodies) < 10+depths {
		t.Fatalf("%d requests were sent, %d of them of the throughput", len(p.bodies), depths)
	}
	for _, part := range []struct {
		step   string
		bodies [][]byte
	}{{"cache", p.bodies[2:10]}, {"throughput", p.bodies[len(p.bodies)-depths:]}} {
		i := 0
		var before timings // of the row before
		var had []int      // its tokens, without the answer
		for _, row := range got.Raw {
			if row.Step != part.step {
				continue
			}
			body, now := part.bodies[i], timings{row.Timings.Cache, row.Timings.Prompt, row.Timings.Predicted}
			name := fmt.Sprintf("%s, %q", part.step, row.What)
			tokens := tokensOf(s, body)
			if n := now.Cache + now.Prompt; n != len(tokens) {
				t.Errorf("%s: reused and processed are %d tokens, the prompt has %d", name, n, len(tokens))
			}
			common := 0
			for common < min(len(had), len(tokens)) && had[common] == tokens[common] {
				common++
			}
			extends := i > 0 && common == len(had) && len(tokens) > len(had)
			if m.tiny() && extends && now.Cache != before.next() {
				t.Errorf("%s: it extends the request before, which left %d tokens, and %d were reused", name, before.next(), now.Cache)
			}
			if i > 0 && now.Cache > common+before.Predicted {
				t.Errorf("%s: %d tokens were reused, and no more than %d can be the same", name, now.Cache, common+before.Predicted)
			}
			st := s.chat(bytes.Replace(body, []byte(`"id_slot":1`), []byte(`"id_slot":2`), 1))
			if st.Timings == nil || st.Usage == nil {
				t.Fatalf("%s: sent again: %+v", name, st)
			}
			if again := *st.Timings; again.Cache+again.Prompt != now.Cache+now.Prompt || st.Usage.Prompt != len(tokens) {
				t.Errorf("%s: measured %+v, sent again %+v and %d tokens", name, now, again, st.Usage.Prompt)
			}
			if row.Timings.Rate <= 0 || row.Timings.MS <= 0 {
				t.Errorf("%s: no rate: %+v", name, row.Timings)
			}
			before, had = now, tokens
			i++
		}
		if i != len(part.bodies) {
			t.Errorf("%s: %d rows of %d requests", part.step, i, len(part.bodies))
		}
	}
	// What the tables say is what the raw rows say.
	i := 0
	for _, row := range got.Raw {
		if row.Step == "cache" {
			if r := got.Cache.Rows[i]; int(r.CacheN) != row.Timings.Cache || int(r.PromptN) != row.Timings.Prompt || int(r.GenN) != row.Timings.Predicted || !strings.HasPrefix(r.What, row.What) {
				t.Errorf("row %+v is not %+v", r, row)
			}
			i++
		}
	}
}
