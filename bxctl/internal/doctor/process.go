package doctor

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/up"
)

// fields reads /proc/PID/status.
func (x *exam) fields(pid int) (map[string]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("%s/%d/status", x.Proc, pid))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		out[k] = strings.TrimSpace(v)
	}
	return out, nil
}

// bySystemd reports whether systemd listens on our sockets.
func (x *exam) bySystemd() bool {
	if x.systemd == nil {
		is := up.RunBySystemd(x.Layout)
		x.systemd = &is
	}
	return *x.systemd
}

// units finds the roles that systemd runs, by the cgroups of their services.
func (x *exam) units() []report.Role {
	entries, err := os.ReadDir(x.Proc)
	if err != nil {
		return nil
	}
	var out []report.Role
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		groups, err := os.ReadFile(fmt.Sprintf("%s/%d/cgroup", x.Proc, pid))
		if err != nil {
			continue
		}
		role := roleOf(string(groups))
		f, err := x.fields(pid)
		if role == "" || err != nil || f["Name"] != role { // what a role starts is not the role
			continue
		}
		out = append(out, report.Role{Name: role, PID: pid, Start: x.startOf(pid), State: "running", UID: x.uidOf(role)})
	}
	return out
}

// roleOf reads the name of a role's unit out of /proc/PID/cgroup.
func roleOf(groups string) string {
	for part := range strings.FieldsFuncSeq(groups, func(r rune) bool { return r == '/' || r == '\n' }) {
		role, ok := strings.CutPrefix(part, "boxmaker-")
		role, ok2 := strings.CutSuffix(role, ".service")
		if ok && ok2 {
			return role
		}
	}
	return ""
}

// confinement: what the kernel says of each running role, not what the role says.
func confinement(x *exam) {
	roles := x.roles()
	if len(roles) == 0 {
		x.skip("the running programs", "%s", x.idle())
		return
	}
	for _, r := range roles {
		if r.PID != 0 {
			x.confined(r)
		}
	}
}

func (x *exam) confined(r report.Role) {
	looked := fmt.Sprintf("/proc/%d/status of %s", r.PID, r.Name)
	f, err := x.fields(r.PID)
	if err != nil {
		x.bad(Warn, looked, "the kernel does not tell: "+err.Error(), "run bxctl doctor again; if it stays, /proc is mounted with hidepid")
		return
	}
	var lacks []string
	uids := strings.Fields(f["Uid"])
	want := strconv.FormatUint(uint64(r.UID), 10)
	if len(slices.Compact(slices.Clone(uids))) != 1 || len(uids) != 4 || uids[0] != want {
		lacks = append(lacks, fmt.Sprintf("it should run as uid %s for good, and has uids %s", want, strings.Join(uids, " ")))
	}
	if r.UID == 0 && r.Name != "llama" {
		lacks = append(lacks, "it runs as root")
	}
	if f["NoNewPrivs"] != "1" {
		lacks = append(lacks, "it can gain rights by executing a program (no-new-privileges is off)")
	}
	for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb"} {
		if v, err := strconv.ParseUint(f[set], 16, 64); (err != nil || v != 0) && (r.Name != "llama" || r.UID != 0) {
			lacks = append(lacks, "it holds capabilities ("+set+" "+f[set]+")")
		}
	}
	isolated := x.isolated(r.Name)
	devices, err := x.devices(r.PID)
	switch {
	case !isolated:
	case err != nil:
		lacks = append(lacks, "its network can't be seen: "+err.Error())
	case len(devices) > 0:
		lacks = append(lacks, "it has network devices ("+strings.Join(devices, ", ")+") and needs none")
	}
	if len(lacks) > 0 {
		x.bad(Fail, looked, r.Name+": "+strings.Join(lacks, "; "), "see the row of kernel for what this machine lacks; then bxctl down; bxctl up --detach")
		return
	}
	note := ""
	if isolated {
		note = ", no network"
	}
	x.ok(looked, "uid %s, no capabilities, no new privileges%s", want, note)
}

// isolated: roles that bxctl up starts without a network.
func (x *exam) isolated(role string) bool {
	c := x.config()
	switch role {
	case "loopd", "practice", "brokerd", "runnerd":
		return true
	case "inferproxy":
		a, err := setup.ParseUpstream(c.proxy.Upstream)
		return c.settings.Model.Kind != setup.Upstream || err == nil && a.Path != ""
	default:
		return false
	}
}

