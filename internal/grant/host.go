package grant

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CheckHost says what is wrong with an entry of net.hosts, and how to mend it;
// "" if nothing is. What passes has exactly one spelling, so that hosts can be
// compared as texts.
func CheckHost(s string) (what, do string) {
	const example = `write it as host:port, such as "api.example.com:443"`
	host, port, ok := cutPort(s)
	switch {
	case s == "":
		return "an empty host", "remove the entry"
	case strings.Contains(s, "://"):
		return fmt.Sprintf("%q is a URL", s), example
	case strings.Contains(s, "@"):
		return fmt.Sprintf("%q has a user name in it", s), example
	case strings.ContainsAny(s, "/?#"):
		return fmt.Sprintf("%q has a path in it; a grant is for a whole host", s), example
	case !ok || port == "":
		return fmt.Sprintf("%q has no port", s), example + ` (443 is https, 80 is http)`
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return fmt.Sprintf("%q: the port must be a number from 1 to 65535", s), example
	}
	if strings.HasPrefix(host, "[") || strings.Contains(host, ":") {
		return checkIPv6(s, host, port)
	}
	if name, ok := strings.CutPrefix(host, "*."); ok {
		if what, do = checkName(s, name); what == "" && !strings.Contains(name, ".") {
			what, do = fmt.Sprintf("%q would stand for every host below .%s", s, name), `name the domain too, such as "*.example.com:443"`
		}
		if _, err := netip.ParseAddr(name); what == "" && err == nil {
			what, do = fmt.Sprintf("%q: there is nothing below an address", s), "write the address without *."
		}
		return what, do
	}
	return checkName(s, host)
}

// cutPort splits at the last colon, an address in brackets kept whole.
func cutPort(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.HasSuffix(s, "]") {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func checkIPv6(s, host, port string) (what, do string) {
	inner, ok := strings.CutPrefix(host, "[")
	inner, ok2 := strings.CutSuffix(inner, "]")
	a, err := netip.ParseAddr(inner)
	switch {
	case !ok || !ok2:
		return fmt.Sprintf("%q: an IPv6 address stands in brackets, and a port follows", s), `write it as "[2001:db8::1]:443"`
	case err != nil || !a.Is6():
		return fmt.Sprintf("%q: this is no IPv6 address", s), `write it as "[2001:db8::1]:443"`
	case a.Zone() != "":
		return fmt.Sprintf("%q: an address with a zone means something else on each machine", s), "write it without the zone"
	case a.Is4In6():
		return fmt.Sprintf("%q is an IPv4 address in the form of IPv6", s), fmt.Sprintf("write it as %q", a.Unmap().String()+":"+port)
	case a.String() != inner:
		return fmt.Sprintf("%q is not the usual form of this address", s), fmt.Sprintf("write it as %q", "["+a.String()+"]:"+port)
	}
	return "", ""
}

// checkName checks a host name or an IPv4 address.
func checkName(s, host string) (what, do string) {
	switch {
	case host == "":
		return fmt.Sprintf("%q has no host", s), `write it as host:port, such as "api.example.com:443"`
	case strings.Contains(host, "*"):
		return fmt.Sprintf("%q: * stands only at the start, for all names below a domain", s), `write it as "*.example.com:443", or name the host`
	case strings.HasSuffix(host, "."):
		return fmt.Sprintf("%q: the name ends in a dot", s), "write it without the last dot"
	case host != strings.ToLower(host):
		return fmt.Sprintf("%q has capital letters", s), fmt.Sprintf("write it as %q", strings.ToLower(s))
	case !ascii(host):
		return fmt.Sprintf("%q has letters beyond a to z, which can look like others", s), "write the name as it is in the DNS: each such label as xn--…"
	case len(host) > 253:
		return fmt.Sprintf("%.40q… is longer than a host name can be", s), "correct the name"
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return "", ""
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || l[0] == '-' || l[len(l)-1] == '-' {
			return fmt.Sprintf("%q: this is no host name", s), "a name has labels of a-z, 0-9 and -, with dots between them"
		}
	}
	// Programs read "127.1", "0x7f.1" and "2130706433" as addresses; each in
	// its own way.
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" || numericHex(last) {
		return fmt.Sprintf("%q: this is no host name, and no address in its usual form", s), `write an address as four numbers, such as "192.0.2.1:443"`
	}
	return "", ""
}

func numericHex(label string) bool {
	rest, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(rest, "0123456789abcdef") == ""
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// hostIn reports whether one of the patterns stands for host. Both have passed
// through one spelling: lower case, no trailing dot, with a port.
func hostIn(host string, patterns []string) bool {
	for _, p := range patterns {
		if p == host {
			return true
		}
		if below, ok := strings.CutPrefix(p, "*"); ok && strings.HasSuffix(host, below) && len(host) > len(below) {
			return true
		}
	}
	return false
}

// private reports whether an entry names an address of a kind that egressd
// refuses unless it is granted as local.
func private(entry string) bool {
	host, _, _ := cutPort(entry)
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() ||
		netip.MustParsePrefix("100.64.0.0/10").Contains(a)
}
