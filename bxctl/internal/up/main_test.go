package up

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/config"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"

	"golang.org/x/sys/unix"
)

// The test binary plays the roles: a copy of it under the name of a role, or
// one that is started with helperEnv, is a helper.
const helperEnv = "UP_TEST_HELPER"

func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if h := os.Getenv(helperEnv); h != "" {
		name = h
	}
	switch name {
	case "bxctl":
		fakeBxctl()
	case "loopd":
		fakeLoopd()
	case "brokerd":
		fakeBroker()
	case "practice", "inferproxy", "runnerd", "egressd", "serve":
		fmt.Println(name + ": up")
		serve()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("stubborn: up")
		forever()
	case "crash":
		fmt.Println("crash: it broke")
		os.Exit(3)
	case "systemd":
		if _, err := ipc.Listen(os.Getenv("UP_TEST_SOCKET")); err != nil {
			os.Exit(1)
		}
		fmt.Println("listening")
		forever()
	case "lock":
		holdLock()
	case "parent":
		parent()
	default:
		os.Exit(m.Run())
	}
}

// serve waits for the end.
func serve() {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM)
	<-ch
	os.Exit(0)
}

// fakeBxctl stands for `bxctl confined`, which becomes another program, and
// for `bxctl up`, which is the real one.
func fakeBxctl() {
	if os.Args[1] == "confined" {
		argv := os.Args[slices.Index(os.Args, "--")+1:]
		fmt.Println(syscall.Exec(argv[0], argv, os.Environ()))
		os.Exit(1)
	}
	os.Exit(runUp())
}

// handed gives the socket that up handed over, which asks for its key where that of
// the real role would (daemon.Listener).
func handed(fd uintptr) (net.Listener, error) {
	ln, err := net.FileListener(os.NewFile(fd, "listener"))
	if err != nil || os.Geteuid() == 0 {
		return ln, err
	}
	return ipc.Keyed(ln, ln.Addr().String())
}

