package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"

	"golang.org/x/sys/unix"
)

// The tests here run the real program: static, as a process of its own, and as
// process 1 of a PID namespace under a uid without rights.

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// built makes the program once, in a folder that every uid can enter.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "toolkit")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w: %s", err, out)
	}
	return dir, os.Chmod(dir, 0o755)
})

// box is one start of the program.
type box struct {
	t     *testing.T
	dir   string // granted
	args  []string
	in    tool.Input
	first bool     // as process 1
	files []string // contents of pipes on descriptors 3, 4, …
	began func(*os.Process)
}

const nobody = 54321

func newBox(t *testing.T) *box {
	t.Helper()
	dir, err := os.MkdirTemp("", "granted")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return &box{t: t, dir: dir, in: tool.Input{Write: []string{dir}}}
}

// start gives what the program said and its exit status.
func (b *box) start(entry, args string) (stdout, stderr string, status int) {
	b.t.Helper()
	dir, err := built()
	if err != nil {
		b.t.Fatal(err)
	}
	b.in.Args = strings.ReplaceAll(args, "DIR", b.dir)
	doc, err := tool.EncodeInput(b.in)
	if err != nil {
		b.t.Fatal(err)
	}
	argv := append([]string{dir + "/toolkit"}, append(b.args, entry)...)
	if b.first {
		argv = append(pidNamespace(b.t), argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"CANARY=must not be seen", "PATH=" + os.Getenv("PATH")}
	cmd.Stdin = bytes.NewReader(doc)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, w := b.pipe()
	cmd.Stdout = w
	for _, s := range b.files {
		r, w, err := os.Pipe()
		if err != nil {
			b.t.Fatal(err)
		}
		defer r.Close()
		_, _ = w.WriteString(s)
		_ = w.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, r)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	_ = w.Close()
	if b.began != nil {
		b.began(cmd.Process)
	}
	said, rerr := io.ReadAll(out)
	err = cmd.Wait()
	var exit *exec.ExitError
	if rerr != nil || err != nil && !errors.As(err, &exit) {
		b.t.Fatal(rerr, err)
	}
	return string(said), errs.String(), cmd.ProcessState.ExitCode()
}

// pipe belongs to the uid under which the program runs, as that of runnerd does.
func (b *box) pipe() (r, w *os.File) {
	b.t.Helper()
	r, w, err := os.Pipe()
	if err == nil && os.Getuid() == 0 {
		err = w.Chown(nobody, nobody)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = r.Close() })
	return r, w
}

// output wants one well-formed document.
func (b *box) output(entry, args string) tool.Output {
	b.t.Helper()
	stdout, stderr, status := b.start(entry, args)
	out, err := tool.DecodeOutput([]byte(stdout))
	if err != nil || status != 0 || stderr != "" {
		b.t.Fatalf("status %d, %v\nstdout %s\nstderr %s", status, err, stdout, stderr)
	}
	return out
}

