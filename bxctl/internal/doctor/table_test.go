package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/report"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// A broken set-up, and what must be said of it.
type broken struct {
	name    string
	running bool
	hurt    func(r *rig)
	check   string
	verdict Verdict
	detail  string // part of it
	mend    string // part of it
	fix     bool   // --fix mends it
}

func table() []broken {
	return slices.Concat(brokenConfig(), brokenFiles(), brokenRuntime(), brokenServer(), brokenMachine(), brokenLogs(), brokenAuthority(), brokenChat())
}

func brokenConfig() []broken {
	up := func(r *rig, address string) {
		r.toml("bxctl.toml", `kind = "practice"`, `kind = "upstream"`)
		r.toml("inferproxy.toml", `upstream = ""`, `upstream = "`+address+`"`)
	}
	return []broken{
		{"no configuration", false, func(r *rig) { r.must(os.Remove(filepath.Join(r.l.Config, "loopd.toml"))) }, "config-files", Fail, "no such config file", "bxctl init", false},
		{"unknown key", false, func(r *rig) { r.toml("loopd.toml", "main       = 0", "mian = 0") }, "config-files", Fail, `unknown key "mian"`, "mend that line", false},
		{"not TOML", false, func(r *rig) { r.toml("bxctl.toml", `kind = "practice"`, `kind = practice`) }, "config-files", Fail, "this is not TOML", "mend that line", false},
		{"a secret in a file", false, func(r *rig) {
			r.toml("inferproxy.toml", `upstream = ""`, `upstream = "" # sk-proj-Zk9mQ2xW8rTgY4bN1sVhL6pDZk9mQ2xW8rTg`)
		}, "config-files", Fail, "there is an API key", "mend that line", false},
		{"https upstream", false, func(r *rig) { up(r, "https://h:1") }, "config-files", Fail, "https", "mend that line", false},
		{"credentials in the upstream", false, func(r *rig) { up(r, "http://u:p@h:1") }, "config-files", Fail, "a password in a URL", "mend that line", false},
		{"upstream without address", false, func(r *rig) { r.toml("bxctl.toml", `kind = "practice"`, `kind = "upstream"`) }, "config-fit", Fail, "no upstream is set", "--upstream", false},
		{"too few slots", false, func(r *rig) { r.toml("bxctl.toml", "slots   = 3", "slots   = 1") }, "config-fit", Fail, "only 1 slots are started", "practice.slots = 2", false},
		{"expects more context", false, func(r *rig) { r.toml("loopd.toml", "context  = 0", "context  = 99999") }, "config-fit", Fail, "expect.context is 99999", "practice.context", false},
		{"expects more slots", false, func(r *rig) { r.toml("loopd.toml", "slots    = 0", "slots    = 9") }, "config-fit", Fail, "expect.slots is 9", "practice.slots", false},
		{"answers larger than the window", false, func(r *rig) { r.toml("bxctl.toml", "context = 32768         # tokens", "context = 8192 #") }, "config-fit", Fail, "sampling.max_tokens is 8192", "lower sampling.max_tokens", false},
		{"skipped checks", false, func(r *rig) { r.toml("loopd.toml", "skip = []", `skip = ["cache"]`) }, "config-fit", Warn, "leaves out cache", "skip = []", false},
		{"skips a check that is none", false, func(r *rig) { r.toml("loopd.toml", "skip = []", `skip = ["cahce"]`) }, "config-fit", Fail, `"cahce", which is no check`, "cache", false},
		{"failure switches", false, func(r *rig) { r.toml("bxctl.toml", "args    = []", `args = ["-fault", "x"]`) }, "config-fit", Warn, "failure switches", "args = []", false},
		{"no system prompt", false, func(r *rig) { r.toml("loopd.toml", `system = ""`, `system = "/nowhere/p.md"`) }, "config-fit", Fail, "prompt.system can't be read", "built-in prompt", false},
		{"empty system prompt", false, func(r *rig) {
			r.file("home/p.md", " \n", 0o600)
			r.toml("loopd.toml", `system = ""`, `system = "`+filepath.Join(r.dir, "home/p.md")+`"`)
		}, "config-fit", Fail, "is empty", "built-in prompt", false},
		{"no model file", false, func(r *rig) {
			r.toml("bxctl.toml", `kind = "practice"`, `kind = "llama"`)
			r.toml("bxctl.toml", `file         = ""`, `file = "/nowhere/m.gguf"`)
		}, "model-file", Fail, "can't be opened", "bxctl init --model", false},
		{"a model file that is none", false, func(r *rig) {
			r.file("m.gguf", "PK..", 0o600)
			r.toml("bxctl.toml", `kind = "practice"`, `kind = "llama"`)
			r.toml("bxctl.toml", `file         = ""`, `file = "`+filepath.Join(r.dir, "m.gguf")+`"`)
		}, "model-file", Fail, "not a GGUF file", "bxctl init --model", false},
		{"no llama-server", false, func(r *rig) {
			r.file("m.gguf", "GGUF", 0o600)
			r.toml("bxctl.toml", `kind = "practice"`, `kind = "llama"`)
			r.toml("bxctl.toml", `file         = ""`, `file = "`+filepath.Join(r.dir, "m.gguf")+`"`)
			r.toml("bxctl.toml", `llama_server = ""`, `llama_server = "/nowhere/llama-server"`)
		}, "model-file", Fail, "/nowhere/llama-server", "install llama.cpp", false},
		{"server down", false, func(r *rig) { up(r, "http://127.0.0.1:1") }, "upstream", Fail, "connection refused", "start llama-server", false},
		{"no socket of the server", false, func(r *rig) { up(r, "unix:"+r.dir+"/none.sock") }, "upstream", Fail, "no such file", "start llama-server", false},
	}
}

