package door

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit/nameserver"
)

// The tests of this file run in a network namespace in which every address
// below is there and answers on ports 80 and 443: what the door does not
// refuse is reached, and the answer says which address it was.
const inside = "DOOR_TEST_NAMESPACE"

// reachable are the addresses of the namespace.
var reachable = []string{
	"93.184.216.34", "93.184.216.35", "93.185.1.9", "2606:2800:220:1::34", // on the internet
	"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "100.101.102.103", "169.254.1.1", "169.254.169.254", "168.63.129.16", "100.100.100.200",
	"198.18.0.1", "192.0.2.1", "203.0.113.1", "240.0.0.1",
	"fd12:3456::1", "fd00:ec2::254", "64:ff9b::7f00:1", "2002:7f00:1::1", "2001:0:1::1", "2001:db8::1", "fec0::1",
}

// own are addresses of the machine itself, with their networks: they look public,
// as those of a rented server do, and with IPv6 those of every home.
var own = []string{"93.185.0.1/24", "2606:2800:221:1::1/64"}

func TestCaseP51PrivateAddresses(t *testing.T) {
	if os.Getenv(inside) == "" {
		ip, err := exec.LookPath("ip")
		if err != nil {
			t.Skip("the program ip is not here: that private addresses are refused is not tested with real ones")
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestCaseP51PrivateAddresses$", "-test.v", "-test.count=1")
		cmd.Env = append(os.Environ(), inside+"="+ip)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		switch {
		case cmd.ProcessState == nil || strings.Contains(string(out), "NO NAMESPACE"):
			t.Skipf("no network namespace can be made here, so that private addresses are not tested with real ones: %v %s", err, out)
		case err != nil || !strings.Contains(string(out), "\nPASS\n"):
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	furnish(t, os.Getenv(inside))
	t.Run("SSRF", testSSRF)
	t.Run("rebinding", testRebinding)
}

func furnish(t *testing.T, ip string) {
	run := func(args ...string) error {
		out, err := exec.Command(ip, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %v: %w %s", args, err, out)
		}
		return nil
	}
	if err := run("link", "set", "lo", "up"); err != nil {
		t.Fatalf("NO NAMESPACE: %v", err)
	}
	for _, a := range reachable {
		// By a route and not as the machine's own, which the door would know.
		args := []string{"route", "add", "local", a + "/32", "dev", "lo"}
		if strings.Contains(a, ":") {
			args = append([]string{"-6"}, args...)
			args[4] = a + "/128"
		}
		if err := run(args...); err != nil {
			t.Logf("left out: %v", err) // the row is then refused for its own reason, or not reached
		}
	}
	for _, a := range own {
		if err := run("addr", "add", a, "dev", "lo"); err != nil {
			t.Fatal(err)
		}
	}
	for _, port := range []string{"80", "443", "22", "8080"} {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n\r\nREACHED %s", c.LocalAddr())
				c.Close()
			}
		}()
	}
}

func addrs(s ...string) (all []netip.Addr) {
	for _, a := range s {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

// zone: names that an attacker owns can say what they like.
func zone(name string, _ int) []netip.Addr {
	if at, ok := strings.CutSuffix(name, ".nip.example"); ok { // 127.0.0.1.nip.example, and with - for :
		if strings.Contains(at, "-") {
			return addrs(strings.ReplaceAll(at, "-", ":"))
		}
		return addrs(at)
	}
	return map[string][]netip.Addr{
		"public.example":        addrs("93.184.216.34"),
		"public6.example":       addrs("2606:2800:220:1::34"),
		"a.wild.example":        addrs("93.184.216.34"),
		"wild.example":          addrs("93.184.216.34"),
		"evil.example":          addrs("93.184.216.35"),
		"mixed.example":         addrs("93.184.216.34", "10.0.0.1"),
		"mixed6.example":        addrs("93.184.216.34", "fd12:3456::1"),
		"intranet.example":      addrs("192.168.0.1"),
		"nas.example":           addrs("192.168.0.1"),
		"nasmeta.example":       addrs("169.254.169.254"),
		"naszero.example":       addrs("0.0.0.0"),
		"many.example":          many(),
		"public.example.search": addrs("10.0.0.1"),
	}[name]
}

func many() (all []netip.Addr) {
	for i := range 40 {
		all = append(all, netip.AddrFrom4([4]byte{93, 184, 217, byte(i)}))
	}
	return all
}

// grant is the allow list of most rows.
var grant = []string{
	"public.example:80", "public.example:443", "public6.example:80", "*.wild.example:80", "mixed.example:80", "mixed6.example:80", "intranet.example:80",
	"nas.example:80", "nasmeta.example:80", "naszero.example:80", "many.example:80", "gone.example:80", "*.nip.example:80", "93.184.216.34:80",
	"10.0.0.1:80", "127.0.0.1:80", "192.168.0.1:80", "169.254.169.254:80", "93.185.0.1:80", "93.185.0.9:80", "[::1]:80", "[fd12:3456::1]:80",
}

var grantLocal = []string{"nas.example:80", "nasmeta.example:80", "naszero.example:80", "192.168.0.1:80", "169.254.169.254:80", "93.185.0.9:80", "[fd12:3456::1]:80"}

// P51: web_fetch reaches 127.0.0.1 by name or redirect. The address that is
// dialled is checked, not the text of the host.
func testSSRF(t *testing.T) {
	get := func(url string) string { return "GET " + url + " HTTP/1.1\r\nHost: public.example\r\n\r\n" }
	tunnel := func(target string) string {
		return "CONNECT " + target + " HTTP/1.1\r\nHost: public.example:443\r\n\r\n"
	}
	type row struct {
		name, send string
		verdict    proto.EgressVerdict
		reached    string // for those that passed
	}
	rows := []row{
		{"a public name", get("http://public.example/"), proto.EgressPassed, "93.184.216.34:80"},
		{"a public name over IPv6", get("http://public6.example/"), proto.EgressPassed, "[2606:2800:220:1::34]:80"},
		{"a tunnel", tunnel("public.example:443"), proto.EgressPassed, "93.184.216.34:443"},
		{"a public address", get("http://93.184.216.34/"), proto.EgressPassed, "93.184.216.34:80"},
		{"a wildcard", get("http://a.wild.example/"), proto.EgressPassed, "93.184.216.34:80"},
		{"the name that a wildcard is below", get("http://wild.example/"), proto.EgressNotAllowed, ""},
		{"another name", get("http://evil.example/"), proto.EgressNotAllowed, ""},
		{"another address", get("http://93.184.216.35/"), proto.EgressNotAllowed, ""},
		{"another port", get("http://public.example:8080/"), proto.EgressNotAllowed, ""},
		{"CONNECT to ssh", tunnel("public.example:22"), proto.EgressNotAllowed, ""},
		{"CONNECT to another port", tunnel("public6.example:443"), proto.EgressNotAllowed, ""},
		{"a dot at the end", get("http://public.example./"), proto.EgressPassed, "93.184.216.34:80"},
		{"two dots at the end", get("http://public.example../"), proto.EgressBadRequest, ""},
		{"upper case", get("http://PUBLIC.example/"), proto.EgressPassed, "93.184.216.34:80"},
		{"no such name", get("http://gone.example/"), proto.EgressNoAddress, ""},
		{"more addresses than a name has", get("http://many.example/"), proto.EgressNoAddress, ""},

		{"a name with a private address", get("http://intranet.example/"), proto.EgressPrivate, ""},
		{"a public and a private address", get("http://mixed.example/"), proto.EgressPrivate, ""},
		{"a public and a private IPv6 address", get("http://mixed6.example/"), proto.EgressPrivate, ""},
		{"a private address that is allowed but not local", get("http://10.0.0.1/"), proto.EgressPrivate, ""},
		{"loopback that is allowed but not local", get("http://127.0.0.1/"), proto.EgressPrivate, ""},
		{"loopback 6 that is allowed but not local", get("http://[::1]/"), proto.EgressPrivate, ""},
		{"a local name", get("http://nas.example/"), proto.EgressPassed, "192.168.0.1:80"},
		{"a local address", get("http://192.168.0.1/"), proto.EgressPassed, "192.168.0.1:80"},
		{"a local IPv6 address", get("http://[fd12:3456:0::1]/"), proto.EgressPassed, "[fd12:3456::1]:80"},
		{"metadata by its address, granted as local", get("http://169.254.169.254/latest/"), proto.EgressPassed, "169.254.169.254:80"},
		{"a local name that turned to metadata", get("http://nasmeta.example/"), proto.EgressPrivate, ""},
		{"a local name that turned to 0.0.0.0", get("http://naszero.example/"), proto.EgressPrivate, ""},
		{"a local name at another port", get("http://nas.example:8080/"), proto.EgressNotAllowed, ""},

		{"a name of this machine's public address", get("http://93.185.0.1.nip.example/"), proto.EgressPrivate, ""},
		{"a name of a neighbour's", get("http://93.185.0.77.nip.example/"), proto.EgressPrivate, ""},
		{"a name of this machine's IPv6 address", get("http://2606-2800-221-1--1.nip.example/"), proto.EgressPrivate, ""},
		{"a name of a neighbour's IPv6 address", get("http://2606-2800-221-1--77.nip.example/"), proto.EgressPrivate, ""},
		{"this machine's public address, not local", get("http://93.185.0.1/"), proto.EgressPrivate, ""},
		{"a neighbour that is granted as local", get("http://93.185.0.9/"), proto.EgressPassed, "93.185.0.9:80"},
		{"beyond that network", get("http://93.185.1.9.nip.example/"), proto.EgressPassed, "93.185.1.9:80"},

		{"a user", get("http://public.example@10.0.0.1/"), proto.EgressBadRequest, ""},
		{"a user that looks like host and port", get("http://public.example:80@10.0.0.1/"), proto.EgressBadRequest, ""},
		{"an escaped @", get("http://public.example%4010.0.0.1/"), proto.EgressBadRequest, ""},
		{"a backslash", get(`http://public.example\@10.0.0.1/`), proto.EgressBadRequest, ""},
		{"a fragment", get("http://10.0.0.1#@public.example/"), proto.EgressBadRequest, ""},
		{"a query", get("http://10.0.0.1?@public.example/"), proto.EgressPrivate, ""},
		{"@ in a tunnel", tunnel("public.example:443@10.0.0.1:80"), proto.EgressBadRequest, ""},
		{"decimal", get("http://2130706433/"), proto.EgressBadRequest, ""},
		{"decimal of a public address", get("http://1572395042/"), proto.EgressBadRequest, ""},
		{"octal", get("http://0177.0.0.1/"), proto.EgressBadRequest, ""},
		{"hex", get("http://0x7f.1/"), proto.EgressBadRequest, ""},
		{"hex in one", get("http://0x7f000001/"), proto.EgressBadRequest, ""},
		{"short", get("http://127.1/"), proto.EgressBadRequest, ""},
		{"zero", tunnel("0:443"), proto.EgressBadRequest, ""},
		{"full-width digits", get("http://１２７.0.0.1/"), proto.EgressBadRequest, ""},
		{"a dot in circles", get("http://127。0。0。1/"), proto.EgressBadRequest, ""},
		{"an IPv6 zone", get("http://[fe80::1%25lo]/"), proto.EgressBadRequest, ""},
		{"IPv4 mapped", get("http://[::ffff:127.0.0.1]/"), proto.EgressNotAllowed, ""},
		{"IPv4 mapped, of an address that is allowed", get("http://[::ffff:93.184.216.34]/"), proto.EgressNotAllowed, ""},
		{"Host says otherwise", "GET http://10.0.0.1/ HTTP/1.1\r\nHost: public.example\r\n\r\n", proto.EgressPrivate, ""},
		{"two Hosts", "GET http://public.example/ HTTP/1.1\r\nHost: public.example\r\nHost: 10.0.0.1\r\n\r\n", proto.EgressBadRequest, ""},
		{"no URL", "GET / HTTP/1.1\r\nHost: public.example\r\n\r\n", proto.EgressBadRequest, ""},
		{"https without a tunnel", get("https://public.example/"), proto.EgressBadRequest, ""},
		{"ftp", get("ftp://public.example/"), proto.EgressBadRequest, ""},
		{"gopher", get("gopher://10.0.0.1:22/_x"), proto.EgressBadRequest, ""},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", proto.EgressBadRequest, ""},
		{"Upgrade", "GET http://public.example/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", proto.EgressBadRequest, ""},
		{"both framings", "POST http://public.example/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", proto.EgressBadRequest, ""},
		{"two lengths", "POST http://public.example/ HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 0\r\n\r\nabcd", proto.EgressBadRequest, ""},
		{"bare LF", "GET http://public.example/ HTTP/1.1\nHost: public.example\n\n", proto.EgressBadRequest, ""},
		{"split in the URL", "GET http://public.example/\r\nX: y HTTP/1.1\r\n\r\n", proto.EgressBadRequest, ""},
	}
	// A name below *.nip.example is allowed, and resolves to what it begins with.
	for _, a := range []string{
		"127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "100.101.102.103", "100.100.100.200", "169.254.1.1", "169.254.169.254",
		"168.63.129.16", "198.18.0.1", "192.0.2.1", "203.0.113.1", "240.0.0.1", "255.255.255.255", "224.0.0.1", "0.0.0.0", "0.1.2.3",
		"--1", "--0", "--ffff-7f00-1", "--ffff-a9fe-a9fe", "fd12-3456--1", "fd00-ec2--254", "64-ff9b--7f00-1", "2002-7f00-1--1", "2001-0-1--1", "2001-db8--1", "fe80--1", "fec0--1", "ff02--1", "--7f00-1",
	} {
		rows = append(rows, row{"a name that resolves to " + a, get("http://" + strings.TrimLeft(a, "-") + ".nip.example/"), proto.EgressPrivate, ""})
		if strings.HasPrefix(a, "-") { // no label begins so: by a zone of its own
			rows[len(rows)-1].send = get("http://z" + a + ".nip.example/")
		}
	}
	ns := nameserver.Start(t, func(name string, n int) []netip.Addr {
		if z, ok := strings.CutPrefix(name, "z-"); ok {
			name = "-" + z
		}
		return zone(name, n)
	})
	m := request(grant...)
	m.Local = grantLocal
	for _, tc := range rows {
		t.Run(tc.name, func(t *testing.T) {
			d := open(t, ns, m, nil)
			got := ask(t, d, tc.send)
			row := only(t, d)
			if row.Verdict != tc.verdict {
				t.Errorf("%s, want %s: %+v", row.Verdict, tc.verdict, row)
			}
			switch _, at, reached := strings.Cut(got, "REACHED "); {
			case at != tc.reached:
				t.Errorf("reached %q, want %q", at, tc.reached)
			case reached && row.Address != at:
				t.Errorf("the report says %q, reached was %q", row.Address, at)
			case !reached && (row.Address != "" || !strings.Contains(got, "X-Boxmaker-Egress: "+string(tc.verdict))):
				t.Errorf("row %+v, answer %q", row, got)
			}
		})
	}
}

// A name that changes its address: each connection resolves once, checks that
// answer and dials it. Under many at once no private address is ever reached.
func testRebinding(t *testing.T) {
	ns := nameserver.Start(t, func(_ string, n int) []netip.Addr {
		if n%2 == 0 {
			return addrs("93.184.216.34")
		}
		return addrs("10.0.0.1")
	})
	d := open(t, ns, request("rebind.example:80"), nil)
	const req = "GET http://rebind.example/ HTTP/1.1\r\n\r\n"
	first, second := ask(t, d, req), ask(t, d, req)
	if !strings.Contains(first, "REACHED 93.184.216.34:80") || !strings.Contains(second, "X-Boxmaker-Egress: private") {
		t.Errorf("first %q, second %q", first, second)
	}
	if n := ns.Times("rebind.example"); n != 2 {
		t.Errorf("%d questions for two connections", n)
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if got := ask(t, d, req); strings.Contains(got, "REACHED") && !strings.Contains(got, "REACHED 93.184.216.34:80") {
				t.Errorf("%q", got)
			}
		})
	}
	all.Wait()
	for _, row := range d.Close().Connections {
		if !slices.Contains([]string{"", "93.184.216.34:80"}, row.Address) {
			t.Errorf("%+v", row)
		}
	}
}
