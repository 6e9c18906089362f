package fetch

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit/realegress"
	"boxmaker/internal/tool"
)

// A site is a web server in plain and with TLS (for example.com and the names
// below it), behind the door of the real egressd.
type site struct {
	t          *testing.T
	work       Work
	plain, tls string // ports
	closeDoor  func() *proto.EgressReport

	mu     sync.Mutex // guards what follows
	seen   []*http.Request
	bodies []string
	handle http.HandlerFunc
}

func TestMain(m *testing.M) { realegress.Main(m) }

func newSite(t *testing.T, hosts ...string) *site {
	t.Helper()
	s := &site{t: t}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.seen, s.bodies = append(s.seen, r), append(s.bodies, string(b))
		s.mu.Unlock()
		s.handle(w, r)
	})
	plain, secure := httptest.NewServer(h), httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	_, s.plain, _ = net.SplitHostPort(plain.Listener.Addr().String())
	_, s.tls, _ = net.SplitHostPort(secure.Listener.Addr().String())
	egress := realegress.Start(t, nil)
	var all []string
	for _, host := range append([]string{"a.example.com", "b.example.com"}, hosts...) {
		all = append(all, host+":"+s.plain, host+":"+s.tls)
	}
	s.work.Door, s.closeDoor = egress.Door(t, "s/1/2/0", all...)
	s.work.Limit = 64 << 10
	s.work.CA = filepath.Join(t.TempDir(), "ca.crt")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(s.work.CA, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) get(url string, handle http.HandlerFunc) tool.Output {
	s.t.Helper()
	return s.do(&tool.HTTPFetch{URL: url, Method: "GET"}, handle)
}

func (s *site) do(a *tool.HTTPFetch, handle http.HandlerFunc) tool.Output {
	s.t.Helper()
	s.mu.Lock()
	s.seen, s.bodies, s.handle = nil, nil, handle
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	return Do(ctx, s.work, a)
}

func serve(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{kind}
		io.WriteString(w, body)
	}
}

func want(t *testing.T, out tool.Output, code proto.Code, parts ...string) {
	t.Helper()
	if out.Code != code {
		t.Errorf("code %q: %s", out.Code, out.Text)
	}
	if code != "" && !strings.HasPrefix(out.Text, string(code)+": ") {
		t.Errorf("text does not begin with the code: %s", out.Text)
	}
	for _, p := range parts {
		if !strings.Contains(out.Text, p) {
			t.Errorf("no %q in %q", p, out.Text)
		}
	}
}

func TestPlainAndTLS(t *testing.T) {
	s := newSite(t)
	for _, base := range []string{"http://a.example.com:" + s.plain, "https://a.example.com:" + s.tls} {
		out := s.get(base+"/x?q=1", serve("text/plain", "hello"))
		want(t, out, "", "200 OK, "+base+"/x?q=1, text/plain\n\nhello")
		if r := s.seen[0]; len(s.seen) != 1 || r.URL.String() != "/x?q=1" || "://"+r.Host != base[strings.Index(base, ":"):] || r.UserAgent() != "boxmaker" {
			t.Errorf("%+v", r)
		}
	}
}

func TestPost(t *testing.T) {
	s := newSite(t)
	out := s.do(&tool.HTTPFetch{
		URL: "https://a.example.com:" + s.tls + "/", Method: "POST", Body: `{"a":1}`,
		Headers: map[string]string{"Content-Type": "application/json", "X-Mine": "y"},
	}, serve("application/json", `{"b": 2}`))
	want(t, out, "", "application/json\n\n{\"b\": 2}")
	if r := s.seen[0]; r.Method != "POST" || s.bodies[0] != `{"a":1}` || r.ContentLength != 7 || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Mine") != "y" {
		t.Errorf("%+v %q", r, s.bodies)
	}
	want(t, s.do(&tool.HTTPFetch{URL: "http://a.example.com:" + s.plain + "/", Method: "POST"}, serve("text/plain", "")), "", "(no content)")
	if r := s.seen[0]; r.ContentLength != 0 {
		t.Errorf("an empty POST: %+v", r)
	}
}

