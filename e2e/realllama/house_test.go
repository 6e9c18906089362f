package realllama

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A house is inferproxy and loopd, started as they are, in a home of their own.
type house struct {
	*stack.Stack
	t        *testing.T
	upstream string
	daemons  map[string]*exec.Cmd
	turns    int
}

// newHouse starts a house whose inference server is at upstream (unix:PATH or
// tcp:HOST:PORT), with config as its loopd.toml, and returns when loopd takes
// turns.
func newHouse(t *testing.T, upstream, config string) *house {
	t.Helper()
	h := buildHouse(t, upstream, config)
	h.launchLoopd()
	h.waitReady()
	return h
}

// buildHouse starts all but loopd.
func buildHouse(t *testing.T, upstream, config string) *house {
	t.Helper()
	h := &house{Stack: stack.New(t), t: t, upstream: upstream, daemons: map[string]*exec.Cmd{}}
	for _, dir := range []string{h.Layout.Config, h.Layout.Sessions, h.Layout.Log} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(h.config(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h.launch("inferproxy", "-listen", h.Layout.Socket("inferproxy", "loopd", "infer"), "-upstream", upstream)
	t.Cleanup(func() {
		for name := range h.daemons {
			h.end(name)
		}
	})
	return h
}

// newDeskHouse is a house whose server stands behind a desk. The self-test's
// requests are already forgotten.
func newDeskHouse(t *testing.T, m model, config string, flags ...string) (*house, *desk) {
	t.Helper()
	d := newDesk(t, startServer(t, m, flags...))
	h := newHouse(t, "unix:"+d.socket, config)
	d.forget()
	return h, d
}

func (h *house) config() string { return filepath.Join(h.Layout.Config, "loopd.toml") }

func (h *house) launchLoopd() {
	h.t.Helper()
	h.launch("loopd", "-config", h.config(), "-sessions", h.Layout.Sessions,
		"-infer", h.Layout.Socket("inferproxy", "loopd", "infer"), "-listen", h.Socket())
}

// waitReady returns when loopd takes turns.
func (h *house) waitReady() {
	h.t.Helper()
	waitUntil(h.t, "loopd is ready", func() bool {
		if h.gone("loopd") {
			h.t.Fatal("loopd ended by itself")
		}
		st, err := h.Status()
		return err == nil && st.State == "ready"
	})
}

// refusal waits until loopd ends by itself, and gives its exit code and what it
// printed.
func (h *house) refusal() (code int, printed string) {
	h.t.Helper()
	waitUntil(h.t, "loopd ends by itself", func() bool { return h.gone("loopd") })
	cmd := h.daemons["loopd"]
	delete(h.daemons, "loopd")
	_ = cmd.Wait()
	b, err := os.ReadFile(filepath.Join(h.Layout.Log, "loopd.log"))
	if err != nil {
		h.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// gone tells whether a daemon has ended; it is a zombie then.
func (h *house) gone(name string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.daemons[name].Process.Pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

func (h *house) launch(name string, args ...string) {
	h.t.Helper()
	f, err := os.OpenFile(filepath.Join(h.Layout.Log, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "BOXMAKER_HOME="+h.Home)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = dieWithTest()
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.daemons[name] = cmd
}

// end ends a daemon with SIGTERM.
func (h *house) end(name string) {
	_ = h.daemons[name].Process.Signal(syscall.SIGTERM)
	_ = h.daemons[name].Wait()
	delete(h.daemons, name)
}

// An outcome is a turn as its client saw it.
type outcome struct {
	Events []proto.Message
	Done   *proto.Done
}

// thinking, text: what was shown, joined.
func (o outcome) thinking() string {
	var b strings.Builder
	for _, e := range o.Events {
		if e, ok := e.(*proto.Thinking); ok {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// notices gives the kinds of the notices.
func (o outcome) notices() []proto.NoticeKind {
	var out []proto.NoticeKind
	for _, e := range o.Events {
		if n, ok := e.(*proto.Notice); ok {
			out = append(out, n.Kind)
		}
	}
	return out
}

// results gives the codes of the turn's calls; "" for one that went well.
func (o outcome) results() []proto.Code {
	var out []proto.Code
	for _, e := range o.Events {
		if r, ok := e.(*proto.Result); ok {
			out = append(out, r.Code)
		}
	}
	return out
}

// start submits a message and gives each event to each, on a goroutine that the
// returned function waits for.
func (h *house) start(session, text string, each func(proto.Message)) (wait func() outcome) {
	h.t.Helper()
	h.turns++
	m := &proto.Submit{Session: session, Origin: fmt.Sprintf("origin-%d", h.turns), Text: text, Surface: proto.SurfaceChat}
	ctx, cancel := context.WithTimeout(h.t.Context(), patience())
	var o outcome
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		_, err = h.Submit(ctx, m, func(e proto.Message) {
			o.Events = append(o.Events, e)
			if each != nil {
				each(e)
			}
		})
	})
	return func() outcome {
		h.t.Helper()
		wg.Wait()
		if err != nil {
			h.t.Fatalf("submit to %s: %v", session, err)
		}
		last := o.Events[len(o.Events)-1]
		var ok bool
		if o.Done, ok = last.(*proto.Done); !ok {
			h.t.Fatalf("submit to %s ended in %T %v", session, last, last)
		}
		return o
	}
}

// turn submits a message, waits for the end, and checks the outcome.
func (h *house) turn(session, text string, want proto.TurnOutcome) outcome {
	h.t.Helper()
	o := h.start(session, text, nil)()
	if o.Done.Outcome != want {
		h.t.Fatalf("%s: outcome %s, want %s: %s (runbook %s)", session, o.Done.Outcome, want, o.Done.Text, o.Done.Runbook)
	}
	return o
}

// free starts a turn whose replies are the model's own. A tiny one may well ask
// for the time so often that the turn is ended, which is an end in good order too.
func (h *house) free(session, text string) (wait func() outcome) {
	h.t.Helper()
	ended := h.start(session, text, nil)
	return func() outcome {
		h.t.Helper()
		o := ended()
		if k := o.Done.Outcome; k != proto.TurnAnswered && k != proto.TurnCapped {
			h.t.Errorf("%s: outcome %s: %s (runbook %s)", session, k, o.Done.Text, o.Done.Runbook)
		}
		return o
	}
}

// stop stops a session's turn. It may be called on any goroutine.
func (h *house) stop(session string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience())
	defer cancel()
	m, err := ipc.Ask(ctx, h.Socket(), proto.LoopEvents, &proto.Stop{Session: session})
	if err != nil {
		h.t.Error(err)
	} else if s, ok := m.(*proto.Stopped); !ok || !s.Running {
		h.t.Errorf("stop: %T %+v", m, m)
	}
}

// log reads the newest epoch of a session; every check of reading applies.
func (h *house) log(session string) stack.Epoch {
	h.t.Helper()
	all, err := h.Epochs()
	if err != nil {
		h.t.Fatal(err)
	}
	var newest stack.Epoch
	for _, e := range all {
		if e.Session == session {
			newest = e
		}
	}
	if newest.Lines == nil || newest.Torn != 0 {
		h.t.Fatalf("log of %s: %d records, %d bytes torn", session, len(newest.Lines), newest.Torn)
	}
	return newest
}

// records gives the records of one type in a session's newest epoch.
func records[R proto.Record](h *house, session string) []R {
	h.t.Helper()
	var out []R
	for _, l := range h.log(session).Lines {
		if r, ok := l.Record.(R); ok {
			out = append(out, r)
		}
	}
	return out
}
