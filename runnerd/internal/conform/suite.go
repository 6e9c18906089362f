package conform

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"boxmaker/internal/proto"
)

// Suite runs everything with one runtime.
func Suite(t *testing.T, runtime string) {
	w := New(t, runtime, Probe)
	for _, c := range []struct {
		name string
		test func(*testing.T, *World)
	}{
		{"the tool's own end", ends},
		{"time limit", timeLimit},
		{"output", output},
		{"memory", memory},
		{"fork bomb", forkBomb},
		{"nothing outlives the first process", orphans},
		{"a connection that goes", disconnect},
		{"secrets leave no trace", secrets},
		{"mounts", mounts},
		{"paths that are refused", refusals},
		{"hidden paths", hidden},
		{"hidden paths stay where they are", pinned},
		{"swapped between check and mount", swapped},
		{"identity", identity},
		{"surroundings", surroundings},
		{"system calls", systemCalls},
		{"network", network},
		{"userland", userland},
		{"many at once", many},
		{"disks that get full", disks},
		{"kill -9 of runnerd", killed},
		{"kill -9 at every step", killedAtEveryStep},
		{"kill -9 in the first moments", killedAtFirst},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, w) })
	}
}

// ended says what differs from an end.
func ended(t *testing.T, e *proto.Ended, reason proto.EndReason, detail string) {
	t.Helper()
	if e.Reason != reason || !strings.Contains(e.Detail, detail) {
		t.Errorf("%s (exit %d): %s %.200s; want %s: %s", e.Reason, e.Exit, e.Detail, e.Output, reason, detail)
	}
}

func ends(t *testing.T, w *World) {
	e := w.Run(t, Launch("echo hello there", "complain some words"))
	if e.Reason != proto.EndExit || e.Exit != 0 || string(e.Output) != "hello there\n" || e.Detail != "some words" || e.Dropped != 0 {
		t.Errorf("%+v %s", e, e.Output)
	}
	for _, code := range []int{1, 7, 125, 126, 127, 255} {
		if e := w.Run(t, Launch("exit "+strconv.Itoa(code))); e.Reason != proto.EndExit || e.Exit != code {
			t.Errorf("exit %d: %s %d %s", code, e.Reason, e.Exit, e.Detail)
		}
	}
	long := strings.Repeat("x", 1<<20)
	if e := w.Run(t, Launch("echo "+long[:800_000])); len(e.Output) != 800_001 {
		t.Errorf("%d bytes through standard input", len(e.Output))
	}
}

// timeLimit doubles the limit until the container is up before it passes.
func timeLimit(t *testing.T, w *World) {
	for ms := int64(2000); ms < 100_000; ms *= 2 {
		door, held := w.Door(t)
		l := Launch("echo before", "deaf", "hold")
		l.Door, l.Limits.MS = door, ms
		m, err := w.Begin(t, l).Recv()
		e, ok := m.(*proto.Ended)
		if err != nil || !ok {
			t.Fatal(m, err)
		}
		ended(t, e, proto.EndTimeout, "")
		if string(e.Output) == "" {
			continue
		}
		if string(e.Output) != "before\n" {
			t.Errorf("what it said before: %q", e.Output)
		}
		select {
		case h := <-held:
			h.gone(t)
			return
		default: // it ended between the two
		}
	}
	t.Error("no container was up in time")
}

func output(t *testing.T, w *World) {
	l := Launch("echo 0123456789abcdef")
	l.Limits.Output = 10
	if e := w.Run(t, l); e.Reason != proto.EndExit || string(e.Output) != "0123456789" || e.Dropped != 7 {
		t.Errorf("%+v", e)
	}
	l = Launch("flood")
	l.Limits.Output = 1000
	if e := w.Run(t, l); e.Reason != proto.EndOutput || len(e.Output) != 1000 || e.Dropped < 1<<20 {
		t.Errorf("%s: %d bytes, %d dropped: %s", e.Reason, len(e.Output), e.Dropped, e.Detail)
	}
}

func memory(t *testing.T, w *World) {
	l := Launch("eat")
	l.Limits.Memory = 64 << 20
	if !w.Memory {
		ended(t, w.Run(t, l), proto.EndLimit, "memory cannot be limited here")
		return
	}
	ended(t, w.Run(t, l), proto.EndMemory, "")
}