// What the door refuses, in a model's words.
func TestRefused(t *testing.T) {
	s := newSite(t, "wrong.name")
	for _, tc := range []struct {
		name, url string
		code      proto.Code
		want      string
	}{
		{"another host", "https://evil.example/", proto.CodeNoGrant, "no-grant: evil.example:443 is not in the grant's hosts."},
		{"another host in plain", "http://evil.example/", proto.CodeNoGrant, "no-grant: evil.example:80 is not in the grant's hosts."},
		{"another port", "https://a.example.com/", proto.CodeNoGrant, "no-grant: a.example.com:443 is not in the grant's hosts."},
		{"a certificate for another name", "https://wrong.name:" + s.tls + "/", proto.CodeToolFailed, "no TLS connection with wrong.name:" + s.tls},
		{"TLS where there is none", "https://a.example.com:" + s.plain + "/", proto.CodeToolFailed, "no TLS connection"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want(t, s.get(tc.url, serve("text/plain", "reached")), tc.code, tc.want)
			if len(s.seen) != 0 {
				t.Error("the server was reached")
			}
		})
	}
	t.Run("no door", func(t *testing.T) {
		want(t, Do(t.Context(), Work{Door: "/nowhere", Limit: 1000}, &tool.HTTPFetch{URL: "http://a/", Method: "GET"}), proto.CodeNoEgress, "no way out")
	})
	t.Run("no time", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s.handle = func(_ http.ResponseWriter, r *http.Request) { // no answer before the client has left
			cancel()
			<-r.Context().Done()
		}
		want(t, Do(ctx, s.work, &tool.HTTPFetch{URL: "http://a.example.com:" + s.plain, Method: "GET"}), proto.CodeToolTimeout)
	})
	t.Run("no certificates", func(t *testing.T) {
		w := s.work
		w.CA = "/nowhere"
		want(t, Do(t.Context(), w, &tool.HTTPFetch{URL: "https://a.example.com:" + s.tls, Method: "GET"}), proto.CodeToolFailed, "trusted certificates")
	})
}

// Refusals that a grant as local does not show: a private address, no address,
// nobody there, no more bytes.
func TestRefusalWords(t *testing.T) {
	answer := func(verdict proto.EgressVerdict) string {
		return "HTTP/1.1 403 Forbidden\r\nX-Boxmaker-Egress: " + string(verdict) + "\r\nContent-Length: 6\r\n\r\nwords\n"
	}
	for verdict, tc := range map[proto.EgressVerdict]struct {
		code proto.Code
		want string
	}{
		proto.EgressPrivate:     {proto.CodeNoGrant, "leads to a private address"},
		proto.EgressNoAddress:   {proto.CodeToolFailed, "the name a.example has no address"},
		proto.EgressUnreachable: {proto.CodeToolFailed, "tool-failed: words."},
		proto.EgressBadRequest:  {proto.CodeToolFailed, "words"},
		proto.EgressCap:         {proto.CodeTooLarge, "bytes"},
		proto.EgressTime:        {proto.CodeToolTimeout, "time"},
		proto.EgressTooMany:     {proto.CodeToolFailed, "too many"},
		"new":                   {proto.CodeToolFailed, "refused a.example:"},
	} {
		for _, url := range []string{"http://a.example/", "https://a.example/"} {
			want(t, Do(t.Context(), Work{Door: fakeDoor(t, answer(verdict)), Limit: 1000}, &tool.HTTPFetch{URL: url, Method: "GET"}), tc.code, tc.want)
		}
	}
}

// fakeDoor answers every connection with the same bytes.
func fakeDoor(t *testing.T, answer string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				b := make([]byte, 4096)
				c.Read(b)
				io.WriteString(c, answer)
				c.Close()
			}()
		}
	}()
	return path
}

