// Package engine runs launches: one fresh container each, from the queue to the
// last process.
//
// It guarantees that a container never outlives its call: it ends with the time
// limit, with too much output, when nobody waits any more, and with its first
// process; and in each case all of it is killed before the answer is given. Its
// folder and control group are removed after that, before another call has its
// place. A limit that was granted and cannot be enforced ends the
// call before anything runs. It does not judge whether a call may run, and it
// does not read what a tool puts out.
package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/runnerd/internal/box"
	"boxmaker/runnerd/internal/cgroup"
	"boxmaker/runnerd/internal/runtime"
	"boxmaker/runnerd/internal/settings"
	"boxmaker/runnerd/internal/space"
)

// Config is what an Engine works with.
type Config struct {
	Runtime  Candidate
	Cgroups  cgroup.Base
	Settings settings.Settings
	Bundles  string   // folder of the calls, as the runtime sees it
	Host     box.Host // what is the same in all boxes
	Fetch    string   // the toolkit of http_fetch, which has another; empty: not here
	Log      *slog.Logger
	Version  string
	Confined []proto.Check
	Notes    []string // what went wrong before, for the owner
}

// A Candidate is a runtime that may be here.
type Candidate struct {
	Runtime runtime.Runtime // only if Err is nil
	Err     error           // why it is not here
}

// Engine runs launches. It is safe for concurrent use.
type Engine struct {
	cfg     Config
	places  chan struct{}
	starts  chan struct{} // see turn
	running atomic.Int64

	mu    sync.Mutex // guards what follows; held while a runtime is tried
	tried *trial
}

// New makes an Engine. Sweep is for the caller to call.
func New(cfg Config) *Engine {
	return &Engine{cfg: cfg, places: make(chan struct{}, cfg.Settings.Concurrent), starts: make(chan struct{}, goruntime.NumCPU())}
}

// Sweep removes what a former runnerd left: containers, control groups, and the
// folders of calls.
func (e *Engine) Sweep(ctx context.Context) error {
	errs := []error{e.cfg.Cgroups.Sweep()}
	if c := e.cfg.Runtime; c.Err == nil {
		errs = append(errs, c.Runtime.Sweep(ctx))
	}
	entries, err := os.ReadDir(e.cfg.Bundles)
	errs = append(errs, err)
	for _, f := range entries {
		if strings.HasPrefix(f.Name(), runtime.Prefix) {
			errs = append(errs, removeAll(filepath.Join(e.cfg.Bundles, f.Name())))
		}
	}
	return errors.Join(errs...)
}

// removeAll removes a call's folder. It holds mount points and files of our own
// only: nothing that was granted is mounted in this mount namespace.
func removeAll(dir string) error { return os.RemoveAll(dir) }

// Launch runs one call. ctx is the life of the connection. answer is called once,
// with how the call ended; Launch returns when nothing is left of it.
func (e *Engine) Launch(ctx context.Context, l *proto.Launch, answer func(*proto.Ended)) {
	nobody := &proto.Ended{Reason: proto.EndKilled, Detail: "nobody waits any more", Output: []byte{}}
	select {
	case e.places <- struct{}{}:
	case <-ctx.Done():
		answer(nobody)
		return
	}
	defer func() { <-e.places }()
	e.running.Add(1)
	defer e.running.Add(-1)
	began := time.Now()
	rt, words := e.runtime(ctx)
	if rt == nil {
		answer(e.ended(l, began, &proto.Ended{Reason: proto.EndNoRuntime, Detail: words}))
		return
	}
	over, ok := e.turn(ctx)
	if !ok {
		answer(nobody)
		return
	}
	end, clean := e.call(ctx, rt, l)
	over()
	answer(e.ended(l, began, end))
	clean()
}

