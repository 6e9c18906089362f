package mattermost

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/testkit/fakemost"
)

// Who is asked whether it is a Mattermost server does not learn the token.
func TestHello(t *testing.T) {
	s := fakemost.New(t)
	g, err := Hello(t.Context(), Config{URL: s.URL + "/"})
	if err != nil || g.URL != s.URL || !g.Expires.IsZero() {
		t.Errorf("%+v %v", g, err)
	}
	for _, r := range s.Requests("", "") {
		if r.Token {
			t.Errorf("a token went along: %+v", r)
		}
	}
	if len(s.Requests("GET", "/system/ping")) != 1 {
		t.Errorf("asked: %+v", s.Requests("", ""))
	}
}

func TestHelloOverTLS(t *testing.T) {
	fake := fakemost.New(t)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"AndroidLatestVersion":"","status":"OK","a new member":[1]}`))
	}))
	defer srv.Close()
	g, err := Hello(t.Context(), Config{URL: srv.URL, HTTP: srv.Client()})
	if err != nil || !g.Expires.Equal(srv.Certificate().NotAfter) {
		t.Errorf("%+v %v", g, err)
	}
	var bad *tls.CertificateVerificationError
	if _, err := Hello(t.Context(), Config{URL: srv.URL}); !errors.As(err, &bad) {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
	if _, err := Hello(t.Context(), Config{URL: strings.Replace(fake.URL, "http:", "https:", 1)}); !errors.Is(err, http.ErrSchemeMismatch) {
		t.Errorf("https at http: %v", err)
	}
}

func TestHelloFromSomebodyElse(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header string
		body   string
		want   string // in the error
	}{
		{"a page", 200, "", "<html>welcome\x1b[2J</html>", "answers 200 OK"},
		{"a page that is not there", 404, "", "404", "answers 404"},
		{"some JSON", 200, "", `{"status":"OK"}`, "answers 200"},
		{"a name twice", 200, "", `{"AndroidLatestVersion":"","status":"OK","status":"OK"}`, "answers 200"},
		{"no end", 200, "", strings.Repeat(" ", errorLimit) + `{"AndroidLatestVersion":"","status":"OK"}`, "answers 200"},
		{"another address", 301, "https://elsewhere.example/\x1b", "", "sends us to https://elsewhere.example/"},
		{"too many requests", 429, "", "", "fewer requests"},
		{"a proxy before nothing", 502, "", "<html>", "502"},
		{"https wanted", 400, "", "Client sent an HTTP request to an HTTPS server.", "answers 400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.header != "" {
					w.Header()["Location"] = []string{strings.TrimRight(c.header, "\x1b")}
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer srv.Close()
			_, err := Hello(t.Context(), Config{URL: srv.URL, Timeout: 10 * time.Second})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%v", err)
			}
			var other *Stranger
			if errors.As(err, &other) && strings.Contains(other.Says, "\x1b") {
				t.Errorf("%q", other.Says)
			}
		})
	}
	var refused *URLError
	if _, err := Hello(t.Context(), Config{URL: "ftp://chat.example"}); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
}

// Whatever is taken for a server's answer is an object with the two members.
func FuzzPing(f *testing.F) {
	f.Add([]byte(`{"AndroidLatestVersion":"","status":"OK","x":[1,{"status":2}]}`))
	f.Add([]byte(`{"status":"OK"}`))
	f.Add([]byte(`[{"status":"OK"}]`))
	f.Add([]byte("{\"status\":\"\xff\",\"AndroidLatestVersion\":null}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if !ping(b) {
			return
		}
		var said map[string]any
		if err := json.Unmarshal(bytes.ToValidUTF8(b, []byte("?")), &said); err != nil {
			t.Fatalf("%v: %q", err, b)
		}
		for _, name := range []string{"status", "AndroidLatestVersion"} {
			if _, ok := said[name]; !ok {
				t.Errorf("no %s in %q", name, b)
			}
		}
	})
}
