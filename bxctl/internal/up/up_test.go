package up

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/config"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

func testContext() context.Context { return context.Background() }

// status answers as a loopd in that state.
func status(state, detail string) func(context.Context, proto.Message, *ipc.Stream) {
	return func(_ context.Context, _ proto.Message, out *ipc.Stream) {
		_ = out.Send(&proto.Status{Version: "t", State: state, Detail: detail, Since: proto.Time(time.Now()),
			Checks: []proto.Check{}, Slots: []proto.SlotState{}, Confinement: []proto.Check{}})
	}
}

// runUp is `bxctl up` of the helper.
func runUp() int {
	l, err := config.Locate(os.Getenv)
	if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err = Run(ctx, Options{Layout: l, Self: os.Args[0], Environ: os.Environ(), Version: "t", Out: term.Plain(os.Stderr), Now: time.Now})
	if err != nil {
		fmt.Fprint(os.Stderr, fault.Text(err))
	}
	return fault.Code(err)
}

// box is an installation whose programs are copies of the test binary.
type box struct {
	t      *testing.T
	layout config.Layout
	o      Options
	out    bytes.Buffer
}

func newBox(t *testing.T) *box {
	t.Helper()
	dir, err := os.MkdirTemp("", "up-") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t}
	env := func(name string) string {
		if name == "BOXMAKER_HOME" {
			return filepath.Join(dir, "home")
		}
		return ""
	}
	if b.layout, err = config.Locate(env); err != nil {
		t.Fatal(err)
	}
	if _, err := (setup.Job{Layout: b.layout, Now: t0}).Run(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bxctl", "loopd", "inferproxy", "practice"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.o = Options{Layout: b.layout, Self: filepath.Join(bin, "bxctl"), Environ: []string{"BOXMAKER_HOME=" + b.layout.Home, "TZ=UTC"},
		Version: "t", Out: term.Plain(&b.out), Now: time.Now}
	t.Cleanup(func() {
		if pid, _ := Holder(b.layout); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			waitPID(t, pid)
		}
		if t.Failed() {
			for _, name := range []string{"up.log", "loopd.log", "inferproxy.log", "practice.log"} {
				text, _ := os.ReadFile(filepath.Join(b.layout.Log, name))
				t.Logf("%s:\n%s", name, text)
			}
		}
		os.RemoveAll(dir)
	})
	return b
}

func (b *box) client() loop.Client {
	return loop.Client{Path: b.layout.Socket("loopd", "bxctl", "loop")}
}

