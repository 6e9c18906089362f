package proxyreq

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// A Target is a host and a port. The zero value is none.
type Target struct {
	// Host is a DNS name in lower case without a trailing dot, or an address in
	// the form of netip.
	Host string
	Port uint16
	Addr netip.Addr // valid if Host is an address
}

// String gives host:port, an IPv6 address in brackets. It is empty for none.
func (t Target) String() string {
	if t == (Target{}) {
		return ""
	}
	return t.hostText() + ":" + strconv.Itoa(int(t.Port))
}

func (t Target) hostText() string {
	if t.Addr.Is6() {
		return "[" + t.Host + "]"
	}
	return t.Host
}

// ParseTarget reads host:port. One dot at the end of a name is dropped: it
// names the same host, and names are looked up as whole names in any case.
//
// Refused are user names, percent escapes, names that are not ASCII (they are
// written as xn--… on the wire), zones, and every name that ends in a number
// and is not an IPv4 address in its usual form: "127.1", "0177.0.0.1",
// "0x7f.1" and "2130706433" are addresses to some programs and names to others.
func ParseTarget(s string) (Target, error) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return Target{}, errors.New("there is no port")
	}
	host, digits := s[:colon], s[colon+1:]
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || strconv.FormatUint(port, 10) != digits {
		return Target{}, errors.New("the port is not a number from 1 to 65535")
	}
	t := Target{Port: uint16(port)}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		if !ok || err != nil || !a.Is6() || a.Zone() != "" {
			return Target{}, errors.New("what stands in brackets is not an IPv6 address")
		}
		t.Host, t.Addr = a.String(), a
		return t, nil
	}
	name, err := hostName(host)
	if err != nil {
		return Target{}, err
	}
	t.Host = name
	if labels := strings.Split(name, "."); number(labels[len(labels)-1]) {
		a, err := netip.ParseAddr(name)
		if err != nil || !a.Is4() || a.String() != host {
			return Target{}, errors.New("the host is a number, or an address in an unusual form")
		}
		t.Addr = a
	}
	return t, nil
}

// hostName checks the letters of a name and puts it into lower case.
func hostName(s string) (string, error) {
	if s == "" {
		return "", errors.New("there is no host")
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		case c >= 0x80:
			return "", errors.New("the host is not ASCII; write its xn-- form")
		case c == '@':
			return "", errors.New("a user name in front of the host is refused")
		default:
			return "", errors.New("the host has characters that no name has")
		}
	}
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if len(name) > 253 {
		return "", errors.New("the host is too long")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", errors.New("the host is not a DNS name")
		}
	}
	return name, nil
}

// number: what some parsers take for the end of an IPv4 address.
func number(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok && strings.Trim(hex, "0123456789abcdef") == "" {
		return true
	}
	return strings.Trim(label, "0123456789") == ""
}

// A Rule is one entry of an allow list: a target, or a wildcard.
type Rule struct {
	target Target
	below  string // ".example.com" for the names below example.com
}

// ParseRule reads host:port, or *.host:port for the names below host, of any
// depth and without host itself.
func ParseRule(s string) (Rule, error) {
	rest, wild := strings.CutPrefix(s, "*.")
	t, err := ParseTarget(rest)
	switch {
	case err != nil:
		return Rule{}, err
	case wild && t.Addr.IsValid():
		return Rule{}, errors.New("a wildcard stands before a name, not an address")
	case wild && !strings.Contains(t.Host, "."):
		return Rule{}, errors.New("a wildcard needs a name with a dot after it")
	case wild:
		return Rule{target: t, below: "." + t.Host}, nil
	}
	return Rule{target: t}, nil
}

// Wild reports whether the rule is a wildcard.
func (r Rule) Wild() bool { return r.below != "" }

// Allows reports whether t is what the rule is for.
func (r Rule) Allows(t Target) bool {
	if r.below != "" {
		return t.Port == r.target.Port && !t.Addr.IsValid() && strings.HasSuffix(t.Host, r.below)
	}
	return t == r.target && t != Target{}
}