// pidNamespace gives the command line that makes what follows process 1 of a
// namespace with a /proc of its own, without rights.
func pidNamespace(t *testing.T) []string {
	t.Helper()
	argv := []string{"unshare", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child"}
	if os.Getuid() == 0 {
		argv = append(argv, "setpriv", "--reuid", fmt.Sprint(nobody), "--regid", fmt.Sprint(nobody), "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--")
	} else {
		argv = append(argv[:1:1], append([]string{"--user", "--map-current-user"}, argv[1:]...)...)
	}
	if out, err := exec.Command(argv[0], append(argv[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no PID namespace: %v: %s", err, out)
	}
	return argv
}

func TestFiles(t *testing.T) {
	b := newBox(t)
	out := b.output("write_file", `{"path":"DIR/a","content":"x\n"}`)
	if out.Text != "Created "+b.dir+"/a (2 bytes, 1 line)." || out.Code != "" {
		t.Errorf("%+v", out)
	}
	if out := b.output("read_file", `{"path":"DIR/a"}`); out.Text != "x\n" {
		t.Errorf("%+v", out)
	}
	if out := b.output("search_files", `{"path":"DIR","pattern":"x"}`); !strings.HasPrefix(out.Text, b.dir+"/a:1: x\n") {
		t.Errorf("%+v", out)
	}
	if out := b.output("list_files", `{"path":"DIR"}`); !strings.HasSuffix(out.Text, "  a") {
		t.Errorf("%+v", out)
	}
	b.in.Preview = true
	if out := b.output("edit_file", `{"path":"DIR/a","old":"x","new":"y"}`); !strings.Contains(out.Diff, "-x\n+y\n") {
		t.Errorf("%+v", out)
	}
	if out := b.output("run", `{"argv":["touch","`+b.dir+`/ran"]}`); out.Note == "" {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(b.dir + "/ran"); err == nil {
		t.Error("a preview ran a program")
	}
	if out := b.output("read_file", `{"path":"/etc/passwd"}`); out.Code != proto.CodeToolFailed || !strings.Contains(out.Text, "outside of what may be read") {
		t.Errorf("%+v", out)
	}
}

// TestP27Binary: the whole document stays within what was agreed.
func TestP27Binary(t *testing.T) {
	b := newBox(t)
	for name, text := range map[string]string{"lines": strings.Repeat("a \"quoted\" line\n", 1_700_000/16), "controls": strings.Repeat("\x01", 1_700_000), "bytes": strings.Repeat("\xff\n", 850_000)} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int64{0, 1000, tool.MaxOutput} {
			b.in.Output = limit
			stdout, _, _ := b.start("read_file", `{"path":"DIR/`+name+`","limit":1000000}`)
			out, err := tool.DecodeOutput([]byte(stdout))
			if limit == 0 {
				limit = tool.DefaultOutput
			}
			if err != nil || int64(len(stdout)) > tool.MaxDocument(limit) || int64(len(out.Text)) > limit || out.Dropped == 0 || !strings.Contains(out.Text, "read on with offset") {
				t.Errorf("%s, limit %d: document of %d, text of %d bytes, %d dropped, %v", name, limit, len(stdout), len(out.Text), out.Dropped, err)
			}
		}
	}
}

func TestMountCheck(t *testing.T) {
	b := newBox(t)
	var st unix.Stat_t
	if err := unix.Lstat(b.dir, &st); err != nil {
		t.Fatal(err)
	}
	b.args = []string{"-check", fmt.Sprintf("%s=%d:%d", b.dir, st.Dev, st.Ino)}
	b.output("write_file", `{"path":"DIR/a","content":""}`)
	for _, bad := range []string{fmt.Sprintf("%s=%d:%d", b.dir, st.Dev, st.Ino+1), "/no/such=1:2"} {
		b.args = append(b.args[:2], "-check", bad)
		stdout, stderr, status := b.start("write_file", `{"path":"DIR/b","content":""}`)
		if stdout != "" || !strings.HasPrefix(stderr, "mount: ") || status != 126 {
			t.Errorf("%s: %q, %q, %d", bad, stdout, stderr, status)
		}
	}
	if _, err := os.Stat(b.dir + "/b"); err == nil {
		t.Error("it was written all the same")
	}
}

// TestProbe: what runnerd asks to know whether containers work.
func TestProbe(t *testing.T) {
	b := newBox(t)
	b.first = true
	stdout, stderr, status := b.start("probe", "")
	if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "toolkit ") || !strings.Contains(stdout, "NoNewPrivs=") || !strings.Contains(stdout, "Seccomp=") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("%q, %q, %d", stdout, stderr, status)
	}
}

func TestMisuse(t *testing.T) {
	b := newBox(t)
	for name, tt := range map[string]struct {
		args        []string
		entry, call string
	}{
		"unknown tool":       {nil, "rm", `{}`},
		"no entry":           {[]string{"-check"}, "/=1:2", `{}`},
		"two entries":        {[]string{"list_files"}, "list_files", `{"path":"/"}`},
		"bad check":          {[]string{"-check", "x"}, "list_files", `{"path":"/"}`},
		"bad arguments":      {nil, "list_files", `{"Path":"/"}`},
		"arguments not mine": {nil, "list_files", `{"path":"/","depth":1}`},
	} {
		b.args = tt.args
		if stdout, stderr, status := b.start(tt.entry, tt.call); stdout != "" || stderr == "" || status != 2 {
			t.Errorf("%s: %q, %q, %d", name, stdout, stderr, status)
		}
	}
}

func shell(command string) string {
	b := []byte(`{"command":`)
	b = fmt.Appendf(b, "%q", command)
	return string(append(b, '}'))
}

// TestFirst: what runs inside can neither speak for process 1 nor end it, and
// finds nothing of it.
func TestFirst(t *testing.T) {
	b := newBox(t)
	b.first = true
	b.files = []string{`{"token":"swordfish"}`, "a file that leaked"}
	b.in.MS = 60_000
	for _, tt := range []struct{ name, command, want string }{
		{"it is process 1", "echo $PPID", "1"},
		{"its output", `echo '{"text":"fake"}' > /proc/1/fd/1 && echo written`, ""},
		{"its descriptors", "ls /proc/1/fd", ""},
		{"its memory", "exec 5< /proc/1/mem && echo opened", ""},
		{"its environment", "cat /proc/1/environ", ""},
		{"its folder", "ls /proc/1/cwd/ /proc/1/root/", ""},
		{"signals", "for s in $(seq 1 14) $(seq 16 64); do kill -$s 1; done; echo here", "here"},
		{"its environment is not passed on", "env | grep -c CANARY", "0"},
		{"secrets alone come", "cat <&3; ls /proc/self/fd | tr '\\n' ' '", `{"token":"swordfish"}0 1 2 3 4 `},
		{"orphans are reaped", "for i in 1 2 3 4 5 6 7 8; do (true &); done; while grep -q ') Z 1 ' /proc/[0-9]*/stat 2>/dev/null; do :; done; echo clean", "clean"},
		{"what it leaves is ended", "setsid sleep 1000 & (sleep 1000 &) ; echo gone", "gone"},
		{"umask", "umask", "0022"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.t = t
			out := b.output("shell", shell(tt.command))
			_, got, _ := strings.Cut(out.Text, "\n--- standard output ---\n")
			got, _, _ = strings.Cut(got, "\n--- standard error ---\n")
			if got != tt.want || out.Code != "" {
				t.Errorf("%+v\nwant %q", out, tt.want)
			}
		})
	}
}