func brokenFiles() []broken {
	return []broken{
		{"not set up", false, func(r *rig) { r.must(os.RemoveAll(r.l.Home)) }, "home", Fail, "is not there", "bxctl init", false},
		{"a temporary folder", false, func(r *rig) { r.o.Temporary = []string{r.dir} }, "home", Warn, "which the system empties", "BOXMAKER_HOME", false},
		{"memory as disk", false, func(r *rig) {
			r.o.StatFS = func(string) (FileSystem, error) { return FileSystem{Type: 0x01021994, Free: 1 << 40}, nil }
		}, "home", Warn, "tmpfs", "ext4", false},
		{"network disk", false, func(r *rig) {
			r.o.StatFS = func(string) (FileSystem, error) { return FileSystem{Type: 0x6969, Free: 1 << 40}, nil }
		}, "home", Warn, "NFS", "disk of this machine", false},
		{"everybody writes above", false, func(r *rig) { r.must(os.Chmod(r.dir, 0o777)) }, "home", Fail, "everybody may write to this folder", "chmod o-w", false},
		{"home open", false, func(r *rig) { r.must(os.Chmod(r.l.Home, 0o755)) }, "rights", Fail, "in the home folder, . (0755) may be read", "chmod go=", true},
		{"session log readable", false, func(r *rig) { r.must(os.Chmod(r.log("chat-a", 1), 0o644)) }, "rights", Fail, "chat-a/0001.jsonl (0644) may be read", "--fix", true},
		{"config writable by the group", false, func(r *rig) { r.must(os.Chmod(filepath.Join(r.l.Config, "bxctl.toml"), 0o660)) }, "rights", Fail, "bxctl.toml (0660) may be changed", "--fix", true},
		{"log folder open", false, func(r *rig) { r.must(os.Chmod(r.l.Log, 0o711)) }, "rights", Fail, "in the log folder, . (0711)", "--fix", true},
		{"grants open", false, func(r *rig) { r.grant("10-a.toml", readGrant(r), 0o666) }, "rights", Fail, "10-a.toml (0666) may be changed", "--fix", true},
		{"socket folder open", false, func(r *rig) {
			r.must(os.MkdirAll(filepath.Join(r.l.Run, "loopd"), 0o700))
			r.must(os.Chmod(filepath.Join(r.l.Run, "loopd"), 0o755))
		}, "rights", Fail, "in the run folder, loopd (0755)", "--fix", true},
		{"link among the sessions", false, func(r *rig) { r.must(os.Symlink("/etc", filepath.Join(r.l.Sessions, "chat-b"))) }, "rights", Fail, "symbolic links that we did not make: chat-b", "look where they lead", false},
		{"program missing", false, func(r *rig) { r.must(os.Remove(filepath.Join(r.dir, "bin/loopd"))) }, "programs", Fail, "the program loopd is not there", "make build", false},
		{"program not executable", false, func(r *rig) { r.must(os.Chmod(filepath.Join(r.dir, "bin/practice"), 0o600)) }, "programs", Fail, "the program practice is not there, or not executable", "make build", false},
		{"program of another source", false, func(r *rig) { r.file("bin/loopd", "xyz", 0o755) }, "programs", Fail, "loopd is xyz", "make build", false},
		{"another program under the name", false, func(r *rig) {
			r.o.Build = func(path string) (Build, error) { return Build{Path: "evil/" + filepath.Base(path)}, nil }
		}, "programs", Fail, `"evil/loopd"`, "make build", false},
		{"program writable by all", false, func(r *rig) { r.must(os.Chmod(filepath.Join(r.dir, "bin/loopd"), 0o777)) }, "programs", Fail, "may change this program (0777)", "chmod go-w", false},
		{"program folder writable by all", false, func(r *rig) { r.must(os.Chmod(filepath.Join(r.dir, "bin"), 0o777)) }, "programs", Fail, "may put other programs into this folder", "chmod go-w", false},
		{"torn end kept aside", false, func(r *rig) { r.file("home/sessions/chat-a/0001.jsonl.torn-77", "x", 0o600) }, "leftovers", Warn, "1 torn ends", "look into them", false},
		{"unfinished session", false, func(r *rig) { r.file("home/sessions/.new-chat-b/0001.jsonl", "x", 0o600) }, "leftovers", Warn, "sessions or epochs whose making a crash cut short", "--fix", true},
		{"unfinished file", false, func(r *rig) { r.file("home/config/.bxctl.toml.abcdef.tmp", "x", 0o600) }, "leftovers", Warn, "files whose writing a crash cut short", "--fix", true},
		{"old configuration", false, func(r *rig) {
			for i := range 4 {
				r.file(fmt.Sprintf("home/config/bxctl.toml.old-%d", i), "x", 0o600)
			}
		}, "leftovers", Warn, "4 old configuration files", "remove them", false},
	}
}

