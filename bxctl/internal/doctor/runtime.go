package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/up"
)

// lock: the lock of up, and the state that it writes, fit together.
func lock(x *exam) {
	s := x.running()
	looked := filepath.Join(x.Layout.Run, "up.lock")
	state := filepath.Join(x.Layout.Run, "up.json")
	switch {
	case s.lockErr != nil:
		x.bad(Fail, looked, "the lock of bxctl up can't be looked at: "+s.lockErr.Error(), "run bxctl as the user that ran bxctl up, or remove the file if it is no regular one")
		return
	case s.stateErr != nil:
		f := Finding{Looked: state, Verdict: Fail, Detail: "the state of bxctl up can't be read: " + s.stateErr.Error(), Mend: "bxctl down; bxctl up --detach"}
		if s.pid == 0 && !errors.Is(s.stateErr, fs.ErrPermission) {
			f.Mend, f.Fix, f.mend = "bxctl doctor --fix removes it; bxctl up writes it anew", "remove "+x.under(state), func() error { return x.remove(state) }
		}
		x.add(f)
	case s.pid < 0:
		x.bad(Warn, looked, "Boxmaker runs in another container, where this bxctl can't see it", "run bxctl doctor there")
	case s.pid > 0 && s.up == nil:
		x.bad(Fail, state, fmt.Sprintf("bxctl up runs (pid %d) and its state is not there", s.pid), "bxctl down; bxctl up --detach")
	case s.pid > 0 && s.up.PID != s.pid:
		x.bad(Fail, state, fmt.Sprintf("the state is of process %d, and process %d holds the lock", s.up.PID, s.pid), "bxctl down; bxctl up --detach")
	case s.pid > 0:
		x.ok(looked, "bxctl up runs, pid %d", s.pid)
	case s.up != nil && s.up.State == "failed":
		x.add(Finding{Looked: state, Verdict: Fail, Detail: "the last bxctl up ended because " + term.Line(s.up.Reason), Mend: "mend that, then: bxctl up --detach", Runbook: "role-crashes"})
	case s.up != nil:
		x.leftBehind(state)
	default:
		x.ok(looked, "free: %s", x.idle())
	}
}

// idle says why there are no programs of bxctl up to look at.
func (x *exam) idle() string {
	if x.bySystemd() {
		return "systemd runs Boxmaker, and bxctl up does not"
	}
	return "Boxmaker does not run"
}

// leftBehind: up was killed; the kernel should have ended its roles.
func (x *exam) leftBehind(state string) {
	var alive []string
	for _, r := range x.running().up.Roles {
		if r.PID > 1 && r.Start != 0 && x.startOf(r.PID) == r.Start {
			alive = append(alive, fmt.Sprintf("%s (pid %d)", r.Name, r.PID))
		}
	}
	if len(alive) > 0 {
		x.bad(Fail, state, "bxctl up is gone, and these of its programs still run: "+strings.Join(alive, ", "), "bxctl up --detach ends them and starts them anew")
		return
	}
	x.add(Finding{
		Looked: state, Verdict: Warn, Detail: "the last bxctl up ended without tidying up (it was killed, or the machine lost power)",
		Mend: "bxctl up --detach tidies up; so does bxctl doctor --fix", Fix: "remove " + x.under(state), mend: func() error { return x.remove(state) },
	})
}

// daemons: every role runs, and has not been restarted again and again.
func daemons(x *exam) {
	s := x.running()
	looked := filepath.Join(x.Layout.Run, "up.json")
	if s.pid == 0 && x.bySystemd() {
		x.ok(looked, "%s; more with: %s status 'boxmaker-*'", x.idle(), up.Systemctl())
		return
	}
	if s.pid == 0 || s.up == nil {
		x.add(Finding{Looked: looked, Verdict: Skipped, Detail: "Boxmaker does not run", Mend: "start it with bxctl up --detach, then run bxctl doctor again to see the rest"})
		return
	}
	if s.up.State != "running" {
		x.bad(Warn, looked, "bxctl up is "+s.up.State+": "+term.Line(s.up.Reason), "wait until it has ended, then: bxctl up --detach")
	}
	for _, r := range s.up.Roles {
		x.daemon(r)
	}
}

