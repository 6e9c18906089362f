package redteam

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf16"

	"golang.org/x/net/dns/dnsmessage"

	"boxmaker/internal/proto"
)

// twisted is what the name server says of names below odd.example: answers that a
// server of an attacker may send.
func twisted(m *dnsmessage.Message) {
	q := m.Questions[0]
	name, ok := strings.CutSuffix(strings.ToLower(q.Name.String()), ".odd.example.")
	if !ok {
		return
	}
	m.RCode = dnsmessage.RCodeSuccess
	to := func(owner, target string) {
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(owner), Type: dnsmessage.TypeCNAME, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(target)},
		})
	}
	at := func(owner string, all ...string) {
		for _, a := range all {
			if q.Type == dnsmessage.TypeA {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(owner), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
				})
			}
		}
	}
	own := q.Name.String()
	switch name {
	case "alias": // to a name that is not granted, and private
		to(own, "intranet.example.")
		at("intranet.example.", "192.168.0.1")
	case "chain":
		for i := range 20 {
			to(fmt.Sprintf("c%d.odd.example.", i), fmt.Sprintf("c%d.odd.example.", i+1))
		}
		at("c20.odd.example.", "10.0.0.1")
	case "loop":
		to(own, "loop2.odd.example.")
		to("loop2.odd.example.", own)
	case "poison": // an answer about another name, for whoever remembers
		at("public.example.", "10.0.0.1")
	case "beside": // a right answer, and one about another name
		at(own, "93.184.216.34")
		at("other.example.", "10.0.0.1")
	case "last": // the private one stands last of many, which come over TCP
		for i := range 31 {
			at(own, fmt.Sprintf("93.184.216.%d", 100+i))
		}
		at(own, "10.0.0.1")
	case "crowd":
		for i := range 250 {
			at(own, fmt.Sprintf("93.184.217.%d", i))
		}
	case "extra": // only among what is said beside an answer
		m.Additionals, m.Answers = m.Answers, nil
		at(own, "10.0.0.1")
		m.Additionals, m.Answers = m.Answers, nil
	case "failure":
		m.RCode = dnsmessage.RCodeServerFailure
	default:
		m.RCode = dnsmessage.RCodeNameError
	}
}