// fakeLoopd answers every request on descriptor 3 with a status that tells how
// it was started. The file refuse beside its sessions makes it refuse; the
// file slow makes it wait.
func fakeLoopd() {
	home := os.Getenv("BOXMAKER_HOME")
	if _, err := os.Stat(filepath.Join(home, "refuse")); err == nil {
		fmt.Fprintln(os.Stderr, `{"level":"ERROR","msg":"self-test failed"}`)
		fmt.Fprintln(os.Stderr, "loopd: the check props failed: no slots (see runbook: selftest-props)")
		os.Exit(exitRefused)
	}
	ln, err := handed(3)
	if err != nil {
		fmt.Println("loopd:", err)
		os.Exit(1)
	}
	state := "ready"
	if _, err := os.Stat(filepath.Join(home, "slow")); err == nil {
		state = "waiting"
	}
	var devices []string
	all, _ := net.Interfaces()
	for _, i := range all {
		devices = append(devices, i.Name+" "+i.Flags.String())
	}
	dir, _ := os.Getwd()
	detail := strings.Join([]string{dir, os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES"), strings.Join(devices, ",")}, "|")
	s := &ipc.Server{Listener: ln, Requests: proto.LoopRequests, Handle: nil}
	answer := status(state, detail)
	s.Handle = func(ctx context.Context, m proto.Message, out *ipc.Stream) {
		_ = os.WriteFile(filepath.Join(home, "asked"), nil, 0o600) // for fakeBroker
		answer(ctx, m, out)
	}
	ctx, stop := signal.NotifyContext(testContext(), syscall.SIGTERM)
	defer stop()
	fmt.Fprintln(os.Stderr, `{"level":"INFO","msg":"loopd is up","daemon":"loopd"}`)
	if err := s.Serve(ctx); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// fakeBroker answers every request on descriptor 4 that it can't: up's wish for
// an anchor is not to be waited for. With the file refuse-broker in the home it
// refuses, once loopd was asked how it is; with crash-broker it ends once before
// that; with no-runtime it says that no tool can run; with mute it is silent.
func fakeBroker() {
	home := os.Getenv("BOXMAKER_HOME")
	has := func(name string) bool { _, err := os.Stat(filepath.Join(home, name)); return err == nil }
	if has("refuse-broker") {
		for !has("asked") {
			time.Sleep(time.Millisecond) // a file has no wait
		}
		fmt.Fprintln(os.Stderr, "brokerd: the log was cut (see runbook: audit-cut)")
		os.Exit(exitRefused)
	}
	if i := slices.Index(os.Args, "-key-fd"); i > 0 { // what it got is told, in short
		fd, _ := strconv.Atoi(os.Args[i+1])
		key, err := secret.ReadUnlocked(os.NewFile(uintptr(fd), "key"))
		told := fmt.Sprintf("%v %v\n", strings.Contains(key.Reveal(), "AGE-SECRET-KEY-"), err)
		f, _ := os.OpenFile(filepath.Join(home, "keys-seen"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		_, _ = f.WriteString(told)
		_ = f.Close()
	}
	if os.Remove(filepath.Join(home, "crash-broker")) == nil {
		fmt.Fprintln(os.Stderr, "brokerd: it broke")
		os.Exit(1)
	}
	if has("mute") {
		forever()
	}
	if os.Remove(filepath.Join(home, "hang-up")) == nil { // with a connection that waits: it breaks
		for !has("asked") {
			time.Sleep(time.Millisecond)
		}
		if ln, err := net.FileListener(os.NewFile(4, "owner")); err == nil {
			_, _ = ln.Accept()
		}
		os.Exit(1)
	}
	ln, err := handed(4)
	if err != nil {
		fmt.Println("brokerd:", err)
		os.Exit(1)
	}
	s := &ipc.Server{Listener: ln, Requests: proto.OwnerRequests, Handle: func(_ context.Context, m proto.Message, out *ipc.Stream) {
		if _, ok := m.(*proto.GetBroker); ok {
			checks := []proto.Check{{Name: "runner", State: "ok"}}
			if has("no-runtime") {
				checks = append(checks, proto.Check{Name: "runner: runtime", State: "failed", Detail: "no tool can run: no crun", Runbook: "runner-no-runtime"})
			}
			_ = out.Send(&proto.BrokerStatus{
				Version: "t", Since: proto.Time(time.Now()), Head: proto.AuditHead{Hash: proto.NoHash}, Confinement: []proto.Check{}, Checks: checks,
			})
			return
		}
		_ = out.Send(&proto.Error{Code: proto.ErrBadRequest, Text: "this is no brokerd", Runbook: "bad-request"})
	}}
	ctx, stop := signal.NotifyContext(testContext(), syscall.SIGTERM)
	defer stop()
	if err := s.Serve(ctx); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func holdLock() {
	l := config.Layout{Run: os.Getenv("UP_TEST_RUN")}
	held, err := take(l)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	defer runtime.KeepAlive(held) // a collected file would be closed, and the lock with it
	forever()                     // until it is killed
}

// parent keeps one role and tells its pid, so that a test can kill the parent.
func parent() {
	st := newStarter()
	self, _ := os.Executable()
	dir, _ := os.MkdirTemp("", "up-")
	defer os.RemoveAll(dir)
	j, _ := openJournal("serve", dir, false, testConsole(nil))
	c, err := st.launch(Role{Name: "serve", Path: self, Env: []string{helperEnv + "=serve"}}, "/", &listening{}, j)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for len(j.last()) == 0 { // later it would die of the broken pipe, and not with us
		time.Sleep(time.Millisecond)
	}
	fmt.Println(c.pid)
	forever()
}

// waitPID waits for the end of a process that is not our child.
func waitPID(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // ended already
	}
	defer unix.Close(fd)
	if !waitGone(fd, 10*time.Second) {
		t.Errorf("process %d still runs", pid)
	}
}

// forever waits to be killed. An empty select would end a process that has no
// other goroutine, as a deadlock.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}
