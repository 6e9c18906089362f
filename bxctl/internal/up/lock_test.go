package up

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/report"
	"boxmaker/internal/config"
)

func helper(t *testing.T, name string, env ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append([]string{helperEnv + "=" + name}, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

// The kernel ends the roles of an up that is killed.
func TestChildrenDieWithUp(t *testing.T) {
	cmd, out := helper(t, "parent")
	line, err := out.ReadString('\n')
	pid, perr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || perr != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitPID(t, pid)
}

func TestLock(t *testing.T) {
	l := config.Layout{Run: t.TempDir()}
	if pid, err := Holder(l); pid != 0 || err != nil {
		t.Errorf("before: %d, %v", pid, err)
	}
	cmd, out := helper(t, "lock", "UP_TEST_RUN="+l.Run)
	if line, err := out.ReadString('\n'); line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if pid, err := Holder(l); pid != cmd.Process.Pid || err != nil {
		t.Errorf("held: %d, %v", pid, err)
	}
	if _, err := take(l); !errors.Is(err, errLocked) {
		t.Errorf("take: %v", err)
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	// The number in the file is stale now; nobody falls for it.
	if pid, err := Holder(l); pid != 0 || err != nil {
		t.Errorf("after: %d, %v", pid, err)
	}
	held, err := take(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := held.release(); err != nil {
		t.Error(err)
	}
}

// What an up left behind is killed by the next one, but never a process that
// only has its number.
func TestReap(t *testing.T) {
	l := config.Layout{Run: t.TempDir()}
	left, out1 := helper(t, "serve")
	other, out2 := helper(t, "serve")
	for _, out := range []*bufio.Reader{out1, out2} {
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	b := newBoard(l, report.Up{Roles: []report.Role{
		{Name: "left", PID: left.Process.Pid, Start: startOf(left.Process.Pid)},
		{Name: "other", PID: other.Process.Pid, Start: startOf(other.Process.Pid) + 1},
		{Name: "never"},
	}})
	b.change(func(*report.Up) {})
	if got := reap(l); !slices.Equal(got, []string{"left"}) {
		t.Errorf("killed %q", got)
	}
	if err := left.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("left: %v", err)
	}
	if startOf(other.Process.Pid) == 0 {
		t.Error("a stranger was killed")
	}
}
