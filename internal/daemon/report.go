package daemon

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"boxmaker/internal/proto"
)

// checkPrivileges: with no_new_privs, a program with the set-user-id bit gains
// nothing, and Landlock can be used without root.
func checkPrivileges(status map[string]string, failed error) proto.Check {
	c := proto.Check{Name: "no-new-privileges", State: "ok", Detail: "set"}
	if status["NoNewPrivs"] != "1" {
		c.State, c.Runbook = "failed", "confinement-no-new-privileges"
		c.Detail = "not set: a set-user-id program started from here would gain its rights"
	}
	if failed != nil {
		c.State, c.Runbook = "failed", "confinement-no-new-privileges"
		c.Detail += "; went wrong: " + strings.ReplaceAll(failed.Error(), "\n", ", ")
	}
	return c
}

// checkUser: the real, effective, saved and file-system user, and the groups.
func checkUser(c Confinement, status map[string]string, uidMap string) proto.Check {
	row := proto.Check{Name: "user-id", State: "ok"}
	uids, groups := strings.Fields(status["Uid"]), strings.Fields(status["Groups"])
	if len(uids) != 4 {
		row.State, row.Runbook, row.Detail = "failed", "confinement-user", "not known"
		return row
	}
	row.Detail = "uid " + uids[0]
	if len(groups) > 0 {
		row.Detail += ", groups " + strings.Join(groups, " ")
	}
	fail := func(why string) proto.Check {
		row.State, row.Runbook = "failed", "confinement-user"
		row.Detail += ": " + why
		return row
	}
	want := strconv.FormatUint(uint64(c.UID), 10)
	switch {
	case slices.Compact(slices.Clone(uids))[0] != uids[3] || len(slices.Compact(slices.Clone(uids))) != 1:
		row.Detail = "uids " + strings.Join(uids, " ")
		return fail("the process can change back")
	case c.UID != 0 && uids[0] != want:
		return fail("could not become uid " + want)
	case c.UID != 0 && slices.ContainsFunc(groups, func(g string) bool { return g != want && !slices.Contains(c.Groups, number(g)) }):
		return fail("keeps rights of other groups")
	case uids[0] == "0" && outsideRoot(uidMap):
		return fail("root; a fault in this program would own the machine. Start it with bxctl up, which gives it a user of its own")
	case uids[0] == "0":
		row.Detail += ", in a user namespace (outside it is an ordinary user)"
	}
	return row
}

// outsideRoot reports whether uid 0 here is root outside of the user namespace.
// If the map is not known, it is taken for root.
func outsideRoot(uidMap string) bool {
	for line := range strings.Lines(uidMap) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "0" {
			return f[1] == "0"
		}
	}
	return true
}

// checkCapabilities: the sets that a process can use now, and what it could
// gain by executing a program.
func checkCapabilities(status map[string]string) proto.Check {
	row := proto.Check{Name: "capabilities", State: "ok", Detail: "none"}
	var held []string
	for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb"} {
		if v, err := strconv.ParseUint(status[set], 16, 64); err != nil || v != 0 {
			held = append(held, set+"="+status[set])
		}
	}
	bounding, err := strconv.ParseUint(status["CapBnd"], 16, 64)
	switch {
	case len(held) > 0:
		row.State, row.Runbook = "failed", "confinement-capabilities"
		row.Detail = "still held: " + strings.Join(held, " ") + "; they allow more than the files of an ordinary user"
	case err != nil || bounding != 0 && status["NoNewPrivs"] != "1":
		row.State, row.Runbook = "failed", "confinement-capabilities"
		row.Detail = "none now, but the bounding set is not empty and new privileges are possible: a program started from here could gain them"
	case bounding != 0:
		row.Detail = "none; the bounding set is not empty, which no-new-privileges makes harmless"
	}
	return row
}

// checkNetwork: which devices there are, and which connections are possible.
func checkNetwork(c Confinement, interfaces []net.Interface, l *landlocked) proto.Check {
	row := proto.Check{Name: "network", State: "ok"}
	var others []string
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 && !(fallbackDevice(i.Name) && i.Flags&net.FlagUp == 0) {
			others = append(others, i.Name)
		}
	}
	switch {
	case len(others) == 0:
		row.Detail = "none: no device but the loopback"
	case c.NoNetwork:
		row.State, row.Runbook = "failed", "confinement-network"
		row.Detail = fmt.Sprintf("%s can be used: this program needs no network, and with it a fault could send out what it knows", strings.Join(others, ", "))
	default:
		row.Detail = "shares " + strings.Join(others, ", ")
	}
	switch {
	case len(others) == 0 && c.NoNetwork:
	case c.AnyTCP:
		row.Detail += "; TCP to any address and port, which is this program's task: it decides on each connection itself"
		if l.multipath {
			row.Detail += " (this kernel does not cover listening on multipath TCP)"
		}
	case l.tcp:
		row.Detail += "; TCP " + portList(c)
		if l.multipath {
			row.Detail += " (multipath TCP is not covered by this kernel)"
		}
	case len(others) > 0:
		row.State, row.Runbook = "failed", "confinement-network"
		row.Detail += "; TCP to any address and port, because this kernel cannot limit it (Landlock ABI 4)"
		if c.NoLandlock != "" {
			row.Detail = strings.Replace(row.Detail, "this kernel cannot limit it (Landlock ABI 4)", "Landlock is not used", 1)
		}
	}
	return row
}

func portList(c Confinement) string {
	ports := slices.Clone(c.ConnectTCP)
	slices.Sort(ports)
	var s []string
	for _, p := range slices.Compact(ports) {
		s = append(s, strconv.Itoa(int(p)))
	}
	if len(s) == 0 {
		return "to nowhere"
	}
	return "only to port " + strings.Join(s, ", ")
}

// fallbackDevice: the kernel puts these into every network namespace if the
// module is loaded. While down, and without the capability to raise them, they
// lead nowhere.
func fallbackDevice(name string) bool {
	return slices.Contains([]string{"tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip6gre0", "ip_vti0", "ip6_vti0"}, name)
}

// number reads a group id; one that is none gives the id that no group has.
func number(s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return ^uint32(0)
	}
	return uint32(n)
}
