// Package program runs a program of the userland for the tools run and shell.
//
// The program starts with an environment made from nothing, standard input
// empty, standard output and error as two pipes that are read to their end with
// a bound on what is kept. When it ends, everything that it started is killed.
// The caller must be process 1 of a PID namespace for that to be all of it;
// elsewhere, in tests, it is the program's process group.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
	"boxmaker/toolkit/internal/filter"
	"boxmaker/toolkit/internal/tree"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// searchPath is where a program without a path is looked for.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Job is one program to run.
type Job struct {
	Argv    []string
	Dir     string
	Trees   tree.Set
	Env     []string          // beside the fixed ones
	Secrets map[string]string // on descriptor 3, as JSON, if there are any
	Limit   int64             // of the result, in bytes
	NoUnix  bool              // without Unix sockets, which this process has
}

// Run runs it to its end, or to that of ctx.
func Run(ctx context.Context, j Job) tool.Output {
	bin, err := j.prepare()
	if err != nil {
		return failed(err)
	}
	began := time.Now()
	p, err := start(bin, j)
	if err != nil {
		return failed(err)
	}
	state := p.wait(ctx)
	return j.output(p, state, time.Since(began))
}

func failed(err error) tool.Output {
	return tool.Output{Code: proto.CodeToolFailed, Text: string(proto.CodeToolFailed) + ": " + err.Error() + "."}
}

// prepare finds the program, and checks the working folder. The check is for a
// clear word only: what the program can reach is decided by the mounts.
func (j Job) prepare() (string, error) {
	ok := tree.Inside(j.Dir, "/tmp")
	for _, t := range append(append([]string{}, j.Trees.Read...), j.Trees.Write...) {
		ok = ok || tree.Inside(j.Dir, t)
	}
	if info, err := os.Stat(j.Dir); !ok || err != nil {
		return "", fmt.Errorf("there is no folder %s to work in; what was granted: %s", j.Dir, granted(j.Trees))
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s is not a folder to work in", j.Dir)
	}
	name := j.Argv[0]
	if strings.HasPrefix(name, "/") {
		if err := executable(name); err != nil {
			return "", err
		}
		return name, nil
	}
	for dir := range strings.SplitSeq(searchPath, ":") {
		if at := path.Join(dir, name); executable(at) == nil {
			return at, nil
		}
	}
	return "", fmt.Errorf("there is no program %q here; look what there is in /usr/bin", name)
}

func granted(s tree.Set) string {
	all := append(append([]string{"/tmp"}, s.Read...), s.Write...)
	return strings.Join(all[:min(len(all), 6)], ", ")
}

func executable(at string) error {
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return fmt.Errorf("there is no program %s here", at)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a program", at)
	case unix.Access(at, unix.X_OK) != nil:
		return fmt.Errorf("%s may not be executed", at)
	}
	return nil
}

// env is the whole environment of a program.
func (j Job) env() []string {
	return append([]string{"PATH=" + searchPath, "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", "TERM=dumb", "PWD=" + j.Dir}, j.Env...)
}

// process is a program that was started.
type process struct {
	pid      int
	out, err *capture
	secrets  *sender // nil: there are none
	ended    bool    // by us, since its time was over
}

// start forks. Only the descriptors listed here reach the program: all others
// close on exec.
func start(bin string, j Job) (*process, error) {
	p := &process{}
	given, err := p.pipes(j)
	defer closeAll(given)
	if err == nil {
		var fds []uintptr
		for _, f := range given {
			fds = append(fds, f.Fd()) // which makes it one that blocks, as programs expect
		}
		p.pid, err = j.fork(bin, &syscall.ProcAttr{Dir: j.Dir, Env: j.env(), Files: fds, Sys: &syscall.SysProcAttr{Setsid: true}})
	}
	if err != nil {
		p.abandon()
		return nil, explain(bin, err)
	}
	p.out.begin()
	p.err.begin()
	p.secrets.begin(j.Secrets)
	return p, nil
}

// fork starts the program. What it may not have is taken from a thread of its
// own, which ends once it has started the program.
func (j Job) fork(bin string, attr *syscall.ProcAttr) (pid int, err error) {
	if !j.NoUnix {
		return syscall.ForkExec(bin, j.Argv, attr)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never back
		if err = filter.Apply(); err == nil {
			pid, err = syscall.ForkExec(bin, j.Argv, attr)
		}
	}()
	<-done
	return pid, err
}

// pipes gives the program's descriptors, from 0 on.
func (p *process) pipes(j Job) (given []*os.File, err error) {
	in, err := empty()
	if err != nil {
		return nil, err
	}
	given = append(given, in)
	for _, c := range []**capture{&p.out, &p.err} {
		var w *os.File
		if *c, w, err = newCapture(j.Limit); err != nil {
			return given, err
		}
		given = append(given, w)
	}
	if len(j.Secrets) > 0 {
		r, w, err := os.Pipe()
		if err != nil {
			return given, err
		}
		p.secrets = &sender{w: w, done: make(chan struct{})}
		given = append(given, r)
	}
	return given, nil
}

// abandon closes our ends of the pipes of a program that did not start.
func (p *process) abandon() {
	for _, c := range []*capture{p.out, p.err} {
		if c != nil {
			_ = c.r.Close()
		}
	}
	if p.secrets != nil {
		_ = p.secrets.w.Close()
	}
}

// A sender passes the secrets on. A program that does not read them loses
// nothing: the pipe breaks when it has ended.
type sender struct {
	w    *os.File
	done chan struct{}
}

func (s *sender) begin(secrets map[string]string) {
	if s == nil {
		return
	}
	go func() {
		defer close(s.done)
		defer s.w.Close()
		if b, err := json.Marshal(secrets, json.Deterministic(true)); err == nil {
			_, _ = s.w.Write(b)
		}
	}()
}

func (s *sender) end() {
	if s != nil {
		_ = s.w.Close()
		<-s.done
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// empty is a standard input without a byte.
func empty() (*os.File, error) {
	if f, err := os.Open(os.DevNull); err == nil {
		return f, nil
	}
	r, w, err := os.Pipe()
	if err == nil {
		_ = w.Close()
	}
	return r, err
}

func explain(bin string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s is not a program that this machine can execute; a script needs #! in its first line", bin)
	case errors.Is(err, syscall.E2BIG):
		return errors.New("the arguments are too long; write the text to a file first")
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s may not be executed, or its folder allows no programs", bin)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%s needs an interpreter or a library that is not here", bin)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return errors.New("the program could not be started: the limit of processes or memory is reached")
	default:
		return fmt.Errorf("%s could not be started (%s)", bin, err)
	}
}
