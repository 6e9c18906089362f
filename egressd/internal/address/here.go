package address

import (
	"fmt"
	"net"
	"net/netip"
)

// widest is how large a network of this machine may be to count as one: some
// tunnels give their own address the whole internet as its network.
const (
	widest4 = 16
	widest6 = 48
)

// Here gives the networks that this machine is in, with its own addresses: those
// of its interfaces as they are now. An address in them is one of the owner's
// machines or a neighbour's, however public it looks, and with IPv6 it looks so in
// every home. What a route alone makes local is not among them.
func Here() ([]netip.Prefix, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("address: this machine's own: %w", err)
	}
	var here []netip.Prefix
	for _, a := range all {
		if p, ok := network(a); ok {
			here = append(here, p)
		}
	}
	return here, nil
}

// network is that of an interface's address, or the address alone.
func network(a net.Addr) (netip.Prefix, bool) {
	n, ok := a.(*net.IPNet)
	if !ok {
		return netip.Prefix{}, false
	}
	ip, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	ip = ip.Unmap()
	bits, _ := n.Mask.Size()
	if ip.Is4() && bits > 32 { // a mask in the form of IPv6
		bits -= 96
	}
	if ip.Is4() && bits < widest4 || ip.Is6() && bits < widest6 {
		bits = ip.BitLen()
	}
	return netip.PrefixFrom(ip, bits).Masked(), true
}
