package address

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

func TestHere(t *testing.T) {
	here, err := Here()
	if err != nil {
		t.Fatal(err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil || len(own) == 0 {
		t.Skipf("this machine has no address at all: %v", err)
	}
	for _, a := range own {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(here, func(n netip.Prefix) bool { return n.Contains(p.Addr()) }) {
			t.Errorf("%s is not in %s", p, here)
		}
	}
	for _, far := range []string{"93.184.216.34", "1.1.1.1", "2606:2800:220:1::34"} {
		for _, n := range here {
			if n.Contains(netip.MustParseAddr(far)) {
				t.Errorf("%s is in %s", far, n)
			}
		}
	}
}

func TestNetwork(t *testing.T) {
	for _, tc := range []struct{ name, of, want string }{
		{"a home's", "192.168.1.7/24", "192.168.1.0/24"},
		{"a public one", "203.0.114.9/22", "203.0.112.0/22"},
		{"loopback", "127.0.0.1/8", "127.0.0.1/32"}, // which the table knows
		{"a tunnel with the internet in it", "198.41.0.4/0", "198.41.0.4/32"},
		{"IPv6", "2a02:1:2:3::7/64", "2a02:1:2:3::/64"},
		{"a tunnel with all of IPv6 in it", "2a02:1:2:3::7/3", "2a02:1:2:3::7/128"},
	} {
		ip, n, err := net.ParseCIDR(tc.of)
		if err != nil {
			t.Fatal(err)
		}
		n.IP = ip
		if got, ok := network(n); !ok || got.String() != tc.want {
			t.Errorf("%s: %s, %v; want %s", tc.name, got, ok, tc.want)
		}
	}
}
