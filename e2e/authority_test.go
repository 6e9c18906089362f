package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// TestStory is what an owner sees in the first minutes, with the real programs: an
// `auto` read, an `ask` write with its diff, answered both ways, a path that
// nobody granted, a grant that is taken away, halt and resume, and the audit log
// before and after somebody touched it.
func TestStory(t *testing.T) {
	outside := ""
	w := newWorker(t, func(s *stack.Stack) {
		s.Workspace("notes.md", "the answer is 42\n")
		outside = filepath.Join(s.Home, "outside.txt")
		if err := os.WriteFile(outside, []byte("canary"), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	notes, hello := filepath.Join(w.Layout.Workspace, "notes.md"), filepath.Join(w.Layout.Workspace, "hello.txt")
	read := call("read_file", map[string]any{"path": notes})
	write := call("write_file", map[string]any{"path": hello, "content": "good morning\n", "mode": "create"})

	w.do(read, proto.CallOK, "", "the answer is 42")
	if d := last[*proto.AuditDecision](w); d.Verdict != proto.VerdictAllow || d.Grant != "50-workspace-read.toml" || d.Tool != "read_file" {
		t.Errorf("the decision: %+v", d)
	}
	if o := last[*proto.AuditOutcome](w); o.Outcome != proto.CallOK || o.Class != proto.ClassPrivate || !o.Untrusted {
		t.Errorf("the outcome: %+v", o)
	}

	// Denied by the owner: nothing is written.
	turn := w.begin(write)
	a := w.WaitApproval()
	if a.Tool != "write_file" || !strings.Contains(a.Diff, "+good morning") || a.Grant != "50-workspace-write.toml" || len(a.Write) == 0 {
		t.Errorf("the approval: %+v", a)
	}
	if list := w.Must("", "approvals"); !strings.Contains(list, "+good morning") || !strings.Contains(list, hello) || !strings.Contains(list, a.Code) {
		t.Errorf("bxctl approvals:\n%s", list)
	}
	w.Must("", "deny", a.Code)
	r, text := turn.ended()
	w.want(r, text, proto.CallDenied, proto.CodeDeniedByOwner, "")
	if _, err := os.Stat(hello); err == nil {
		t.Error("a denied write was done")
	}
	if end := last[*proto.AuditApproval](w); end.Verdict != proto.VerdictDenied || end.Channel != "cli" || end.Approval != a.Approval {
		t.Errorf("the end of the approval: %+v", end)
	}

	// Approved: it is written, and the answer can't be used again.
	turn = w.begin(write)
	a = w.WaitApproval()
	w.Must("", "approve", "--yes", a.Code)
	r, text = turn.ended()
	w.want(r, text, proto.CallOK, "", "")
	if b, err := os.ReadFile(hello); err != nil || string(b) != "good morning\n" {
		t.Errorf("%q, %v", b, err)
	}
	if again := w.Bxctl("", "approve", "--yes", a.Code); again.Code == 0 {
		t.Error("an approval was used twice")
	}

	// What nobody granted.
	w.do(call("read_file", map[string]any{"path": outside}), proto.CallDenied, proto.CodeNoGrant, "")
	w.do(call("http_fetch", map[string]any{"url": "https://example.com/"}), proto.CallDenied, proto.CodeNoGrant, "")
	if d := last[*proto.AuditDecision](w); d.Verdict != proto.VerdictDeny || d.Code != proto.CodeNoGrant || d.Tool != "http_fetch" {
		t.Errorf("the decision: %+v", d)
	}

	// Halt, resume, and a grant that goes while all runs.
	w.Must("", "halt", "odd", "things")
	w.do(read, proto.CallDenied, proto.CodeHalted, "")
	if out := w.Must("", "status"); !strings.Contains(out, "halted (odd things)") {
		t.Errorf("status:\n%s", out)
	}
	w.Must("", "resume")
	w.do(read, proto.CallOK, "", "42")
	w.Revoke("50-workspace-read.toml")
	w.do(read, proto.CallDenied, proto.CodeNoGrant, "")

	w.verifies()
}

// verifies tries the audit log, as it is and after somebody touched it.
func (w *worker) verifies() {
	w.t.Helper()
	w.Must("", "audit", "verify")
	w.Down() // keeps the head of the log
	w.Must("", "audit", "verify")
	for name, damage := range map[string]func() func(){
		"one byte changed": w.ChangeByte, "the last lines cut": func() func() { return w.CutAudit(2) }, "the last five lines cut": func() func() { return w.CutAudit(5) },
	} {
		undo := damage()
		if r := w.Bxctl("", "audit", "verify"); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, ".jsonl") && !strings.Contains(r.Stdout+r.Stderr, "cut") {
			w.t.Errorf("%s: exit %d\n%s%s", name, r.Code, r.Stdout, r.Stderr)
		}
		if r := w.Bxctl("", "doctor"); !strings.Contains(r.Stdout, "the audit log does not verify") {
			w.t.Errorf("%s: doctor says nothing of it", name)
		}
		undo()
	}
	w.Must("", "audit", "verify")
}

// brokerd dies while an approval waits: it waits on, and the turn goes on.
func TestAuthority_BrokerdDiesDuringAnApproval(t *testing.T) {
	w := newWorker(t, nil)
	file := filepath.Join(w.Layout.Workspace, "a.txt")
	turn := w.begin(call("write_file", map[string]any{"path": file, "content": "x", "mode": "create"}))
	before := w.WaitApproval()
	if !w.Kill("brokerd") {
		t.Fatal("brokerd does not run")
	}
	after := w.WaitApproval()
	if after.Approval != before.Approval || after.Digest != before.Digest {
		t.Errorf("another approval after the restart: %+v, %+v", before, after)
	}
	w.Answer(after, proto.VerdictApproved)
	r, text := turn.ended()
	w.want(r, text, proto.CallOK, "", "")
	if b, err := os.ReadFile(file); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	w.verifies()
}

const mayRun = `tool = "run"
mode = "auto"
[paths]
write = ["@WORKSPACE@"]
[userland]
kind = "usr"
`

// runnerd dies during a call: so does what ran, the model is told, and the next
// call works.
func TestAuthority_RunnerdDiesDuringACall(t *testing.T) {
	w := newWorker(t, func(s *stack.Stack) { s.Grant("10-run.toml", mayRun) })
	const seconds = "3131.7"
	turn := w.begin(call("run", map[string]any{"argv": []string{"sleep", seconds}, "dir": w.Layout.Workspace}))
	w.WaitUntil("the tool runs", func() bool { return len(running("sleep", seconds)) > 0 })
	if !w.Kill("runnerd") {
		t.Fatal("runnerd does not run")
	}
	r, text := turn.ended()
	if r.Outcome == proto.CallOK {
		t.Errorf("%s: %s", r.Outcome, text)
	}
	w.WaitUntil("the tool is gone", func() bool { return len(running("sleep", seconds)) == 0 })
	w.WaitUntil("the next call works", func() bool {
		r, _ := w.begin(call("run", map[string]any{"argv": []string{"echo", "hi"}, "dir": w.Layout.Workspace})).ended()
		return r.Outcome == proto.CallOK
	})
	w.verifies()
}

// running gives the processes that were started with these very words.
func running(argv ...string) []int {
	var out []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline")
		words := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
		if err != nil || len(words) != len(argv) || filepath.Base(words[0]) != argv[0] || words[1] != argv[1] {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// egressd is not there: a call that needs it is refused, and no other.
func TestAuthority_EgressdIsDown(t *testing.T) {
	w := newWorker(t, func(s *stack.Stack) {
		s.Workspace("notes.md", "the answer is 42\n")
		s.Grant("10-fetch.toml", "tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [\"127.0.0.1:9\"]\nlocal = [\"127.0.0.1:9\"]\n")
	})
	up := w.PID("bxctl")
	if err := syscall.Kill(up, syscall.SIGSTOP); err != nil { // or it would start egressd again
		t.Fatal(err)
	}
	if !w.Kill("egressd") {
		t.Fatal("egressd does not run")
	}
	w.do(call("http_fetch", map[string]any{"url": "http://127.0.0.1:9/"}), proto.CallFailed, proto.CodeNoEgress, "")
	w.do(call("read_file", map[string]any{"path": filepath.Join(w.Layout.Workspace, "notes.md")}), proto.CallOK, "", "42")
	if err := syscall.Kill(up, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.verifies()
}

// The same as a user who is not root.
func TestStoryAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the other tests run as an ordinary user already")
	}
	stack.Containers(t)
	dir, self := asAnother(t)
	cmd := exec.Command(self, "-test.run=^(TestStory|TestAuthority_.*)$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"TMPDIR=" + dir, "HOME=" + dir, "PATH=/usr/bin:/bin", "BOXMAKER_BIN=" + filepath.Dir(must(t, exec.LookPath, "bxctl")), "BOXMAKER_CONTAINERS=require"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: asUser, Gid: asUser}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") < 4 {
		t.Errorf("%v\n%s", err, out)
	}
}

// asAnother copies this program into a folder of the ordinary user.
func asAnother(t *testing.T) (dir, program string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err = os.MkdirTemp("/tmp", "eu-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	program = dir + "/t"
	if err := errors.Join(os.WriteFile(program, b, 0o755), os.Chmod(program, 0o755)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, asUser, asUser); err != nil {
			t.Fatal(err)
		}
	}
	return dir, program
}
