package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit/nameserver"
)

func TestTunnel(t *testing.T) {
	echo := serveTCP(t, func(c *net.TCPConn) { io.Copy(c, c); c.CloseWrite() })
	d := open(t, nil, locals(echo.addr), nil)
	c := connect(t, d, echo.addr)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		c.Write(data)
		c.CloseWrite() // the other way stays open
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes back, %v", len(got), err)
	}
	row := only(t, d)
	if row.Host != echo.addr || row.Address != echo.addr || row.Verdict != proto.EgressPassed || row.Sent != int64(len(data)) || row.Received != int64(len(data)) {
		t.Errorf("%+v", row)
	}
}

// What the client sends in one piece with CONNECT reaches the server.
func TestTunnelWithEarlyBytes(t *testing.T) {
	echo := serveTCP(t, func(c *net.TCPConn) { b := make([]byte, 5); io.ReadFull(c, b); c.Write(b) })
	d := open(t, nil, locals(echo.addr), nil)
	if got := ask(t, d, "CONNECT "+echo.addr+" HTTP/1.1\r\n\r\nhello"); got != established+"hello" {
		t.Errorf("%q", got)
	}
}

func TestPlain(t *testing.T) {
	server := web(t)
	d := open(t, nil, locals(server.addr), nil)
	got := ask(t, d, "POST http://"+server.addr+"/p?q HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: Basic x\r\nX-Forwarded-For: 10.0.0.1\r\nContent-Length: 5\r\n\r\nhello")
	want := "POST /p?q HTTP/1.1\r\nHost: " + server.addr + "\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
	if !strings.HasSuffix(got, "\r\n\r\n"+want) {
		t.Errorf("the server saw %q", got)
	}
	if row := only(t, d); row.Verdict != proto.EgressPassed || row.Sent != int64(len(want)) || row.Received != int64(len(got)) {
		t.Errorf("%+v", row)
	}
}

// A second request on the connection is never passed on: it was not checked.
func TestOneRequestPerConnection(t *testing.T) {
	for _, tc := range []struct{ name, body, second string }{
		{"behind a request without a body", "\r\n", "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"},
		{"behind a body", "Content-Length: 3\r\n\r\nabc", "GET /admin HTTP/1.1\r\nHost: evil.example\r\n\r\n"},
		{"behind a body whose length was to be dropped", "Connection: content-length\r\nContent-Length: 3\r\n\r\nabc", "GET /admin HTTP/1.1\r\nHost: evil.example\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var all bytes.Buffer
			ended := make(chan struct{})
			server := serveTCP(t, func(c *net.TCPConn) {
				io.Copy(&all, c) // until the proxy closes: it never answers
				close(ended)
			})
			d := open(t, nil, locals(server.addr), nil)
			ask(t, d, "POST http://"+server.addr+"/ HTTP/1.1\r\n"+tc.body+tc.second)
			<-ended
			if s := all.String(); strings.Contains(s, "evil") || !strings.HasPrefix(s, "POST / HTTP/1.1") || strings.HasSuffix(tc.body, "abc") != strings.HasSuffix(s, "\r\n\r\nabc") {
				t.Errorf("the server saw %q", s)
			}
		})
	}
}

func TestExpectContinue(t *testing.T) {
	server := web(t)
	d := open(t, nil, locals(server.addr), nil)
	c := dialDoor(t, d)
	fmt.Fprintf(c, "POST http://%s/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", server.addr)
	if h := head(c); h != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("%q", h)
	}
	io.WriteString(c, "ok")
	if b, _ := io.ReadAll(c); !strings.HasSuffix(string(b), "\r\n\r\nok") {
		t.Errorf("%q", b)
	}
}

// A redirect goes back to the client; its target is a new request.
func TestRedirectIsNotFollowed(t *testing.T) {
	server := serveTCP(t, func(c *net.TCPConn) {
		head(c)
		io.WriteString(c, "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/meta-data/\r\nContent-Length: 0\r\n\r\n")
	})
	d := open(t, nil, locals(server.addr), nil)
	if got := ask(t, d, "GET http://"+server.addr+"/ HTTP/1.1\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 302 Found\r\n") {
		t.Errorf("%q", got)
	}
	if got := ask(t, d, "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\n\r\n"); !strings.Contains(got, "X-Boxmaker-Egress: not-allowed\r\n") {
		t.Errorf("%q", got)
	}
}

