package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"

	"github.com/pelletier/go-toml/v2"
)

// leastCrun is the oldest crun that was tried.
const leastCrun = "1.8"

// runner: what containers need. While Boxmaker runs, runnerd has tried one and
// says how that went (see the rows of brokerd); this looks at the machine.
func runner(x *exam) {
	if !x.tools() {
		x.skip("the container runtime", "tools are off ([tools] in bxctl.toml)")
		return
	}
	x.runtime()
	x.userNamespaces()
	x.limits()
}

// runtime: the program is there and not too old.
func (x *exam) runtime() {
	name, program := x.runtimeProgram()
	path, err := x.LookPath(program)
	if err != nil {
		x.add(Finding{
			Looked: name, Verdict: Fail, Runbook: "crun-missing", Detail: "the container runtime " + name + " is not there: every tool is refused",
			Mend: "apt-get install " + name + "; or name its program as path in runnerd.toml",
		})
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	version, err := x.RuntimeVersion(ctx, path)
	switch {
	case err != nil:
		x.add(Finding{Looked: path, Verdict: Fail, Runbook: "crun-refused", Detail: "it does not even say its version: " + term.Line(err.Error()), Mend: "install it anew: apt-get install --reinstall " + name})
	case name == "crun" && older(version, leastCrun):
		x.add(Finding{Looked: path, Verdict: Fail, Runbook: "crun-too-old", Detail: fmt.Sprintf("it is version %s, and %s or newer is needed", version, leastCrun), Mend: "install a newer crun"})
	default:
		x.ok(path, "version %s", first(version, "unknown"))
	}
}

// runtimeProgram is what runnerd.toml names.
func (x *exam) runtimeProgram() (name, program string) {
	var conf struct {
		Runtime string `toml:"runtime"`
		Path    string `toml:"path"`
	}
	if b, err := os.ReadFile(filepath.Join(x.Layout.Config, setup.FileRunner)); err == nil {
		_ = toml.Unmarshal(b, &conf) // told by the check of the files
	}
	name = first(conf.Runtime, "crun")
	return name, first(conf.Path, name)
}

// versionOf reads "crun version 1.8.1".
func versionOf(ctx context.Context, path string) (string, error) {
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(out), "\n")
	f := strings.Fields(line)
	if len(f) == 0 {
		return "", errors.New("it says nothing")
	}
	return term.Line(f[len(f)-1]), nil
}

// older compares versions number by number; what is no number is not older.
func older(v, than string) bool {
	a, b := strings.Split(v, "."), strings.Split(than, ".")
	for i := range b {
		if i >= len(a) {
			return true
		}
		n, err1 := strconv.Atoi(a[i])
		m, err2 := strconv.Atoi(b[i])
		if err1 != nil || err2 != nil || n > m {
			return false
		}
		if n < m {
			return true
		}
	}
	return false
}

// userNamespaces: every container has one, as every user.
func (x *exam) userNamespaces() {
	for _, s := range []struct{ file, off, mend string }{
		{"sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
		{"sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for crun that allows userns"},
	} {
		b, err := os.ReadFile(filepath.Join(x.Proc, s.file))
		if err == nil && strings.TrimSpace(string(b)) == s.off {
			x.add(Finding{Looked: filepath.Join("/proc", s.file), Verdict: Fail, Runbook: "userns-off", Detail: "user namespaces are off, and no container can be made without one: every tool is refused", Mend: s.mend})
			return
		}
	}
	x.ok("user namespaces", "the kernel allows them")
}

// limits: a granted limit of memory or processes that can't be enforced refuses
// the call; the grants that name one are named.
func (x *exam) limits() {
	s := x.broker()
	if s.err != nil {
		return // runnerd alone knows; the row of brokerd tells that it is not there
	}
	for _, c := range s.st.Checks {
		var of func(memory, pids int64) bool
		switch {
		case strings.Contains(c.Name, "memory"):
			of = func(memory, _ int64) bool { return memory > 0 }
		case strings.Contains(c.Name, "pids"):
			of = func(_, pids int64) bool { return pids > 0 }
		default:
			continue
		}
		if c.State == "ok" || c.State == "pending" {
			continue
		}
		var names []string
		set, _ := x.grantSet() // told by the check of the grants
		for _, g := range set.Grants {
			if of(g.Limits.Memory, g.Limits.PIDs) {
				names = append(names, g.ID)
			}
		}
		f := Finding{Looked: c.Name, Verdict: OK, Detail: "can't be enforced here, and no grant names one: " + term.Line(c.Detail)}
		if len(names) > 0 {
			f.Verdict, f.Runbook = Warn, "limit-not-enforceable"
			f.Detail = "it can't be enforced here, so that these grants are refused: " + some(names) + "; " + term.Line(c.Detail)
			f.Mend = "let systemd delegate a cgroup (bxctl init --systemd), run bxctl up as root, or take the limit out of the grants"
		}
		x.add(f)
	}
}
