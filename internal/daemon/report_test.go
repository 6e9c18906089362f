package daemon

import (
	"errors"
	"net"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// The rows of kernels and starts that this machine does not have.

func isRow(t *testing.T, got proto.Check, state, detail string) {
	t.Helper()
	if got.State != state || got.Detail != detail {
		t.Errorf("got  %s: %s\nwant %s: %s", got.State, got.Detail, state, detail)
	}
	if (got.Runbook == "") != (state == "ok") || !strings.HasPrefix(got.Runbook, "confinement-") && state != "ok" {
		t.Errorf("runbook %q of a row that is %s", got.Runbook, state)
	}
}

func TestRowOfUser(t *testing.T) {
	const host, inside = "         0          0 4294967295\n", "         0       1000          1\n         1     100000      65536\n"
	for _, tc := range []struct {
		name, uids, groups, uidMap string
		want                       uint32
		state, detail              string
	}{
		{"as asked", "5 5 5 5", "", host, 5, "ok", "uid 5"},
		{"own group", "5 5 5 5", "5", host, 5, "ok", "uid 5, groups 5"},
		{"not asked", "1000 1000 1000 1000", "27 1000", host, 0, "ok", "uid 1000, groups 27 1000"},
		{"root", "0 0 0 0", "", host, 0, "failed", "uid 0: root; a fault in this program would own the machine. Start it with bxctl up, which gives it a user of its own"},
		{"root, map unknown", "0 0 0 0", "", "", 0, "failed", "uid 0: root; a fault in this program would own the machine. Start it with bxctl up, which gives it a user of its own"},
		{"root of a namespace", "0 0 0 0", "", inside, 0, "ok", "uid 0, in a user namespace (outside it is an ordinary user)"},
		{"not dropped", "0 0 0 0", "", host, 5, "failed", "uid 0: could not become uid 5"},
		{"another user cannot drop", "7 7 7 7", "", host, 5, "failed", "uid 7: could not become uid 5"},
		{"saved id left", "5 5 0 5", "", host, 5, "failed", "uids 5 5 0 5: the process can change back"},
		{"real id left", "0 5 5 5", "", host, 5, "failed", "uids 0 5 5 5: the process can change back"},
		{"groups left", "5 5 5 5", "5 27", host, 5, "failed", "uid 5, groups 5 27: keeps rights of other groups"},
		{"unknown", "", "", host, 5, "failed", "not known"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			isRow(t, checkUser(Confinement{UID: tc.want}, map[string]string{"Uid": tc.uids, "Groups": tc.groups}, tc.uidMap), tc.state, tc.detail)
		})
	}
}

func TestRowOfCapabilities(t *testing.T) {
	const zero, all = "0000000000000000", "000001ffffffffff"
	for _, tc := range []struct{ name, eff, inh, bnd, nnp, state, detail string }{
		{"none", zero, zero, zero, "1", "ok", "none"},
		{"bounding set", zero, zero, all, "1", "ok", "none; the bounding set is not empty, which no-new-privileges makes harmless"},
		{"bounding set, new privileges", zero, zero, all, "0", "failed", "none now, but the bounding set is not empty and new privileges are possible: a program started from here could gain them"},
		{"effective", all, zero, zero, "1", "failed", "still held: CapEff=" + all + "; they allow more than the files of an ordinary user"},
		{"inheritable", zero, "0000000000000400", zero, "1", "failed", "still held: CapInh=0000000000000400; they allow more than the files of an ordinary user"},
		{"unknown", "", zero, zero, "1", "failed", "still held: CapEff=; they allow more than the files of an ordinary user"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			isRow(t, checkCapabilities(map[string]string{"CapEff": tc.eff, "CapPrm": zero, "CapInh": tc.inh, "CapAmb": zero, "CapBnd": tc.bnd, "NoNewPrivs": tc.nnp}), tc.state, tc.detail)
		})
	}
}