// odd answers as no server should; false if the path is none of these.
func odd(out http.ResponseWriter, path, value string) bool {
	raw := func(text string) bool {
		c := hijack(out)
		defer c.Close()
		_, _ = io.WriteString(c, text) // whoever asked may have left
		return true
	}
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	typed := func(kind, body string) bool {
		out.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(out, body)
		return true
	}
	switch path {
	case "/odd/interim":
		return raw(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 20000) + head + "\r\nREACHED late")
	case "/odd/no-head":
		return raw("REACHED without a head\n")
	case "/odd/chunk-huge":
		return raw(head + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n")
	case "/odd/chunk-letters":
		return raw(head + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n")
	case "/odd/chunk-extension":
		return raw(head + "Transfer-Encoding: chunked\r\n\r\n3;" + strings.Repeat("x", 1<<20) + "\r\nabc\r\n0\r\n\r\n")
	case "/odd/both-framings":
		return raw(head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nREACH\r\n0\r\n\r\n")
	case "/odd/two-lengths":
		return raw(head + "Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde")
	case "/odd/short":
		return raw(head + "Content-Length: 1000000\r\n\r\nabc")
	case "/odd/negative":
		return raw(head + "Content-Length: -3\r\n\r\nabc")
	case "/odd/switch":
		return raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nREACHED")
	case "/odd/refusal": // as if the way out had said it
		return raw("HTTP/1.1 403 Forbidden\r\nX-Boxmaker-Egress: not-allowed\r\nContent-Length: 2\r\n\r\nok")
	case "/odd/refresh":
		out.Header().Set("Refresh", "0; url=http://10.0.0.1/")
		return typed("text/html", `<meta http-equiv="refresh" content="0; url=http://10.0.0.1/"><p>stay</p>`)
	case "/odd/twice-packed": // nothing in very much
		out.Header().Set("Content-Encoding", "gzip, gzip")
		z := gzip.NewWriter(out)
		for range 20_000 {
			if _, err := z.Write(emptyGzip()); err != nil {
				return true
			}
		}
		z.Close()
		return true
	case "/odd/packed-otherwise":
		out.Header().Set("Content-Encoding", "gzip, br, gzip, deflate")
		return typed("text/plain", "abc")
	}
	return echoes(typed, path, value)
}

func emptyGzip() []byte {
	var b bytes.Buffer
	gzip.NewWriter(&b).Close()
	return b.Bytes()
}

// echoes give the secret back in ways that are not those of the other family.
func echoes(typed func(kind, body string) bool, path, value string) bool {
	each := func(verb string) string {
		var b strings.Builder
		for _, c := range []byte(value) {
			fmt.Fprintf(&b, verb, c)
		}
		return b.String()
	}
	switch path {
	case "/odd/echo-percent-twice":
		return typed("text/plain", "x "+each("%%25%02x"))
	case "/odd/echo-json":
		return typed("application/json", `{"you":"`+each(`\u%04x`)+`"}`)
	case "/odd/echo-hex-spaces":
		return typed("text/plain", each("%02x "))
	case "/odd/echo-hex-escapes":
		return typed("text/plain", each(`\x%02X`))
	case "/odd/echo-base64-lines":
		return typed("text/plain", strings.Join(strings.SplitAfter(base64.URLEncoding.EncodeToString([]byte("id:"+value)), "a"), "\r\n"))
	case "/odd/echo-without-first":
		return typed("text/plain", "you are "+value[1:])
	case "/odd/echo-utf16":
		b := []byte{0xff, 0xfe}
		for _, u := range utf16.Encode([]rune("you are " + value)) {
			b = append(b, byte(u), byte(u>>8))
		}
		return typed("text/plain", string(b))
	case "/odd/echo-link":
		return typed("text/html", `<p>go <a href="/next?token=`+url.QueryEscape(value)+`">on</a></p><img alt="`+value+`" src="/x?`+value+`">`)
	case "/odd/echo-title":
		return typed("text/html", "<title>"+value[:9]+"\u200b"+value[9:]+"</title><p>hello</p>")
	case "/odd/echo-kind":
		return typed("text/"+value, "abc")
	}
	return false
}

// strangeAnswers: a server that is granted, its name server too, may be the
// attacker's.
func strangeAnswers(w *walker) []attempt {
	const ok, private, none = proto.EgressPassed, proto.EgressPrivate, proto.EgressNoAddress
	var rows []attempt
	for name, want := range map[string]struct {
		verdict proto.EgressVerdict
		reached string
	}{
		"alias": {private, ""}, "chain": {private, ""}, "loop": {none, ""}, "poison": {private, ""}, "beside": {private, ""}, "last": {private, ""}, "crowd": {none, ""}, "extra": {none, ""}, "failure": {none, ""},
	} {
		rows = append(rows, w.raw("a name server's answer: "+name, getting("http://"+name+".odd.example/"), want.verdict, want.reached))
	}
	// A server without TLS can claim that the way out refused it: a lie about itself,
	// in which no word is its own. The record says that it was reached.
	wants := map[string][]proto.Code{"refusal": {proto.CodeNoGrant}}
	rows = append(rows, w.raw("control: nothing of it is remembered", getting("http://public.example/"), ok, "93.184.216.34:80"))
	for _, path := range []string{"interim", "no-head", "chunk-huge", "chunk-letters", "chunk-extension", "both-framings", "two-lengths", "short", "negative", "switch", "refusal", "refresh", "twice-packed", "packed-otherwise"} {
		once := func(r *rig, res *proto.CallResult) {
			r.t.Helper()
			isText(r, res)
			out := r.outcome(res.ID)
			if len(out.Egress) != 1 || out.Egress[0].Host != "public.example:80" || out.Egress[0].Sent+out.Egress[0].Received > 4<<20 {
				r.t.Errorf("on record: %+v", out.Egress)
			}
			if len(res.Text) > 70<<10 || strings.Contains(res.Text, "REACHED late") {
				r.t.Errorf("%d bytes: %.200q", len(res.Text), res.Text)
			}
		}
		rows = append(rows, fetches("a server's answer: "+path, "http://public.example/odd/"+path, once, append(wants[path], "", proto.CodeToolFailed, proto.CodeTooLarge, proto.CodeToolTimeout)...))
		rows = append(rows, fetches("the same, where a secret is added: "+path, "https://api.example/odd/"+path, all(isText, unseen, recorded("api.example:443 passed")), "", proto.CodeToolFailed, proto.CodeTooLarge, proto.CodeToolTimeout))
	}
	for _, e := range []string{"percent-twice", "json", "hex-spaces", "hex-escapes", "base64-lines", "without-first", "utf16", "link", "title", "kind"} {
		rows = append(rows,
			fetches("the secret comes back: "+e, "https://api.example/odd/echo-"+e, unreadable, "", proto.CodeToolFailed),
			attempt{name: "raw: " + e, tool: "http_fetch", args: obj{"url": "https://api.example/odd/echo-" + e, "raw": true}, check: unreadable},
		)
	}
	return append(rows, fetches("control: after all of it", "http://public.example/", shows("REACHED 93.184.216.34:80"), ""))
}

// unreadable: the injected secret is in a result in none of the forms of echoes.
func unreadable(r *rig, res *proto.CallResult) {
	r.t.Helper()
	unseen(r, res)
	flat := strings.NewReplacer("\u200b", "", "\r", "", "\n", "", " ", "", "%25", "", `\x`, "", `\u00`, "").Replace(res.Text)
	for _, form := range []string{tokenCanary[1:], fmt.Sprintf("%x", tokenCanary), fmt.Sprintf("%X", tokenCanary), base64.URLEncoding.EncodeToString([]byte("id:" + tokenCanary))[4:30]} {
		if strings.Contains(flat, form) {
			r.t.Errorf("the secret came back: %.300q", res.Text)
		}
	}
}