func brokenRuntime() []broken {
	role := func(r *rig, name string, f func(*report.Role)) {
		for i := range r.up.Roles {
			if r.up.Roles[i].Name == name {
				f(&r.up.Roles[i])
			}
		}
		r.board()
	}
	return []broken{
		{"the last up failed", false, func(r *rig) {
			r.up = &report.Up{PID: 5, State: "failed", Reason: "loopd refused to start"}
			r.board()
		}, "lock", Fail, "loopd refused to start", "mend that", false},
		{"up was killed", false, func(r *rig) { r.up = &report.Up{PID: 5, State: "running"}; r.board() }, "lock", Warn, "without tidying up", "--fix", true},
		{"a role outlived up", false, func(r *rig) {
			r.up = &report.Up{PID: 5, State: "running", Roles: []report.Role{{Name: "loopd", PID: pidLoopd, Start: 7}}}
			r.process(pidLoopd, "loopd", 1, 7, 1)
			r.board()
		}, "lock", Fail, "still run: loopd (pid 902)", "bxctl up --detach", false},
		{"state unreadable", false, func(r *rig) { r.file("home/run/up.json", "{", 0o600) }, "lock", Fail, "can't be read", "--fix", true},
		{"state of another up", true, func(r *rig) { r.up.PID = 77; r.board() }, "lock", Fail, "the state is of process 77", "bxctl down", false},
		{"a role waits", true, func(r *rig) {
			role(r, "loopd", func(x *report.Role) { x.State, x.PID, x.Restarts, x.Exit = "waiting", 0, 4, "exit code 1" })
		}, "daemons", Fail, "loopd does not run (waiting, restarts: 4, last: exit code 1)", "loopd.log", false},
		{"a role crashes again and again", true, func(r *rig) { role(r, "practice", func(x *report.Role) { x.Restarts = 5 }) }, "daemons", Fail, "restarts: 5", "practice.log", false},
		{"a role was restarted", true, func(r *rig) { role(r, "practice", func(x *report.Role) { x.Restarts = 1 }) }, "daemons", Warn, "restarts: 1", "practice.log", false},
		{"a role is gone", true, func(r *rig) { r.must(os.RemoveAll(filepath.Join(r.dir, "proc/901"))) }, "daemons", Fail, "no such process", "bxctl down", false},
		{"the pid is of another program", true, func(r *rig) { role(r, "loopd", func(x *report.Role) { x.Start = 999 }) }, "daemons", Fail, "another program than loopd", "bxctl down", false},
		{"protection missing", true, func(r *rig) { role(r, "loopd", func(x *report.Role) { x.Missing = []string{"no user namespaces"} }) }, "daemons", Warn, "no user namespaces", "kernel", false},
		{"old up runs", true, func(r *rig) { r.o.Version = "v2" }, "versions", Fail, `the running bxctl up is version "v1"`, "bxctl down; bxctl up", false},
		{"old loopd runs", true, func(r *rig) { r.st.Version = "v0" }, "versions", Fail, `the running loopd is version "v0"`, "bxctl down; bxctl up", false},
		{"program replaced under it", true, func(r *rig) {
			exe := filepath.Join(r.dir, "proc/902/exe")
			r.must(os.Remove(exe))
			r.must(os.Symlink(filepath.Join(r.dir, "bin/loopd")+" (deleted)", exe))
		}, "versions", Fail, "were replaced since", "bxctl down; bxctl up", false},
		{"socket removed", true, func(r *rig) { r.must(os.Remove(r.l.Socket("inferproxy", "loopd", "infer"))) }, "sockets", Fail, "the socket of inferproxy is not there", "bxctl down", false},
		{"nobody answers", true, func(r *rig) {
			path := r.l.Socket("inferproxy", "loopd", "infer")
			r.must(os.Remove(path))
			stale(r, path)
		}, "sockets", Fail, "nobody answers on the socket of inferproxy", "bxctl down", false},
		{"a file in place of a socket", true, func(r *rig) {
			path := r.l.Socket("inferproxy", "loopd", "infer")
			r.must(os.Remove(path))
			r.must(os.WriteFile(path, nil, 0o600))
		}, "sockets", Fail, "no socket but another file", "move that file away", false},
		{"stale socket", false, func(r *rig) { stale(r, r.l.Socket("loopd", "bxctl", "loop")) }, "sockets", Warn, "nobody serves", "--fix", true},
		{"a stranger listens", false, func(r *rig) { r.listen(r.l.Socket("loopd", "bxctl", "loop")) }, "sockets", Fail, "bxctl up did not start", "end it", false},
		{"loopd silent", true, func(r *rig) { r.must(os.Remove(r.l.Socket("loopd", "bxctl", "loop"))) }, "loopd", Fail, "loopd does not answer", "loopd.log", false},
		{"loopd waits", true, func(r *rig) { r.st.State, r.st.Detail = "waiting", "no server (see runbook: selftest-server)" }, "loopd", Warn, "loopd is waiting: no server", "goes on trying", false},
		{"self-test failed", true, func(r *rig) {
			r.st.Checks = append(r.st.Checks, proto.Check{Name: "template", State: "failed", Detail: "another", Runbook: "selftest-template"})
		}, "loopd", Fail, "another", "runbook", false},
		{"loopd less confined", true, func(r *rig) { r.st.Confinement[0].State = "failed"; r.st.Confinement[0].Detail = "not in force" }, "loopd", Warn, "not in force", "runbook", false},
		{"another uid", true, func(r *rig) { role(r, "loopd", func(x *report.Role) { x.UID = 4242 }) }, "confinement", Fail, "it should run as uid 4242", "bxctl down", false},
		{"new privileges", true, func(r *rig) { r.edit(pidLoopd, "status", "NoNewPrivs:\t1", "NoNewPrivs:\t0") }, "confinement", Fail, "loopd: it can gain rights", "bxctl down", false},
		{"capabilities", true, func(r *rig) { r.edit(pidProxy, "status", "CapEff:\t0", "CapEff:\t3f") }, "confinement", Fail, "inferproxy: it holds capabilities", "bxctl down", false},
		{"loopd has a network", true, func(r *rig) { r.edit(pidLoopd, "net/dev", "    lo:", "  eth0: 1\n    lo:") }, "confinement", Fail, "loopd: it has network devices (eth0)", "bxctl down", false},
		{"a TCP listener", true, func(r *rig) { listener(r, pidLoopd, "tcp", "00000000:1F90", "0A", 5151) }, "listeners", Fail, "loopd (pid 902) on tcp 0.0.0.0:8080", "nothing of Boxmaker does that", false},
		{"a UDP listener of up", true, func(r *rig) { listener(r, r.up.PID, "udp", "0100007F:0035", "07", 5152) }, "listeners", Fail, "on udp 127.0.0.1:53", "nothing of Boxmaker does that", false},
		{"a child listens", true, func(r *rig) {
			r.process(999, "nc", pidPractice, 9, 1)
			listener(r, 999, "tcp6", "00000000000000000000000001000000:1F90", "0A", 5153)
		}, "listeners", Fail, "a child of practice (pid 999) on tcp [::1]:8080", "nothing of Boxmaker does that", false},
	}
}