func TestRowOfNetwork(t *testing.T) {
	lo := net.Interface{Name: "lo", Flags: net.FlagLoopback | net.FlagUp}
	eth := net.Interface{Name: "eth0", Flags: net.FlagUp}
	down := net.Interface{Name: "wlan0"}
	sit := net.Interface{Name: "sit0"}
	tun := net.Interface{Name: "tunl0", Flags: net.FlagUp}
	limited, through, none := &landlocked{tcp: true}, &landlocked{tcp: true, multipath: true}, &landlocked{}
	for _, tc := range []struct {
		name          string
		c             Confinement
		have          []net.Interface
		l             *landlocked
		state, detail string
	}{
		{"none", Confinement{NoNetwork: true}, []net.Interface{lo}, none, "ok", "none: no device but the loopback"},
		{"not even loopback", Confinement{NoNetwork: true}, nil, none, "ok", "none: no device but the loopback"},
		{"fallback device", Confinement{NoNetwork: true}, []net.Interface{lo, sit}, none, "ok", "none: no device but the loopback"},
		{"fallback device up", Confinement{NoNetwork: true}, []net.Interface{lo, tun}, limited, "failed", "tunl0 can be used: this program needs no network, and with it a fault could send out what it knows; TCP to nowhere"},
		{"host", Confinement{NoNetwork: true}, []net.Interface{lo, eth, down}, limited, "failed", "eth0, wlan0 can be used: this program needs no network, and with it a fault could send out what it knows; TCP to nowhere"},
		{"shared", Confinement{ConnectTCP: []uint16{8080, 53}}, []net.Interface{lo, eth}, limited, "ok", "shares eth0; TCP only to port 53, 8080"},
		{"shared, multipath", Confinement{ConnectTCP: []uint16{80}}, []net.Interface{lo, eth}, through, "ok", "shares eth0; TCP only to port 80 (multipath TCP is not covered by this kernel)"},
		{"shared, old kernel", Confinement{ConnectTCP: []uint16{80}}, []net.Interface{lo, eth}, none, "failed", "shares eth0; TCP to any address and port, because this kernel cannot limit it (Landlock ABI 4)"},
		{"loopback only, a port", Confinement{ConnectTCP: []uint16{80}}, []net.Interface{lo}, limited, "ok", "none: no device but the loopback; TCP only to port 80"},
	} {
		t.Run(tc.name, func(t *testing.T) { isRow(t, checkNetwork(tc.c, tc.have, tc.l), tc.state, tc.detail) })
	}
}

func TestRowOfLandlock(t *testing.T) {
	for _, tc := range []struct {
		name          string
		l             landlocked
		err           error
		state, detail string
	}{
		{"old kernel", landlocked{reason: "this kernel has none"}, nil, "failed", "not available: this kernel has none; a fault in this program could read and write every file of its user"},
		{"error", landlocked{abi: 7}, errors.New("no"), "failed", "not in force: no; a fault in this program could read and write every file of its user"},
		{"files open", landlocked{abi: 7, probe: "/", tcp: true}, nil, "failed", "in force, but / can still be read; a fault in this program could read and write every file of its user"},
		{"TCP open", landlocked{abi: 7, files: true}, nil, "failed", "in force, but TCP connections are not limited"},
		{"ABI 1", landlocked{abi: 1, files: true}, nil, "failed", "ABI 1: files; this kernel cannot limit truncation, TCP ports, signals and abstract sockets, Unix socket paths (ABI 9), UDP (ABI 10); a fault could truncate files or connect to anywhere"},
		{"ABI 5", landlocked{abi: 5, files: true, tcp: true}, nil, "ok", "ABI 5: files, truncation, TCP ports; this kernel cannot limit signals and abstract sockets, Unix socket paths (ABI 9), UDP (ABI 10)"},
		{"ABI 7", landlocked{abi: 7, files: true, tcp: true, missing: []string{"/x"}}, nil, "ok", "ABI 7: files, truncation, TCP ports, signals and abstract sockets; this kernel cannot limit Unix socket paths (ABI 9), UDP (ABI 10); left out, as they do not exist: /x"},
		{"ABI 10", landlocked{abi: 10, files: true, tcp: true}, nil, "ok", "ABI 10: files, truncation, TCP ports, signals and abstract sockets, Unix socket paths (ABI 9), UDP (ABI 10)"},
	} {
		t.Run(tc.name, func(t *testing.T) { isRow(t, tc.l.check(tc.err), tc.state, tc.detail) })
	}
}

func TestRowOfPrivileges(t *testing.T) {
	isRow(t, checkPrivileges(map[string]string{"NoNewPrivs": "1"}, nil), "ok", "set")
	isRow(t, checkPrivileges(map[string]string{"NoNewPrivs": "0"}, nil), "failed", "not set: a set-user-id program started from here would gain its rights")
	isRow(t, checkPrivileges(map[string]string{"NoNewPrivs": "1"}, errors.New("dumpable: no")), "failed", "set; went wrong: dumpable: no")
}