func (b *box) mark(name string) {
	if err := os.WriteFile(filepath.Join(b.layout.Home, name), nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) state() *report.Up {
	b.t.Helper()
	up, _, err := Inspect(b.layout)
	if err != nil || up == nil {
		b.t.Fatalf("%v, %v", up, err)
	}
	return up
}

// settled waits until every role runs.
func (b *box) settled() *report.Up {
	b.t.Helper()
	for {
		up := b.state()
		if !slices.ContainsFunc(up.Roles, func(r report.Role) bool { return r.PID == 0 }) {
			return up
		}
		time.Sleep(time.Millisecond) // the state file has no wait
	}
}

func (b *box) role(name string) report.Role {
	b.t.Helper()
	for _, r := range b.state().Roles {
		if r.Name == name {
			return r
		}
	}
	b.t.Fatalf("no role %s", name)
	return report.Role{}
}

// A whole life: start, look, kill one, kill up itself, start again, stop.
func TestLife(t *testing.T) {
	b := newBox(t)
	if err := Detach(t.Context(), b.o, time.Minute); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.out.String(), "ready after") {
		t.Errorf("detach said %q", b.out.String())
	}
	st, err := b.client().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	how := strings.Split(st.Detail, "|")
	if how[0] != b.layout.Run || how[1] != "1" || how[2] != "loop" {
		t.Errorf("loopd was started with %q", how)
	}
	if missing := b.role("loopd").Missing; missing == nil && (!strings.HasPrefix(how[3], "lo ") || strings.Contains(how[3], "up") || strings.Contains(how[3], ",")) {
		t.Errorf("loopd has network devices: %q", how[3])
	}
	b.checkFolders()

	// up a second time: it says so, and changes nothing.
	b.out.Reset()
	if err := Run(t.Context(), b.o); err != nil || !strings.Contains(b.out.String(), "runs already (pid ") {
		t.Errorf("a second up: %v, %q", err, b.out.String())
	}

	// One role dies: it comes back, and a client that waits is served.
	old := b.role("loopd").PID
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := Await(t.Context(), b.client(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	for b.role("loopd").PID == old || b.role("loopd").PID == 0 {
		time.Sleep(time.Millisecond) // the state file has no wait
	}
	if r := b.role("loopd"); r.Restarts != 1 || !strings.Contains(r.Exit, "killed by signal 9") {
		t.Errorf("%+v", r)
	}

	// up itself dies: all its roles do, and a new one starts over.
	up := b.settled()
	if err := syscall.Kill(up.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitPID(t, up.PID)
	for _, r := range up.Roles {
		waitPID(t, r.PID)
	}
	if pid, err := Holder(b.layout); pid != 0 || err != nil {
		t.Errorf("the lock is held by %d (%v)", pid, err)
	}
	if err := Detach(t.Context(), b.o, time.Minute); err != nil {
		t.Fatal(err)
	}
	up = b.settled()
	line, err := Down(t.Context(), b.layout, time.Now())
	if err != nil || !strings.Contains(line, "practice, inferproxy, loopd") {
		t.Errorf("down: %q, %v", line, err)
	}
	for _, r := range up.Roles {
		if startOf(r.PID) == r.Start {
			t.Errorf("%s still runs", r.Name)
		}
	}
	if _, err := Down(t.Context(), b.layout, time.Now()); fault.Code(err) != fault.NotRunning {
		t.Errorf("down of nothing: %v", err)
	}
	if _, err := b.client().Status(t.Context()); fault.Code(err) != fault.NotRunning {
		t.Errorf("status of nothing: %v", err)
	}
}

// checkFolders looks at owners and modes of the sockets and their folders.
func (b *box) checkFolders() {
	b.t.Helper()
	root := os.Geteuid() == 0
	for _, c := range []struct {
		listener, client, file string
		uid                    uint32
	}{
		{"loopd", "bxctl", "loop", uint32(os.Geteuid())}, {"inferproxy", "loopd", "infer", 62102}, {"practice", "inferproxy", "llama", 62101},
	} {
		sock := b.layout.Socket(c.listener, c.client, c.file)
		for path, mode := range map[string]os.FileMode{sock: 0o600, filepath.Dir(sock): 0o700} {
			st, err := os.Stat(path)
			if err != nil {
				b.t.Error(err)
				continue
			}
			uid := c.uid
			if !root {
				uid = uint32(os.Geteuid())
			}
			if st.Mode().Perm() != mode || st.Sys().(*syscall.Stat_t).Uid != uid {
				b.t.Errorf("%s: mode %v, uid %d", path, st.Mode(), st.Sys().(*syscall.Stat_t).Uid)
			}
		}
	}
	if st, err := os.Stat(b.layout.Sessions); root && (err != nil || st.Sys().(*syscall.Stat_t).Uid != 62102) {
		b.t.Errorf("sessions: %v, %v", st, err)
	}
}

// A loopd that refuses to start stops everything, with its own words.
func TestRefusal(t *testing.T) {
	b := newBox(t)
	b.mark("refuse")
	err := Detach(t.Context(), b.o, time.Minute)
	text := fault.Text(err)
	if fault.Code(err) != fault.Failed || !strings.Contains(text, "loopd refused to start") || !strings.Contains(text, "no slots (see runbook: selftest-props)") {
		t.Errorf("%s", text)
	}
	up, last, err := Inspect(b.layout)
	if up != nil || err != nil || !strings.Contains(last, "no slots") {
		t.Errorf("%v, %q, %v", up, last, err)
	}
	if _, err := os.Stat(b.layout.Socket("loopd", "bxctl", "loop")); err == nil {
		t.Error("the socket is still there")
	}
}

// A Boxmaker that is not ready in time goes on trying; detach says so.
func TestNotReadyInTime(t *testing.T) {
	b := newBox(t)
	b.mark("slow")
	err := Detach(t.Context(), b.o, 2*time.Second)
	if fault.Code(err) != fault.Failed || !strings.Contains(err.Error(), "not ready yet") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(b.out.String(), "loopd is waiting: ") {
		t.Errorf("it said %q", b.out.String())
	}
	b.state()
}

// Without a program, or without configuration, nothing is started.
func TestNothingToStart(t *testing.T) {
	b := newBox(t)
	if err := os.Remove(filepath.Join(filepath.Dir(b.o.Self), "practice")); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), b.o); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("%v", err)
	}
	path := filepath.Join(b.layout.Config, setup.FileBxctl)
	if err := os.WriteFile(path, []byte("[model]\nknd = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), b.o); fault.Code(err) != fault.Usage || !strings.Contains(err.Error(), "knd") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), b.o); fault.Code(err) != fault.Usage || !strings.Contains(err.Error(), "bxctl init") {
		t.Errorf("%v", err)
	}
}

func keeperOf(t *testing.T, st *starter, name string, grace time.Duration) (*keeper, *board) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := newBoard(config.Layout{Run: dir}, report.Up{Roles: []report.Role{{Name: name}}})
	k, err := newKeeper(Role{Name: name, Path: self, Env: []string{helperEnv + "=" + name}, Grace: grace}, dir, dir, st, b, testConsole(&bytes.Buffer{}))
	if err != nil {
		t.Fatal(err)
	}
	k.socks = &listening{}
	return k, b
}

