package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"boxmaker/e2e/stack"

	"github.com/rogpeppe/go-internal/testscript"
)

var seeRunbook = regexp.MustCompile(`see runbook: ([a-z0-9-]+)`)

// TestScripts runs testdata/script/*.txtar. Each script has a home of its own
// ($BOXMAKER_HOME, empty at first) and nothing of it runs on when it ends.
// Beside the usual commands there are
//
//	sigkill PROGRAM       SIGKILL to a program of this home, which has to run
//	runs PROGRAM          (or ! runs) it runs for this home, or not
//	runbook stderr|FILE   its text names a section that docs/runbook.md has
//	bytes FILE N          makes a file of N letters
//
// and those of [scriptChat].
// $REPO is the project's root.
func TestScripts(t *testing.T) {
	book, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	cmds := map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"sigkill": killProgram,
		"runs":    runs,
		"runbook": func(ts *testscript.TestScript, neg bool, args []string) { runbook(ts, neg, args, string(book)) },
		"bytes":   bytesFile,
	}
	maps.Copy(cmds, (&scriptChat{t: t}).commands())
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("BOXMAKER_HOME", home)
			repo, err := filepath.Abs("..")
			if err != nil {
				return err
			}
			env.Setenv("REPO", repo)
			if os.Geteuid() == 0 { // tools have a uid of their own, and pass through
				for _, dir := range []string{env.WorkDir, filepath.Dir(env.WorkDir)} {
					if err := os.Chmod(dir, 0o711); err != nil {
						return err
					}
				}
			}
			env.Defer(func() { stack.Sweep(home) })
			return nil
		},
		Cmds: cmds,
	})
}

func find(ts *testscript.TestScript, program string) int {
	for _, p := range stack.Processes(ts.Getenv("BOXMAKER_HOME")) {
		if p.Program == program {
			return p.PID
		}
	}
	return 0
}

func killProgram(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sigkill PROGRAM")
	}
	pid := find(ts, args[0])
	if pid == 0 {
		ts.Fatalf("%s does not run", args[0])
	}
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
}

func runs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] runs PROGRAM")
	}
	if pid := find(ts, args[0]); (pid != 0) == neg {
		ts.Fatalf("%s: process %d (0: none)", args[0], pid)
	}
}

func runbook(ts *testscript.TestScript, neg bool, args []string, book string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: runbook stderr|FILE")
	}
	text := ts.ReadFile(args[0])
	m := seeRunbook.FindStringSubmatch(text)
	if m == nil {
		ts.Fatalf("no \"(see runbook: key)\" in:\n%s", text)
	}
	if !strings.Contains(book, "\n## "+m[1]+"\n") {
		ts.Fatalf("docs/runbook.md has no section %q", m[1])
	}
}

func bytesFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bytes FILE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat("x", n)), 0o600))
}
