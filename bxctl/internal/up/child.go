package up

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A starter starts processes that die with this one. The kernel sends a
// child its parent-death signal when the *thread* ends that started it, so all
// are started by one thread that lives as long as up.
type starter struct {
	jobs chan func()
	wg   sync.WaitGroup
}

func newStarter() *starter {
	s := &starter{jobs: make(chan func())}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

// close ends the thread: children that still run get their signal.
func (s *starter) close() {
	close(s.jobs)
	s.wg.Wait()
}

func (s *starter) start(cmd *exec.Cmd, mask int) error {
	done := make(chan error)
	s.jobs <- func() {
		old := syscall.Umask(mask)
		err := cmd.Start()
		syscall.Umask(old)
		done <- err
	}
	return <-done
}

// A child is one running process of a role.
type child struct {
	pid    int
	start  uint64 // kernel's start time
	since  time.Time
	bare   string // why it runs without a network namespace of its own; empty if it has one
	ended  chan struct{}
	exit   exit // after ended
	reader *os.File
}

const maskSelf, maskGroup = 0o077, 0o007

// launch starts a role once. Its output goes to the journal.
func (s *starter) launch(r Role, dir string, socks *listening, j *journal) (*child, error) {
	c := &child{since: time.Now(), ended: make(chan struct{})}
	mask := maskSelf
	if r.Makes != "" {
		mask = maskGroup // the client's group may use what it makes
		if err := os.Remove(filepath.Join(dir, r.Makes)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err // a socket of the former run would block the next
		}
	}
	cmd, w, err := c.command(r, dir, socks, r.Isolate)
	if err != nil {
		return nil, err
	}
	if err = s.start(cmd, mask); err != nil && r.Isolate {
		first := err // the kernel may refuse namespaces; the role says in its status what it lacks
		_ = errors.Join(w.Close(), c.reader.Close())
		if cmd, w, err = c.command(r, dir, socks, false); err != nil {
			return nil, err
		}
		if err = s.start(cmd, mask); err == nil {
			c.bare = "network namespace: " + first.Error()
		}
	}
	_ = w.Close()
	if err != nil {
		_ = c.reader.Close()
		return nil, err
	}
	c.pid, c.start = cmd.Process.Pid, startOf(cmd.Process.Pid)
	go c.wait(cmd, j)
	return c, nil
}

// command prepares one start. The pipe's writing end is the child's.
func (c *child) command(r Role, dir string, socks *listening, isolate bool) (*exec.Cmd, *os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c.reader = read
	args := r.Args
	if r.Late != nil {
		args = append(slices.Clone(args), r.Late()...)
	}
	extra := socks.files
	if r.Key != nil {
		args = append(slices.Clone(args), "-key-fd", strconv.Itoa(3+len(extra)))
		extra = append(slices.Clone(extra), r.Key)
	}
	cmd := exec.Command(r.Path, args...)
	cmd.Dir, cmd.Env = dir, append(append([]string{}, r.Env...), socks.env()...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = write, write, extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if isolate {
		isolateNetwork(cmd.SysProcAttr)
	}
	return cmd, write, nil
}

// isolateNetwork gives the child a network namespace that has nothing but a
// loopback device that is down. A user other than root needs a user namespace
// for that, in which it keeps its uid and gets no rights after exec.
func isolateNetwork(a *syscall.SysProcAttr) {
	a.Cloneflags = syscall.CLONE_NEWNET
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
}

// wait collects the output and the end of the process.
func (c *child) wait(cmd *exec.Cmd, j *journal) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		j.follow(c.reader)
	}()
	err := cmd.Wait()
	_ = syscall.Kill(-c.pid, syscall.SIGKILL) // what it may have left in its group
	// The pipe ends with its last writer; one that escaped the group must not hold us.
	_ = c.reader.SetReadDeadline(time.Now().Add(time.Second))
	<-read
	_ = c.reader.Close()
	c.exit = exitOf(cmd.ProcessState, err)
	close(c.ended)
}

func exitOf(st *os.ProcessState, err error) exit {
	if st == nil {
		return exit{code: 1, err: err}
	}
	if w, ok := st.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exit{code: -1, signal: w.Signal()}
	}
	return exit{code: st.ExitCode()}
}

// stop ends the process: it is asked, and after the grace it is killed.
func (c *child) stop(grace time.Duration) {
	_ = syscall.Kill(-c.pid, syscall.SIGTERM)
	select {
	case <-c.ended:
		return
	case <-time.After(grace):
	}
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	<-c.ended
}
