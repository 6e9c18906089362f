package conform

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
)

// deadline asks until there is no error. What is asked about happens in other
// processes, which cannot be waited for in another way.
func deadline(t *testing.T, ask func() error) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Error(err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// File makes a file that the runner's user may use.
func (w *World) File(t testing.TB, name, text string) string {
	t.Helper()
	p := filepath.Join(w.Data, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for d := p; d != w.Data; d = filepath.Dir(d) {
		if err := os.Lchown(d, w.UID, -1); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func expect(t *testing.T, got, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %q, want %q", k, got[k], v)
		}
	}
}

func identity(t *testing.T, w *World) {
	door, held := w.Door(t)
	l := Launch("status Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp", "env", "fds", "host", "cat /proc/self/uid_map", "hold")
	l.Door = door
	l.Limits.MS = 20_000
	c := w.Begin(t, l)
	h := wait(t, w, held)
	if h.UID != w.UID {
		t.Errorf("uid %d outside, want %d", h.UID, w.UID)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.PID))
	if err != nil {
		t.Fatal(err)
	}
	if uid := fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", w.UID); !strings.Contains(string(status), uid) {
		t.Errorf("outside: %s", status)
	}
	// Nothing of the call, the runtime's processes included, is root outside.
	procs, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		b, err := os.ReadFile(p)
		if err != nil || !strings.Contains(string(b), "\nNSpid:") {
			continue
		}
		cmd, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "cmdline"))
		if strings.Contains(string(cmd), w.Home) && strings.Contains(string(b), "\nUid:\t0") {
			t.Errorf("root: %q", cmd)
		}
	}
	c.Close()
	h.gone(t)
	l.Door, l.Input = "", strings.TrimSuffix(l.Input, "hold\n")
	zero := "0000000000000000"
	said := w.Says(t, l)
	// An ordinary user cannot give up groups; only the own one has a name inside.
	if g := said["Groups"]; g != "" && (os.Getuid() == 0 || strings.Trim(strings.NewReplacer("1000", "", "65534", "").Replace(g), ",") != "") {
		t.Errorf("groups %s", g)
	}
	expect(t, said, map[string]string{
		"Uid": "1000,1000,1000,1000", "Gid": "1000,1000,1000,1000", "CapInh": zero, "CapPrm": zero, "CapEff": zero, "CapBnd": zero, "CapAmb": zero,
		"NoNewPrivs": "1", "Seccomp": "2", "fds": "0 1 2", "host": "box",
	})
}

func surroundings(t *testing.T, w *World) {
	l := Launch("env", "ls / /proc/sys/kernel /sys /run /tmp /etc", "cat /proc/kcore /proc/keys /proc/timer_list /proc/kallsyms /etc/passwd /etc/shadow /proc/1/environ",
		"write /x /usr /tool /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/self/oom_score_adj /run/x /tmp/x /dev/x", "fill /tmp", "fill /run")
	said := w.Says(t, l)
	for _, v := range strings.Fields(said["env"]) {
		if k, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"PATH", "HOME", "LANG", "container", "HOSTNAME", "TERM"}, k) {
			t.Errorf("in the environment: %s", v)
		}
	}
	for _, name := range strings.Fields(strings.TrimSuffix(said["ls /"], "<nil>")) {
		if !slices.Contains([]string{"dev", "proc", "run", "tmp", "tool", "etc", "sys"}, name) {
			t.Errorf("in /: %s", name)
		}
	}
	if s := said["ls /sys"]; s != "<nil>" && !strings.Contains(s, "no such file") {
		t.Errorf("/sys: %s", s)
	}
	for _, p := range []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/kallsyms", "/etc/shadow"} {
		if s := said["cat "+p]; !strings.HasPrefix(s, `"" `) {
			t.Errorf("%s: %s", p, s)
		}
	}
	for _, p := range []string{"/x", "/usr", "/tool", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"} {
		if s := said["write "+p]; s == "ok" || s == "" {
			t.Errorf("write %s: %s", p, s)
		}
	}
	if said["write /tmp/x"] != "ok" {
		t.Errorf("/tmp cannot be written: %s", said["write /tmp/x"])
	}
	if s := said["fill"]; !strings.HasSuffix(s, "ENOSPC") && !strings.HasSuffix(s, "EFBIG") {
		t.Errorf("memory file systems have no end: %s", s)
	}
}

