package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// A runtime that says that it is too old: the owner is told before anything goes
// wrong with it.
func TestFault_Authority_CrunSaysItIsTooOld(t *testing.T) {
	w := traced(t, func(s *stack.Stack) {
		real, err := exec.LookPath("crun")
		if err != nil {
			t.Skip("NOT TESTED: no crun is on PATH")
		}
		old := filepath.Join(s.Home, "crun")
		script(t, old, fmt.Sprintf("[ \"$1\" = --version ] && { echo 'crun version 0.17'; exit; }\nexec %s \"$@\"\n", real))
		s.Set("runnerd.toml", "", "path", old)
	})
	w.WaitTools()
	w.complains("doctor", "it is version 0.17, and 1.8 or newer is needed", "install a newer crun", "(see runbook: crun-too-old)")
	w.works() // nothing is refused that can be done
	w.Set("runnerd.toml", "", "path", "")
	w.Down()
	w.Up()
	if r := w.Bxctl("", "doctor"); strings.Contains(r.Stdout, "crun-too-old") {
		t.Errorf("it is told of for ever:\n%s", r.Stdout)
	}
	w.works()
	w.whole()
}

// The root file system of a grant goes away between two calls.
func TestFault_Authority_RootGone(t *testing.T) {
	root := ""
	w := traced(t, func(s *stack.Stack) {
		root = filepath.Join(s.Home, "root")
		for _, dir := range []string{"usr", "bin", "lib", "lib64"} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		// The machine's shell and what it needs.
		if out, err := exec.Command("sh", "-c", "for f in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do mkdir -p "+root+"$(dirname $f); cp -L $f "+root+"$f; done").CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: no root file system can be made of this machine's shell: %v: %s", err, out)
		}
		s.Grant("10-shell.toml", "tool = \"shell\"\nmode = \"auto\"\n[paths]\nwrite = [\"@WORKSPACE@\"]\n[userland]\nkind = \"root\"\nroot = \"@HOME@/root\"\n")
	})
	w.works()
	if err := os.Rename(root, root+".away"); err != nil {
		t.Fatal(err)
	}
	w.refused(proto.CallFailed, proto.CodeNotConfigured, "the root file system that the grant names is not there, so nothing ran")
	if o := last[*proto.AuditOutcome](w); o.Code != proto.CodeNotConfigured {
		t.Errorf("on record: %+v", o)
	}
	w.complains("doctor", root+": it is granted by 10-shell.toml, and is not there", "make it", "(see runbook: doctor-granted)")
	if r := w.Bxctl("", "grants", "check"); !strings.Contains(r.Stdout+r.Stderr, root+" is not there") {
		t.Errorf("grants check:\n%s", r.Stdout)
	}
	w.do(call("read_file", map[string]any{"path": filepath.Join(w.Layout.Workspace, "notes.md")}), proto.CallOK, "", "42")
	if err := os.Rename(root+".away", root); err != nil {
		t.Fatal(err)
	}
	w.works()
	w.whole()
}