// The cap is for both directions and all connections together, and exact.
func TestCap(t *testing.T) {
	zeros := serveTCP(t, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 100))
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	m := locals(zeros.addr)
	m.Bytes = 1<<20 + 200
	d := open(t, nil, m, nil)
	var all sync.WaitGroup
	var got [2]int64
	for i := range 2 {
		c := connect(t, d, zeros.addr)
		c.Write(make([]byte, 100))
		all.Go(func() { got[i], _ = io.Copy(io.Discard, c) })
	}
	all.Wait()
	if s := ask(t, d, "CONNECT "+zeros.addr+" HTTP/1.1\r\n\r\n"); !strings.Contains(s, "X-Boxmaker-Egress: cap\r\n") {
		t.Errorf("after the cap: %q", s)
	}
	r := d.Close()
	var sum, received int64
	for _, row := range r.Connections {
		sum, received = sum+row.Sent+row.Received, received+row.Received
		if row.Verdict != proto.EgressCap {
			t.Errorf("%+v", row)
		}
	}
	if sum != m.Bytes || received != got[0]+got[1] || len(r.Connections) != 3 {
		t.Errorf("%d bytes in %d rows; %d received, of which %d and %d came", sum, len(r.Connections), received, got[0], got[1])
	}
}

// A door without a cap of its own has that of the settings, and never more.
func TestCapOfTheSettings(t *testing.T) {
	for _, asked := range []int64{0, 1 << 40} {
		zeros := serveTCP(t, func(c *net.TCPConn) { c.Write(make([]byte, 1<<20)) })
		m := locals(zeros.addr)
		m.Bytes = asked
		d := open(t, nil, m, func(c *Config) { c.Bytes = 1000 })
		if n, _ := io.Copy(io.Discard, connect(t, d, zeros.addr)); n != 1000 {
			t.Errorf("asked for %d: %d bytes", asked, n)
		}
	}
}

func TestUntil(t *testing.T) {
	silent := serveTCP(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) })
	m := locals(silent.addr)
	m.Until = proto.Time(time.Now().Add(300 * time.Millisecond))
	d := open(t, nil, m, nil)
	c := connect(t, d, silent.addr)
	io.ReadAll(c) // ends by itself
	<-d.ctx.Done()
	if row := only(t, d); row.Verdict != proto.EgressTime {
		t.Errorf("%+v", row)
	}
	if _, err := os.Lstat(d.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}

func TestIdle(t *testing.T) {
	silent := serveTCP(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) })
	d := open(t, nil, locals(silent.addr), func(c *Config) { c.Idle = 50 * time.Millisecond })
	io.ReadAll(connect(t, d, silent.addr))
	if row := only(t, d); row.Verdict != proto.EgressTime {
		t.Errorf("%+v", row)
	}
}

func TestSilentClient(t *testing.T) {
	d := open(t, nil, locals("127.0.0.1:1"), func(c *Config) { c.Head = 50 * time.Millisecond })
	if got := ask(t, d, "GET http://127.0"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("%q", got)
	}
	if row := only(t, d); row.Verdict != proto.EgressBadRequest {
		t.Errorf("%+v", row)
	}
}

// Close ends everything at once: tunnels, dials, clients that say nothing.
func TestClose(t *testing.T) {
	gone := make(chan struct{})
	silent := serveTCP(t, func(c *net.TCPConn) { io.Copy(io.Discard, c); close(gone) })
	looking := make(chan struct{})
	m := locals(silent.addr)
	m.Allow = append(m.Allow, "slow.example:443")
	d := open(t, nil, m, func(c *Config) {
		c.Lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			close(looking)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	tunnel, mute, slow := connect(t, d, silent.addr), dialDoor(t, d), dialDoor(t, d)
	io.WriteString(slow, "CONNECT slow.example:443 HTTP/1.1\r\n\r\n")
	<-looking
	r := d.Close()
	for _, c := range []net.Conn{tunnel, mute, slow} {
		if b, err := io.ReadAll(c); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && len(b) > 300 {
			t.Errorf("%q %v", b, err)
		}
	}
	<-gone
	if len(r.Connections) != 2 { // the one that asked for nothing is none
		t.Errorf("%+v", r)
	}
	if _, err := net.Dial("unix", d.Path()); err == nil {
		t.Error("the door can still be entered")
	}
}

func TestTooMany(t *testing.T) {
	silent := serveTCP(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) })
	d := open(t, nil, locals(silent.addr), func(c *Config) { c.Connections, c.Attempts = 2, 4 })
	first := connect(t, d, silent.addr)
	connect(t, d, silent.addr)
	if got := ask(t, d, ""); !strings.Contains(got, "X-Boxmaker-Egress: too-many\r\n") {
		t.Errorf("a third at the same time: %q", got)
	}
	first.Close()
	for range 10 { // the third in all, then the fourth, then no more
		ask(t, d, "GET http://other.example/ HTTP/1.1\r\n\r\n")
	}
	if got := ask(t, d, ""); !strings.Contains(got, "X-Boxmaker-Egress: too-many\r\n") {
		t.Errorf("after four in all: %q", got)
	}
	if r := d.Close(); len(r.Connections) != 14 {
		t.Errorf("%d rows", len(r.Connections))
	}
}

