// Package conform is what a container runtime must do for runnerd, as tests
// that run with the real runtime, the real runnerd and a probe program inside.
// Every implementation runs the same suite.
//
// Whether containers work at all is found out by running one. If not, tests are
// left out with the runtime's own words; with BOXMAKER_CONTAINERS=require that
// is a failure. Limits that this machine cannot enforce are expected to end the
// call before anything runs.
package conform

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// Probe is the package that stands in for toolkit.
const Probe = "boxmaker/runnerd/internal/conform/testdata/probe"

// RunnerUID is the user that runnerd becomes if the tests run as root.
const RunnerUID = 62193

// patience bounds what a loaded machine may take.
const patience = 60 * time.Second

// A World is a running runnerd.
type World struct {
	Home   string // what only the starter may enter, with run/ in it
	Data   string // what may be granted; belongs to the runner's user
	UID    int    // of the runner
	Memory bool   // limits that can be enforced here
	PIDs   bool

	bin, runtime string
	cmd          *exec.Cmd
	socket       *os.File // handed over at each start, as by `bxctl up`
	log          journal
}

// A journal is what runnerd prints. It is no file, so that the end of a process
// is waited for with that of its children.
type journal struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// New builds the programs and starts runnerd with that runtime. first is the
// package of the first process of its containers: toolkit, or the probe.
func New(t testing.TB, runtime, first string) *World {
	t.Helper()
	w := &World{Home: folder(t, 0o700), Data: folder(t, 0o755), UID: os.Getuid(), runtime: runtime}
	if w.UID == 0 {
		w.UID = RunnerUID
	}
	w.bin = folder(t, 0o755)
	build(t, filepath.Join(w.bin, "runnerd"), "boxmaker/runnerd")
	build(t, filepath.Join(w.bin, "first"), first)
	mkdir(t, filepath.Join(w.Home, "run"), 0o711)
	mkdir(t, filepath.Join(w.Home, "run", "doors"), 0o710|os.ModeSetgid)
	if os.Getuid() == 0 {
		for path, gid := range map[string]int{w.Data: w.UID, filepath.Join(w.Home, "run", "doors"): w.UID} {
			uid := w.UID
			if path != w.Data {
				uid = 0
			}
			if err := os.Lchown(path, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
		mkdir(t, filepath.Join(w.Home, "run", "doors"), 0o710|os.ModeSetgid) // lchown clears the bit
	}
	l, err := ipc.Listen(w.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if w.socket, err = l.(interface{ File() (*os.File, error) }).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.socket.Close() })
	w.Start(t)
	t.Cleanup(func() { w.Stop(t) })
	s := w.Status(t)
	for _, c := range s.Checks {
		switch {
		case c.Name == "runtime" && c.State != "ok":
			unable(t, c.Detail)
		case c.Name == "memory limit":
			w.Memory = c.State == "ok"
		case c.Name == "pids limit":
			w.PIDs = c.State == "ok"
		}
	}
	return w
}

// unable leaves the test out, or fails it where containers are required.
func unable(t testing.TB, words string) {
	t.Helper()
	if os.Getenv("BOXMAKER_CONTAINERS") == "require" {
		t.Fatalf("containers are required and do not work here: %s", words)
	}
	t.Skipf("NO CONTAINERS HERE: %s", words)
}

func folder(t testing.TB, mode os.FileMode) string {
	t.Helper()
	d, err := os.MkdirTemp("", "bxr") // t.TempDir lies below a folder that others cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	if d, err = filepath.EvalSymlinks(d); err != nil {
		t.Fatal(err)
	}
	mkdir(t, d, mode)
	return d
}

func mkdir(t testing.TB, d string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(d, 0o700), os.Chmod(d, mode)); err != nil {
		t.Fatal(err)
	}
}

func build(t testing.TB, to, pkg string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", to, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Toolkit is the program of the containers' first process.
func (w *World) Toolkit() string { return filepath.Join(w.bin, "first") }

// Socket is where brokerd would connect.
func (w *World) Socket() string { return filepath.Join(w.Home, "run", "runner.sock") }

// Start starts runnerd as `bxctl up` does, and waits until it serves.
func (w *World) Start(t testing.TB) {
	t.Helper()
	config := filepath.Join(w.Home, "runnerd.toml")
	if err := os.WriteFile(config, []byte(fmt.Sprintf("runtime = %q\n", w.runtime)), 0o600); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(w.Home, "ready.sock")
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: note, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(note)
	defer ready.Close()
	args := []string{"-config", config, "-listen", "runner.sock", "-toolkit", filepath.Join(w.bin, "first"), "-bundles", "bundles", "-peer", fmt.Sprint(os.Getuid())}
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: 0}
	if os.Getuid() == 0 {
		args = append(args, "-uid", fmt.Sprint(w.UID))
	} else {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: w.UID, HostID: w.UID, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	w.cmd = exec.Command(filepath.Join(w.bin, "runnerd"), args...)
	w.cmd.Dir, w.cmd.Stdout, w.cmd.Stderr, w.cmd.SysProcAttr = filepath.Join(w.Home, "run"), &w.log, &w.log, a
	w.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + note, "LISTEN_FDS=1", "LISTEN_FDNAMES=runner"}
	w.cmd.ExtraFiles = []*os.File{w.socket}
	if err := w.cmd.Start(); err != nil {
		unable(t, fmt.Sprintf("no network namespace can be made: %v", err))
	}
	if err := ready.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := ready.Read(make([]byte, 64)); err != nil {
		t.Fatalf("runnerd is not ready: %v: %s", err, tail(w.Log()))
	}
}