func (x *exam) daemon(r report.Role) {
	log := filepath.Join(x.Layout.Log, r.Name+".log")
	last := ""
	if r.Exit != "" {
		last = ", last: " + term.Line(r.Exit)
	}
	switch {
	case r.State != "running":
		x.bad(Fail, r.Name, fmt.Sprintf("%s does not run (%s, restarts: %d%s)", r.Name, r.State, r.Restarts, last), "see why at the end of "+log)
	case x.startOf(r.PID) == 0:
		x.bad(Fail, r.Name, fmt.Sprintf("%s should run as process %d, and there is no such process", r.Name, r.PID), "bxctl down; bxctl up --detach")
	case r.Start != 0 && x.startOf(r.PID) != r.Start:
		x.bad(Fail, r.Name, fmt.Sprintf("process %d is another program than %s", r.PID, r.Name), "bxctl down; bxctl up --detach")
	case r.Restarts >= 3:
		x.bad(Fail, r.Name, fmt.Sprintf("%s was restarted (restarts: %d%s): it crashes again and again", r.Name, r.Restarts, last), "see why in "+log)
	case r.Restarts > 0:
		x.bad(Warn, r.Name, fmt.Sprintf("%s was restarted (restarts: %d%s)", r.Name, r.Restarts, last), "see why in "+log)
	default:
		x.ok(r.Name, "pid %d, since %s", r.PID, term.When(r.Since, x.Now()))
	}
	for _, m := range r.Missing {
		x.add(Finding{Looked: r.Name, Verdict: Warn, Detail: "protection is missing: " + term.Line(m), Mend: "see the rows of kernel and confinement", Runbook: "doctor-confinement"})
	}
}

// startOf gives the kernel's start time of a process, 0 if it is not there.
func (x *exam) startOf(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", x.Proc, pid))
	if err != nil {
		return 0
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 || f[0] == "Z" {
		return 0
	}
	var n uint64
	if _, err := fmt.Sscan(f[19], &n); err != nil {
		return 0
	}
	return n
}

// versions: what runs is what lies on disk.
func versions(x *exam) {
	s, roles := x.running(), x.roles()
	if len(roles) == 0 || s.pid < 0 {
		x.skip("the running programs", "%s", x.idle())
		return
	}
	before := len(x.findings)
	mend := "take the new programs over: bxctl down; bxctl up --detach"
	say := func(looked, detail string) {
		x.add(Finding{Looked: looked, Verdict: Fail, Detail: detail, Mend: mend, Runbook: "version-mismatch"})
	}
	if s.pid > 0 {
		roles = append([]report.Role{{Name: "bxctl", PID: s.pid}}, roles...)
	} else {
		mend = "take the new programs over: " + up.Systemctl() + " restart " + up.Target
	}
	if s.pid > 0 && s.up.Version != x.Version {
		say("bxctl up", fmt.Sprintf("the running bxctl up is version %.40q, this bxctl is %.40q", s.up.Version, x.Version))
	}
	if st := x.loopd().st; st != nil && st.Version != x.Version {
		say("loopd", fmt.Sprintf("the running loopd is version %.40q, this bxctl is %.40q", st.Version, x.Version))
	}
	hidden, replaced := 0, []string{}
	if st := x.broker().st; st != nil && st.Version != x.Version {
		say("brokerd", fmt.Sprintf("the running brokerd is version %.40q, this bxctl is %.40q", st.Version, x.Version))
	}
	for _, r := range roles {
		if r.PID == 0 || r.Name == "llama" {
			continue
		}
		exe, err := os.Readlink(fmt.Sprintf("%s/%d/exe", x.Proc, r.PID))
		if err != nil {
			hidden++
			continue
		}
		want := filepath.Join(filepath.Dir(x.Self), r.Name)
		if exe != want {
			replaced = append(replaced, fmt.Sprintf("%s (pid %d) runs from %s", r.Name, r.PID, term.Line(exe)))
		}
	}
	if len(replaced) > 0 {
		say(filepath.Dir(x.Self), some(replaced)+": the programs here were replaced since, or another bxctl started those")
	}
	if len(x.findings) == before {
		note := ""
		if hidden > 0 {
			note = fmt.Sprintf("; the files of %d processes can't be seen by this user", hidden)
		}
		x.ok("the running programs", "version %s%s", x.Version, note)
	}
}

// sockets: each is there and answered while Boxmaker runs, and gone when not.
func sockets(x *exam) {
	before := len(x.findings)
	served := map[string]bool{}
	for _, r := range x.roles() {
		for _, path := range x.socketsOf(r.Name) {
			served[path] = true
			x.served(r, path)
		}
	}
	_ = filepath.WalkDir(x.Layout.Run, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && x.inner(path):
			return fs.SkipDir
		case err == nil && d.Type()&fs.ModeSocket != 0 && !served[path]:
			x.stray(path)
		}
		return nil
	})
	if len(x.findings) == before {
		x.ok(x.Layout.Run, "%d sockets, each answered", len(served))
	}
}