func stale(r *rig, path string) {
	r.must(os.MkdirAll(filepath.Dir(path), 0o700))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	r.must(err)
	ln.SetUnlinkOnClose(false)
	r.must(ln.Close())
	r.must(os.Chmod(path, 0o600))
}

func listener(r *rig, pid int, table, at, state string, inode int) {
	r.edit(pid, "net/"+table, "st\n", fmt.Sprintf("st\n  0: %s 0:0 %s 0:0 0:0 0 0 0 %d 1\n", at, state, inode))
	r.must(os.Symlink(fmt.Sprintf("socket:[%d]", inode), filepath.Join(r.dir, fmt.Sprintf("proc/%d/fd/3", pid))))
}

func brokenServer() []broken {
	return []broken{
		{"loading", true, func(r *rig) { r.stat = http.StatusServiceUnavailable }, "upstream", Warn, "Loading model", "wait until the model is loaded", false},
		{"no llama-server behind it", true, func(r *rig) { r.prop = `{"hello":1}` }, "upstream", Fail, "no llama-server", "bxctl init --upstream", false},
		{"not JSON", true, func(r *rig) { r.prop = `<html>` }, "upstream", Fail, "not what llama-server gives", "start llama-server", false},
		{"other template", true, func(r *rig) { r.toml("loopd.toml", `template = ""`, `template = "`+strings.Repeat("ab", 32)+`"`) }, "server", Fail, "another one than pinned", "--chat-template-file", false},
		{"smaller context", true, func(r *rig) {
			r.toml("loopd.toml", "context  = 0", "context  = 32768")
			r.prop = strings.Replace(r.prop, "32768", "16384", 1)
		}, "server", Fail, "a slot has 16,384 tokens, expected are 32,768", "-c 98304", false},
		{"context too small for an answer", true, func(r *rig) { r.prop = strings.Replace(r.prop, "32768", "4096", 1) }, "server", Fail, "a completion may need 11,192", "-c", false},
		{"fewer slots", true, func(r *rig) { r.prop = strings.Replace(r.prop, `"total_slots":3`, `"total_slots":1`, 1) }, "server", Fail, "has 1 slots, and 2 are needed", "-np 2", false},
		{"other build", true, func(r *rig) { r.toml("loopd.toml", `build    = ""`, `build = "b11669"`) }, "server", Fail, `expected is "b11669"`, "release notes", false},
		{"no template", true, func(r *rig) { r.prop = strings.Replace(r.prop, template, "", 1) }, "server", Fail, "no chat template", "--jinja", false},
	}
}

