package up

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
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
)

func testContext() context.Context { return context.Background() }

// status answers as a loopd in that state.
func status(state, detail string) func(context.Context, proto.Message, *ipc.Stream) {
	return func(_ context.Context, _ proto.Message, out *ipc.Stream) {
		_ = out.Send(&proto.Status{
			Version: "t", State: state, Detail: detail, Since: proto.Time(time.Now()),
			Checks: []proto.Check{}, Slots: []proto.SlotState{}, Confinement: []proto.Check{},
		})
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
	o := Options{Layout: l, Self: os.Args[0], Environ: os.Environ(), Version: "t", Out: term.Plain(os.Stderr), Now: time.Now}
	if i := slices.Index(os.Args, "--key-fd"); i > 0 && os.Args[i+1] == "3" {
		syscall.CloseOnExec(3)
		o.Key = os.NewFile(3, "key")
	}
	err = Run(ctx, o)
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
	if err == nil {
		err = os.Chmod(dir, 0o711) // roles pass through
	}
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
	for _, name := range []string{"bxctl", "loopd", "inferproxy", "practice", "brokerd", "runnerd", "egressd", "toolkit", "toolfetch"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.o = Options{
		Layout: b.layout, Self: filepath.Join(bin, "bxctl"), Environ: []string{"BOXMAKER_HOME=" + b.layout.Home, "TZ=UTC"},
		Version: "t", Out: term.Plain(&b.out), Now: time.Now,
	}
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
	if err := Detach(t.Context(), b.o, time.Minute); err != nil { // at once, while it may still be dying
		t.Fatal(err)
	}
	waitPID(t, up.PID)
	for _, r := range up.Roles {
		waitPID(t, r.PID)
	}
	up = b.settled()
	line, err := Down(t.Context(), b.layout, time.Now())
	if err != nil || !strings.Contains(line, "egressd, runnerd, brokerd, practice, inferproxy, loopd") {
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
		{"loopd", "bxctl", "loop", uint32(os.Geteuid())},
		{"inferproxy", "loopd", "infer", 62102},
		{"practice", "inferproxy", "llama", 62101},
		{"brokerd", "loopd", "broker", 62102},
		{"brokerd", "bxctl", "owner", uint32(os.Geteuid())},
		{"runnerd", "brokerd", "runner", 62105},
		{"egressd", "brokerd", "egress", 62105},
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
	for _, c := range []struct {
		path     string
		mode     os.FileMode // as root; else 0700
		uid, gid uint32
	}{
		{b.layout.Sessions, 0o700, 62102, 62102},
		{b.layout.Audit, 0o700, 62105, 62105},
		{b.layout.Keys, 0o700, 62105, 62105},
		{b.layout.Workspace, 0o700, 62109, 62109},
		{b.layout.Grants, 0o750, 0, 62105},
		{filepath.Join(b.layout.Run, "egressd/doors"), 0o710, 62108, 62109},
		{filepath.Join(b.layout.Run, "brokerd/doors"), 0o710, 62105, 62109},
		{filepath.Join(b.layout.Run, "runnerd/bundles"), 0o700, 62109, 62109},
	} {
		st, err := os.Stat(c.path)
		if err != nil {
			b.t.Error(err)
			continue
		}
		if !root {
			c.mode, c.uid, c.gid = 0o700, uint32(os.Geteuid()), uint32(os.Getegid())
		}
		if sys := st.Sys().(*syscall.Stat_t); st.Mode().Perm() != c.mode || sys.Uid != c.uid || sys.Gid != c.gid {
			b.t.Errorf("%s: mode %v, uid %d, gid %d", c.path, st.Mode(), sys.Uid, sys.Gid)
		}
	}
}

// An up that is asked to end while another one waits for it makes room.
func TestDetachDuringTheEnd(t *testing.T) {
	b := newBox(t)
	b.mark("slow") // never ready, so that the second one has to wait
	if err := Detach(t.Context(), b.o, time.Second); err == nil {
		t.Fatal("ready")
	}
	old := b.state().PID
	second := make(chan error, 1)
	go func() { second <- Detach(t.Context(), b.o, time.Minute) }()
	if err := os.Remove(filepath.Join(b.layout.Home, "slow")); err != nil {
		t.Fatal(err)
	}
	if _, err := Down(t.Context(), b.layout, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if now := b.state().PID; now == old {
		t.Error("the old one still runs")
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

// Sockets that systemd holds are left to it.
func TestSystemdIsLeftAlone(t *testing.T) {
	b := newBox(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(b.o.Self), "systemd") // its name is what the kernel tells
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	path := b.layout.Socket("loopd", "bxctl", "loop")
	cmd := exec.Command(program)
	cmd.Env = []string{"UP_TEST_SOCKET=" + path}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil { // it listens
		t.Fatal(err)
	}
	_, downErr := Down(t.Context(), b.layout, t0)
	for name, err := range map[string]error{"up": Run(t.Context(), b.o), "detach": Detach(t.Context(), b.o, time.Minute), "down": downErr} {
		if err == nil || !strings.Contains(err.Error(), "systemd runs Boxmaker here") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !RunBySystemd(b.layout) {
		t.Error("the socket was taken from it")
	}
}
