package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
)

// asUser is a uid that nobody has.
const asUser = 62199

// TestSystemdUnits lets systemd judge the units.
func TestSystemdUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SYSTEMD-ANALYZE IS NOT ON THIS MACHINE (Debian package systemd): the units of bxctl init --systemd were NOT checked")
	}
	for _, args := range [][]string{{"--practice"}, {"--upstream", "http://localhost:8080"}} {
		t.Run(args[0], func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range []string{dir, filepath.Dir(dir)} { // as root, the parts have to pass through
				if err := os.Chmod(d, 0o711); err != nil {
					t.Fatal(err)
				}
			}
			home := filepath.Join(dir, "a home %n") // what has to be quoted
			cmd := exec.Command("bxctl", append([]string{"--home", home, "init", "--systemd"}, args...)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			units, err := filepath.Glob(home + "/config/systemd/*")
			if err != nil || len(units) < 5 {
				t.Fatalf("%q, %v", units, err)
			}
			out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
			for line := range strings.Lines(string(out)) {
				// Older systemd does not know the keys for a back-off, and goes on.
				if strings.Contains(line, filepath.Dir(units[0])) || strings.Contains(line, "boxmaker") {
					if !regexp.MustCompile(`Unknown key( name)? '?(RestartSteps|RestartMaxDelaySec)'?`).MatchString(line) {
						t.Errorf("systemd-analyze: %s", line)
					}
				}
			}
			if err != nil {
				t.Errorf("systemd-analyze: %v\n%s", err, out)
			}
		})
	}
}

// TestSystemdRuns starts Boxmaker under a real manager of a user.
func TestSystemdRuns(t *testing.T) {
	for _, c := range []string{"unshare", "setpriv", "systemctl", "mount"} {
		if _, err := exec.LookPath(c); err != nil {
			t.Skipf("%s IS NOT ON THIS MACHINE: Boxmaker under systemd was NOT tried", strings.ToUpper(c))
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT ROOT: Boxmaker under systemd was NOT tried (it takes a mount namespace with a /run of its own)")
	}
	if out, err := exec.Command("unshare", "-m", "sh", "-c", "mount -t tmpfs none /run && mount -t cgroup2 none /sys/fs/cgroup && test -w /sys/fs/cgroup/cgroup.procs").CombinedOutput(); err != nil {
		t.Skipf("NO MOUNTS OR CGROUPS HERE (%s): Boxmaker under systemd was NOT tried", strings.TrimSpace(string(out)))
	}
	for _, c := range []struct {
		name string
		uid  int
		ctl  string   // how the owner steers the units
		own  []string // rights of the programs
	}{
		{"user", asUser, "systemctl --user", []string{`(?m)^loopd .*\b62199 62199 62199 62199\b.* 0000000000000000 .*1 2 $`, `(?m)^inferproxy .*\b62199 .*1 2 $`, `(?m)^brokerd .*\b62199 .* 0000000000000000 .*1 2 $`}},
		{"root", 0, "systemctl", []string{`(?m)^loopd .*\b62102 62102 62102 62102\b`, `(?m)^practice .*\b62103 .* 0000000000000000 0000000000000000 1 2 $`, `(?m)^inferproxy .*\b62101 .* 0000000000000000 0000000000000000 1 2 $`, `(?m)^brokerd .*\b62105 .* 0000000000000000 .*1 2 $`, `(?m)^egressd .*\b62108 `, `(?m)^runnerd .*\b62109 `}},
	} {
		t.Run(c.name, func(t *testing.T) { underSystemd(t, c.uid, c.ctl, c.own) })
	}
}

// underSystemd lives a life under a manager.
func underSystemd(t *testing.T, uid int, ctl string, rights []string) {
	program, err := exec.LookPath("bxctl")
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("/var", "bxm-") // not /tmp, which the units get afresh
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range stack.Programs() {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(program), name))
		if err == nil {
			err = os.WriteFile(filepath.Join(bin, name), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(home, uid, uid), os.Chmod(home, 0o711)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("timeout", "120", "unshare", "-m", "bash", "testdata/systemd/outside.sh", fmt.Sprint(uid), home, bin).CombinedOutput()
	part := map[string]string{}
	for _, p := range strings.Split(string(out), "\n== ")[1:] {
		name, text, _ := strings.Cut(p, "\n")
		part[name] = text
	}
	type claim struct{ part, want string }
	var claims []claim
	for _, r := range rights {
		claims = append(claims, claim{"rights", r})
	}
	if uid != 0 { // the manager of this test is that of a user, also for root
		claims = append(claims, claim{"logs-up", `(?m)^[0-9-]+ [0-9:.]{12} INFO  systemd    Start.*loopd`})
	}
	for _, c := range append(claims, []claim{
		{"status", `(?m)^Boxmaker: ready$`},
		{"status", `run by +systemd; more with: ` + ctl + ` status`},
		{"status", `ok +landlock`},
		{"status", `ok +network +none: no device but the loopback`},
		{"status", `ok +capabilities +none`},
		{"ask", `practice model`},
		{"up", `(?s)systemd runs Boxmaker here.*see runbook: run-by-systemd.*code 1`},
		{"detach", `(?s)systemd runs Boxmaker here.*code 1`},
		{"down", `(?s)stop it with: ` + ctl + ` stop boxmaker.target.*code 1`},
		{"logs", `(?m)^[0-9-]+ [0-9:.]{12} INFO  loopd      self-test passed .*context=`},
		{"logs", `(?m)^[0-9-]+ [0-9:.]{12} INFO  practice   `},
		{"logs", `^[^{}]*code 0\n$`}, // nothing is shown as it stands in the journal
		{"logs-role", `(?m)^\{"role":"brokerd","time":"[^"]+","level":"[A-Z]+","msg":`},
		{"logs-role", `^(\{"role":"(brokerd|systemd)".*\n){3}code 0\n$`},
		{"logs-since", `^\(no such lines\)\ncode 0\n$`},
		{"logs-follow", `(?s)^code (0|130)\n.*INFO  loopd      self-test passed .*INFO  loopd      self-test passed `},
		{"logs-named", `(?s)keeps what the programs print: journalctl .*-u 'boxmaker-\*' -o cat -n 100\n.*code 0`},
		{"doctor", `ok +daemons .*systemd runs Boxmaker, and bxctl up does not; more with: ` + ctl},
		{"doctor", `confinement +/proc/[0-9]+/status of (?s:.*)status of brokerd: uid [0-9]+, no capabilities, no new privileges, no network`},
		{"doctor", `ok +versions +the running programs: version`},
		{"doctor", `(ok|skipped) +listeners`},
		{"status", `state +7 grants`},
		{"status", `runner: runtime +crun: a tool ran in a container of its own`},
		{"doctor", `Nothing is wrong`},
		{"kill", `another loopd`},
		{"refuse", `ExecMainStatus=78`},
		{"refuse", `NRestarts=[01]\n`},
		{"stop", `(?s)not running here.*code 3`},
	}...) {
		if !regexp.MustCompile(c.want).MatchString(part[c.part]) {
			t.Errorf("%s: no %q in\n%s", c.part, c.want, part[c.part])
		}
	}
	if t.Failed() || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
