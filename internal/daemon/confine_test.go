package daemon

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// manyThreads makes sure that there are several, so that a change of one alone
// would show.
func manyThreads() (release func()) {
	var ready, done sync.WaitGroup
	hold := make(chan struct{})
	for range 6 {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-hold
		})
	}
	ready.Wait()
	return func() { close(hold); done.Wait() }
}

func childConfined() {
	w := theWorld()
	defer manyThreads()()
	d := New("test")
	defer d.Close()
	state, err := os.OpenRoot(w.State)
	if err != nil {
		panic(err)
	}
	tasks, err := os.OpenRoot("/proc/self/task")
	if err != nil {
		panic(err)
	}
	w.ReadOnly = append(w.ReadOnly, "/proc/self/task")
	open, err := os.Open(w.Outside)
	if err != nil {
		panic(err)
	}
	showRows(d.Confine(w.Confinement))
	attempts(w, state)
	show("read what was open", outcome(second(open.Read(make([]byte, 4)))))
	for _, f := range []string{"NoNewPrivs", "Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapBnd"} {
		show("threads "+f, statuses(tasks, f))
	}
	show("tcp on many threads", overThreads(func() string { return outcome(dial("tcp", w.Denied)) }))
	show("root again", outcome(syscall.Setresuid(0, 0, 0)))
	showDumping()
	if w.SUID != "" {
		cmd := exec.Command(w.SUID)
		cmd.Env = []string{childVar + "=euid"}
		out, err := cmd.CombinedOutput()
		show("suid", strings.TrimSpace(string(out))+" "+outcome(err))
	}
}

func showDumping() {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	show("dumpable", fmt.Sprint(dumpable, err))
	var limit unix.Rlimit
	err = unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	show("core limit", fmt.Sprint(limit.Cur, limit.Max, err))
}

// attempts is what both a confined process and the program that it becomes try.
func attempts(w *world, state *os.Root) {
	_, err := os.ReadFile(w.Inside)
	show("read inside", outcome(err))
	_, err = os.ReadFile(w.Outside)
	show("read outside", outcome(err))
	show("write outside", outcome(os.WriteFile(w.Outside, nil, 0o600)))
	show("make outside", outcome(os.WriteFile(w.Outside+"2", nil, 0o600)))
	_, err = os.ReadDir("/etc")
	show("list /etc", outcome(err))
	if state != nil {
		show("write state", outcome(writeState(state)))
	}
	show("tcp allowed", outcome(dial("tcp", w.Allowed)))
	show("tcp denied", outcome(dial("tcp", w.Denied)))
	_, err = net.Listen("tcp4", "127.0.0.1:0")
	show("tcp listen", outcome(err))
	show("abstract", outcome(dial("unix", w.Abstract)))
	show("signal parent", outcome(syscall.Kill(os.Getppid(), 0)))
	show("execute", outcome(exec.Command("/bin/true").Run()))
}

// writeState does what internal/durable does: temporary file, rename, and the
// sync of the folder; in a new folder as well.
func writeState(state *os.Root) error {
	if err := state.Mkdir("new", 0o700); err != nil {
		return err
	}
	for _, name := range []string{"a", "new/b"} {
		if err := state.WriteFile(name+".tmp", []byte("x"), 0o600); err != nil {
			return err
		}
		if err := state.Rename(name+".tmp", name); err != nil {
			return err
		}
		if err := state.WriteFile(name, []byte("y"), 0o600); err != nil { // truncates
			return err
		}
	}
	f, err := state.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	if _, err := f.ReadDir(-1); err != nil {
		return err
	}
	return state.RemoveAll("new")
}

func dial(network, address string) error {
	c, err := net.Dial(network, address)
	if err == nil {
		c.Close()
	}
	return err
}

func second[A, B any](_ A, b B) B { return b }

// overThreads does something on eight threads and gives the distinct results.
func overThreads(do func() string) string {
	seen := map[string]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	barrier := make(chan struct{})
	var ready sync.WaitGroup
	for range 8 {
		ready.Add(1)
		all.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			ready.Done()
			<-barrier
			s := do()
			mu.Lock()
			defer mu.Unlock()
			seen[s] = true
		})
	}
	ready.Wait()
	close(barrier)
	all.Wait()
	var s []string
	for k := range seen {
		s = append(s, k)
	}
	return strings.Join(s, " ")
}

func childEUID() { fmt.Printf("euid %d", os.Geteuid()) }

