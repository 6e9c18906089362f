package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/runnerd/internal/box"
	"boxmaker/runnerd/internal/cgroup"
	"boxmaker/runnerd/internal/runtime"
	"boxmaker/runnerd/internal/settings"

	"golang.org/x/sys/unix"
)

// shell is a runtime whose boxes are shell scripts: a launch's input.
type shell struct {
	mu      sync.Mutex
	failed  string // what Failed says
	removed int
	warm    error
	pid     string // file with the pid of the first process
}

func (s *shell) Name() string { return "shell" }

func (s *shell) Prepare(b *box.Box) (runtime.Start, error) {
	return runtime.Start{Path: "/bin/sh", PID: s.pid, Env: []string{"PATH=/usr/bin:/bin"}, Args: []string{"-c", `[ "$0" != probe ] || { echo toolkit Seccomp=2 NoNewPrivs=1; exit; }; . /dev/stdin`, b.Argv[len(b.Argv)-1]}}, nil
}

func (s *shell) Failed(*box.Box, int, string) (string, bool) { return s.failed, s.failed != "" }

func (s *shell) Remove(context.Context, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed++
	return nil
}
func (s *shell) Warm(context.Context) error  { return s.warm }
func (s *shell) Sweep(context.Context) error { return nil }

func engine(t *testing.T, rt *shell, change func(*Config)) *Engine {
	t.Helper()
	c := Config{
		Runtime: Candidate{Runtime: rt}, Settings: settings.Default(), Bundles: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Host: box.Host{Toolkit: "/opt/toolkit"},
	}
	if change != nil {
		change(&c)
	}
	return New(c)
}

func script(text string) *proto.Launch {
	return &proto.Launch{Call: "s/1/1/1", Entry: "act", Input: text + "\n", Userland: proto.UserlandNone}
}

// launch gives the answer, once nothing is left of the call.
func launch(ctx context.Context, e *Engine, l *proto.Launch) (end *proto.Ended) {
	e.Launch(ctx, l, func(got *proto.Ended) { end = got })
	return end
}

