package confined

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary is `bxctl confined` when it is called bxctl, and the program
// that this becomes when it is called inside.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "bxctl":
		os.Exit(Main(os.Args[1:], os.Environ(), os.Stderr))
	case "inside":
		inside()
	default:
		os.Exit(m.Run())
	}
}

// inside tells what the program can do.
func inside() {
	r, e, saved := unix.Getresuid()
	gr, ge, gs := unix.Getresgid()
	nnp, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	var caps [2]unix.CapUserData
	_ = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0])
	fmt.Println("ids", r, e, saved, gr, ge, gs)
	fmt.Println("no new privileges", nnp, "capabilities", caps[0].Effective|caps[1].Effective|caps[0].Permitted|caps[1].Permitted)
	_, err := os.ReadFile("/etc/passwd")
	fmt.Println("reads /etc/passwd:", err == nil)
	fmt.Printf("umask %#o\n", syscall.Umask(0))
	fmt.Println("args", os.Args[1:], os.Getenv("KEPT"))
}

// setup makes bxctl and the program, where another user can run them.
func setup(t *testing.T) (bxctl, program string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "cf-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bxctl", "inside"} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "bxctl"), filepath.Join(dir, "inside")
}

func start(t *testing.T, bxctl string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(bxctl, args...)
	cmd.Env = []string{"KEPT=yes"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestConfined(t *testing.T) {
	bxctl, program := setup(t)
	root := os.Geteuid() == 0
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{
			"shut in",
			[]string{"-name", "practice", "-uid", "62103", "--", program, "-a", "b"},
			[]string{"no new privileges 1 capabilities 0\n", "reads /etc/passwd: false", "args [-a b] yes"},
		},
		{"what is named can be read", []string{"-read", "/etc", "-uid", "62103", "--", program}, []string{"no new privileges 1 capabilities 0\n", "reads /etc/passwd: true"}},
		{"open", []string{"-open", "-uid", "62104", "--", program}, []string{"no new privileges 1 capabilities 0\n", "reads /etc/passwd: true", "umask 07\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs, code := start(t, bxctl, c.args...)
			if code != 0 {
				t.Fatalf("exit %d, %s", code, errs)
			}
			if strings.Contains(errs, `"landlock","state":"failed"`) {
				t.Skipf("no Landlock here: %s", errs)
			}
			if root {
				id := c.args[len(c.args)-3]
				if c.name == "shut in" {
					id = "62103"
				}
				c.want = append(c.want, strings.Replace("ids I I I I I I\n", "I", id, -1))
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	bxctl, program := setup(t)
	for _, c := range []struct {
		name string
		args []string
		code int
		err  string
	}{
		{"no program", []string{"-name", "x"}, 2, "x: a program is needed"},
		{"unknown flag", []string{"-nonsense"}, 2, "nonsense"},
		{"bad port", []string{"-tcp", "70000", "--", program}, 2, "70000"},
		{"uid out of range", []string{"-uid", "4294967296", "--", program}, 2, "uid"},
		{"no such program", []string{"-name", "x", "--", program + "2"}, 1, "x: cannot start"},
		{"no such program, open", []string{"-name", "x", "-open", "--", program + "2"}, 1, "x: exec"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, errs, code := start(t, bxctl, c.args...); code != c.code || !strings.Contains(errs, c.err) {
				t.Errorf("exit %d, %q", code, errs)
			}
		})
	}
}
