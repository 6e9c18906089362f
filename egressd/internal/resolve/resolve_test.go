package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"boxmaker/internal/testkit/nameserver"
)

func TestLookup(t *testing.T) {
	four, six := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("2606:2800::1")
	ns := nameserver.Start(t, func(name string, _ int) []netip.Addr {
		switch name {
		case "both.example":
			return []netip.Addr{six, four, four}
		case "mapped.example":
			return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1")}
		case "most.example":
			return addresses(Most)
		case "many.example":
			return addresses(Most + 1)
		case "empty.example":
			return []netip.Addr{}
		}
		return nil
	})
	for _, tc := range []struct{ name, want string }{
		{"both.example", "[93.184.216.34 2606:2800::1]"},
		{"mapped.example", "[127.0.0.1]"},
		{"most.example", fmt.Sprint(addresses(Most))}, // over TCP: it does not fit a packet
		{"many.example", "[]"},
		{"empty.example", "[]"},
		{"none.example", "[]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			all, err := New(ns.Addr).Lookup(ctx, tc.name)
			if fmt.Sprint(all) != tc.want || (err == nil) != (len(all) > 0) || errors.Is(err, ErrMany) != (tc.name == "many.example") {
				t.Errorf("%v %v", all, err)
			}
		})
	}
}

func addresses(n int) (all []netip.Addr) {
	for i := range n {
		all = append(all, netip.AddrFrom4([4]byte{93, 184, 216, byte(i)}))
	}
	return all
}

// A name is looked up as it is: the machine's search domains never add to it.
func TestNoSearchDomains(t *testing.T) {
	ns := nameserver.Start(t, func(string, int) []netip.Addr { return nil })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := New(ns.Addr).Lookup(ctx, "short"); err == nil {
		t.Error("found")
	}
	if asked := ns.Asked(); len(asked) != 1 || asked[0] != "short" {
		t.Errorf("asked for %v", asked)
	}
}

// Names of one label stand in the hosts file, and otherwise in DNS.
func TestHosts(t *testing.T) {
	ns := nameserver.Start(t, func(name string, _ int) []netip.Addr {
		if name == "elsewhere" {
			return []netip.Addr{netip.MustParseAddr("192.168.0.9")}
		}
		return nil
	})
	r := New(ns.Addr)
	r.hosts = filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(r.hosts, []byte("# nas 1.1.1.1\n192.168.0.7\tNAS box # elsewhere\n::7 nas\nnot-an-address nas\nnas\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"nas": "[192.168.0.7 ::7]", "box": "[192.168.0.7]", "elsewhere": "[192.168.0.9]", "none": "[]"} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if all, _ := r.Lookup(ctx, name); fmt.Sprint(all) != want {
			t.Errorf("%s: %v, want %s", name, all, want)
		}
		cancel()
	}
	r.hosts += "none"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if all, err := r.Lookup(ctx, "elsewhere"); err != nil || len(all) != 1 {
		t.Errorf("without the file: %v %v", all, err)
	}
}