// inner: folders in which a role makes and removes files for live calls.
func (x *exam) inner(path string) bool {
	rel, err := filepath.Rel(x.Layout.Run, path)
	return err == nil && (rel == "brokerd/doors" || rel == "egressd/doors" || rel == "runnerd/bundles")
}

func (x *exam) socketsOf(role string) []string {
	l := x.Layout
	switch role {
	case "loopd":
		out := []string{l.Socket("loopd", "bxctl", "loop")}
		if x.chat() {
			out = append(out, l.Socket("loopd", "gatewayd", "loop"))
		}
		return out
	case "gatewayd":
		return []string{l.Socket("gatewayd", "brokerd", "gateway")}
	case "inferproxy":
		return []string{l.Socket("inferproxy", "loopd", "infer")}
	case "brokerd":
		return []string{l.Socket("brokerd", "loopd", "broker"), l.Socket("brokerd", "bxctl", "owner")}
	case "runnerd":
		return []string{l.Socket("runnerd", "brokerd", "runner")}
	case "egressd":
		return []string{l.Socket("egressd", "brokerd", "egress")}
	case "practice", "llama":
		return []string{l.Socket(role, "inferproxy", "llama")}
	}
	return nil
}

func (x *exam) served(r report.Role, path string) {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.bad(Fail, path, "the socket of "+r.Name+" is not there: it was removed under it", "bxctl down; bxctl up --detach")
		return
	case err != nil:
		x.bad(Fail, path, err.Error(), "run bxctl as the user that ran bxctl up")
		return
	case st.Mode().Type() != fs.ModeSocket:
		x.bad(Fail, path, "there is no socket but another file", "bxctl down; move that file away; bxctl up --detach")
		return
	}
	if err := x.knock(path); err != nil {
		x.bad(Fail, path, "nobody answers on the socket of "+r.Name+": "+err.Error(), "bxctl down; bxctl up --detach")
	}
}

// stray is a socket that no running role serves.
func (x *exam) stray(path string) {
	err := x.knock(path)
	switch {
	case err == nil && up.BySystemd(path):
		x.ok(path, "systemd listens")
	case err == nil:
		x.bad(Fail, path, "a program answers here that bxctl up did not start", "find it (ss -xlp) and end it: it could pose as one of ours")
	case errors.Is(err, syscall.ECONNREFUSED):
		x.add(Finding{
			Looked: path, Verdict: Warn, Detail: "a socket that nobody serves was left behind", Mend: "bxctl up removes it; so does bxctl doctor --fix",
			Fix: "remove " + x.under(path), mend: func() error {
				if err := x.knock(path); !errors.Is(err, syscall.ECONNREFUSED) {
					return errors.New("somebody answers now")
				}
				return x.remove(path)
			},
		})
	default:
		x.bad(Warn, path, "it can't be told whether somebody answers here: "+err.Error(), "look with: ss -xl")
	}
}
