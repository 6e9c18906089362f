package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A machine is a brokerd with a real runnerd and toolkit behind it.
type machine struct {
	t        *testing.T
	bin, dir string // programs; and the run folder with all state
	data     string // what the grants are about
	runnerd  *process
	brokerd  *process
}

type process struct {
	cmd   *exec.Cmd
	said  *output
	ended chan struct{}
}

// output is what a program printed.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// newMachine builds and starts everything. It ends the test if no container can
// be started here.
func newMachine(t *testing.T) *machine {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and starts programs")
	}
	base, err := os.MkdirTemp("", "brokerd-real-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	m := &machine{t: t, bin: filepath.Join(base, "bin"), dir: filepath.Join(base, "run"), data: filepath.Join(base, "data")}
	for _, d := range []string{base, m.bin, m.dir, m.data} {
		m.try(os.MkdirAll(d, 0o755))
		m.try(os.Chmod(d, 0o755)) //nolint:gosec // runnerd has a user of its own
	}
	for _, d := range []string{"grants", "audit", "state", "secrets", "doors", "bundles"} {
		m.try(os.MkdirAll(filepath.Join(m.dir, d), 0o700))
	}
	build := exec.Command("go", "build", "-o", m.bin+"/", "./brokerd", "./runnerd", "./toolkit")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runner := []string{"-listen", "runner.sock", "-toolkit", filepath.Join(m.bin, "toolkit"), "-bundles", filepath.Join(m.dir, "bundles"), "-peer", strconv.Itoa(os.Getuid())}
	if os.Getuid() == 0 {
		runner = append(runner, "-uid", "62109")
		m.try(os.Chown(m.data, 62109, 62109))
	}
	m.runnerd = m.start("runnerd", runner...)
	m.await("runner.sock", m.runnerd)
	m.startBroker()
	m.needContainers()
	return m
}

func (m *machine) try(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) start(name string, args ...string) *process {
	m.t.Helper()
	p := &process{cmd: exec.Command(filepath.Join(m.bin, name), args...), said: new(output), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stderr, p.cmd.Stdout = m.dir, p.said, p.said
	if err := p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() { defer close(p.ended); _ = p.cmd.Wait() }()
	m.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-p.ended
		if m.t.Failed() {
			m.t.Logf("%s said:\n%s", name, p.said)
		}
	})
	return p
}

func (m *machine) startBroker() {
	m.t.Helper()
	m.brokerd = m.start("brokerd", "-grants", filepath.Join(m.dir, "grants"), "-audit", "audit", "-state", "state", "-secrets", filepath.Join(m.dir, "secrets"),
		"-broker", "broker.sock", "-owner", "owner.sock", "-runner", "runner.sock")
	m.await("owner.sock", m.brokerd)
}

// await waits until a program answers on its socket.
func (m *machine) await(socket string, p *process) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := ipc.Dial(ctx, m.at(socket), proto.OwnerEvents)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-p.ended:
			m.t.Fatalf("it has ended:\n%s", p.said)
		case <-ctx.Done():
			m.t.Fatalf("%v\n%s", err, p.said)
		}
	}
}

func (m *machine) at(socket string) string { return filepath.Join(m.dir, socket) }

// needContainers skips if no container runs here; with BOXMAKER_CONTAINERS=require
// it fails.
func (m *machine) needContainers() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	got, err := ipc.Ask(ctx, m.at("runner.sock"), proto.RunnerEvents, &proto.GetRunner{})
	var why []string
	if err != nil {
		why = append(why, err.Error())
	}
	if s, ok := got.(*proto.RunnerStatus); ok {
		for _, c := range s.Checks {
			if c.Name == "runtime" && c.State != "ok" {
				why = append(why, c.Detail)
			}
		}
	}
	if len(why) == 0 {
		return
	}
	text := "NO CONTAINERS: brokerd is not tried with real ones: " + strings.Join(why, "; ")
	if os.Getenv("BOXMAKER_CONTAINERS") == "require" {
		m.t.Fatal(text)
	}
	m.t.Skip(text)
}

func (m *machine) grant(name, text string) {
	m.t.Helper()
	m.try(os.WriteFile(filepath.Join(m.dir, "grants", name), []byte(strings.ReplaceAll(text, "DATA", m.data)), 0o600))
}

func (m *machine) file(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.data, name)
	m.try(os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // runnerd has a user of its own
	if os.Getuid() == 0 {
		m.try(os.Chown(path, 62109, 62109))
	}
	return path
}

// call makes one call and answers it if it is asked.
func (m *machine) call(ctx context.Context, id, tool, args string, answer func(*proto.Approval) proto.Verdict) (*proto.CallResult, error) {
	conn, err := ipc.Dial(ctx, m.at("broker.sock"), proto.BrokerEvents)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	session, _, _ := strings.Cut(id, "/")
	if err := conn.Send(&proto.Call{ID: id, Session: session, Tool: tool, Args: args}); err != nil {
		return nil, err
	}
	for {
		got, err := conn.Recv()
		if err != nil {
			return nil, err
		}
		switch got := got.(type) {
		case *proto.Asked:
			if err := m.answer(ctx, got.Approval, answer); err != nil {
				return nil, err
			}
		case *proto.CallResult:
			return got, nil
		case *proto.Error:
			return nil, got
		default:
			return nil, fmt.Errorf("%T", got)
		}
	}
}

func (m *machine) answer(ctx context.Context, id string, answer func(*proto.Approval) proto.Verdict) error {
	got, err := ipc.Ask(ctx, m.at("owner.sock"), proto.OwnerEvents, &proto.ListApprovals{})
	if err != nil {
		return err
	}
	for _, a := range got.(*proto.ApprovalList).Approvals {
		if a.Approval == id {
			_, err := ipc.Ask(ctx, m.at("owner.sock"), proto.OwnerEvents, &proto.Answer{Approval: id, Digest: a.Digest, Verdict: answer(&a), Channel: "cli"})
			return err
		}
	}
	return errors.New("what is asked does not wait")
}

func (m *machine) must(id, tool, args string, answer func(*proto.Approval) proto.Verdict) *proto.CallResult {
	m.t.Helper()
	r, err := m.call(m.t.Context(), id, tool, args, answer)
	if err != nil {
		m.t.Fatalf("%s: %v", id, err)
	}
	return r
}

func (m *machine) until(ctx context.Context, what string, f func() bool) {
	m.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.t.Fatalf("%s: it never came to that\n%s\n%s", what, m.runnerd.said, m.brokerd.said)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// sleeping reports whether the call's process is there, wherever.
func sleeping() bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range all {
		if b, err := os.ReadFile(f); err == nil && string(b) == "sleep\x003000\x00" {
			return true
		}
	}
	return false
}