// devices lists what a process has beside the loopback, and the kernel's
// fallback tunnels, which are in every namespace and lead nowhere while down.
func (x *exam) devices(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("%s/%d/net/dev", x.Proc, pid))
	if err != nil {
		return nil, err
	}
	fallback := []string{"lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip6gre0", "ip_vti0", "ip6_vti0"}
	var out []string
	for line := range strings.Lines(string(b)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			if name = strings.TrimSpace(name); !slices.Contains(fallback, name) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// listeners: none of our processes may listen on a network. Every one of them
// serves Unix sockets only.
func listeners(x *exam) {
	pids := map[int]string{}
	if s := x.running(); s.pid > 0 {
		pids[s.pid] = "bxctl up"
	}
	for _, r := range x.roles() {
		if r.PID != 0 {
			pids[r.PID] = r.Name
		}
	}
	if len(pids) == 0 {
		x.skip("the running programs", "%s", x.idle())
		return
	}
	x.children(pids)
	var found, hidden []string
	for pid, name := range pids {
		open, err := x.listening(pid, name)
		if err != nil {
			hidden = append(hidden, fmt.Sprintf("%s (pid %d)", name, pid))
		}
		for _, at := range open {
			found = append(found, fmt.Sprintf("%s (pid %d) on %s", name, pid, at))
		}
	}
	slices.Sort(found)
	slices.Sort(hidden)
	switch {
	case len(found) > 0:
		x.bad(Fail, "/proc/PID/net and the open files", "listening on the network: "+strings.Join(found, "; "),
			"nothing of Boxmaker does that: bxctl down, build anew (make build), look where the program came from")
	case len(hidden) > 0:
		x.skip("/proc/PID/net and the open files", "no listener found; the open files of %s can't be seen by this user (run bxctl doctor as root for that)", strings.Join(hidden, ", "))
	default:
		x.ok("/proc/PID/net and the open files", "none of %d processes listens on a network", len(pids))
	}
}

// children adds the descendants of the processes.
func (x *exam) children(pids map[int]string) {
	entries, err := os.ReadDir(x.Proc)
	if err != nil {
		return
	}
	parent := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f, err := x.fields(pid); err == nil {
			parent[pid], _ = strconv.Atoi(f["PPid"])
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, up := range parent {
			if name, ok := pids[up]; ok && pids[pid] == "" && pid != os.Getpid() && name != "runnerd" { // in containers, a tool may listen
				pids[pid] = "a child of " + strings.TrimPrefix(name, "a child of ")
				grown = true
			}
		}
	}
}

// listening gives the network addresses on which a process listens. In a
// namespace of its own every listener is its; else those whose descriptors it holds.
func (x *exam) listening(pid int, name string) ([]string, error) {
	socks := map[string]string{} // inode: address
	for _, table := range []struct {
		file, listens string
	}{{"tcp", "0A"}, {"tcp6", "0A"}, {"udp", "07"}, {"udp6", "07"}} {
		if err := x.table(pid, table.file, table.listens, socks); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if len(socks) == 0 {
		return nil, nil
	}
	held, err := x.inodes(pid)
	if err != nil && !x.isolated(name) {
		return nil, err
	}
	var out []string
	for inode, at := range socks {
		if x.isolated(name) || held[inode] {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return out, nil
}

// table reads /proc/PID/net/tcp and its kin. A UDP socket counts if it is bound
// and not connected; one of a resolver is connected.
func (x *exam) table(pid int, file, state string, into map[string]string) error {
	f, err := os.Open(fmt.Sprintf("%s/%d/net/%s", x.Proc, pid, file))
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		c := strings.Fields(in.Text())
		if len(c) < 10 || c[3] != state || !strings.Contains(c[1], ":") {
			continue
		}
		into[c[9]] = strings.TrimSuffix(file, "6") + " " + address(c[1])
	}
	return in.Err()
}

// address reads "0100007F:1F90": words in the machine's byte order, of which
// this assumes little-endian.
func address(s string) string {
	ip, port, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	var b []byte
	for i := 0; i+8 <= len(ip); i += 8 {
		v, e := strconv.ParseUint(ip[i:i+8], 16, 32)
		err = errors.Join(err, e)
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	a, ok := netip.AddrFromSlice(b)
	if err != nil || !ok {
		return s
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)).String()
}

// inodes of the sockets that a process holds.
func (x *exam) inodes(pid int) (map[string]bool, error) {
	dir := fmt.Sprintf("%s/%d/fd", x.Proc, pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(dir, fd.Name()))
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			out[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return out, nil
}
