package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

const childVar = "RUNNERD_TEST_CHILD"

// TestMain lets the test binary be the processes of TestLandlockForbidsMounts.
func TestMain(m *testing.M) {
	switch os.Getenv(childVar) {
	case "":
		os.Exit(m.Run())
	case "locked":
		if err := landlock.V1.BestEffort().RestrictPaths(landlock.RWDirs("/")); err != nil {
			fmt.Println("landlock:", err)
		}
		mountInside()
	case "free":
		mountInside()
	case "bare":
		if err := bare(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	case "mount":
		fmt.Println("mount:", unix.Mount("none", "/tmp", "tmpfs", 0, ""))
	}
}

// mountInside mounts as a container runtime does: in new user and mount
// namespaces, in which everything is permitted.
func mountInside() {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{childVar + "=mount"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	fmt.Print(string(out))
	if err != nil {
		fmt.Println("start:", err)
	}
}

// Why runnerd is a program of its own: under Landlock no child can mount, even
// where everything may be read and written.
func TestLandlockForbidsMounts(t *testing.T) {
	got := map[string]string{}
	for _, how := range []string{"free", "locked"} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{childVar + "=" + how}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		got[how] = strings.TrimSpace(string(out))
	}
	if got["free"] != "mount: <nil>" {
		t.Skipf("nothing can be mounted here in any case: %s", got["free"])
	}
	if !strings.Contains(got["locked"], "mount: operation not permitted") {
		t.Errorf("under Landlock: %s", got["locked"])
	}
}