func brokenMachine() []broken {
	space := func(f func(*FileSystem)) func(*rig) {
		return func(r *rig) {
			r.o.StatFS = func(string) (FileSystem, error) {
				s := FileSystem{ID: "a", Free: 1 << 40, Size: 1 << 41, Inodes: 1 << 20, AllInodes: 1 << 21}
				f(&s)
				return s, nil
			}
		}
	}
	env := func(name, value string) func(*rig) { return func(r *rig) { r.env[name] = value } }
	return []broken{
		{"disk full", false, space(func(s *FileSystem) { s.Free = 1 << 20 }), "disk", Fail, "1.0 MiB free", "free some space", false},
		{"disk nearly full", false, space(func(s *FileSystem) { s.Free = 500 << 20 }), "disk", Warn, "500 MiB free", "free some space", false},
		{"no inodes", false, space(func(s *FileSystem) { s.Inodes = 3 }), "disk", Fail, "3 inodes", "df -i", false},
		{"few inodes", false, space(func(s *FileSystem) { s.Inodes = 3000 }), "disk", Warn, "3000 inodes", "df -i", false},
		{"read-only", false, space(func(s *FileSystem) { s.ReadOnly = true }), "disk", Fail, "mounted read-only", "dmesg", false},
		{"no Landlock", false, func(r *rig) { r.o.Landlock = func() (int, error) { return 0, errors.New("this kernel has none") } }, "kernel", Fail, "this kernel has none", "6.7", false},
		{"old Landlock", false, func(r *rig) { r.o.Landlock = func() (int, error) { return 2, nil } }, "kernel", Warn, "ABI 2", "6.7", false},
		{"no namespaces", false, func(r *rig) { r.o.Spaces = func(context.Context) error { return syscall.EPERM } }, "kernel", Warn, "without a network", "user namespaces", false},
		{"clock in the past", false, func(r *rig) { r.o.Now = func() time.Time { return time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC) } }, "clock", Fail, "the year 1970", "set-ntp", false},
		{"clock behind the audit log", false, func(r *rig) {
			audited(r, func(b []byte) []byte { return b })
			r.o.Now = func() time.Time { return at().Add(-24 * time.Hour) }
			r.must(os.RemoveAll(r.l.Sessions))
		}, "clock", Fail, "the newest record of audit/2026-05.jsonl", "set-ntp", false},
		{"clock behind the logs", false, func(r *rig) { r.o.Now = func() time.Time { return at().Add(-24 * time.Hour) } }, "clock", Fail, "the newest record of chat-a/0001.jsonl", "set-ntp", false},
		{"relative home", false, env("BOXMAKER_HOME", "home"), "environment", Warn, "relative path", "set it to", false},
		{"handed-over sockets", false, env("LISTEN_FDS", "3"), "environment", Warn, "it is set", "unset it", false},
		{"no such zone", false, env("TZ", "Europe/Nowhere"), "environment", Warn, "no time zone", "Europe/Berlin", false},
	}
}

