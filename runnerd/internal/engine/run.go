package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/runnerd/internal/box"
	"boxmaker/runnerd/internal/cgroup"
	"boxmaker/runnerd/internal/runtime"
	"boxmaker/runnerd/internal/settings"
	"boxmaker/runnerd/internal/space"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// A run is one container.
type run struct {
	rt     runtime.Runtime
	box    *box.Box
	group  *cgroup.Group
	launch *proto.Launch
	log    *slog.Logger
	space  *space.Watch
	time   time.Duration // default limits
	output int64
}

// Reasons to kill.
var (
	errTime   = errors.New("the time limit has passed")
	errOutput = errors.New("its output did not end")
)

// A full is the reason to kill a call that got a file system nearly full.
type full string

func (f full) Error() string { return string(f) }

// exitCheck is the status of a first process that found another object than the
// granted one mounted; see package main of toolkit.
const exitCheck = 126

// do starts the container and waits for the end of all of it.
func (r *run) do(ctx context.Context) *proto.Ended {
	start, err := r.rt.Prepare(r.box)
	if err != nil {
		r.space.Close()
		return refused(fmt.Errorf("the container cannot be described: %w", err))
	}
	limit := r.time
	if r.launch.Limits.MS > 0 {
		limit = time.Duration(min(r.launch.Limits.MS, maxMS)) * time.Millisecond
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(limit, func() { cancel(errTime) }).Stop()

	go r.space.Run(ctx, func(why string) { cancel(full(why)) })
	out := newCapture(r.outputLimit(), func() { cancel(errOutput) })
	said := newCapture(maxSaid, nil)
	p, err := r.start(start, out, said)
	if err != nil {
		return &proto.Ended{Reason: proto.EndNoRuntime, Detail: fmt.Sprintf("%s cannot be started: %v", r.rt.Name(), err)}
	}
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	r.kill(start, p)
	oom := r.group.OOM()
	end := &proto.Ended{Exit: p.exit, Output: out.kept, Dropped: out.dropped, Detail: strings.TrimSpace(string(said.kept))}
	r.judge(ctx, end, oom)
	return end
}

const (
	maxSaid = 8 << 10
	maxMS   = 366 * 24 * 3600 * 1000 // what is more does not fit into a duration
)

func (r *run) outputLimit() int64 {
	if n := r.launch.Limits.Output; n > 0 {
		return min(n, settings.MaxOutput)
	}
	return r.output
}

// judge finds the reason of the end.
func (r *run) judge(ctx context.Context, end *proto.Ended, oom bool) {
	words, failed := r.rt.Failed(r.box, end.Exit, end.Detail)
	var nearly full
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTime):
		end.Reason = proto.EndTimeout
	case errors.Is(cause, errOutput):
		end.Reason = proto.EndOutput
	case errors.As(cause, &nearly):
		end.Reason, end.Detail = proto.EndDisk, string(nearly)+", so it was ended"+space.Mend
	case cause != nil:
		end.Reason, end.Detail = proto.EndKilled, "nobody waits any more"
	case oom:
		end.Reason = proto.EndMemory
	case failed:
		end.Reason, end.Detail = proto.EndNoRuntime, words
		var no *box.Refused
		if err := box.Check(r.launch); errors.As(err, &no) {
			end.Reason, end.Detail = no.Reason, no.Detail
		}
		end.Exit, end.Output = 0, nil
	case end.Exit == exitCheck && len(end.Output) == 0 && strings.HasPrefix(end.Detail, "mount:"):
		end.Reason, end.Exit = proto.EndMount, 0
	default:
		end.Reason = proto.EndExit
	}
}

// A process is the runtime's, with the pipes of the container.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its pipes are read
	exit int           // valid after done
}

