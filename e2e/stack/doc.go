// Package stack starts Boxmaker's real programs for tests and benchmarks: a
// folder of its own as home, `bxctl up` as a child, and loop.sock at hand. It
// can kill any of the programs, and leaves none behind when the test ends.
//
// It looks at the programs from outside only: their sockets, their files and
// the process table. It is for tests; no program links it.
package stack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Programs are the programs that [Main] builds.
func Programs() []string {
	return []string{"bxctl", "loopd", "inferproxy", "practice", "brokerd", "runnerd", "egressd", "gatewayd", "toolkit", "toolfetch"}
}

// Main is for TestMain: it builds the programs as `make build` does, puts them
// first on PATH, runs the tests and takes the programs away again. With
// BOXMAKER_BIN set, the programs in that folder are used instead.
func Main(m *testing.M) int {
	dir := os.Getenv("BOXMAKER_BIN")
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "boxmaker-bin-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		// The daemons of `bxctl up` as root run under other uids.
		if err := os.Chmod(dir, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(dir string) error {
	args := []string{"build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w -X boxmaker/internal/daemon.Version=e2e", "-o", dir + "/"}
	for _, p := range Programs() {
		args = append(args, "boxmaker/"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return nil
}