// A role that crashes at once is given up, with its last words.
func TestCrashLoop(t *testing.T) {
	st := newStarter()
	defer st.close()
	k, b := keeperOf(t, st, "crash", time.Second)
	err := keepAll(t.Context(), []*keeper{k})
	if text := fault.Text(err); !strings.Contains(text, "5 times within a minute (exit code 3)") || !strings.Contains(text, "it broke") {
		t.Errorf("%s", text)
	}
	if b.up.State != "failed" || b.up.Roles[0].Restarts != 4 {
		t.Errorf("%+v", b.up)
	}
}

// A role that does not end when asked is killed.
func TestStubborn(t *testing.T) {
	st := newStarter()
	defer st.close()
	k, b := keeperOf(t, st, "stubborn", 50*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(k.log.last()) == 0 { // it prints a line once it ignores the signal
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if err := keepAll(ctx, []*keeper{k}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.up.Roles[0].Exit, "killed by signal 9") {
		t.Errorf("%+v", b.up.Roles)
	}
}

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

// Session logs become loopd's, but no file that a link leads to.
func TestOwnSessions(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	for _, p := range []string{outside, filepath.Join(dir, "a.jsonl")} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(outside, filepath.Join(dir, "hard")); err != nil {
		t.Skip(err) // another file system
	}
	if err := os.Symlink(outside, filepath.Join(dir, "soft")); err != nil {
		t.Fatal(err)
	}
	if err := ownSessions(dir, 62102); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]uint32{outside: 0, dir: 62102, filepath.Join(dir, "a.jsonl"): 62102} {
		if st, err := os.Stat(p); err != nil || st.Sys().(*syscall.Stat_t).Uid != want {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// A socket of root's opens for one uid, and stays closed to others.
func TestOpenSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give rights")
	}
	dir, err := os.MkdirTemp("", "acl-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "l.sock")
	if changed, err := openSocket(path, 62101); changed || err != nil {
		t.Errorf("not there yet: %v, %v", changed, err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := openSocket(path, 62101); fault.Code(err) != fault.Failed || !strings.Contains(err.Error(), "its folder") {
		t.Errorf("in a closed folder: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if changed, err := openSocket(path, 62101); errors.Is(err, syscall.EOPNOTSUPP) {
		t.Skip("no access lists here")
	} else if !changed || err != nil {
		t.Fatalf("%v, %v", changed, err)
	}
	if changed, err := openSocket(path, 62101); changed || err != nil {
		t.Errorf("a second time: %v, %v", changed, err)
	}
	if mayUse(path, 62101, unix.W_OK) != nil || mayUse(path, 62102, unix.W_OK) == nil {
		t.Error("the wrong one may use it")
	}
}
