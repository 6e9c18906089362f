package tool

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Methods of http_fetch.
const (
	MethodGet  = "GET"
	MethodPost = "POST"
)

// HTTPFetch are the arguments of http_fetch.
type HTTPFetch struct {
	URL     string            `json:"url"` // in the form that cleanURL gives
	Method  string            `json:"method,omitzero"`
	Body    string            `json:"body,omitzero"`
	Headers map[string]string `json:"headers,omitzero"` // names in canonical form: Content-Type
	Raw     bool              `json:"raw,omitzero"`     // HTML as it is, not as readable text
}

func newHTTPFetch() *HTTPFetch { return &HTTPFetch{Method: MethodGet} }

func (a *HTTPFetch) fields() []field {
	return []field{
		{"url", true, text{p: &a.URL, want: "a string", mend: cleanURL}},
		{"method", false, text{p: &a.Method, def: MethodGet, want: "a string", mend: oneOf(MethodGet, MethodPost)}},
		{"body", false, text{p: &a.Body, want: "a string"}},
		{"headers", false, pairs{&a.Headers, 32, header}},
		{"raw", false, flag{&a.Raw}},
	}
}

func (a *HTTPFetch) check() error {
	if a.Body != "" && a.Method != MethodPost {
		return invalid("`body` needs `method` \"POST\"; a GET has no body.")
	}
	return nil
}

func (a *HTTPFetch) uses() (r, w, hosts []string) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, nil, nil // cleanURL lets none through
	}
	return nil, nil, []string{hostPort(u)}
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

const maxURL = 8192

// cleanURL gives the one form of a URL: scheme and host in lower case, no
// default port, no trailing dot, no fragment, nothing that a second reader of
// it could take for another host or another request.
func cleanURL(s string) (string, error) {
	const form = "must be a full web address, for example https://example.com/page"
	if len(s) > maxURL {
		return "", bad("is longer than %d bytes", maxURL)
	}
	if err := visible(s); err != nil {
		return "", err
	}
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", bad(form)
	}
	if u.User != nil || strings.Contains(u.Host, "@") {
		return "", bad("must not have a user name or a password in it")
	}
	host, err := CleanHost(u.Hostname())
	if err != nil {
		return "", err
	}
	port, err := cleanPort(u)
	if err != nil {
		return "", err
	}
	out := u.Scheme + "://" + host + port + escape(u.EscapedPath())
	if u.EscapedPath() == "" {
		out += "/"
	}
	if u.RawQuery != "" {
		out += "?" + escape(u.RawQuery)
	}
	if len(out) > maxURL {
		return "", bad("is longer than %d bytes", maxURL)
	}
	return out, nil
}

func cleanPort(u *url.URL) (string, error) {
	port := u.Port()
	if port == "" {
		return "", nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", bad("has a port that is none; it must be a number from 1 to 65535")
	}
	if u.Scheme == "http" && n == 80 || u.Scheme == "https" && n == 443 {
		return "", nil
	}
	return ":" + port, nil
}

// CleanHost gives the one form of a host name or address: lower case, without a
// trailing dot, an IPv6 address in brackets and shortest form. It refuses names
// that some programs read as an address (0x7f.1, 0177.0.0.1, 2130706433) and
// names in other scripts, which look like others; those have an "xn--" form.
func CleanHost(host string) (string, error) {
	if strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		if err != nil || addr.Zone() != "" {
			return "", bad("has a host that is not an IPv6 address")
		}
		return "[" + addr.String() + "]", nil
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || !inner(host) {
		return "", bad("has a host with other characters than letters, digits, dots and hyphens; write an international name in its xn-- form")
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || len(host) > 253 || l[0] == '-' || l[len(l)-1] == '-' {
			return "", bad("has a host name that cannot exist")
		}
	}
	last := labels[len(labels)-1]
	if last[0] >= '0' && last[0] <= '9' {
		if addr, err := netip.ParseAddr(host); err != nil || addr.String() != host {
			return "", bad("has a host that looks like an address and is none; write it like 192.0.2.1")
		}
	}
	return host, nil
}

// inner reports whether every character is one of a host name's.
func inner(host string) bool {
	for _, c := range []byte(host) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return host != ""
}

// escape writes what may not stand in a request line as %XX.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// header checks one header. Those that say how the request is sent, or for
// which host, are ours alone.
func header(name, value string) (string, string, error) {
	if len(name) > 100 || !plainName(name) || strings.Contains(name, "_") {
		return "", "", bad("has a name that is no HTTP header; use names such as Accept or Content-Type")
	}
	name = headerName(name)
	switch name {
	case "Host", "Connection", "Content-Length", "Transfer-Encoding", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect",
		"Accept-Encoding", "Forwarded", "Via":
		return "", "", bad("must not set %s; it is set for you", name)
	}
	if strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Sec-") {
		return "", "", bad("must not set %s; leave it out", name)
	}
	if len(value) > 4096 {
		return "", "", bad("has a value longer than 4096 bytes for %s", name)
	}
	for _, c := range []byte(value) {
		if (c < ' ' || c > '~') && c != '\t' {
			return "", "", bad("has a character in the value of %s that is not plain ASCII; remove line breaks and accents", name)
		}
	}
	return name, strings.Trim(value, " \t"), nil
}

// headerName writes content-TYPE as Content-Type.
func headerName(name string) string {
	b := []byte(strings.ToLower(name))
	up := true
	for i, c := range b {
		if up && c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
		up = c == '-'
	}
	return string(b)
}