func kernelABI(t *testing.T) int {
	t.Helper()
	abi, _ := landlockABI()
	if abi < 4 {
		t.Skipf("Landlock ABI %d: files and TCP cannot both be limited here", abi)
	}
	return abi
}

func expect(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %q, want %q", k, got[k], v)
		}
	}
}

// doors is what must hold for every confined process.
func doors(abi int) map[string]string {
	want := map[string]string{
		"read inside": "ok", "read outside": "EACCES", "write outside": "EACCES", "make outside": "EACCES", "list /etc": "EACCES",
		"tcp allowed": "ok", "tcp denied": "EACCES", "execute": "EACCES",
	}
	if abi >= 6 {
		want["abstract"], want["signal parent"] = "EPERM", "EPERM"
	}
	return want
}

func TestConfine(t *testing.T) {
	abi := kernelABI(t)
	w := newWorld(t)
	got, log := w.run(t, "confined", nil)
	expect(t, got, doors(abi))
	expect(t, got, map[string]string{
		"write state": "ok", "read what was open": "ok", "threads NoNewPrivs": "1", "tcp on many threads": "EACCES",
		"row no-new-privileges": "ok: set", "dumpable": "0 <nil>", "core limit": "0 0 <nil>",
	})
	if os.Getuid() == 0 {
		if r := got["row user-id"]; !strings.HasPrefix(r, "failed: uid 0: root") {
			t.Errorf("root is not told of: %s", r)
		}
		if r := got["row capabilities"]; !strings.HasPrefix(r, "failed: still held: CapEff=") {
			t.Errorf("capabilities are not told of: %s", r)
		}
		expect(t, got, map[string]string{"threads CapBnd": "0000000000000000"})
	} else {
		expect(t, got, map[string]string{"row user-id": fmt.Sprintf("ok: uid %d", os.Getuid()) + groupsNow()})
	}
	if r := got["row landlock"]; !strings.HasPrefix(r, fmt.Sprintf("ok: ABI %d: files, truncation, TCP ports", abi)) || !strings.Contains(r, "left out, as they do not exist: "+w.Dir+"/none") {
		t.Errorf("landlock: %s", r)
	}
	if r := got["row network"]; !strings.Contains(r, fmt.Sprintf("TCP only to port %d", w.ConnectTCP[0])) {
		t.Errorf("network: %s", r)
	}
	if !strings.Contains(log, `"msg":"confined","daemon":"test","check":"landlock","state":"ok"`) {
		t.Errorf("log: %s", log)
	}
}

func groupsNow() string {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), "\nGroups:")
	line, _, _ := strings.Cut(rest, "\n")
	if f := strings.Fields(line); len(f) > 0 {
		return ", groups " + strings.Join(f, " ")
	}
	return ""
}

// As root: the state lies in a folder that the new user cannot enter, and the
// daemon still writes it through its os.Root, with Landlock in force.
func TestConfineDropsTheUser(t *testing.T) {
	needRoot(t)
	abi := kernelABI(t)
	w := newWorld(t)
	w.give(t, 61234)
	w.SUID = suidProgram(t)
	w.Execute = append(w.Execute, w.SUID)
	got, _ := w.run(t, "confined", func(c *exec.Cmd) { // with groups to lose
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{4, 27}}}
	})
	want := doors(abi)
	want["read inside"] = "EACCES" // by its path: the folder is root's
	expect(t, got, want)
	expect(t, got, map[string]string{
		"write state": "ok", "read what was open": "ok", "root again": "EPERM",
		"threads Uid": "61234 61234 61234 61234", "threads Gid": "61234 61234 61234 61234", "threads Groups": "",
		"threads CapEff": "0000000000000000", "threads CapPrm": "0000000000000000", "threads CapBnd": "0000000000000000", "threads NoNewPrivs": "1",
		"row user-id": "ok: uid 61234", "row capabilities": "ok: none", "row no-new-privileges": "ok: set",
		"suid": "euid 61234 ok", "tcp on many threads": "EACCES", "dumpable": "0 <nil>",
	})
	if _, err := os.Stat(filepath.Join(w.State, "a")); err != nil {
		t.Error(err)
	}
}

