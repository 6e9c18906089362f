package setup

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"boxmaker/bxctl/internal/fault"
)

// An Address is where the inference server is. Exactly one of Path and Host is set.
type Address struct {
	Path string // Unix socket
	Host string // name or IP address, without brackets
	Port uint16
}

// String gives the form that inferproxy takes: unix:PATH or tcp:HOST:PORT.
func (a Address) String() string {
	if a.Path != "" {
		return "unix:" + a.Path
	}
	return "tcp:" + net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// Named reports whether the host must be looked up.
func (a Address) Named() bool {
	_, err := netip.ParseAddr(a.Host)
	return a.Path == "" && err != nil
}

const around = "run llama-server where this machine reaches it over a network that is private already (loopback, WireGuard, a tailnet), " +
	"or let a tunnel of your own (ssh -L, stunnel) end in a local port or Unix socket, and name that"

// ParseUpstream reads http://HOST:PORT or unix:/PATH. All else is refused with
// the reason; a credential in the text is never repeated.
func ParseUpstream(s string) (Address, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return parseUnix(path)
	}
	u, err := url.Parse(s)
	if err != nil {
		return Address{}, bad("it can't be read as an address") // err would repeat the text
	}
	switch {
	case u.User != nil:
		return Address{}, &fault.Fault{
			Code: fault.Usage, What: "the upstream address holds a user or a password",
			Means: "the inference path holds no credentials, and a file in plain text is no place for one",
			Do:    "use a server without a login on a private network; " + around, Key: "upstream-credentials",
		}
	case u.Scheme == "https":
		return Address{}, &fault.Fault{
			Code: fault.Usage, What: "the upstream address is https",
			Means: "the inference path holds no TLS and no credentials: it forwards bytes and nothing else, so that it stays small enough to read",
			Do:    around, Key: "upstream-https",
		}
	case u.Scheme != "http":
		return Address{}, bad("it starts with neither http:// nor unix:/")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "", u.ForceQuery:
		return Address{}, bad("it has something after the port, which would be lost: requests go to the root of the server")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return Address{}, bad("it has no port (llama-server's is 8080, or 9931 in newer builds)")
	}
	host := u.Hostname()
	if !hostName(host) {
		return Address{}, bad("its host is neither a name nor an IP address")
	}
	return Address{Host: host, Port: uint16(port)}, nil
}

func parseUnix(path string) (Address, error) {
	path = strings.TrimPrefix(path, "//") // unix:///path, as others write it
	if !filepath.IsAbs(path) || strings.ContainsAny(path, "\x00\n") {
		return Address{}, bad("the path of the Unix socket is not absolute")
	}
	if filepath.Clean(path) != path {
		return Address{}, bad("the path of the Unix socket is not in its shortest form")
	}
	return Address{Path: path}, nil
}

func bad(why string) error {
	return &fault.Fault{
		Code: fault.Usage, What: "the upstream address can't be used: " + why,
		Do: "give http://HOST:PORT or unix:/PATH", Key: "upstream-address",
	}
}

func hostName(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	if s == "" || len(s) > 253 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}