// start starts the runtime on a thread of its own, which stays until the end:
// the kernel tells a child of its parent's death when the parent's thread ends.
func (r *run) start(s runtime.Start, out, said *capture) (*process, error) {
	cmd := exec.Command(s.Path, s.Args...)
	if s.Name != "" {
		cmd.Args[0] = s.Name
	}
	cmd.Env, cmd.Dir = s.Env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(r.launch.Input), out, said
	secrets, err := r.secrets(cmd)
	if err != nil {
		return nil, err
	}
	cmd.WaitDelay = time.Second // for pipes that something else still holds
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		goruntime.LockOSThread()
		clean, err := r.group.Start(cmd)
		secrets(err == nil)
		started <- err
		if err == nil {
			_ = cmd.Wait() // the status says it
			p.exit = status(cmd.ProcessState)
		}
		if clean {
			goruntime.UnlockOSThread()
		} // else the thread ends with this goroutine
	}()
	return p, <-started
}

func status(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// secrets makes descriptor 3: a pipe, so that the values are never on disk, in
// an argument or in the environment. What it returns is called after the start.
func (r *run) secrets(cmd *exec.Cmd) (func(started bool), error) {
	if !r.box.Secrets {
		return func(bool) {}, nil
	}
	values := map[string]string{}
	for _, s := range r.launch.Secrets {
		values[s.Name] = s.Value
	}
	text, err := json.Marshal(values, json.Deterministic(true))
	if err != nil {
		return nil, errors.New("a secret is no valid text") // its error could quote the value
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{read}
	return func(started bool) {
		read.Close()
		if started {
			var wait sync.WaitGroup
			wait.Go(func() {
				defer write.Close()
				_ = write.SetWriteDeadline(time.Now().Add(time.Minute))
				_, _ = write.Write(text) // a tool need not read it
			})
			return
		}
		write.Close()
	}, nil
}

// kill ends whatever of the container is left, and waits for the runtime.
func (r *run) kill(s runtime.Start, p *process) {
	select {
	case <-p.done:
		if p.exit < 128 { // the runtime ended by itself, hence after the container
			return
		}
	default:
	}
	r.group.Kill()
	kill := func() {
		killPID(s.PID)
		if err := r.rt.Remove(context.Background(), r.box.ID); err != nil {
			r.log.Warn("a container could not be removed at once", "error", err.Error())
		}
	}
	kill()
	// Without a control group, a container that the runtime is just making has no
	// process yet that could be found, and would run until the runtime is given up.
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for enough, ended := time.After(2*time.Second), false; !ended; {
		select {
		case <-p.done:
			ended = true
		case <-enough:
			ended = true
		case <-again.C:
			killPID(s.PID)
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	kill() // a container that it had just begun to make
}

// killPID kills the first process of the container by the runtime's note, which
// takes all others with it.
func killPID(file string) {
	if file == "" {
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		return
	}
	// The number may be another's by now: only one in a pid namespace below ours is meant.
	nspid, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil || !firstOfNamespace(string(nspid)) {
		return
	}
	_ = unix.Kill(pid, unix.SIGKILL)
}

func firstOfNamespace(status string) bool {
	_, rest, ok := strings.Cut(status, "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	f := strings.Fields(line)
	return ok && len(f) > 1 && f[len(f)-1] == "1"
}

// A capture keeps the first bytes of a stream and counts the others. When there
// are far too many it calls flood, once.
type capture struct {
	limit   int64
	kept    []byte
	dropped int64
	flood   func()
}

// floodFactor times the limit is where output counts as endless.
const floodFactor = 8

func newCapture(limit int64, flood func()) *capture { return &capture{limit: limit, flood: flood} }

// Write never fails: a tool that is cut off in writing would end in another way
// than it does alone.
func (c *capture) Write(b []byte) (int, error) {
	n := min(int64(len(b)), c.limit-int64(len(c.kept)))
	c.kept = append(c.kept, b[:n]...)
	c.dropped += int64(len(b)) - n
	if c.flood != nil && c.dropped > floodFactor*max(c.limit, 1<<20) {
		c.flood()
		c.flood = nil
	}
	return len(b), nil
}

var _ io.Writer = (*capture)(nil)
