package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// crun that cannot be used: nothing runs, the model is told so in a word, the
// owner with the mend, and when it is there again the next call works.
func TestFault_Runtime_CannotBeUsed(t *testing.T) {
	for _, tt := range []struct{ name, program, says string }{
		{"missing", "", "is not here"},
		{"too old", "#!/bin/sh\necho 'crun: unrecognized option --log-format' >&2\nexit 64\n", "unrecognized option"},
		{"not a program", "\x7fELF and no more", "crun"},
		{"ends at once", "#!/bin/sh\nkill -9 $$\n", "crun"},
		{"says all is well", "#!/bin/sh\nexit 0\n", "crun"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var file string
			w := newWorker(t, func(s *stack.Stack) {
				at := filepath.Join(filepath.Dir(s.Layout.Run), "runtime")
				if tt.program != "" {
					if err := errors.Join(os.WriteFile(at, []byte(tt.program), 0o755), os.Chmod(at, 0o755)); err != nil {
						t.Fatal(err)
					}
				}
				s.Set("runnerd.toml", "", "path", at)
				file = s.Workspace("notes.md", "the answer is 42\n")
			})
			read := call("read_file", map[string]any{"path": file})
			w.do(read, proto.CallFailed, proto.CodeNoRuntime, "no-runtime: ")
			w.told(tt.says)
			if o := last[*proto.AuditOutcome](w); o.Code != proto.CodeNoRuntime || o.Bytes > 200 {
				t.Errorf("on record: %+v", o)
			}

			w.Down()
			w.Set("runnerd.toml", "", "path", must(t, exec.LookPath, "crun"))
			w.Up()
			w.do(read, proto.CallOK, "", "42")
			w.verifies()
		})
	}
}

// told: status and doctor name the runtime that does not work, and where its
// mend stands.
func (w *worker) told(says string) {
	w.t.Helper()
	status := w.Bxctl("", "status")
	doctor := w.Bxctl("", "doctor")
	if doctor.Code == exitOK {
		w.t.Error("doctor finds nothing")
	}
	for name, text := range map[string]string{"status": status.Stdout + status.Stderr, "doctor": doctor.Stdout + doctor.Stderr} {
		flat := strings.Join(strings.Fields(text), " ")
		if !strings.Contains(flat, "no tool can run") || !strings.Contains(flat, says) || !strings.Contains(flat, "runner-no-runtime") {
			w.t.Errorf("%s does not tell %q and its mend:\n%s", name, says, text)
		}
	}
}

func must(t *testing.T, f func(string) (string, error), arg string) string {
	t.Helper()
	s, err := f(arg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The kernel refuses user namespaces: as an ordinary user, in a namespace that
// may have none below it.
func TestFault_Runtime_NoUserNamespaces(t *testing.T) {
	const limit = "/proc/sys/user/max_user_namespaces"
	if os.Getenv(inNamespace) == "" {
		again(t, limit)
		return
	}
	if err := os.WriteFile(limit, []byte("0"), 0); err != nil {
		t.Fatal("no limit: ", err)
	}
	s, llama := scripted(t)
	w := &worker{Stack: s, t: t}
	w.script(llama)
	file := s.Workspace("notes.md", "the answer is 42\n")
	s.Up()
	w.do(call("read_file", map[string]any{"path": file}), proto.CallFailed, proto.CodeNoRuntime, "no-runtime: ")
	w.told("user namespace")
	w.verifies()
}

// again runs the test as an ordinary user in a user namespace of its own, with
// the right to set its limits.
func again(t *testing.T, limit string) {
	t.Helper()
	stack.Containers(t)
	dir, program := asAnother(t)
	uid := os.Geteuid()
	if uid == 0 {
		uid = asUser
	}
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"TMPDIR=" + dir, "HOME=" + dir, "PATH=/usr/bin:/bin", "BOXMAKER_BIN=" + filepath.Dir(must(t, exec.LookPath, "bxctl")), inNamespace + "=1"}
	const sysResource = 24
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		Credential:  &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: true},
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		AmbientCaps: []uintptr{sysResource},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit), strings.Contains(string(out), "no limit: "):
		t.Skipf("NOT TESTED: this machine lets nobody set %s: %v %s", limit, err, out)
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("%v\n%s", err, out)
	}
}
