// Package address says which IP addresses a tool may reach.
//
// The rule is about what is public: an address is [Public] only if it can be
// that of a server on the internet and of nothing else. Whatever is for one
// machine, one network, one provider, or carries another address inside it is
// not, also where a part of such a range is in public use. The ranges are those
// of IANA's special-purpose registries (IPv4 and IPv6), read in December 2026,
// and the addresses at which clouds hand out credentials.
//
// What the table calls public can still be this machine or its neighbour: [Here]
// says which networks it is in.
//
// It cannot know a NAT64 prefix that a network chose for itself, nor that a
// public address is that of the owner's own router.
package address

import "net/netip"

// A Kind is what an address can lead to.
type Kind int

// Kinds.
const (
	Public Kind = iota
	// Private leads to this machine or its networks: for targets that are
	// granted as local.
	Private
	// Literal hands out credentials or configuration of the machine: only where
	// the address itself is granted as local, never by a name.
	Literal
	// Never is no address of a host: unspecified, multicast, reserved.
	Never
)

// Of classifies an address.
func Of(a netip.Addr) Kind {
	if !a.IsValid() || a.Zone() != "" {
		return Never
	}
	for _, r := range special() {
		if r.prefix.Contains(a) {
			return r.kind
		}
	}
	if a.Is4() || netip.MustParsePrefix("2000::/3").Contains(a) {
		return Public
	}
	return Private // all of IPv6 that nobody on the internet has
}

type rang struct {
	prefix netip.Prefix
	kind   Kind
}

// special lists ranges, narrow ones first. Prefixes of IPv4 hold no mapped
// address: ::ffff:0:0/96 has its own row.
func special() []rang {
	p := netip.MustParsePrefix
	return []rang{
		{p("169.254.169.254/32"), Literal}, // metadata of most clouds
		{p("169.254.170.2/32"), Literal},   // of containers at AWS
		{p("169.254.170.23/32"), Literal},
		{p("100.100.100.200/32"), Literal}, // Alibaba
		{p("192.0.0.192/32"), Literal},     // Oracle
		{p("168.63.129.16/32"), Literal},   // Azure, in a range that looks public
		{p("fd00:ec2::254/128"), Literal},  // AWS
		{p("fd00:ec2::23/128"), Literal},
		{p("fd20:ce::254/128"), Literal}, // Google
		{p("fe80::a9fe:a9fe/128"), Literal},

		{p("0.0.0.0/8"), Never},
		{p("224.0.0.0/4"), Never},
		{p("240.0.0.0/4"), Never}, // with broadcast
		{p("10.0.0.0/8"), Private},
		{p("100.64.0.0/10"), Private}, // CGNAT, tailnets
		{p("127.0.0.0/8"), Private},
		{p("169.254.0.0/16"), Private},
		{p("172.16.0.0/12"), Private},
		{p("192.0.0.0/24"), Private},
		{p("192.0.2.0/24"), Private},   // documentation
		{p("192.88.99.0/24"), Private}, // 6to4 relays
		{p("192.168.0.0/16"), Private},
		{p("198.18.0.0/15"), Private},   // benchmarks
		{p("198.51.100.0/24"), Private}, // documentation
		{p("203.0.113.0/24"), Private},  // documentation

		{p("::/128"), Never},
		{p("::ffff:0.0.0.0/104"), Never},  // mapped 0.0.0.0/8
		{p("::ffff:224.0.0.0/99"), Never}, // mapped multicast and reserved
		{p("::ffff:169.254.169.254/128"), Literal},
		{p("::ffff:0:0/96"), Private}, // IPv4 in IPv6: nobody needs it on the wire
		{p("ff00::/8"), Never},
		{p("2001::/23"), Private}, // Teredo, benchmarks, ORCHID
		{p("2001:db8::/32"), Private},
		{p("2002::/16"), Private}, // 6to4
		{p("3fff::/20"), Private}, // documentation
	}
}
