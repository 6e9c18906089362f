package e2e

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
)

// proc reads a file of a process, "" if it may not be read.
func proc(pid int, name string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return ""
	}
	return string(b)
}

// listening gives the inodes and addresses of the listening TCP sockets in the
// network namespace of a process.
func listening(t *testing.T, pid int) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, family := range []string{"net/tcp", "net/tcp6"} {
		table := proc(pid, family)
		if table == "" {
			t.Fatalf("/proc/%d/%s of %s can't be read", pid, family, proc(pid, "comm"))
		}
		for line := range strings.Lines(table) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				out[f[9]] = f[1]
			}
		}
	}
	return out
}

// ownSockets gives the inodes of the sockets that a process holds; ok is false if
// that may not be seen.
func ownSockets(pid int) (inodes map[string]bool, ok bool) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil, false
	}
	inodes = map[string]bool{}
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(dir, fd.Name()))
		if err != nil {
			continue // closed since
		}
		if n, ok := strings.CutPrefix(to, "socket:["); ok {
			inodes[strings.TrimSuffix(n, "]")] = true
		}
	}
	return inodes, true
}

// No role listens on TCP, whatever serves the model. That the way of looking finds
// a listener is shown on the test's own server.
func TestCase_P57_NoTCPListener(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(s *stack.Stack)
	}{
		{"practice model", func(s *stack.Stack) { s.Must("", "init", "--practice") }},
		{"server on TCP", func(s *stack.Stack) {
			server := s.Serve()
			s.WaitUntil("the listener of the test's own server is seen", func() bool {
				for _, p := range stack.Processes(s.Home) {
					own, ok := ownSockets(p.PID)
					for inode, at := range listening(t, p.PID) {
						_, port, _ := strings.Cut(at, ":")
						n, err := strconv.ParseUint(port, 16, 16)
						if ok && own[inode] && err == nil && strings.HasSuffix(server.Address, fmt.Sprint(":", n)) {
							return true
						}
					}
				}
				return false
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stack.New(t)
			c.set(s)
			s.Up()
			s.WaitTools() // the container that runnerd tries is gone
			answered(t, s, "chat-a", "What time is it?")
			looked := map[string]bool{}
			for _, p := range stack.Processes(s.Home) {
				if p.Parent == os.Getpid() && p.Program != "bxctl" {
					continue // the test's own server
				}
				all := listening(t, p.PID)
				own, ok := ownSockets(p.PID)
				switch {
				case len(all) == 0:
				case !ok:
					t.Logf("NOT LOOKED AT: %s shares its network and this user may not see its sockets", p.Program)
					continue
				default:
					for inode, at := range all {
						if own[inode] {
							t.Errorf("%s listens on TCP at %s", p.Program, at)
						}
					}
				}
				looked[p.Program] = true
			}
			for _, program := range []string{"bxctl", "loopd"} {
				if !looked[program] {
					t.Errorf("%s was not looked at", program)
				}
			}
			s.Down()
		})
	}
}

// loopd has no network device, no route, no capability, no way to new rights, and
// as root a user of its own; status says the same.
func TestFault_Walls_ConfinementOfTheRoles(t *testing.T) {
	s := fresh(t)
	s.Up()
	s.WaitTools()
	devices := func(pid int) []string {
		var out []string
		for i, line := range strings.Split(strings.TrimSpace(proc(pid, "net/dev")), "\n") {
			if name, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && i > 1 {
				out = append(out, name)
			}
		}
		return out
	}
	uids := map[string]string{"loopd": "62102", "inferproxy": "62101", "practice": "62103", "brokerd": "62105", "egressd": "62108", "runnerd": "62109"}
	for _, p := range s.Daemons() {
		field := map[string]string{}
		for line := range strings.Lines(proc(p.PID, "status")) {
			k, v, _ := strings.Cut(line, ":")
			field[k] = strings.Join(strings.Fields(v), " ")
		}
		want := uids[p.Program]
		if os.Geteuid() != 0 {
			want = strconv.Itoa(os.Geteuid())
		}
		if want == "" || field["Uid"] != strings.Join(slices.Repeat([]string{want}, 4), " ") {
			t.Errorf("%s runs as %s, want %s", p.Program, field["Uid"], want)
		}
		if field["NoNewPrivs"] != "1" || strings.Trim(field["CapEff"]+field["CapPrm"]+field["CapAmb"]+field["CapInh"], "0") != "" {
			t.Errorf("%s: no new privileges %s, capabilities %s", p.Program, field["NoNewPrivs"], field["CapEff"])
		}
		if p.Program == "egressd" { // the one door out
			delete(uids, p.Program)
			continue
		}
		if ds := devices(p.PID); !slices.Contains(ds, "lo") || slices.ContainsFunc(ds, func(d string) bool {
			return strings.HasPrefix(d, "eth") || strings.HasPrefix(d, "en") || strings.HasPrefix(d, "wl")
		}) {
			t.Errorf("%s has the devices %v", p.Program, ds)
		}
		if routes := strings.TrimSpace(proc(p.PID, "net/route")); strings.Count(routes, "\n") > 0 {
			t.Errorf("%s has routes:\n%s", p.Program, routes)
		}
		delete(uids, p.Program)
	}
	if len(uids) != 0 {
		t.Errorf("not running: %v", slices.Collect(maps.Keys(uids)))
	}
	st, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, c := range st.Confinement {
		rows[c.Name] = c.State
		if c.State != "ok" {
			checkKey(t, "(see runbook: "+c.Runbook+")", c.Runbook)
			t.Logf("this kernel or user has no %s: %s", c.Name, c.Detail)
		}
	}
	for _, name := range []string{"no-new-privileges", "landlock", "user-id", "network", "capabilities"} {
		if rows[name] == "" {
			t.Errorf("status says nothing of %s", name)
		}
	}
	if rows["network"] != "ok" || rows["no-new-privileges"] != "ok" || rows["capabilities"] != "ok" || rows["user-id"] != "ok" {
		t.Errorf("status: %v", rows)
	}
	s.Down()
}

// Every file is for its owner alone; every socket is one of the design.
func TestFault_Walls_FilesAndSockets(t *testing.T) {
	s := fresh(t)
	s.Up()
	s.WaitTools()
	answered(t, s, "chat-a", "What time is it?")
	sockets := map[string]bool{
		"run/loopd/bxctl/loop.sock": true, "run/inferproxy/loopd/infer.sock": true, "run/practice/inferproxy/llama.sock": true,
		"run/brokerd/loopd/broker.sock": true, "run/brokerd/bxctl/owner.sock": true, "run/runnerd/brokerd/runner.sock": true, "run/egressd/brokerd/egress.sock": true,
	}
	// As root the clients have other uids, and pass through these; none of them may be read.
	passages := []string{".", "run", "run/loopd", "run/inferproxy", "run/practice", "run/brokerd", "run/runnerd", "run/egressd"}
	asRoot := map[string]fs.FileMode{"grants": 0o750, "run/brokerd/doors": 0o710, "run/egressd/doors": 0o710}
	insides := []string{"run/runnerd/bundles/toolkit", "run/runnerd/bundles/toolfetch"}
	err := filepath.WalkDir(s.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(s.Home, path)
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, "run/runnerd/bundles/") && !slices.Contains(insides, name) {
			return nil // of containers, in a folder that runnerd alone can enter
		}
		mode, want := fi.Mode().Perm(), fs.FileMode(0o600)
		switch {
		case d.IsDir() && os.Geteuid() == 0 && slices.Contains(passages, name):
			want = 0o711
		case d.IsDir() && os.Geteuid() == 0 && asRoot[name] != 0:
			want = asRoot[name]
		case os.Geteuid() == 0 && filepath.Dir(name) == "grants":
			want = 0o640
		case name == "broker/audit.pub":
			want = 0o644
		case slices.Contains(insides, name):
			want = 0o555
		case d.IsDir():
			want = 0o700
		case d.Type() == fs.ModeSocket:
			if !sockets[name] {
				t.Errorf("a socket that the design does not know: %s", name)
			}
			delete(sockets, name)
		case !d.Type().IsRegular():
			t.Errorf("%s is a %v", name, d.Type())
		case name == "up.out": // the test's own
			return nil
		}
		if mode != want {
			t.Errorf("%s has mode %#o, want %#o", name, mode, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range sockets {
		t.Errorf("there is no %s", name)
	}
	// Nor does a role listen on a Unix socket that has no file, or one elsewhere.
	for _, p := range stack.Processes(s.Home) {
		own, ok := ownSockets(p.PID)
		if !ok {
			t.Logf("NOT LOOKED AT: this user may not see the sockets of %s", p.Program)
			continue
		}
		for line := range strings.Lines(proc(p.PID, "net/unix")) {
			f := strings.Fields(line)
			if len(f) < 7 || f[3] != "00010000" || !own[f[6]] {
				continue
			}
			at := "(none)"
			if len(f) > 7 {
				at = f[7]
			}
			if !strings.HasPrefix(at, s.Layout.Run+"/") {
				t.Errorf("%s listens on the Unix socket %s", p.Program, at)
			}
		}
	}
	s.Down()
	if left, _ := filepath.Glob(s.Layout.Run + "/*/*/*.sock"); len(left) != 0 {
		t.Errorf("sockets are left: %v", left)
	}
}

// Nothing of a conversation is in the daemons' logs.
func TestFault_Walls_LogsHoldNoText(t *testing.T) {
	t.Parallel()
	s := stack.New(t)
	server := s.Serve("-faults")
	s.Up()
	const private = "zebra-and-quince"
	answered(t, s, "chat-a", "answer with "+private)
	for _, kind := range []string{"markup", "bad-json-args", "error", "bad-utf8", "exceeded"} {
		server.Fault(`{"kind":"` + kind + `","after":2,"times":2,"slot":0}`)
		ask(s, "chat-"+kind, "answer with "+private)
		server.Fault(`{"kind":"clear"}`)
	}
	ask(s, "chat-a", private+" \x07")
	conn := dialRaw(t, s)
	_, _ = conn.Write(framed(`{"type":"submit","session":"` + private + `","text":"` + private + `"}`))
	_, _ = conn.Read(make([]byte, 1))
	s.Down()
	files, err := filepath.Glob(s.Layout.Log + "/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	for _, f := range append(files, filepath.Join(s.Home, "up.out")) {
		for line := range strings.Lines(read(t, f)) {
			if strings.Contains(line, private) {
				t.Errorf("%s: %s", filepath.Base(f), line)
			}
		}
	}
}