// turn waits until a call may start. There are as many turns as processors, and
// one is over with the call, or after a moment if that takes longer. So short
// calls that come together are done one after another, each as fast as one
// alone, instead of all at once, each as slow as all.
func (e *Engine) turn(ctx context.Context) (over func(), ok bool) {
	select {
	case e.starts <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	over = sync.OnceFunc(func() { <-e.starts })
	time.AfterFunc(turnTime, over)
	return over, true
}

// turnTime is longer than a short call takes, also on a slow machine: there two
// at once take about 100 ms each.
const turnTime = 250 * time.Millisecond

// ended completes what is said of a call, and logs it.
func (e *Engine) ended(l *proto.Launch, began time.Time, end *proto.Ended) *proto.Ended {
	if end.Output == nil {
		end.Output = []byte{}
	}
	end.Detail = clip(end.Detail, maxDetail)
	end.MS = time.Since(began).Milliseconds()
	e.cfg.Log.Info("call ended", "call", l.Call, "tool", l.Entry, "reason", string(end.Reason), "exit", end.Exit, "ms", end.MS, "output", len(end.Output), "dropped", end.Dropped)
	return end
}

const maxDetail = 4 << 10

func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// newID names a container. It says nothing of the call: runtimes show it to
// every user of the machine in their process list.
func newID() string {
	b := make([]byte, 10)
	_, _ = rand.Read(b) // never fails
	return runtime.Prefix + hex.EncodeToString(b)
}

// fetchEntry is the tool whose program is not the toolkit: what reads web pages
// takes too long to start for all the others.
const fetchEntry = "http_fetch"

// call makes folder, group and box of one call and runs it. What it made is
// removed by clean, which is there in any case.
func (e *Engine) call(ctx context.Context, rt runtime.Runtime, l *proto.Launch) (end *proto.Ended, clean func()) {
	id := newID()
	dir := filepath.Join(e.cfg.Bundles, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return &proto.Ended{Reason: proto.EndInternal, Detail: fmt.Sprintf("the folder of the call cannot be made: %v", err)}, func() {}
	}
	var group *cgroup.Group
	clean = func() {
		if group != nil {
			if err := group.Remove(); err != nil {
				e.cfg.Log.Error("the control group of a call could not be removed; the next start tries again", "error", err.Error())
			}
		}
		if err := removeAll(dir); err != nil {
			e.cfg.Log.Error("the folder of a call could not be removed; the next start tries again", "error", err.Error())
		}
	}
	host := e.cfg.Host
	host.Dir = dir
	if l.Entry == fetchEntry {
		if host.Toolkit = e.cfg.Fetch; host.Toolkit == "" {
			return &proto.Ended{Reason: proto.EndNoRuntime, Detail: "the program toolfetch did not lie beside the toolkit when runnerd started; build it with `make build`"}, clean
		}
	}
	b, err := box.Make(id, l, host)
	if err != nil {
		return refused(err), clean
	}
	memory, pids, err := e.limits(l, b)
	if err != nil {
		return refused(err), clean
	}
	if group, err = e.cfg.Cgroups.Make(id, memory, pids); err != nil {
		if l.Limits.Memory == 0 && l.Limits.PIDs == 0 {
			return &proto.Ended{Reason: proto.EndInternal, Detail: "control group: " + err.Error()}, clean
		}
		return &proto.Ended{Reason: proto.EndLimit, Detail: err.Error()}, clean
	}
	watch, err := e.room(l)
	if err != nil {
		return refused(err), clean
	}
	r := &run{rt: rt, box: b, group: group, launch: l, log: e.cfg.Log, space: watch, time: time.Duration(e.cfg.Settings.Limits.Time), output: int64(e.cfg.Settings.Limits.Output)}
	return r.do(ctx), clean
}

func refused(err error) *proto.Ended {
	var r *box.Refused
	if errors.As(err, &r) {
		return &proto.Ended{Reason: r.Reason, Detail: r.Detail}
	}
	return &proto.Ended{Reason: proto.EndInternal, Detail: err.Error()}
}

// room watches the file systems that a call may write, if there is room in them.
func (e *Engine) room(l *proto.Launch) (*space.Watch, error) {
	var paths []string
	for _, m := range l.Mounts {
		if m.Write {
			paths = append(paths, m.Path)
		}
	}
	w, err := space.Open(paths, int64(e.cfg.Settings.Limits.DiskFree))
	if err != nil {
		return nil, &box.Refused{Reason: proto.EndMount, Detail: err.Error()}
	}
	if why := w.Low(); why != "" {
		w.Close()
		return nil, &box.Refused{Reason: proto.EndNoRoom, Detail: why + ", so nothing ran" + space.Mend}
	}
	return w, nil
}

// lastNProc is the limit of processes where no control group has one: it counts
// all of the user's processes, also those that are no tools.
const lastNProc = 4096

// limits are those for the control group. A default that cannot be enforced
// there is replaced by the weaker limit of each process; one that was granted
// is an error.
func (e *Engine) limits(l *proto.Launch, b *box.Box) (memory, pids int64, err error) {
	can := e.cfg.Cgroups
	memory, pids = l.Limits.Memory, l.Limits.PIDs
	if memory > 0 && !can.CanMemory() || pids > 0 && !can.CanPIDs() {
		_, err := can.Make("", memory, pids) // says why
		return 0, 0, &box.Refused{Reason: proto.EndLimit, Detail: fmt.Sprint(err)}
	}
	if memory == 0 && can.CanMemory() {
		memory = int64(e.cfg.Settings.Limits.Memory)
	} else if memory == 0 {
		b.Limits.Data = int64(e.cfg.Settings.Limits.Memory)
	}
	if pids == 0 && can.CanPIDs() {
		pids = int64(e.cfg.Settings.Limits.PIDs)
	} else if pids == 0 {
		b.Limits.NProc = max(lastNProc, int64(e.cfg.Settings.Limits.PIDs))
	}
	return memory, pids, nil
}