// systemCalls: crun has the filter from its own state, where it was compiled once.
func systemCalls(t *testing.T, w *World) {
	if w.runtime == "crun" {
		compiled(t, w)
	}
	door, _ := w.Door(t)
	l := Launch("calls")
	l.Door = door
	if said := w.Says(t, l); said["socket unix"] != "ok" || said["socket unix datagram"] == "ok" || said["pair datagram"] == "ok" {
		t.Errorf("the first process has to reach the door, and nothing else: %v", said)
	}
	allowed := []string{"socket inet", "socket inet6", "socket netlink-route", "clone", "mkfifo", "memfd_create", "pair stream", "pair packets", "open, plain", "chmod, plain", "open, odd mode of no file"}
	sockets := map[string]string{"pair datagram": "ESOCKTNOSUPPORT", "pair datagram nonblock": "ESOCKTNOSUPPORT", "pair raw": "ESOCKTNOSUPPORT", "socket unix": "EAFNOSUPPORT", "socket unix datagram": "EAFNOSUPPORT"}
	said := w.Says(t, Launch("calls"))
	if len(said) < 100 {
		t.Errorf("only %d calls were tried", len(said))
	}
	for name, got := range said {
		switch {
		case slices.Contains(allowed, name) && got != "ok":
			t.Errorf("%s: %s", name, got)
		case got == sockets[name]:
		case !slices.Contains(allowed, name) && !slices.Contains([]string{"EPERM", "ENOSYS", "EINVAL"}, got) || got == "EINVAL" && name != "setuid" && name != "setgid":
			t.Errorf("%s: %s, and it should be refused", name, got)
		}
	}
}

// compiled looks at the description of a call that runs.
func compiled(t *testing.T, w *World) {
	t.Helper()
	door, held := w.Door(t)
	l := Launch("hold")
	l.Door = door
	c := w.Begin(t, l)
	h := wait(t, w, held)
	all, err := filepath.Glob(filepath.Join(w.Home, "run", "bundles", "bm-*", "config.json"))
	if err != nil || len(all) != 1 {
		t.Fatalf("descriptions: %v, %v", all, err)
	}
	text, err := os.ReadFile(all[0])
	if err != nil || !strings.Contains(string(text), `"run.oci.seccomp_bpf_data":"`) {
		t.Errorf("no compiled filter in the description, %v", err)
	}
	c.Close()
	h.gone(t)
	w.empty(t)
}

func network(t *testing.T, w *World) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	abstract := "@boxmaker-conform-" + filepath.Base(w.Home)
	a, err := net.Listen("unix", abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	targets := []string{"tcp!" + l.Addr().String(), "unix!" + abstract, "tcp!192.0.2.1:80", "tcp![2001:db8::1]:80", "udp!192.0.2.1:53"}
	if addrs, err := net.InterfaceAddrs(); err == nil {
		for _, addr := range addrs {
			if n, ok := addr.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				targets = append(targets, "tcp!"+net.JoinHostPort(n.IP.String(), "22"))
			}
		}
	}
	said := w.Says(t, Launch("net "+strings.Join(targets, " ")))
	for _, target := range targets {
		if said["dial "+target] != "false" {
			t.Errorf("%s: %s", target, said["dial "+target])
		}
	}
	expect(t, said, map[string]string{"devices": "lo <nil>", "listen": "ok", "own loopback": "ok"})
	door, held := w.Door(t)
	ask := Launch("ask anybody")
	ask.Door = door
	go func() {
		h := <-held
		fmt.Fprintln(h, "hello", h.Line)
		h.Close()
	}()
	if s := w.Says(t, ask)["answer"]; s != "hello anybody <nil>" {
		t.Errorf("through the door: %s", s)
	}
}

func userland(t *testing.T, w *World) {
	script := w.File(t, "work/script.sh", "#!/bin/sh\necho from a script $((6*7))\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	l := Launch("run /bin/sh -c id", "ls / /home /var /etc /root", "run "+script, "cat /etc/passwd", "write /usr/x /bin/x")
	l.Userland, l.Mounts = proto.UserlandUsr, []proto.Mount{{Path: filepath.Dir(script), Write: true}}
	said := w.Says(t, l)
	expect(t, said, map[string]string{"run": "from a script 42 <nil>", "cat /etc/passwd": `"box:x:1000:1000::/tmp:/bin/sh\n" ok`})
	for _, dir := range []string{"/home", "/var", "/root"} {
		if s := said["ls "+dir]; !strings.Contains(s, "no such file") {
			t.Errorf("%s: %s", dir, s)
		}
	}
	for _, p := range []string{"/usr/x", "/bin/x"} {
		if s := said["write "+p]; s != "EROFS" && s != "EACCES" {
			t.Errorf("write %s: %s", p, s)
		}
	}
	root := filepath.Join(w.Data, "root")
	program, err := os.ReadFile(filepath.Join(w.bin, "first"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.File(t, "root/opt/bin/thing", string(program)), 0o755); err != nil {
		t.Fatal(err)
	}
	w.File(t, "root/etc/passwd", "somebody")
	if err := os.MkdirAll(root+"/tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	l = Launch("run /opt/bin/thing probe", "cat /etc/passwd", "write /opt/x", "ls /tmp")
	l.Userland, l.Root = proto.UserlandRoot, root
	said = w.Says(t, l)
	if !strings.HasPrefix(said["run"], "toolkit") {
		t.Errorf("a program of the owner's root: %s", said["run"])
	}
	if !strings.HasPrefix(said["cat /etc/passwd"], `"`) || said["write /opt/x"] != "EROFS" {
		t.Errorf("%v", said)
	}
	l.Root = filepath.Join(w.Data, "no-root")
	ended(t, w.Run(t, l), proto.EndNoUserland, "does not exist")
	l.Root = ""
	ended(t, w.Run(t, l), proto.EndNoUserland, "names none")
}