// A group that was asked for is kept, and is no reason to complain; others are.
func TestConfineGroups(t *testing.T) {
	needRoot(t)
	kernelABI(t)
	for _, tc := range []struct {
		name   string
		groups []uint32
		want   string
	}{
		{"one", []uint32{61235}, "ok: uid 61234, groups 61235"},
		{"none", nil, "ok: uid 61234"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.give(t, 61234)
			w.Groups = tc.groups
			got, _ := w.run(t, "confined", func(c *exec.Cmd) { // with a group to lose
				c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{4}}}
			})
			expect(t, got, map[string]string{"row user-id": tc.want, "root again": "EPERM"})
		})
	}
	status := map[string]string{"Uid": "5 5 5 5", "Groups": "5 7 8"}
	if row := checkUser(Confinement{UID: 5, Groups: []uint32{7}}, status, ""); row.State != "failed" {
		t.Errorf("group 8: %+v", row)
	}
	if row := checkUser(Confinement{UID: 5, Groups: []uint32{7, 8}}, status, ""); row.State != "ok" {
		t.Errorf("groups 7 and 8: %+v", row)
	}
}

// TCP to anywhere, for whoever decides on each connection itself; files are
// shut as ever.
func TestConfineAnyTCP(t *testing.T) {
	kernelABI(t)
	w := newWorld(t)
	w.AnyTCP = true
	got, _ := w.run(t, "confined", nil)
	expect(t, got, map[string]string{"tcp allowed": "ok", "tcp denied": "ok", "read outside": "EACCES", "execute": "EACCES", "abstract": "EPERM"})
	if r := got["row network"]; !strings.HasPrefix(r, "ok: ") || !strings.Contains(r, "TCP to any address and port") {
		t.Errorf("network: %s", r)
	}
	if r := got["row landlock"]; !strings.HasPrefix(r, "ok: ") || !strings.Contains(r, "listening on TCP") {
		t.Errorf("landlock: %s", r)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

// suidProgram is this test binary as a program of root with the set-user-id
// bit, in a place where that counts. That it works is tried out first.
func suidProgram(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp("", "bxsuid")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.Chmod(f.Name(), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(f.Name())
	cmd.Env, cmd.Dir = []string{childVar + "=euid"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61234, Gid: 61234}}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "euid 0" {
		t.Skipf("set-user-id programs do not work in %s: %s %v", filepath.Dir(f.Name()), out, err)
	}
	return f.Name()
}

// In a network namespace of its own there is nothing but the loopback.
func TestConfineNetworkNamespace(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	w.NoNetwork = true
	got, _ := w.run(t, "confined", func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET} })
	expect(t, got, map[string]string{"row network": "ok: none: no device but the loopback"})
	got, _ = w.run(t, "confined", nil)
	if r := got["row network"]; len(devices(t)) > 0 && !strings.HasPrefix(r, "failed: "+strings.Join(devices(t), ", ")+" can be used: ") {
		t.Errorf("with the host's devices: %s", r)
	}
}

func devices(t *testing.T) (names []string) {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

// A user namespace makes root of an ordinary user; the report knows.
func TestConfineInUserNamespace(t *testing.T) {
	w := newWorld(t)
	cmd := exec.Command("/bin/true")
	ns := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 61234, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 61234, Size: 1}},
	}
	if os.Getuid() != 0 {
		ns.UidMappings[0].HostID, ns.GidMappings[0].HostID = os.Getuid(), os.Getgid()
	}
	ns.Credential = &syscall.Credential{NoSetGroups: true} // its root
	cmd.SysProcAttr = ns
	if err := cmd.Run(); err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	if err := os.Chmod(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.State, 0o777); err != nil {
		t.Fatal(err)
	}
	got, _ := w.run(t, "confined", func(c *exec.Cmd) { c.SysProcAttr = ns })
	if r := got["row user-id"]; !strings.HasPrefix(r, "ok: uid 0") || !strings.HasSuffix(r, "in a user namespace (outside it is an ordinary user)") {
		t.Errorf("user-id: %s", r)
	}
}

// UDP comes with port 53 only, for name servers. This kernel may not know the
// right, so that the rules themselves are looked at.
func TestRulesForNameServers(t *testing.T) {
	for port, want := range map[uint16]string{
		53: "[ALLOW {connect_tcp} on port 53 ALLOW {bind_udp} on port 0 ALLOW {connect_send_udp} on port 53]",
		80: "[ALLOW {connect_tcp} on port 80]",
	} {
		l, err := landlockRules(Confinement{ConnectTCP: []uint16{port}})
		if got := fmt.Sprint(l.rules); err != nil || got != want {
			t.Errorf("%s %v, want %s", got, err, want)
		}
	}
}

func TestLandlockIsAvailableWhereTestsCount(t *testing.T) {
	if v, err := ll.LandlockGetABIVersion(); err != nil {
		t.Skipf("this kernel has no Landlock (%v): what it does is not tested here", err)
	} else {
		t.Logf("ABI %d", v)
	}
}
