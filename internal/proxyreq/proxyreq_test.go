package proxyreq

import (
	"bufio"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{ // want "" is refused
		{"a name", "example.com:443", "example.com:443"},
		{"upper case", "EXAMPLE.Com:80", "example.com:80"},
		{"a dot at the end", "example.com.:443", "example.com:443"},
		{"two dots at the end", "example.com..:443", ""},
		{"a dot alone", ".:443", ""},
		{"a dot in front", ".example.com:443", ""},
		{"an empty label", "a..b:443", ""},
		{"one label", "localhost:8080", "localhost:8080"},
		{"underscore", "_dmarc.example.com:443", "_dmarc.example.com:443"},
		{"punycode", "xn--bcher-kva.example:443", "xn--bcher-kva.example:443"},
		{"not ASCII", "bücher.example:443", ""},
		{"full-width dot", "example。com:443", ""},
		{"full-width digits", "１２７.0.0.1:80", ""},
		{"soft hyphen", "exam\u00adple.com:443", ""},
		{"a user", "user@example.com:443", ""},
		{"a user with password", "user:pass@example.com:443", ""},
		{"two hosts", "allowed.example:443@evil.example:443", ""},
		{"percent escape", "exam%70le.com:443", ""},
		{"escaped dot", "example%2ecom:443", ""},
		{"space", "example.com :443", ""},
		{"tab", "example.com\t:443", ""},
		{"zero byte", "example.com\x00.evil.example:443", ""},
		{"line feed", "example.com\n:443", ""},
		{"slash", "example.com/:443", ""},
		{"backslash", `example.com\:443`, ""},
		{"star", "*.example.com:443", ""},
		{"hyphen in front", "-a.example:443", ""},
		{"hyphen at the end", "a-.example:443", ""},
		{"long label", strings.Repeat("a", 64) + ".example:443", ""},
		{"long name", strings.Repeat("a.", 127) + "example:443", ""},

		{"IPv4", "93.184.216.34:443", "93.184.216.34:443"},
		{"IPv4 with a dot", "127.0.0.1.:443", ""},
		{"decimal", "2130706433:80", ""},
		{"hex", "0x7f000001:80", ""},
		{"hex in parts", "0x7f.1:80", ""},
		{"hex at the end", "127.0.0.0x1:80", ""},
		{"empty hex", "127.0.0.0x:80", ""},
		{"octal", "0177.0.0.1:80", ""},
		{"octal at the end", "127.0.0.01:80", ""},
		{"short", "127.1:80", ""},
		{"three parts", "127.0.1:80", ""},
		{"five parts", "1.127.0.0.1:80", ""},
		{"too large", "127.0.0.256:80", ""},
		{"zero", "0:80", ""},
		{"a name that ends in a number", "example.1:80", ""},
		{"a name with a number in it", "1.example:80", "1.example:80"},
		{"nip.io", "127.0.0.1.nip.io:80", "127.0.0.1.nip.io:80"},

		{"IPv6", "[2606:2800:220:1:248:1893:25c8:1946]:443", "[2606:2800:220:1:248:1893:25c8:1946]:443"},
		{"IPv6 made short", "[0:0:0:0:0:0:0:1]:80", "[::1]:80"},
		{"IPv6 in upper case", "[FE80::A]:80", "[fe80::a]:80"},
		{"IPv4 mapped", "[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80"},
		{"IPv4 mapped, hex", "[::ffff:7f00:1]:80", "[::ffff:127.0.0.1]:80"},
		{"zone", "[fe80::1%eth0]:80", ""},
		{"escaped zone", "[fe80::1%25eth0]:80", ""},
		{"IPv6 without brackets", "::1:80", ""},
		{"IPv4 in brackets", "[127.0.0.1]:80", ""},
		{"a name in brackets", "[example.com]:80", ""},
		{"open bracket", "[::1:80", ""},
		{"after the bracket", "[::1]x:80", ""},

		{"no port", "example.com", ""},
		{"empty port", "example.com:", ""},
		{"port 0", "example.com:0", ""},
		{"port with zeros", "example.com:0443", ""},
		{"port with a sign", "example.com:+443", ""},
		{"large port", "example.com:65979", ""}, // 443 + 65536
		{"port in words", "example.com:https", ""},
		{"no host", ":443", ""},
		{"nothing", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseTarget(tc.in)
			if got.String() != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("%q: %q %v, want %q", tc.in, got.String(), err, tc.want)
			}
		})
	}
}

