// Package proxyreq reads what is asked of an HTTP proxy: the head of one
// request, and the host and port in it.
//
// It guarantees that what it accepts can be read in one way only: lines end in
// CRLF, no field is folded, a body has one length that is a plain number, and a
// host is a DNS name in lower case or an IP address in its one canonical form.
// Host is written anew from the target, so that it cannot name another server,
// and fields that are for proxies alone are dropped.
//
// It resolves nothing and knows no rights. Chunked request bodies, upgrades and
// HTTP/2 are refused, which RFC 9110 allows a proxy to do.
package proxyreq

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a head, in bytes and in fields.
const (
	MaxHead   = 32 << 10
	maxFields = 100
	maxMethod = 20
)

// A Request is the head of a request. The body, of Length bytes, follows it.
type Request struct {
	Method string
	// Scheme is "http" or "https" for a request in absolute form, and empty for
	// CONNECT.
	Scheme string
	Target Target
	Path   string  // with the query; empty for CONNECT
	Fields []Field // those that travel on, in their order; without Host and Content-Length
	Length int64   // of the body
	Sized  bool    // the request has a Content-Length
	Expect bool    // the client waits for "100 Continue" before it sends the body
}

// A Field is one line of the head.
type Field struct{ Name, Value string }

// Connect reports whether a tunnel is asked for.
func (r *Request) Connect() bool { return r.Scheme == "" }

// An Error says why a request is none. Neither part has text of the request,
// but for Raw.
type Error struct {
	Why string
	Raw string // what stood for the host, as it came; may be empty
}

func (e *Error) Error() string { return "proxyreq: " + e.Why }

// Read reads one head and nothing beyond it. The error is io.EOF if the client
// sent nothing, an *[Error] for what is no request, or that of the connection.
func Read(r *bufio.Reader) (*Request, error) {
	budget := MaxHead
	line, err := readLine(r, &budget)
	if err != nil {
		return nil, err
	}
	req, err := requestLine(line)
	if err != nil {
		return nil, err
	}
	fail := func(why string) (*Request, error) { return nil, &Error{Why: why, Raw: req.Target.String()} }
	var all []Field
	for {
		line, err := readLine(r, &budget)
		var bad *Error
		if errors.As(err, &bad) {
			return fail(bad.Why)
		} else if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		f, why := field(line)
		if why != "" {
			return fail(why)
		}
		if all = append(all, f); len(all) > maxFields {
			return fail("too many header fields")
		}
	}
	if why := req.take(all); why != "" {
		return fail(why)
	}
	return req, nil
}

// readLine gives a line without its CRLF.
func readLine(r *bufio.Reader, budget *int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if *budget -= len(part); *budget < 0 {
			return "", &Error{Why: "the head of the request is too large"}
		}
		line = append(line, part...)
		switch {
		case err == nil:
			line, ok := bytes.CutSuffix(line, []byte("\r\n"))
			if !ok || bytes.ContainsAny(line, "\r\x00") {
				return "", &Error{Why: "lines must end in CRLF"}
			}
			return string(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return "", io.ErrUnexpectedEOF
		default:
			return "", err
		}
	}
}

// authority is what stands for the host in a target, as it came: no path and no
// query, which are content.
func authority(target string) string {
	if _, rest, ok := strings.Cut(target, "://"); ok {
		target = rest
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(target, "//"), "/")
	host, _, _ = strings.Cut(host, "?")
	return host
}

func requestLine(line string) (*Request, error) {
	part := strings.Split(line, " ")
	if len(part) != 3 {
		return nil, &Error{Why: "the first line is not a request"}
	}
	method, target, version := part[0], part[1], part[2]
	switch {
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return nil, &Error{Why: "only HTTP/1.1 is spoken here", Raw: authority(target)}
	case !token(method) || len(method) > maxMethod || strings.ToUpper(method) != method:
		return nil, &Error{Why: "the method is not usable", Raw: authority(target)}
	case method == "TRACE":
		return nil, &Error{Why: "TRACE is refused", Raw: authority(target)}
	}
	r := &Request{Method: method}
	if method == "CONNECT" {
		t, err := ParseTarget(target)
		if err != nil {
			return nil, &Error{Why: err.Error(), Raw: authority(target)}
		}
		r.Target = t
		return r, nil
	}
	return r, r.absolute(target)
}

