package redteam

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// attackerBuilt is the program of testdata/attacker, built once.
var attackerBuilt struct { //nolint:gochecknoglobals // as stack's own probe: a fact of the machine
	once sync.Once
	text []byte
	err  error
}

// attackerProgram gives the program.
func attackerProgram(t *testing.T) []byte {
	t.Helper()
	a := &attackerBuilt
	a.once.Do(func() {
		dir, err := os.MkdirTemp("", "bm-attacker-")
		if err != nil {
			a.err = err
			return
		}
		defer os.RemoveAll(dir)
		cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/attacker", "./testdata/attacker")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			a.err = fmt.Errorf("%w\n%s", err, out)
			return
		}
		a.text, a.err = os.ReadFile(dir + "/attacker")
	})
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.text
}

// armed lets run and shell do what they want in the granted folder, in which the
// attacker's program lies: as much as an owner can give a model.
func armed(r *rig) {
	r.t.Helper()
	r.arm()
	r.grant("40-shell", shellGrant(r.granted))
	r.grant("41-run", runGrant(r.granted))
}

func runGrant(dir string) string {
	return strings.Replace(shellGrant(dir), `"shell"`, `"run"`, 1)
}

func (r *rig) arm() {
	r.t.Helper()
	if err := os.WriteFile(r.attacker(), attackerProgram(r.t), 0o755); err != nil { //nolint:gosec // it shall be executed
		r.t.Fatal(err)
	}
	r.own(r.attacker(), 0o755)
}

func (r *rig) attacker() string { return filepath.Join(r.granted, "attacker") }

// attack is an attempt with the attacker's program.
func (r *rig) attack(name string, check func(r *rig, res *proto.CallResult), args ...string) attempt {
	return attempt{name: name, tool: "run", args: obj{"argv": append([]string{r.attacker()}, args...)}, want: []proto.Code{""}, check: func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		shows("attacker ran")(r, res)
		if check != nil {
			check(r, res)
		}
	}}
}

// sh is an attempt with a shell. It must have run to its end.
func sh(name, command string, check func(r *rig, res *proto.CallResult)) attempt {
	return attempt{name: name, tool: "shell", args: obj{"command": command + "\necho shell-ended"}, want: []proto.Code{""}, check: func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		shows("shell-ended")(r, res)
		if check != nil {
			check(r, res)
		}
	}}
}

// said gives what the attacker's program printed of one thing.
func said(res *proto.CallResult, name string) (word string, ok bool) {
	for line := range strings.Lines(res.Text) {
		if rest, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSuffix(rest, "\n"), true
		}
	}
	return "", false
}

// says checks that each thing had one of these ends.
func says(words []string, names ...string) func(r *rig, res *proto.CallResult) {
	return func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		for _, name := range names {
			word, ok := said(res, name)
			if !ok {
				r.t.Errorf("nothing was said of %s: %.500s", name, res.Text)
				continue
			}
			good := false
			for _, w := range words {
				good = good || w == word
			}
			if !good {
				r.t.Errorf("%s: %s, want one of %q", name, word, words)
			}
		}
	}
}

// lacks checks that a text is not in a result.
func lacks(texts ...string) func(r *rig, res *proto.CallResult) {
	return func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		for _, text := range texts {
			if strings.Contains(res.Text, text) {
				r.t.Errorf("the result has %q: %.500s", text, res.Text)
			}
		}
	}
}

// all joins checks.
func all(checks ...func(r *rig, res *proto.CallResult)) func(r *rig, res *proto.CallResult) {
	return func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		for _, c := range checks {
			c(r, res)
		}
	}
}

// outside runs the attacker's program where nothing holds it, as the user that
// the tools run as.
func (r *rig) outsideBox(args ...string) string {
	r.t.Helper()
	cmd := exec.Command(r.attacker(), args...)
	cmd.Dir, cmd.Env = "/", []string{}
	if os.Geteuid() == 0 {
		id := uint32(r.uid("runnerd")) //nolint:gosec // small
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// alive counts the processes of this machine with a word in their command line.
func alive(word string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), word) && f != fmt.Sprintf("/proc/%d/cmdline", os.Getpid()) {
			n++
		}
	}
	return n
}

// deadline bounds what the test itself waits for.
func deadline() time.Time { return time.Now().Add(stack.Patience) }
