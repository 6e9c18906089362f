package podman

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// sweeperOf makes the test binary a former runnerd's heir, which looks for strays
// of this state.
const sweeperOf = "BOXMAKER_TEST_STRAYS_OF"

func TestMain(m *testing.M) {
	if state := os.Getenv(sweeperOf); state != "" {
		found, err := (&Runtime{state: state}).killStrays()
		fmt.Print(found, " ", err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestStraysOfAnotherNamespace: an ordinary user's runnerd is in a user namespace of
// its own each time, and what the one before has left is in that one's.
func TestStraysOfAnotherNamespace(t *testing.T) {
	inNamespace := func(name string, args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--map-current-user", name}, args...)...)
	}
	if out, err := inNamespace("true").CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: no user namespace can be made here: %v %s", err, out)
	}
	r := &Runtime{state: t.TempDir()}
	left := inNamespace("/bin/sh", "-c", "echo; read end", "conmon", r.state+"/storage")
	in, err := left.StdinPipe()
	out, err2 := left.StdoutPipe()
	if err := errors.Join(err, err2, left.Start()); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil { // it is there
		t.Fatal(err)
	}
	heir := inNamespace(os.Args[0])
	heir.Env = append(os.Environ(), sweeperOf+"="+r.state)
	if said, err := heir.CombinedOutput(); err != nil || strings.TrimSpace(string(said)) != "1 <nil>" {
		t.Errorf("%s, %v", said, err)
	}
	in.Close()
	if err := left.Wait(); err == nil || left.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what was left: %v", left.ProcessState)
	}
}

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