func brokenLogs() []broken {
	change := func(r *rig, f func([]byte) []byte) {
		b := []byte(r.read(r.log("chat-a", 1)))
		r.must(os.WriteFile(r.log("chat-a", 1), f(b), 0o600))
	}
	return []broken{
		{"torn end", false, func(r *rig) { change(r, func(b []byte) []byte { return b[:len(b)-9] }) }, "logs", Warn, "torn end", "nothing to do", false},
		{"damaged line", false, func(r *rig) { change(r, func(b []byte) []byte { b[20] ^= 1; return b }) }, "logs", Fail, "line 1 (at byte 0) is damaged", "backup", false},
		{"only a torn line", false, func(r *rig) { change(r, func(b []byte) []byte { return b[:40] }) }, "logs", Fail, "its baseline is gone", "backup", false},
		{"record missing", false, func(r *rig) {
			change(r, func(b []byte) []byte {
				lines := strings.SplitAfter(string(b), "\n")
				return []byte(lines[0] + lines[2])
			})
		}, "logs", Fail, "record 2 stands in place 1", "backup", false},
		{"another version", false, func(r *rig) { foreign(r) }, "logs", Fail, "another version", "use the version that wrote it", false},
		{"an epoch is gone", false, func(r *rig) { r.session("chat-a", 3, 2) }, "logs", Fail, "the log of an epoch before 3 is gone", "backup", false},
		{"empty session", false, func(r *rig) { r.must(os.Mkdir(filepath.Join(r.l.Sessions, "chat-e"), 0o700)) }, "logs", Fail, "holds no log", "backup", false},
		{"a finished log that is torn", false, func(r *rig) {
			r.session("chat-a", 2, 2)
			change(r, func(b []byte) []byte { return b[:len(b)-9] })
		}, "logs", Fail, "finished long ago", "backup", false},
		{"a stranger among the sessions", false, func(r *rig) { r.file("home/sessions/Notes.txt", "x", 0o600) }, "logs", Warn, `"Notes.txt"`, "move them out", false},
		{"a stranger in a session", false, func(r *rig) { r.file("home/sessions/chat-a/0001.jsonl~", "x", 0o600) }, "logs", Warn, "chat-a/0001.jsonl~", "move them out", false},
	}
}

// foreign writes a line of a version to come, with a good checksum.
func foreign(r *rig) {
	root, err := os.OpenRoot(r.l.Sessions)
	r.must(err)
	defer root.Close()
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: "chat-a/0001.jsonl"})
	r.must(err)
	r.must(log.Append([]byte(`{"v":9,"n":3,"time":"2026-01-01T00:00:00.000Z","kind":"x"}`)))
	r.must(log.Close())
}
