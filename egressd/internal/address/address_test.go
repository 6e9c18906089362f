package address

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestOf(t *testing.T) {
	for _, tc := range []struct {
		name, address string
		want          Kind
	}{
		{"a public address", "93.184.216.34", Public},
		{"a resolver on the internet", "1.1.1.1", Public},
		{"a public IPv6 address", "2606:2800:220:1:248:1893:25c8:1946", Public},
		{"above a private range", "172.32.0.1", Public},
		{"below a private range", "172.15.255.255", Public},
		{"below CGNAT", "100.63.255.255", Public},
		{"above CGNAT", "100.128.0.0", Public},
		{"above benchmarks", "198.20.0.0", Public},
		{"above 2001::/23", "2001:200::1", Public},
		{"loopback", "127.0.0.1", Private},
		{"end of loopback", "127.255.255.255", Private},
		{"loopback 6", "::1", Private},
		{"10/8", "10.255.255.255", Private},
		{"172.16/12", "172.31.255.255", Private},
		{"192.168/16", "192.168.0.1", Private},
		{"CGNAT", "100.64.0.1", Private},
		{"tailnet", "100.101.102.103", Private},
		{"link-local", "169.254.1.1", Private},
		{"link-local 6", "fe80::1", Private},
		{"site-local", "fec0::1", Private},
		{"ULA", "fd12:3456:789a::1", Private},
		{"ULA of fc", "fc00::1", Private},
		{"mapped loopback", "::ffff:127.0.0.1", Private},
		{"mapped public", "::ffff:93.184.216.34", Private},
		{"compatible loopback", "::127.0.0.1", Private},
		{"NAT64", "64:ff9b::7f00:1", Private},
		{"NAT64 of a public address", "64:ff9b::5db8:d822", Private},
		{"local NAT64", "64:ff9b:1::7f00:1", Private},
		{"6to4", "2002:7f00:1::1", Private},
		{"Teredo", "2001:0:4136:e378:8000:63bf:80ff:fffe", Private},
		{"ORCHID", "2001:20::1", Private},
		{"documentation", "192.0.2.7", Private},
		{"documentation 2", "198.51.100.7", Private},
		{"documentation 3", "203.0.113.7", Private},
		{"documentation 6", "2001:db8::1", Private},
		{"new documentation 6", "3fff::1", Private},
		{"benchmarks", "198.18.0.1", Private},
		{"6to4 relay", "192.88.99.1", Private},
		{"IETF", "192.0.0.8", Private},
		{"discard", "100::1", Private},
		{"segment routing", "5f00::1", Private},
		{"unassigned", "4000::1", Private},
		{"metadata", "169.254.169.254", Literal},
		{"metadata, mapped", "::ffff:169.254.169.254", Literal},
		{"metadata 6", "fd00:ec2::254", Literal},
		{"metadata of containers", "169.254.170.2", Literal},
		{"metadata in CGNAT", "100.100.100.200", Literal},
		{"metadata that looks public", "168.63.129.16", Literal},
		{"unspecified", "0.0.0.0", Never},
		{"this network", "0.1.2.3", Never},
		{"unspecified 6", "::", Never},
		{"mapped unspecified", "::ffff:0.0.0.0", Never},
		{"multicast", "224.0.0.1", Never},
		{"mapped multicast", "::ffff:224.0.0.1", Never},
		{"multicast 6", "ff02::1", Never},
		{"reserved", "240.0.0.1", Never},
		{"broadcast", "255.255.255.255", Never},
		{"a zone", "fe80::1%lo", Never},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Of(netip.MustParseAddr(tc.address)); got != tc.want {
				t.Errorf("%s is %d, want %d", tc.address, got, tc.want)
			}
		})
	}
	if Of(netip.Addr{}) != Never {
		t.Error("the zero address")
	}
}

// What the standard library calls private, local or multicast is never public,
// and neither is any IPv4 address inside of an IPv6 one.
func TestNeverPublic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")
		four, six := netip.AddrFrom4([4]byte(b[:4])), netip.AddrFrom16([16]byte(b))
		if rapid.Bool().Draw(t, "low") { // where most ranges are
			four = netip.AddrFrom4([4]byte{rapid.SampledFrom([]byte{0, 10, 100, 127, 169, 172, 192, 198, 203, 224, 255}).Draw(t, "first"), b[1], b[2], b[3]})
		}
		for _, a := range []netip.Addr{four, six} {
			if (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || !a.IsGlobalUnicast()) && Of(a) == Public {
				t.Errorf("%s is public", a)
			}
		}
		if mapped := netip.AddrFrom16(four.As16()); Of(mapped) == Public {
			t.Errorf("%s is public", mapped)
		}
	})
}
