package appendlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func tempRoot(t testing.TB) (*os.Root, string) {
	t.Helper()
	return rootAt(t, t.TempDir())
}

func rootAt(t testing.TB, dir string) (*os.Root, string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// sealed gives the bytes of a log with these lines.
func sealed(lines ...string) []byte {
	var b []byte
	for _, l := range lines {
		b = appendSealed(b, []byte(l))
	}
	return b
}

// keep is a visitor that collects lines; it checks the numbers.
func keep(t testing.TB, into *[]string) func(int64, []byte) error {
	return func(n int64, line []byte) error {
		if n != int64(len(*into)) {
			t.Errorf("line %d visited as %d", len(*into), n)
		}
		*into = append(*into, string(line))
		return nil
	}
}

// mustOpen opens a log and gives its lines.
func mustOpen(t testing.TB, root *os.Root, name string) (*Log, Recovery, []string) {
	t.Helper()
	var lines []string
	l, rec, err := Open(Config{Root: root, Name: name, Visit: keep(t, &lines)})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Records != int64(len(lines)) || l.Len() != rec.Records {
		t.Fatalf("%d lines visited, %+v, Len %d", len(lines), rec, l.Len())
	}
	return l, rec, lines
}

// inNamespace is set for the copy of the test binary that withTmpfs starts.
const inNamespace = "BOXMAKER_TEST_IN_NAMESPACE"

// withTmpfs runs the rest of a test on a tmpfs of its own and calls f with its
// folder and a function that makes it read-only. Where this process may not
// mount, the test runs again in a user and mount namespace of its own.
func withTmpfs(t *testing.T, options string, f func(t *testing.T, dir string, readOnly func())) {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options)
	if err == nil {
		defer func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}()
		f(t, dir, func() {
			if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, options); err != nil {
				t.Fatal(err)
			}
		})
		return
	}
	if os.Getenv(inNamespace) != "" {
		t.Fatalf("no tmpfs, not even in a namespace: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, runErr := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case runErr != nil && !errors.As(runErr, &exit):
		t.Skipf("NOT TESTED: %s needs a small tmpfs; this user may not mount (%v), and no user namespace can be made (%v)", t.Name(), err, runErr)
	case bytes.Contains(out, []byte("no tmpfs, not even in a namespace")):
		t.Skipf("NOT TESTED: %s needs a small tmpfs; this user may not mount (%v), nor may it in a user namespace", t.Name(), err)
	case runErr != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Fatalf("in a namespace: %v\n%s", runErr, out)
	}
}

func numbered(from, to int) []string {
	var lines []string
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf(`{"i":%d,"text":"line %d"}`, i, i))
	}
	return lines
}

func asBytes(lines []string) [][]byte {
	var b [][]byte
	for _, l := range lines {
		b = append(b, []byte(l))
	}
	return b
}