func TestEnds(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		limits       proto.Limits
		failed       string
		reason       proto.EndReason
		exit         int
		output       string
		detail       string
	}{
		{"well", "echo hello", proto.Limits{}, "", proto.EndExit, 0, "hello\n", ""},
		{"a status", "echo oh >&2; exit 3", proto.Limits{}, "", proto.EndExit, 3, "", "oh"},
		{"a signal", "kill -9 $$", proto.Limits{}, "", proto.EndExit, 137, "", ""},
		{"time", "echo x; exec sleep 100", proto.Limits{MS: 300}, "", proto.EndTimeout, 137, "x\n", ""},
		{"flood", "yes", proto.Limits{Output: 6}, "", proto.EndOutput, 137, "y\ny\ny\n", ""},
		{"a swapped mount", "echo mount: /a is another >&2; exit 126", proto.Limits{}, "", proto.EndMount, 0, "", "mount: /a is another"},
		{"the same words after output", "echo x; echo mount: /a >&2; exit 126", proto.Limits{}, "", proto.EndExit, 126, "x\n", "mount: /a"},
		{"the runtime failed", "echo x; exit 1", proto.Limits{}, "shell: no such thing", proto.EndNoRuntime, 0, "", "shell: no such thing"},
		{"memory that cannot be limited", "echo x", proto.Limits{Memory: 1 << 20}, "", proto.EndLimit, 0, "", "memory cannot be limited here"},
		{"processes that cannot be limited", "echo x", proto.Limits{PIDs: 9}, "", proto.EndLimit, 0, "", "number of processes cannot be limited here"},
		{"a flood of complaints", "head -c 100000 /dev/zero | tr '\\0' x >&2", proto.Limits{}, "", proto.EndExit, 0, "", "xxx"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rt := &shell{}
			e := engine(t, rt, nil)
			e.Status(t.Context())
			rt.failed = tc.failed
			l := script(tc.script)
			l.Limits = tc.limits
			got := launch(t.Context(), e, l)
			if got.Reason != tc.reason || got.Exit != tc.exit || string(got.Output) != tc.output || !strings.Contains(got.Detail, tc.detail) || len(got.Detail) > maxDetail+8 {
				t.Errorf("%s %d %q %.100s", got.Reason, got.Exit, got.Output, got.Detail)
			}
			if left, err := os.ReadDir(e.cfg.Bundles); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
			if _, err := proto.Encode(got); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAMissingPathIsToBlame(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rt := &shell{}
	e := engine(t, rt, nil)
	e.Status(t.Context())
	rt.failed = "cannot stat"
	l := script("rmdir " + dir) // gone between the check and the mount
	l.Mounts = []proto.Mount{{Path: dir}}
	if got := launch(t.Context(), e, l); got.Reason != proto.EndMount || !strings.Contains(got.Detail, "does not exist") {
		t.Errorf("%s %s", got.Reason, got.Detail)
	}
}

// TestAContainerThatIsJustMade: where there is no control group, a container that has
// no process yet when its call is stopped is killed as soon as it has one.
func TestAContainerThatIsJustMade(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := unix.Mkfifo(at("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := &shell{pid: at("pid")}
	e := engine(t, rt, nil)
	e.Status(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan *proto.Ended, 1)
	go func() {
		ended <- launch(ctx, e, script(strings.NewReplacer("DIR", dir, "MAPPED", map[bool]string{false: "-Ur"}[os.Getuid() == 0]).Replace(`
read begin <DIR/go
unshare MAPPED -pf sh -c 'while :; do echo >>DIR/ran; sleep 0.02; done' >/dev/null 2>&1 </dev/null &
while p=$(cat /proc/$!/task/$!/children) && [ -z "$p" ]; do :; done
echo $p >DIR/pid
wait`)))
	}()
	f, err := os.OpenFile(at("go"), os.O_WRONLY, 0) // the runtime is at work
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	<-ended
	if ran, err := os.ReadFile(at("ran")); len(ran) > 50 { // it would be looked for once, 2 s later
		t.Errorf("it ran %d rounds, %v", len(ran), err)
	}
	if _, err := os.Stat(at("pid")); err != nil {
		t.Error("the container was never made:", err)
	}
}

func TestNobodyWaits(t *testing.T) {
	rt := &shell{}
	e := engine(t, rt, func(c *Config) { c.Settings.Concurrent = 1 })
	e.Status(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	fifo := filepath.Join(t.TempDir(), "up")
	first := make(chan *proto.Ended, 1)
	go func() {
		first <- launch(ctx, e, script("mkfifo "+fifo+".x; touch "+fifo+"; exec sleep 100"))
	}()
	// The only place is taken, so that the second waits, and is told when it must not any more.
	gone, leave := context.WithCancel(t.Context())
	leave()
	for e.running.Load() == 0 {
		if _, err := os.Stat(fifo); err == nil {
			break
		}
	}
	if got := launch(gone, e, script("echo x")); got.Reason != proto.EndKilled || len(got.Output) > 0 {
		t.Errorf("%+v", got)
	}
	stop()
	if got := <-first; got.Reason != proto.EndKilled {
		t.Errorf("%+v", got)
	}
}

// Calls that last hold no turn for long: others start beside them.
func TestTurnsOfLongCalls(t *testing.T) {
	e := engine(t, &shell{}, func(c *Config) { c.Settings.Concurrent = cap(New(*c).starts) + 2 })
	e.Status(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	var long sync.WaitGroup
	for range cap(e.starts) + 1 {
		long.Go(func() {
			if got := launch(ctx, e, script("exec sleep 100")); got.Reason != proto.EndKilled {
				t.Errorf("%+v", got)
			}
		})
	}
	if got := launch(t.Context(), e, script("echo x")); got.Reason != proto.EndExit || string(got.Output) != "x\n" {
		t.Errorf("%+v", got)
	}
	stop()
	long.Wait()
}

func TestNoRuntime(t *testing.T) {
	e := engine(t, nil, func(c *Config) {
		c.Runtime, c.Notes = Candidate{Err: errors.New("crun is not here")}, []string{"no namespace"}
		c.Cgroups = cgroup.Base{Why: "not allowed"}
	})
	if got := launch(t.Context(), e, script("echo x")); got.Reason != proto.EndNoRuntime || !strings.Contains(got.Detail, "crun is not here; no namespace") {
		t.Errorf("%+v", got)
	}
	s := e.Status(t.Context())
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	want := map[string]string{"runtime": "failed", "memory limit": "skipped", "pids limit": "skipped", "seccomp": "pending", "userland": "pending"}
	for _, c := range s.Checks {
		if want[c.Name] != c.State || c.State != "pending" && c.Runbook == "" {
			t.Errorf("%+v", c)
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestASecretThatIsNotRead(t *testing.T) {
	e := engine(t, &shell{}, nil)
	l := script("exit 0")
	l.Secrets = []proto.LaunchSecret{{Name: "a", Value: strings.Repeat("x", 1<<20)}}
	if got := launch(t.Context(), e, l); got.Reason != proto.EndExit {
		t.Errorf("%+v", got)
	}
	l = script("cat <&3")
	l.Secrets = []proto.LaunchSecret{{Name: "b", Value: "2"}, {Name: "a", Value: "1"}}
	if got := launch(t.Context(), e, l); string(got.Output) != `{"a":"1","b":"2"}` {
		t.Errorf("%q", got.Output)
	}
}