func TestRules(t *testing.T) {
	for _, tc := range []struct {
		name, rule, target string
		want               bool
	}{
		{"the same", "example.com:443", "example.com:443", true},
		{"case", "Example.com:443", "eXample.com:443", true},
		{"a dot at the end", "example.com:443", "example.com.:443", true},
		{"another port", "example.com:443", "example.com:80", false},
		{"a name below", "example.com:443", "a.example.com:443", false},
		{"a name with that end", "example.com:443", "notexample.com:443", false},
		{"wildcard", "*.example.com:443", "a.example.com:443", true},
		{"wildcard, deeper", "*.example.com:443", "a.b.example.com:443", true},
		{"wildcard, itself", "*.example.com:443", "example.com:443", false},
		{"wildcard, that end", "*.example.com:443", "evilexample.com:443", false},
		{"wildcard, as a part", "*.example.com:443", "a.example.com.evil.net:443", false},
		{"wildcard, another port", "*.example.com:443", "a.example.com:8443", false},
		{"address", "[::1]:80", "[0::1]:80", true},
		{"address, mapped", "127.0.0.1:80", "[::ffff:127.0.0.1]:80", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := ParseRule(tc.rule)
			if err != nil {
				t.Fatal(err)
			}
			target, err := ParseTarget(tc.target)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Allows(target); got != tc.want {
				t.Errorf("%v", got)
			}
		})
	}
	for _, bad := range []string{"*:443", "*.com:443", "*.127.0.0.1:443", "a.*.example.com:443", "**.example.com:443", "example.com", "*.[::1]:80", "https://example.com:443"} {
		if _, err := ParseRule(bad); err == nil {
			t.Errorf("%s is a rule", bad)
		}
	}
	if (Rule{}).Allows(Target{}) {
		t.Error("the zero rule allows something")
	}
}

func read(text string) (*Request, error) {
	return Read(bufio.NewReaderSize(strings.NewReader(text), 16))
}