// Stop ends runnerd.
func (w *World) Stop(t testing.TB) {
	t.Helper()
	if w.cmd == nil {
		return
	}
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("runnerd ended with %v: %s", err, tail(w.Log()))
	}
	w.cmd = nil
}

// Kill kills runnerd without a chance to clean up.
func (w *World) Kill(t testing.TB) {
	t.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = w.cmd.Wait()
	w.cmd = nil
}

// Log is what runnerd printed.
func (w *World) Log() string {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.log.text.String()
}

// tail is the end of a log.
func tail(s string) string {
	lines := strings.SplitAfter(s, "\n")
	return strings.Join(lines[max(0, len(lines)-6):], "")
}

// Status asks what can be done here.
func (w *World) Status(t testing.TB) *proto.RunnerStatus {
	t.Helper()
	m := w.ask(t, &proto.GetRunner{})
	s, ok := m.(*proto.RunnerStatus)
	if !ok {
		t.Fatalf("%#v", m)
	}
	return s
}

func (w *World) ask(t testing.TB, req proto.Message) proto.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	m, err := ipc.Ask(ctx, w.Socket(), proto.RunnerEvents, req)
	if err != nil {
		t.Fatalf("%v: %s", err, tail(w.Log()))
	}
	return m
}

// Launch is a launch of the probe that does the lines of input.
func Launch(input ...string) *proto.Launch {
	return &proto.Launch{
		Call: "conform/1/1/1", Entry: "act", Input: strings.Join(input, "\n") + "\n", Mounts: []proto.Mount{}, Userland: proto.UserlandNone, Secrets: []proto.LaunchSecret{},
	}
}

// Run runs a launch to its end.
func (w *World) Run(t testing.TB, l *proto.Launch) *proto.Ended {
	t.Helper()
	e, ok := w.ask(t, l).(*proto.Ended)
	if !ok {
		t.Fatal("no end")
	}
	return e
}

// Says runs a launch that must end well, and gives what the probe said, by key.
func (w *World) Says(t testing.TB, l *proto.Launch) map[string]string {
	t.Helper()
	e := w.Run(t, l)
	if e.Reason != proto.EndExit || e.Exit != 0 {
		t.Fatalf("%s %d: %s %s", e.Reason, e.Exit, e.Detail, e.Output)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(e.Output)) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		said[k] = strings.TrimSpace(v)
	}
	return said
}

// A Held is a process inside a container that came through the door.
type Held struct {
	net.Conn
	Line string
	PID  int // outside
	UID  int
}

// Door makes a door; each process that comes through it is in the channel.
func (w *World) Door(t testing.TB) (name string, held <-chan Held) {
	t.Helper()
	dir := filepath.Join(w.Home, "run", "doors")
	f, err := os.CreateTemp(dir, "*.sock")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	os.Remove(f.Name())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.Name(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.Name(), 0o660); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := make(chan Held, 16)
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			h := Held{Conn: conn, Line: strings.TrimSpace(line)}
			if raw, err := conn.SyscallConn(); err == nil {
				_ = raw.Control(func(fd uintptr) {
					if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
						h.PID, h.UID = int(cred.Pid), int(cred.Uid)
					}
				})
			}
			c <- h
		}
	}()
	return filepath.Join("doors", filepath.Base(f.Name())), c
}

// wait takes the next one.
func wait(t testing.TB, w *World, held <-chan Held) Held {
	t.Helper()
	select {
	case h := <-held:
		t.Cleanup(func() { h.Close() })
		return h
	case <-time.After(patience):
		t.Fatalf("nothing came through the door: %s", tail(w.Log()))
		panic("unreachable")
	}
}

// gone waits for the end of a process: its side of the door closes.
func (h Held) gone(t testing.TB) {
	t.Helper()
	if err := h.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("pid %d lives on", h.PID)
	}
}

// Begin starts a launch without waiting for its end. end closes the connection.
func (w *World) Begin(t testing.TB, l *proto.Launch) (c *ipc.Conn) {
	t.Helper()
	c, err := ipc.Dial(t.Context(), w.Socket(), proto.RunnerEvents)
	if err == nil {
		err = c.Send(l)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
