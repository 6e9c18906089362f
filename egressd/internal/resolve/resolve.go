// Package resolve looks up the addresses of a name, once, for one connection.
//
// It guarantees that the name is taken as a whole (no search domains), that
// nothing is remembered, and that an answer with more than [Most] addresses is
// an error and not cut short: whoever checks every address has seen them all.
// It does not judge the addresses, and does not validate DNSSEC.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Most is how many addresses an answer may have.
const Most = 32

// ErrMany reports an answer with more addresses than [Most].
var ErrMany = errors.New("resolve: more addresses than a name has")

// A Resolver asks one name server, or those of the machine.
type Resolver struct {
	r     net.Resolver
	hosts string // file
}

// New makes a resolver that asks server (ip:port, over UDP and TCP), or as
// /etc/resolv.conf says if server is empty. In both cases /etc/hosts comes first.
func New(server string) *Resolver {
	r := &Resolver{net.Resolver{PreferGo: true}, "/etc/hosts"}
	if server != "" {
		r.r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, server)
		}
	}
	return r
}

// inHosts looks for a name of one label, such as localhost. Go's resolver does
// that only for a name without the dot at its end, which it would also complete
// with search domains; others it finds there itself.
func (r *Resolver) inHosts(name string) (all []netip.Addr) {
	if strings.Contains(name, ".") {
		return nil
	}
	text, err := os.ReadFile(r.hosts)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 || !slices.ContainsFunc(f[1:], func(s string) bool { return strings.EqualFold(s, name) }) {
			continue
		}
		if a, err := netip.ParseAddr(f[0]); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// Lookup gives all addresses of name, at least one, IPv4 first. IPv4 addresses
// that come in the form of IPv6 are made plain.
func (r *Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	all := r.inHosts(name)
	if len(all) == 0 {
		var err error
		if all, err = r.r.LookupNetIP(ctx, "ip", name+"."); err != nil {
			return nil, fmt.Errorf("resolve: %w", err)
		}
	}
	for i, a := range all {
		all[i] = a.Unmap()
	}
	slices.SortStableFunc(all, netip.Addr.Compare)
	all = slices.Compact(all)
	if len(all) == 0 {
		return nil, errors.New("resolve: no address")
	}
	if len(all) > Most {
		return nil, ErrMany
	}
	return all, nil
}