// absolute reads scheme://host[:port][/path][?query].
func (r *Request) absolute(target string) error {
	scheme, rest, ok := strings.Cut(target, "://")
	r.Scheme = strings.ToLower(scheme)
	port := map[string]string{"http": ":80", "https": ":443"}[r.Scheme]
	if !ok || port == "" {
		return &Error{Why: "a proxy is asked with CONNECT or with a whole http URL", Raw: authority(target)}
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host := rest[:end]
	r.Path = rest[end:]
	if !strings.HasPrefix(r.Path, "/") {
		r.Path = "/" + r.Path
	}
	// A backslash is a slash to some, and a fragment never travels.
	if strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' || c == '#' }) {
		return &Error{Why: "the URL has characters that no URL has", Raw: host}
	}
	full := host
	if colon := strings.LastIndexByte(host, ':'); colon < 0 || strings.HasSuffix(host, "]") {
		full += port
	}
	t, err := ParseTarget(full)
	if err != nil {
		return &Error{Why: err.Error(), Raw: host}
	}
	r.Target = t
	return nil
}

func field(line string) (Field, string) {
	if line[0] == ' ' || line[0] == '\t' {
		return Field{}, "folded header fields are refused"
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok || !token(name) {
		return Field{}, "a header field has no proper name"
	}
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return Field{}, "a header field has control characters"
	}
	return Field{Name: name, Value: strings.Trim(value, " \t")}, ""
}

// take sorts the fields out. It gives the reason if they cannot be read in one
// way only.
func (r *Request) take(all []Field) string {
	hosts, named := 0, map[string]bool{}
	for _, f := range all {
		switch name := strings.ToLower(f.Name); name {
		case "host":
			hosts++
		case "content-length":
			n, err := strconv.ParseUint(f.Value, 10, 62)
			if err != nil || r.Sized || strconv.FormatUint(n, 10) != f.Value {
				return "the length of the body is not one plain number"
			}
			r.Length, r.Sized = int64(n), true
		case "transfer-encoding":
			return "a body must have a Content-Length here"
		case "upgrade", "http2-settings":
			return "an upgrade to another protocol is refused"
		case "expect":
			if !strings.EqualFold(f.Value, "100-continue") {
				return "that expectation is not met here"
			}
			r.Expect = true
		case "connection", "proxy-connection":
			for t := range strings.SplitSeq(f.Value, ",") {
				named[strings.ToLower(strings.Trim(t, " \t"))] = true
			}
		}
	}
	switch {
	case hosts > 1:
		return "more than one Host"
	case r.Connect() && (r.Sized || r.Expect):
		return "CONNECT has no body"
	}
	for _, f := range all {
		if name := strings.ToLower(f.Name); !forProxies(name) && !named[name] {
			r.Fields = append(r.Fields, f)
		}
	}
	return ""
}

// forProxies: fields that end at a proxy, that would tell the server where a
// request comes from, or that are written anew.
func forProxies(name string) bool {
	return strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "x-forwarded-") ||
		slices.Contains([]string{"host", "content-length", "connection", "keep-alive", "te", "trailer", "expect", "forwarded", "via", "x-real-ip"}, name)
}

// Without drops the fields of that name, in any case.
func (r *Request) Without(name string) {
	r.Fields = slices.DeleteFunc(r.Fields, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}

// Append writes the head as the server gets it: origin form, Host from the
// target, one request for the connection.
func (r *Request) Append(b []byte) []byte {
	host := r.Target.String()
	if r.Scheme == "http" && r.Target.Port == 80 || r.Scheme == "https" && r.Target.Port == 443 {
		host = r.Target.hostText()
	}
	b = fmt.Appendf(b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, host)
	for _, f := range r.Fields {
		b = fmt.Appendf(b, "%s: %s\r\n", f.Name, f.Value)
	}
	if r.Sized {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", r.Length)
	}
	return append(b, "Connection: close\r\n\r\n"...)
}

// token reports whether s is a token of RFC 9110.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// VerdictHeader is in every answer that comes from the proxy itself and not
// from the server. Its value is a proto.EgressVerdict.
const VerdictHeader = "X-Boxmaker-Egress"

// Valid reports whether f can stand in a head as it is.
func (f Field) Valid() bool {
	return token(f.Name) && !strings.ContainsFunc(f.Value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}
