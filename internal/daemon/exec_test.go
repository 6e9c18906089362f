package daemon

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func childExec() {
	w := theWorld()
	defer manyThreads()()
	os.Setenv(childVar, "probe")
	err := ExecConfined(w.Binary, []string{"the-name", "an argument"}, os.Environ(), w.Confinement)
	show("exec", err)
}

// childProbe is what childExec becomes.
func childProbe() {
	w := theWorld()
	show("argv", strings.Join(os.Args, "|"))
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		show("status "+k, strings.Join(strings.Fields(v), " "))
	}
	show("listener", outcome(func() error {
		handed, err := handedFDs(os.Getenv, os.Getpid())
		if err != nil || len(handed) != 1 {
			return fmt.Errorf("%v %w", handed, err)
		}
		l, err := handed[0].listener()
		if err != nil {
			return err
		}
		return l.Close()
	}()))
	showDumping()
	attempts(w, nil)
}

// program copies this test binary to where w.Binary shall be.
func (w *world) program(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	w.Binary = filepath.Join(w.Dir, name)
	if err := os.MkdirAll(filepath.Dir(w.Binary), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.Binary, b, 0o755); err != nil {
		t.Fatal(err)
	}
	w.Execute = w.Execute[1:] // not this binary, only the copy
	w.ReadOnly = append(w.ReadOnly, "/proc")
}

func withListener(t *testing.T) func(*exec.Cmd) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(shortDir(t), "l.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func(c *exec.Cmd) {
		c.ExtraFiles = []*os.File{f}
		c.Env = append(c.Env, "LISTEN_FDS=1")
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("", "bx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

func TestExecConfined(t *testing.T) {
	abi := kernelABI(t)
	w := newWorld(t)
	w.program(t, "bin/the-program")
	got, log := w.run(t, "exec", withListener(t))
	expect(t, got, doors(abi))
	expect(t, got, map[string]string{"argv": "the-name|an argument", "status NoNewPrivs": "1", "status Name": "the-program", "listener": "ok", "core limit": "0 0 <nil>"})
	if !strings.Contains(log, `"msg":"confined","daemon":"the-program","check":"landlock"`) {
		t.Errorf("log: %s", log)
	}
}

// The new user cannot walk to the program: the folder above is root's. In the
// second row not even the program's own folder is open to it.
func TestExecConfinedDropsTheUser(t *testing.T) {
	needRoot(t)
	abi := kernelABI(t)
	for place, comm := range map[string]string{"bin/the-program": "the-program", "the-program": ""} {
		t.Run(place, func(t *testing.T) {
			w := newWorld(t)
			w.give(t, 61234)
			w.program(t, place)
			got, _ := w.run(t, "exec", withListener(t))
			want := doors(abi)
			want["read inside"] = "EACCES"
			expect(t, got, want)
			expect(t, got, map[string]string{
				"argv": "the-name|an argument", "status NoNewPrivs": "1", "status Uid": "61234 61234 61234 61234", "status Gid": "61234 61234 61234 61234",
				"status Groups": "", "status CapEff": "0000000000000000", "status CapBnd": "0000000000000000", "listener": "ok",
			})
			if comm != "" {
				expect(t, got, map[string]string{"status Name": comm})
			}
		})
	}
}

func TestExecConfinedErrors(t *testing.T) {
	w := newWorld(t)
	w.Binary = w.Dir + "/no-program"
	got, _ := w.run(t, "exec", nil)
	if want := "cannot start " + w.Binary + ": open " + w.Binary + ": no such file or directory (see runbook: start-confined)"; got["exec"] != want {
		t.Errorf("got  %s\nwant %s", got["exec"], want)
	}
	w.Binary = w.Inside
	got, _ = w.run(t, "exec", nil)
	if want := "cannot start " + w.Binary + ": permission denied (see runbook: start-confined)"; got["exec"] != want {
		t.Errorf("got  %s\nwant %s", got["exec"], want)
	}
}