func TestRead(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "GET http://a.example/x?y=1 HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n", "GET /x?y=1 HTTP/1.1|Host: a.example|Accept: */*|Connection: close||"},
		{"no path", "GET http://a.example HTTP/1.1\r\n\r\n", "GET / HTTP/1.1|Host: a.example|Connection: close||"},
		{"query without a path", "GET http://a.example?q HTTP/1.1\r\n\r\n", "GET /?q HTTP/1.1|Host: a.example|Connection: close||"},
		{"port", "GET HTTP://A.example:8080/ HTTP/1.0\r\n\r\n", "GET / HTTP/1.1|Host: a.example:8080|Connection: close||"},
		{"https", "GET https://a.example/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1|Host: a.example|Connection: close||"},
		{"http to 443", "GET http://a.example:443/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1|Host: a.example:443|Connection: close||"},
		{"IPv6", "GET http://[::1]/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1|Host: [::1]|Connection: close||"},
		{"body", "POST http://a.example/ HTTP/1.1\r\ncontent-length: 3\r\n\r\n", "POST / HTTP/1.1|Host: a.example|Content-Length: 3|Connection: close||"},
		{"another Host", "GET http://a.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET / HTTP/1.1|Host: a.example|Connection: close||"},
		{
			"fields for proxies", "GET http://a.example/ HTTP/1.1\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nX-Forwarded-For: 1.2.3.4\r\nx-forwarded-host: b\r\nForwarded: for=1.2.3.4\r\n" +
				"Via: 1.1 x\r\nX-Real-IP: 1.2.3.4\r\nTE: trailers\r\nTrailer: a\r\nKeep-Alive: 5\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nX-Kept: 2\r\n\r\n",
			"GET / HTTP/1.1|Host: a.example|X-Kept: 2|Connection: close||",
		},
		{ // a field named by Connection is dropped, but the framing stays
			"length and host named by Connection", "POST http://a.example/ HTTP/1.1\r\nConnection: content-length, host\r\nHost: b\r\nContent-Length: 40\r\n\r\n",
			"POST / HTTP/1.1|Host: a.example|Content-Length: 40|Connection: close||",
		},
		{"Expect", "POST http://a.example/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", "POST / HTTP/1.1|Host: a.example|Content-Length: 1|Connection: close||"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := read(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(string(r.Append(nil)), "\r\n", "|"); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestReadTunnel(t *testing.T) {
	in := bufio.NewReader(strings.NewReader("CONNECT A.example.:443 HTTP/1.1\r\nHost: b\r\n\r\nbytes"))
	r, err := Read(in)
	if err != nil || !r.Connect() || r.Target.String() != "a.example:443" {
		t.Fatalf("%+v %v", r, err)
	}
	if rest, _ := io.ReadAll(in); string(rest) != "bytes" {
		t.Errorf("rest %q", rest)
	}
}

// What could be read in two ways, or is none of a proxy's business.
func TestReadRefuses(t *testing.T) {
	const ok = "GET http://a.example/ HTTP/1.1\r\n"
	for _, tc := range []struct{ name, in, host string }{
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "*"},
		{"HTTP/3", "GET http://a.example/ HTTP/3\r\n\r\n", "a.example"},
		{"HTTP/0.9", "GET http://a.example/\r\n\r\n", ""},
		{"origin form", "GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n", ""},
		{"star", "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", "*"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\r\n\r\n", ""},
		{"SOCKS", "\x05\x01\x00", ""},
		{"ftp", "GET ftp://a.example/ HTTP/1.1\r\n\r\n", "a.example"},
		{"file", "GET file:///etc/passwd HTTP/1.1\r\n\r\n", ""},
		{"no scheme", "GET //a.example/ HTTP/1.1\r\n\r\n", "a.example"},
		{"one slash", "GET http:/a.example/ HTTP/1.1\r\n\r\n", "http:"},
		{"user", "GET http://a.example@evil.example/ HTTP/1.1\r\n\r\n", "a.example@evil.example"},
		{"user and port", "GET http://a.example:80@evil.example/ HTTP/1.1\r\n\r\n", "a.example:80@evil.example"},
		{"backslash", `GET http://a.example\@evil.example/ HTTP/1.1` + "\r\n\r\n", `a.example\@evil.example`},
		{"fragment", "GET http://evil.example#a.example/ HTTP/1.1\r\n\r\n", "evil.example#a.example"},
		{"two spaces", "GET  http://a.example/ HTTP/1.1\r\n\r\n", ""},
		{"tab for a space", "GET\thttp://a.example/ HTTP/1.1\r\n\r\n", ""},
		{"space in the URL", "GET http://a.example/ x HTTP/1.1\r\n\r\n", ""},
		{"method in lower case", "get http://a.example/ HTTP/1.1\r\n\r\n", "a.example"},
		{"method with a colon", "GE:T http://a.example/ HTTP/1.1\r\n\r\n", "a.example"},
		{"TRACE", "TRACE http://a.example/ HTTP/1.1\r\n\r\n", "a.example"},
		{"bare LF", "GET http://a.example/ HTTP/1.1\nHost: a\n\n", ""},
		{"bare LF in the fields", ok + "A: b\nC: d\r\n\r\n", "a.example:80"},
		{"bare CR", ok + "A: b\rC: d\r\n\r\n", "a.example:80"},
		{"zero byte", ok + "A: b\x00\r\n\r\n", "a.example:80"},
		{"control character", ok + "A: b\x1b[2J\r\n\r\n", "a.example:80"},
		{"folded field", ok + "A: b\r\n c\r\n\r\n", "a.example:80"},
		{"folded first field", ok + " A: b\r\n\r\n", "a.example:80"},
		{"space before the colon", ok + "Content-Length : 5\r\n\r\n", "a.example:80"},
		{"no colon", ok + "Host\r\n\r\n", "a.example:80"},
		{"no name", ok + ": x\r\n\r\n", "a.example:80"},
		{"two lengths", ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "a.example:80"},
		{"two equal lengths", ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "a.example:80"},
		{"list of lengths", ok + "Content-Length: 5, 5\r\n\r\n", "a.example:80"},
		{"length with a sign", ok + "Content-Length: +5\r\n\r\n", "a.example:80"},
		{"length with zeros", ok + "Content-Length: 05\r\n\r\n", "a.example:80"},
		{"negative length", ok + "Content-Length: -5\r\n\r\n", "a.example:80"},
		{"hex length", ok + "Content-Length: 0x5\r\n\r\n", "a.example:80"},
		{"huge length", ok + "Content-Length: 99999999999999999999\r\n\r\n", "a.example:80"},
		{"empty length", ok + "Content-Length:\r\n\r\n", "a.example:80"},
		{"chunked", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "a.example:80"},
		{"chunked and a length", ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "a.example:80"},
		{"an odd coding", ok + "Transfer-Encoding: \tchunked, identity\r\n\r\n", "a.example:80"},
		{"Upgrade", ok + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "a.example:80"},
		{"h2c", ok + "Connection: HTTP2-Settings\r\nHTTP2-Settings: x\r\n\r\n", "a.example:80"},
		{"another expectation", ok + "Expect: x\r\n\r\n", "a.example:80"},
		{"two Hosts", ok + "Host: a.example\r\nHost: b\r\n\r\n", "a.example:80"},
		{"CONNECT with a body", "CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "a.example:443"},
		{"CONNECT with a URL", "CONNECT http://a.example:443 HTTP/1.1\r\n\r\n", "a.example:443"},
		{"CONNECT without a port", "CONNECT a.example HTTP/1.1\r\n\r\n", "a.example"},
		{"a long line", "GET http://a.example/" + strings.Repeat("x", MaxHead) + " HTTP/1.1\r\n\r\n", ""},
		{"long fields", ok + strings.Repeat("A: "+strings.Repeat("x", 1000)+"\r\n", 40) + "\r\n", "a.example:80"},
		{"many fields", ok + strings.Repeat("A: b\r\n", maxFields+1) + "\r\n", "a.example:80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := read(tc.in)
			var bad *Error
			if tc.name == "SOCKS" {
				if err == nil {
					t.Errorf("taken: %+v", r)
				}
				return
			}
			if !errors.As(err, &bad) {
				t.Fatalf("%+v %v", r, err)
			}
			if bad.Raw != tc.host {
				t.Errorf("host %q, want %q", bad.Raw, tc.host)
			}
		})
	}
}

func TestReadOfLittle(t *testing.T) {
	if _, err := read(""); err != io.EOF {
		t.Errorf("nothing: %v", err)
	}
	for _, in := range []string{"GET", "GET http://a.example/ HTTP/1.1\r\n", "GET http://a.example/ HTTP/1.1\r\nA: b"} {
		if _, err := read(in); err != io.ErrUnexpectedEOF {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// What is accepted is canonical: read again it is the same, it has no letter
// that could end a line or a name, and an address is one of netip.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"example.com:443", "EXAMPLE.com.:80", "[::ffff:7f00:1]:80", "0x7f.1:80", "127.0.0.1:80", "a@b:1", "xn--a:1", "[fe80::1%25eth0]:80", "1.2.3:80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTarget(s)
		if err != nil {
			return
		}
		again, err := ParseTarget(got.String())
		if err != nil || again != got {
			t.Fatalf("%q gives %q, and that %v %v", s, got, again, err)
		}
		if strings.Trim(got.String(), "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]") != "" {
			t.Fatalf("%q gives %q", s, got)
		}
		if a, err := netip.ParseAddr(got.Host); (err == nil) != got.Addr.IsValid() || a != got.Addr {
			t.Fatalf("%q: host %q, address %v", s, got.Host, got.Addr)
		}
	})
}

// What is accepted comes out as one head that reads the same in origin form:
// one Host, at most one length, no line that was not there.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"GET http://a.example/x HTTP/1.1\r\nHost: b\r\nA: b\r\n\r\n", "CONNECT a.example:443 HTTP/1.1\r\n\r\n",
		"POST http://[::1]:80/ HTTP/1.1\r\nContent-Length: 3\r\nConnection: a\r\n\r\nabc", "GET https://a.example:8443?x HTTP/1.0\r\n\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := read(s)
		if err != nil || r.Connect() {
			return
		}
		head := string(r.Append(nil))
		body, ok := strings.CutSuffix(head, "\r\n\r\n")
		lines := strings.Split(body, "\r\n")
		if !ok || strings.ContainsAny(strings.Join(lines, ""), "\r\n\x00") || len(lines) > maxFields+4 {
			t.Fatalf("%q gives %q", s, head)
		}
		count := map[string]int{}
		for _, l := range lines[1:] {
			name, _, _ := strings.Cut(strings.ToLower(l), ":")
			count[name]++
		}
		if count["host"] != 1 || count["content-length"] > 1 || count["transfer-encoding"] > 0 || count["connection"] != 1 {
			t.Fatalf("%q gives %q", s, head)
		}
		again, err := read(strings.Replace(head, " /", " "+r.Scheme+"://"+r.Target.String()+"/", 1))
		if err != nil || again.Target != r.Target || again.Path != r.Path || again.Length != r.Length || len(again.Fields) != len(r.Fields) {
			t.Fatalf("%q gives %q, and that %+v %v", s, head, again, err)
		}
	})
}
