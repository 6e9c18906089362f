package redteam

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"boxmaker/internal/proto"
)

// A hostListener is a server of this machine that nobody in a container may
// reach. It counts who came.
type hostListener struct {
	at   string
	came *atomic.Int64
}

func listen(r *rig, network, at string) hostListener {
	r.t.Helper()
	l, err := net.Listen(network, at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	h := hostListener{at: l.Addr().String(), came: new(atomic.Int64)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.came.Add(1)
			c.Close()
		}
	}()
	return h
}

func sockets() family {
	return family{
		name: "vsock, netlink, and the machine's own sockets",
		stage: func(r *rig) {
			r.arm()
			r.grant("41-run", fmt.Sprintf("tool = \"run\"\nmode = \"auto\"\n[paths]\nwrite = [%q]\nread = [%q]\n[limits]\ntime = \"20s\"\n", r.granted, r.folder("readable")))
			r.grant("42-shell", shellGrant(r.granted))
		},
		tries: func(r *rig) []attempt {
			rows := append(socketRows(r), socketTypes(r)...)
			return append(rows, hostRows(r)...)
		},
	}
}

// socketRows are families that the profile does not allow.
func socketRows(r *rig) (rows []attempt) {
	for _, s := range []struct {
		name              string
		family, typ, prot uint64
	}{
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		{"vsock, seqpacket", unix.AF_VSOCK, unix.SOCK_SEQPACKET, 0},
		{"packet", unix.AF_PACKET, unix.SOCK_RAW, 0x300},
		{"packet, datagrams", unix.AF_PACKET, unix.SOCK_DGRAM, 0x300},
		{"netlink audit", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
		{"netlink uevent", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT},
		{"netlink generic", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC},
		{"netlink netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
		{"netlink xfrm", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM},
		{"netlink crypto", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_CRYPTO},
		{"netlink connector", unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_CONNECTOR},
		{"netlink sock_diag", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG},
		{"netlink route, with bits above", unix.AF_NETLINK, unix.SOCK_RAW, 1 << 32},
		{"kernel crypto", unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		{"Bluetooth", unix.AF_BLUETOOTH, unix.SOCK_RAW, 1},
		{"XDP", unix.AF_XDP, unix.SOCK_RAW, 0},
		{"TIPC", unix.AF_TIPC, unix.SOCK_STREAM, 0},
		{"RDS", unix.AF_RDS, unix.SOCK_SEQPACKET, 0},
		{"CAN", unix.AF_CAN, unix.SOCK_RAW, 1},
		{"KCM", unix.AF_KCM, unix.SOCK_DGRAM, 0},
		{"key management", unix.AF_KEY, unix.SOCK_RAW, 2},
		{"SMC", unix.AF_SMC, unix.SOCK_STREAM, 0},
		{"MCTP", unix.AF_MCTP, unix.SOCK_DGRAM, 0},
		{"QRTR", unix.AF_QIPCRTR, unix.SOCK_DGRAM, 0},
		{"PPPoX", unix.AF_PPPOX, unix.SOCK_STREAM, 0},
		{"packet, by bits above", 1<<32 | unix.AF_PACKET, unix.SOCK_RAW, 0},
		{"vsock, by bits above", 1<<32 | unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		{"a family that is none", 99, unix.SOCK_STREAM, 0},
	} {
		rows = append(rows, r.attack(s.name, says(forbidden, s.name), append([]string{"sys", s.name}, args(unix.SYS_SOCKET, s.family, s.typ, s.prot)...)...))
	}
	for _, s := range []struct {
		name        string
		family, typ uint64
	}{{"a pair of TIPC", unix.AF_TIPC, unix.SOCK_STREAM}, {"a pair of vsock", unix.AF_VSOCK, unix.SOCK_STREAM}, {"a pair of netlink", unix.AF_NETLINK, unix.SOCK_RAW}, {"a pair of packet", unix.AF_PACKET, unix.SOCK_RAW}} {
		rows = append(rows, r.attack(s.name, says(forbidden, s.name), append([]string{"sys", s.name}, args(unix.SYS_SOCKETPAIR, s.family, s.typ, 0, "z:8")...)...))
	}
	return rows
}

// socketTypes are of families that are allowed.
func socketTypes(r *rig) (rows []attempt) {
	for _, s := range []struct {
		name              string
		family, typ, prot uint64
		want              []string
	}{
		{"control: TCP", unix.AF_INET, unix.SOCK_STREAM, 0, []string{"ok"}},
		{"control: a Unix pair", unix.AF_UNIX, unix.SOCK_STREAM, 0, []string{"ok"}},
		{"a pair that can be connected anew", unix.AF_UNIX, unix.SOCK_DGRAM, 0, []string{"ESOCKTNOSUPPORT"}},
		{"raw ICMP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, forbidden},
		{"raw ICMPv6", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6, forbidden},
		{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW, forbidden},
		{"packets by their old name", unix.AF_INET, unix.SOCK_PACKET, 0x300, append(forbidden, "ESOCKTNOSUPPORT", "EINVAL")},
		{"SCTP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP, forbidden},
		{"SCTP, many to one", unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP, forbidden},
		{"DCCP", unix.AF_INET, unix.SOCK_DCCP, unix.IPPROTO_DCCP, forbidden},
		{"multipath TCP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, forbidden},
		{"UDP-Lite", unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, forbidden},
		{"SMC, by its protocol", unix.AF_INET, unix.SOCK_STREAM, 256, forbidden},
		{"L2TP", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_L2TP, forbidden},
	} {
		nr, a := unix.SYS_SOCKET, args(s.family, s.typ, s.prot)
		if s.family == unix.AF_UNIX {
			nr, a = unix.SYS_SOCKETPAIR, append(a, "z:8")
		}
		rows = append(rows, r.attack(s.name, says(s.want, s.name), append([]string{"sys", s.name, args(nr)[0]}, a...)...))
	}
	return rows
}

// hostRows try to reach the machine and what is beyond. Each listener is one
// that the test itself can reach.
func hostRows(r *rig) (rows []attempt) {
	tcp4, tcp6 := listen(r, "tcp", "127.0.0.1:0"), hostListener{came: new(atomic.Int64), at: "[::1]:9"}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		l.Close()
		tcp6 = listen(r, "tcp", "[::1]:0")
	}
	abstract := listen(r, "unix", "@bm-red-"+filepath.Base(r.Home))
	all4 := listen(r, "tcp4", "0.0.0.0:0")
	_, port, _ := net.SplitHostPort(all4.at)
	unreached := func(h hostListener, network string, to ...string) func(r *rig, res *proto.CallResult) {
		return func(r *rig, res *proto.CallResult) {
			r.t.Helper()
			for _, t := range to {
				if word, ok := said(res, network+" "+strings.ReplaceAll(t, "\x00", "@")); !ok || word == "ok" {
					r.t.Errorf("%s is %q: %s", t, word, res.Text)
				}
			}
			if h.came != nil && h.came.Load() != 0 {
				r.t.Error("somebody came from the container")
			}
			if h.came != nil { // the control: it can be reached
				if c, err := net.Dial(network, h.at); err != nil {
					r.t.Errorf("control: %v", err)
				} else {
					_ = c.SetDeadline(deadline())
					_, _ = c.Read(make([]byte, 1))
					c.Close()
					h.came.Store(0)
				}
			}
		}
	}
	dial := func(name string, h hostListener, network string, to ...string) {
		rows = append(rows, r.attack(name, unreached(h, network, to...), append([]string{"dial", network}, to...)...))
	}
	dial("a loopback listener of the machine", tcp4, "tcp", tcp4.at)
	if tcp6.at != "[::1]:9" {
		dial("a loopback listener by IPv6", tcp6, "tcp", tcp6.at)
	}
	var own []string
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && len(own) < 6 {
			own = append(own, net.JoinHostPort(n.IP.String(), port))
		}
	}
	dial("addresses of the machine", hostListener{}, "tcp", own...)
	dial("an abstract socket of the machine", abstract, "unix", abstract.at)
	dial("the metadata address", hostListener{}, "tcp", "169.254.169.254:80", "[fd00:ec2::254]:80", "100.100.100.200:80")
	dial("addresses beyond", hostListener{}, "tcp", "192.0.2.1:80", "10.0.0.1:80", "[2001:db8::1]:80", "0.0.0.0:"+port, "[::ffff:127.0.0.1]:"+port)
	dial("DNS by UDP", hostListener{}, "udp", "192.0.2.53:53", "8.8.8.8:53", "[2001:db8::53]:53")
	dial("names", hostListener{}, "tcp", "localhost:"+port, "canary.example.com:80")
	dial("sockets of the machine", hostListener{}, "unix", "/run/dbus/system_bus_socket", "/var/run/docker.sock", "/run/systemd/notify", "/run/egress.sock", r.OwnerSocket(), r.Socket(), "/dev/log", "/tmp/.X11-unix/X0", "@/tmp/.X11-unix/X0")
	return append(rows,
		sh("devices of the network", "cat /proc/net/dev | grep -v -e lo: -e '|' | cut -d: -f1; ls /sys/class/net; cat /proc/net/route", lacks("eth", "ens", "enp", "wlan", "docker")),
		attempt{name: "a socket in the granted folder", run: grantedSocket},
		attempt{name: "a socket in a folder granted for reading", run: grantedSocketRead},
	)
}

// grantedSocket: what hears on a socket in a granted folder takes orders from
// whoever is let into the folder. Without a way out in its grant a program has no
// sockets of that kind, so it reaches none.
func grantedSocket(r *rig) { r.t.Helper(); inFolder(r, r.granted) }

func grantedSocketRead(r *rig) { r.t.Helper(); inFolder(r, filepath.Join(r.Home, "red", "readable")) }

func inFolder(r *rig, dir string) {
	r.t.Helper()
	path := filepath.Join(dir, "agent.sock")
	h := listen(r, "unix", path)
	r.own(path, 0o777)
	a := r.attack("", nil, "dial", "unix", path)
	res := r.call(a.tool, a.args)
	r.judge(a, res)
	if word, _ := said(res, "unix "+path); word != "EAFNOSUPPORT" || h.came.Load() != 0 {
		r.t.Errorf("a server of the machine was reached: %q, %d came: %s", word, h.came.Load(), res.Text)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		r.t.Fatalf("control: %v", err)
	}
	defer c.Close()
	_ = c.SetDeadline(deadline())
	if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Error("control: nobody hears on the socket")
	}
}
