package podman

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestStrays: a process that was started with this state is ended, and one of
// another state, whose name begins the same, is not.
func TestStrays(t *testing.T) {
	base := t.TempDir()
	r := &Runtime{state: base + "/podman"}
	for _, d := range []string{r.state, r.state + "-other"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	start := func(state string) *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", "echo; read end", "conmon", state+"/storage")
		in, err := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close() })
		if _, err := out.Read(make([]byte, 1)); err != nil { // it is there
			t.Fatal(err)
		}
		return cmd
	}
	ours, other := start(r.state), start(r.state+"-other")
	found, err := r.killStrays()
	if err != nil || found != 1 {
		t.Errorf("%d, %v", found, err)
	}
	if err := ours.Wait(); err == nil || ours.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ours: %v", ours.ProcessState)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other: %v", err)
	}
	if err := r.strays(t.Context()); err != nil {
		t.Error(err)
	}
}