// Answers that are none, or have no end.
func TestBadAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":         "",
		"no HTTP":         "SSH-2.0-x\r\n",
		"half a head":     "HTTP/1.1 200 OK\r\nA: b",
		"endless head":    "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("x", 1000)+"\r\n", 1000),
		"endless interim": strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100),
		"two lengths":     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
	} {
		t.Run(name, func(t *testing.T) {
			want(t, Do(t.Context(), Work{Door: fakeDoor(t, answer), Limit: 1000}, &tool.HTTPFetch{URL: "http://a.example/", Method: "GET"}), proto.CodeToolFailed, "no answer that is HTTP")
		})
	}
	out := Do(t.Context(), Work{Door: fakeDoor(t, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhalf"), Limit: 1000}, &tool.HTTPFetch{URL: "http://a.example/", Method: "GET"})
	want(t, out, "", "half", "[cut here: the connection broke off after the first 4 bytes]")
}

func TestRedirects(t *testing.T) {
	s := newSite(t)
	a, b, plain := "https://a.example.com:"+s.tls, "https://b.example.com:"+s.tls, "http://a.example.com:"+s.plain
	for _, tc := range []struct {
		name, method string
		status       int
		to           string
		code         proto.Code
		want         string
		last         string // "METHOD host path body cookie"
	}{
		{"to the same host", "GET", 302, "/next?x", "", a + "/next?x", "GET a.example.com /next?x  c=1"},
		{"relative", "GET", 301, "next", "", a + "/next", "GET a.example.com /next  c=1"},
		{"with a fragment", "GET", 301, "/next#part", "", a + "/next,", "GET a.example.com /next  c=1"},
		{"to another host drops what identifies", "GET", 307, b + "/next", "", b + "/next", "GET b.example.com /next  "},
		{"303 makes a GET of a POST", "POST", 303, "/next", "", a + "/next", "GET a.example.com /next  c=1"},
		{"302 makes a GET of a POST", "POST", 302, "/next", "", a + "/next", "GET a.example.com /next  c=1"},
		{"307 keeps a POST", "POST", 307, "/next", "", a + "/next", "POST a.example.com /next body c=1"},
		{"308 of a POST to another host", "POST", 308, b + "/next", proto.CodeToolFailed, "not sent to another host", ""},
		{"303 of a POST to another host", "POST", 303, b + "/next", "", b + "/next", "GET b.example.com /next  "},
		{"to a host that is not granted", "GET", 302, "https://evil.example/", proto.CodeNoGrant, "no-grant: evil.example:443 is not", ""},
		{"to metadata", "GET", 302, "https://169.254.169.254/latest/", proto.CodeNoGrant, "no-grant: 169.254.169.254:443 is not", ""},
		{"to plain http", "GET", 302, plain + "/next", proto.CodeToolFailed, "not encrypted", ""},
		{"to a file", "GET", 302, "file:///etc/passwd", proto.CodeToolFailed, "not a web address", ""},
		{"to javascript", "GET", 302, "javascript:alert(1)", proto.CodeToolFailed, "not a web address", ""},
		{"to a user", "GET", 302, "https://u:p@b.example.com:" + s.tls + "/", proto.CodeToolFailed, "user name", ""},
		{"to a number", "GET", 302, "https://2130706433/", proto.CodeToolFailed, "not a web address", ""},
		{"to a short address", "GET", 302, "https://127.1/", proto.CodeToolFailed, "not a web address", ""},
		{"to nowhere", "GET", 302, "", "", "302 Found", "GET a.example.com /  c=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := &tool.HTTPFetch{URL: a + "/", Method: tc.method, Headers: map[string]string{"Cookie": "c=1", "Authorization": "x", "X-Api-Key": "k"}}
			if tc.method == "POST" {
				args.Body = "body"
			}
			out := s.do(args, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					if tc.to != "" {
						w.Header().Set("Location", tc.to)
					}
					w.WriteHeader(tc.status)
				}
			})
			want(t, out, tc.code, tc.want)
			if tc.last == "" {
				if len(s.seen) != 1 {
					t.Errorf("%d requests", len(s.seen))
				}
				return
			}
			r := s.seen[len(s.seen)-1]
			host, _, _ := net.SplitHostPort(r.Host)
			if got := fmt.Sprintf("%s %s %s %s %s", r.Method, host, r.URL, s.bodies[len(s.bodies)-1], r.Header.Get("Cookie")); got != tc.last {
				t.Errorf("last request %q, want %q", got, tc.last)
			}
			if same := host == "a.example.com"; (r.Header.Get("Authorization") != "") != same || (r.Header.Get("X-Api-Key") != "") != same {
				t.Errorf("%v", r.Header)
			}
		})
	}
	n := 0
	out := s.get(a+"/", func(w http.ResponseWriter, r *http.Request) {
		n++
		http.Redirect(w, r, fmt.Sprintf("/%d", n), http.StatusFound)
	})
	want(t, out, proto.CodeToolFailed, "more than 5 times")
	if n != maxRedirects+1 {
		t.Errorf("%d requests", n)
	}
	out = s.get(plain+"/", func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			http.Redirect(w, r, a+"/", http.StatusMovedPermanently)
		}
	})
	want(t, out, "", a+"/,") // from http to https is fine
}

// Where secrets are injected, the request goes to the door in plain, absolute
// form, for exactly those hosts.
func TestPlainForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan string, 2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			n, _ := c.Read(b)
			line, _, _ := strings.Cut(string(b[:n]), "\r\n")
			got <- line
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
			c.Close()
		}
	}()
	w := Work{Door: path, Limit: 1000, Plain: []string{"api.example:443"}}
	want(t, Do(t.Context(), w, &tool.HTTPFetch{URL: "https://api.example/x?y", Method: "GET"}), "", "200 OK, https://api.example/x?y")
	if line := <-got; line != "GET https://api.example/x?y HTTP/1.1" {
		t.Errorf("%q", line)
	}
	Do(t.Context(), w, &tool.HTTPFetch{URL: "https://api.example:8443/x", Method: "GET"})
	if line := <-got; line != "CONNECT api.example:8443 HTTP/1.1" {
		t.Errorf("%q", line)
	}
}