func TestReportIsBounded(t *testing.T) {
	d := open(t, nil, request("a.example:443"), nil)
	long := strings.Repeat("\x1b[31m", 1000)
	for i := range maxListed + 5 {
		ask(t, d, fmt.Sprintf("CONNECT evil%d.example:443 HTTP/1.1\r\n\r\n", i))
	}
	if r := d.Close(); len(r.Connections) != maxListed || r.More != 5 {
		t.Errorf("%d and %d", len(r.Connections), r.More)
	}
	if s := escaped(long); len(s) > maxHost || strings.Contains(s, "\x1b") {
		t.Errorf("%q", s)
	}
}

func TestWhatIsNoHostIsEscaped(t *testing.T) {
	d := open(t, nil, request("a.example:443"), nil)
	ask(t, d, "CONNECT \x1b[31m\u202eevil"+strings.Repeat("x", 500)+":443 HTTP/1.1\r\n\r\n")
	row := only(t, d)
	if row.Verdict != proto.EgressBadRequest || !strings.HasPrefix(row.Host, `\x1b[31m\u202eevilxxx`) || len(row.Host) > maxHost {
		t.Errorf("%+v", row)
	}
}

func TestSocketMode(t *testing.T) {
	dir := folder(t)
	if err := os.Chmod(dir, 0o710|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	d := open(t, nil, request("a.example:443"), func(c *Config) { c.Dir = dir })
	fi, err := os.Lstat(d.Path())
	if err != nil || fi.Mode().Perm() != 0o660 || fi.Mode().Type() != os.ModeSocket {
		t.Errorf("%v %v", fi.Mode(), err)
	}
}

func TestSweep(t *testing.T) {
	dir := folder(t)
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "left.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	d := open(t, nil, request("a.example:443"), func(c *Config) { c.Dir = dir })
	if err := os.WriteFile(filepath.Join(dir, "note.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := Sweep(dir)
	entries, _ := os.ReadDir(dir)
	if err != nil || n != 1 || len(entries) != 2 {
		t.Errorf("%d swept, %v left, %v", n, entries, err)
	}
	if got := ask(t, d, "x\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400") {
		t.Errorf("the live door: %q", got)
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name         string
		allow, local []string
		want         string
	}{
		{"hosts", []string{"a.example:443", "*.b.example:443", "[::1]:80"}, []string{"[::1]:80"}, ""},
		{"nothing", nil, nil, "empty"},
		{"no port", []string{"a.example"}, nil, "port"},
		{"everything", []string{"*:443"}, nil, "allow"},
		{"local wildcard", []string{"*.b.example:443"}, []string{"*.b.example:443"}, "local"},
		{"local below a wildcard", []string{"*.b.example:443"}, []string{"a.b.example:443"}, "not among"},
		{"local at another port", []string{"a.example:443"}, []string{"a.example:80"}, "not among"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := request(tc.allow...)
			m.Local = tc.local
			_, err := Parse(m)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// DNS exfiltration: what is not allowed is not asked for, in whatever form.
func TestOnlyAllowedNamesAreLookedUp(t *testing.T) {
	ns := nameserver.Start(t, func(string, int) []netip.Addr { return nil })
	d := open(t, ns, request("ok.example:443", "*.wild.example:443"), nil)
	for _, target := range []string{
		"secret-data.evil.example:443", "ok.example:80", "wild.example:443", "ok.example.evil.example:443", "c2VjcmV0.ok.example:443",
		"2130706433:443", "0x7f.1:443", "ok.example@evil.example:443", "OK.example..:443",
	} {
		ask(t, d, "CONNECT "+target+" HTTP/1.1\r\n\r\n")
		ask(t, d, "GET http://"+target+"/ HTTP/1.1\r\n\r\n")
	}
	if asked := ns.Asked(); len(asked) != 0 {
		t.Errorf("asked for %v", asked)
	}
	ask(t, d, "CONNECT OK.Example.:443 HTTP/1.1\r\n\r\n")
	if asked := ns.Asked(); len(asked) != 1 || asked[0] != "ok.example" {
		t.Errorf("asked for %v", asked)
	}
}
