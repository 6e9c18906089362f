package stack

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/config"
	"boxmaker/internal/proto"
)

// Patience bounds every wait of a Stack. It only ever decides how long a broken
// test takes to fail.
const Patience = 60 * time.Second

// A Stack is one installation. Its methods end the test on an error of their own.
type Stack struct {
	TB     testing.TB
	Home   string
	Layout config.Layout

	// Under are words in front of `bxctl up`: a program that starts it.
	Under []string

	env   []string
	up    *exec.Cmd
	ended chan struct{} // closed: up has ended
	log   *os.File      // what `bxctl up` prints
}

// New makes an empty home. When the test ends, all that runs for it is killed; if
// the test failed, the daemons' messages are shown.
func New(tb testing.TB) *Stack {
	tb.Helper()
	home, err := os.MkdirTemp("", "bm-")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Stack{TB: tb, Home: home, env: append(os.Environ(), "BOXMAKER_HOME="+home)}
	if s.Layout, err = config.Locate(s.getenv); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		Sweep(home)
		if s.up != nil {
			<-s.ended
		}
		if tb.Failed() {
			s.showLogs()
		}
		err := os.RemoveAll(home)
		for range 250 { // a runtime that outlived a killed runnerd may still be writing
			if err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
			err = os.RemoveAll(home)
		}
		if err != nil {
			tb.Error(err)
		}
	})
	return s
}

func (s *Stack) getenv(key string) string {
	if key == "BOXMAKER_HOME" {
		return s.Home
	}
	return os.Getenv(key)
}

func (s *Stack) showLogs() {
	files, _ := filepath.Glob(s.Layout.Log + "/*")
	for _, f := range append(files, filepath.Join(s.Home, "up.out")) {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if len(b) > 8<<10 {
			b = b[len(b)-8<<10:]
		}
		s.TB.Logf("the end of %s:\n%s", filepath.Base(f), b)
	}
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Bxctl runs one command of the owner to its end.
func (s *Stack) Bxctl(stdin string, args ...string) Result {
	s.TB.Helper()
	ctx, cancel := context.WithTimeout(s.TB.Context(), Patience)
	defer cancel()
	cmd := s.Command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	cmd.WaitDelay = time.Second // a detached child may keep the pipes open
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.TB.Fatalf("bxctl %v: %v\n%s", args, err, errs.String())
	}
	return Result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// Must is Bxctl for commands that have to succeed; it gives standard output.
func (s *Stack) Must(stdin string, args ...string) string {
	s.TB.Helper()
	r := s.Bxctl(stdin, args...)
	if r.Code != 0 {
		s.TB.Fatalf("bxctl %v: exit %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// Command prepares a command of the owner.
func (s *Stack) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bxctl", args...)
	cmd.Env = s.env
	return cmd
}

// Up starts `bxctl up` as a child and returns when loopd takes turns.
func (s *Stack) Up() {
	s.TB.Helper()
	s.Start()
	s.WaitReady()
}

// Start starts `bxctl up` as a child and returns at once.
func (s *Stack) Start() {
	s.TB.Helper()
	if s.log == nil {
		f, err := os.Create(filepath.Join(s.Home, "up.out"))
		if err != nil {
			s.TB.Fatal(err)
		}
		s.TB.Cleanup(func() { f.Close() })
		s.log = f
	}
	s.up = s.Command(context.Background(), "up")
	if len(s.Under) > 0 {
		s.up = exec.Command(s.Under[0], append(s.Under[1:], "bxctl", "up")...)
		s.up.Env = s.env
	}
	s.up.Stdout, s.up.Stderr = s.log, s.log
	if err := s.up.Start(); err != nil {
		s.TB.Fatal(err)
	}
	up, ended := s.up, make(chan struct{})
	s.ended = ended
	go func() {
		defer close(ended)
		_ = up.Wait()
	}()
}

// KillUp kills the supervisor with SIGKILL and waits until all of its children
// are gone.
func (s *Stack) KillUp() {
	s.TB.Helper()
	_ = s.up.Process.Signal(syscall.SIGKILL)
	<-s.ended
	s.up = nil
	s.WaitUntil("the children of up are gone", func() bool { return len(s.Daemons()) == 0 })
}

// Ended is closed when `bxctl up` has ended.
func (s *Stack) Ended() <-chan struct{} { return s.ended }

// WaitEnd returns when `bxctl up` has ended by itself, and gives all that it
// printed.
func (s *Stack) WaitEnd() string {
	s.TB.Helper()
	select {
	case <-s.ended:
	case <-time.After(Patience):
		s.TB.Fatal("bxctl up goes on")
	}
	s.up = nil
	b, err := os.ReadFile(s.log.Name())
	if err != nil {
		s.TB.Fatal(err)
	}
	return string(b)
}

// Down ends everything with `bxctl down`.
func (s *Stack) Down() {
	s.TB.Helper()
	s.Must("", "down")
	if s.up != nil {
		<-s.ended
		s.up = nil
	}
}

// Daemons lists the daemons that run for this home, a [Server] of the test's own
// left out.
func (s *Stack) Daemons() []Process {
	var out []Process
	for _, p := range Processes(s.Home) {
		if p.Program != "bxctl" && p.Parent != os.Getpid() {
			out = append(out, p)
		}
	}
	return out
}

// PID gives the process of a program, or 0. Of several it takes the first.
func (s *Stack) PID(program string) int {
	for _, p := range Processes(s.Home) {
		if p.Program == program {
			return p.PID
		}
	}
	return 0
}

// Kill sends SIGKILL to a program and reports whether it ran.
func (s *Stack) Kill(program string) bool {
	pid := s.PID(program)
	return pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
}

// Socket is the owner's socket of loopd.
func (s *Stack) Socket() string { return s.Layout.Socket("loopd", "bxctl", "loop") }

// Status asks loopd for its state.
func (s *Stack) Status() (*proto.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	m, err := s.Ask(ctx, &proto.GetStatus{})
	if err != nil {
		return nil, err
	}
	st, ok := m.(*proto.Status)
	if !ok {
		return nil, errors.New("not a status")
	}
	return st, nil
}

// WaitReady returns when loopd takes turns.
func (s *Stack) WaitReady() {
	s.TB.Helper()
	s.WaitUntil("loopd is ready", func() bool {
		st, err := s.Status()
		return err == nil && st.State == "ready"
	})
}

// WaitQuiet returns when no turn runs or waits.
func (s *Stack) WaitQuiet() {
	s.TB.Helper()
	s.WaitUntil("no turn is open", func() bool {
		st, err := s.Status()
		return err == nil && st.State == "ready" && st.OpenTurns == 0
	})
}

func (s *Stack) upEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// WaitUntil looks again and again until ok. What it waits for is the state of
// other processes, which tell of it in no other way.
func (s *Stack) WaitUntil(what string, ok func() bool) {
	s.TB.Helper()
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
		if s.up != nil && s.upEnded() {
			s.TB.Fatalf("bxctl up has ended by itself before: %s", what)
		}
	}
	s.TB.Fatalf("waited %v in vain until: %s", Patience, what)
}