func TestContent(t *testing.T) {
	s := newSite(t)
	url := "http://a.example.com:" + s.plain + "/"
	for _, tc := range []struct {
		name, kind, body string
		code             proto.Code
		want             string
	}{
		{"text", "text/plain; charset=utf-8", "grüße", "", "text/plain\n\ngrüße"},
		{"JSON as it is", "application/json", "{\"a\":1,\n \"b\": 2}", "", "application/json\n\n{\"a\":1,\n \"b\": 2}"},
		{"JSON of a kind", "application/vnd.api+json", "[]", "", "[]"},
		{"Latin-1", "text/plain; charset=iso-8859-1", "gr\xfc\xdfe", "", "grüße"},
		{"undeclared, not UTF-8", "text/plain", "gr\xfc\xdfe", "", "grüße"},
		{"UTF-16 with a mark", "text/plain", "\xff\xfeg\x00r\x00\xfc\x00", "", "\n\ngrü"},
		{"UTF-8 with a mark", "text/plain", "\xef\xbb\xbfa", "", "\n\na"},
		{"Shift JIS", "text/plain; charset=shift_jis", "\x93\xfa\x96{", "", "日本"},
		{"XML that names its encoding", "application/xml", "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>\xfc</a>", "", "<a>ü</a>"},
		{"HTML that names its charset", "text/html", "<meta charset=iso-8859-1><p>gr\xfc\xdfe", "", "grüße"},
		{"an unknown charset", "text/plain; charset=klingon", "abc", "", "abc"},
		{"a picture", "image/png", "\x89PNG\r\n\x1a\n0000", proto.CodeToolFailed, "image/png of 12 bytes, not text"},
		{"a PDF", "application/pdf", "%PDF-1.7", proto.CodeToolFailed, "application/pdf of 8 bytes"},
		{"binary that says it is text", "text/plain", "a\x00b", proto.CodeToolFailed, "binary content"},
		{"no type, text", "", "just words", "", "text/plain\n\njust words"},
		{"no type, binary", "", "\x00\x01\x02\x03", proto.CodeToolFailed, "not text"},
		{"bytes that are text", "application/octet-stream", "words", "", "words"},
		{"a type that is none", "!!", "words", "", "words"},
		{"nothing", "text/html", "", "", "(no content)"},
	} {
		t.Run(tc.name, func(t *testing.T) { want(t, s.get(url, serve(tc.kind, tc.body)), tc.code, tc.want) })
	}
	t.Run("an error page", func(t *testing.T) {
		out := s.get(url, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such page", 404) })
		want(t, out, "", "404 Not Found, "+url, "no such page")
	})
}

func packed(kind, body string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch kind {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	default:
		w, _ = flate.NewWriter(&b, 6)
	}
	io.WriteString(w, body)
	w.Close()
	return b.String()
}

func TestPacked(t *testing.T) {
	s := newSite(t)
	url := "http://a.example.com:" + s.plain + "/"
	for _, tc := range []struct {
		name, coding, body string
		code               proto.Code
		want               string
	}{
		{"gzip", "gzip", packed("gzip", "hello"), "", "hello"},
		{"deflate", "deflate", packed("zlib", "hello"), "", "hello"},
		{"bare deflate", "deflate", packed("", "hello"), "", "hello"},
		{"twice", "gzip, gzip", packed("gzip", packed("gzip", "hello")), "", "hello"},
		{"three times", "gzip, gzip, gzip", "x", proto.CodeToolFailed, "not known"},
		{"brotli", "br", "x", proto.CodeToolFailed, "not known"},
		{"not gzip", "gzip", "hello", proto.CodeToolFailed, "not the gzip"},
		{"an empty body", "gzip", "", "", "(no content)"},
		{"a bomb", "gzip", packed("gzip", strings.Repeat("a", 24<<20)), "", "bytes of text did not fit"},
		{"a bomb in a bomb", "gzip, gzip", packed("gzip", packed("gzip", strings.Repeat("a", 24<<20))), "", "bytes of text did not fit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := s.get(url, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", tc.coding)
				w.Header().Set("Content-Type", "text/plain")
				io.WriteString(w, tc.body)
			})
			want(t, out, tc.code, tc.want)
			if out.Dropped > maxBody || len(out.Text) > 64<<10 {
				t.Errorf("%d dropped, %d bytes", out.Dropped, len(out.Text))
			}
		})
	}
}

func TestEndlessBody(t *testing.T) {
	s := newSite(t)
	out := s.get("http://a.example.com:"+s.plain+"/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
	want(t, out, "", "cut here")
	if len(out.Text) > 64<<10 {
		t.Errorf("%d bytes", len(out.Text))
	}
	if r := s.closeDoor(); r.Connections[0].Received > maxBody+4<<20 {
		t.Errorf("%d bytes were fetched", r.Connections[0].Received)
	}
}