func forkBomb(t *testing.T, w *World) {
	l := Launch("fork")
	l.Limits.PIDs = 64
	if !w.PIDs {
		ended(t, w.Run(t, l), proto.EndLimit, "number of processes cannot be limited here")
		return
	}
	n, err := strconv.Atoi(w.Says(t, l)["forked"])
	if err != nil || n > 64+16 || n < 10 {
		t.Errorf("%d processes, %v", n, err)
	}
}

func orphans(t *testing.T, w *World) {
	door, held := w.Door(t)
	l := Launch("orphan", "echo done")
	l.Door = door
	if said := w.Says(t, l); said["orphan"] != "<nil>" {
		t.Fatal(said)
	}
	wait(t, w, held).gone(t)
}

func disconnect(t *testing.T, w *World) {
	door, held := w.Door(t)
	l := Launch("deaf", "orphan", "hold")
	l.Door = door
	c := w.Begin(t, l)
	one, two := wait(t, w, held), wait(t, w, held)
	c.Close()
	one.gone(t)
	two.gone(t)
	w.empty(t)
}

// empty waits until no call has left a folder, and no runtime a container.
func (w *World) empty(t *testing.T) {
	t.Helper()
	l := Launch("echo")
	w.Run(t, l) // it is served by the same program
	deadline(t, func() error {
		entries, err := os.ReadDir(filepath.Join(w.Home, "run", "bundles"))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "bm-") {
				return errors.New("left behind: " + e.Name())
			}
		}
		state, err := os.ReadDir(filepath.Join(w.Home, "run", "bundles", "crun"))
		if err == nil && len(state) > 0 {
			return fmt.Errorf("containers left: %v", state)
		}
		return nil
	})
}

const canary = "canary-9f2c41d7e8"

func secrets(t *testing.T, w *World) {
	door, held := w.Door(t)
	l := Launch("env", "secret", "hold")
	l.Door, l.Secrets = door, []proto.LaunchSecret{{Name: "a-token", Value: canary}, {Name: "b", Value: "\"quoted\"\n"}}
	c := w.Begin(t, l)
	h := wait(t, w, held)
	// Now it has read its secret and lives.
	err := filepath.WalkDir(w.Home, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // what ends meanwhile
		}
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), canary) {
			t.Errorf("%s has the secret", p)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		for _, f := range []string{"cmdline", "environ"} {
			if b, err := os.ReadFile(filepath.Join(p, f)); err == nil && strings.Contains(string(b), canary) {
				t.Errorf("%s/%s has the secret", p, f)
			}
		}
	}
	if strings.Contains(w.Log(), canary) {
		t.Error("the log has the secret")
	}
	c.Close()
	h.gone(t)
	l = Launch("env", "secret")
	l.Secrets = []proto.LaunchSecret{{Name: "b", Value: "\"q\""}, {Name: "a-token", Value: canary}}
	said := w.Says(t, l)
	if said["secret"] != `{"a-token":"`+canary+`","b":"\"q\""} <nil>` {
		t.Errorf("%s", said["secret"])
	}
	if strings.Contains(said["env"], canary) {
		t.Error("the environment has the secret")
	}
}

func many(t *testing.T, w *World) {
	door, held := w.Door(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			l := Launch("ask "+strconv.Itoa(i), "echo "+strconv.Itoa(i))
			l.Door = door
			if e := w.Run(t, l); e.Reason != proto.EndExit || !strings.HasSuffix(string(e.Output), "\n"+strconv.Itoa(i)+"\n") {
				t.Errorf("%d: %s %d %s %s", i, e.Reason, e.Exit, e.Detail, e.Output)
			}
		})
	}
	var conns []Held
	for range 8 {
		conns = append(conns, wait(t, w, held))
	}
	// All eight live at the same time.
	for _, h := range conns {
		if _, err := fmt.Fprintln(h, "yes"); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
}

func killed(t *testing.T, w *World) {
	door, held := w.Door(t)
	l := Launch("deaf", "orphan", "hold")
	l.Door = door
	w.Begin(t, l)
	one, two := wait(t, w, held), wait(t, w, held)
	w.Kill(t)
	w.Start(t)
	one.gone(t)
	two.gone(t)
	w.empty(t)
}