// TestForkBomb: whatever multiplies is gone when the time is over.
func TestForkBomb(t *testing.T) {
	b := newBox(t)
	b.first = true
	b.in.MS = 1500
	out := b.output("shell", shell("ulimit -u 200; f() { f | f & }; f; sleep 1000"))
	if out.Code != proto.CodeToolTimeout {
		t.Errorf("%+v", out)
	}
}

// TestTerm: SIGTERM ends the tool, also as process 1, and what there is comes out.
func TestTerm(t *testing.T) {
	for _, first := range []bool{false, true} {
		b := newBox(t)
		b.first = first
		if first {
			pidNamespace(t) // or skip
		}
		if err := unix.Mkfifo(b.dir+"/up", 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(b.dir+"/up", 0o666); err != nil {
			t.Fatal(err)
		}
		b.began = func(p *os.Process) {
			if _, err := os.ReadFile(b.dir + "/up"); err != nil { // waits for the program
				t.Error(err)
			}
			pid := p.Pid
			if first {
				pid = child(t, pid)
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
		out := b.output("shell", shell("echo before; echo x > "+b.dir+"/up; sleep 1000"))
		if out.Code != proto.CodeToolTimeout || !strings.HasSuffix(out.Text, "before") {
			t.Errorf("%+v", out)
		}
	}
}

// child finds the only child of a process.
func child(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var n int
	if _, serr := fmt.Sscan(string(b), &n); err != nil || serr != nil {
		t.Fatalf("%q, %v, %v", b, err, serr)
	}
	return n
}
