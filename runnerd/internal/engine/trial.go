package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/runnerd/internal/runtime"
)

// A trial is what came of running a tool.
type trial struct {
	runtime runtime.Runtime // nil if it does not work
	words   string          // why not
	at      time.Time
	usr     string // why programs of the machine do not run; empty: they do
	said    string // what toolkit's probe said of itself
}

// again is how old a bad result may be.
const again = 5 * time.Second

// trialCall is the call id of trials. It is that of no session.
const trialCall = "runnerd/1/1/1"

// runtime gives the runtime that works here, and otherwise says why none does.
func (e *Engine) runtime(ctx context.Context) (runtime.Runtime, string) {
	t := e.trial(ctx)
	return t.runtime, t.words
}

// trial runs a tool in a container, the first time that it is asked for; a bad
// result is looked at anew after a moment.
func (e *Engine) trial(ctx context.Context) *trial {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.tried; t != nil && (t.runtime != nil || time.Since(t.at) < again) {
		return t
	}
	t := e.look(ctx)
	t.at = time.Now()
	if ctx.Err() == nil {
		e.tried = t
	}
	return t
}

func (e *Engine) look(ctx context.Context) *trial {
	c, err := e.cfg.Runtime, e.cfg.Runtime.Err
	t := &trial{}
	if err == nil {
		t.said, err = e.try(ctx, c.Runtime, proto.UserlandNone)
	}
	if err != nil {
		t.words = strings.Join(append([]string{err.Error()}, e.cfg.Notes...), "; ")
		return t
	}
	t.runtime = c.Runtime
	if _, err := e.try(ctx, c.Runtime, proto.UserlandUsr); err != nil {
		t.usr = err.Error()
	}
	return t
}

// try runs toolkit's probe, which needs no input, and gives its line.
func (e *Engine) try(ctx context.Context, rt runtime.Runtime, u proto.Userland) (string, error) {
	if err := rt.Warm(ctx); err != nil {
		return "", err
	}
	end, clean := e.call(ctx, rt, &proto.Launch{Call: trialCall, Entry: "probe", Userland: u, Limits: proto.Limits{MS: 20_000}})
	clean()
	said := clip(strings.TrimSpace(string(end.Output)), 300)
	if end.Reason == proto.EndExit && end.Exit == 0 && strings.HasPrefix(said, probeSays) {
		return said, nil
	}
	return "", fmt.Errorf("%s: a container did not run (%s, exit %d): %s %s", rt.Name(), end.Reason, end.Exit, end.Detail, said)
}

// probeSays is how the output of toolkit's probe begins.
const probeSays = "toolkit"

// Status tells what can be done here. It runs a container if none was run yet.
func (e *Engine) Status(ctx context.Context) *proto.RunnerStatus {
	t := e.trial(ctx)
	s := &proto.RunnerStatus{Version: e.cfg.Version, Running: int(e.running.Load()), Confinement: e.cfg.Confined, Runtime: e.cfg.Settings.Runtime}
	if t.runtime != nil {
		s.Runtime = t.runtime.Name()
	}
	s.Checks = []proto.Check{e.checkRuntime(t), e.checkLimit("memory limit", e.cfg.Cgroups.CanMemory(), "memory"), e.checkLimit("pids limit", e.cfg.Cgroups.CanPIDs(), "pids")}
	s.Checks = append(s.Checks, checkSeccomp(t), checkUserland(t))
	return s
}

func (e *Engine) checkRuntime(t *trial) proto.Check {
	if t.runtime == nil {
		return proto.Check{Name: "runtime", State: "failed", Runbook: "runner-no-runtime", Detail: "no tool can run: " + t.words}
	}
	return proto.Check{Name: "runtime", State: "ok", Detail: t.runtime.Name() + ": a tool ran in a container of its own"}
}

func (e *Engine) checkLimit(name string, can bool, what string) proto.Check {
	if can {
		return proto.Check{Name: name, State: "ok", Detail: "by a control group of each call"}
	}
	why := e.cfg.Cgroups.Why
	if why == "" {
		why = "no control group was delegated"
	}
	return proto.Check{
		Name: name, State: "skipped", Runbook: "runner-limits",
		Detail: fmt.Sprintf("no %s limit can be enforced, so that a call whose grant has one does not run: %s", what, why),
	}
}

// checkSeccomp believes what a process inside read of itself.
func checkSeccomp(t *trial) proto.Check {
	switch {
	case t.runtime == nil:
		return proto.Check{Name: "seccomp", State: "pending", Detail: "no container ran"}
	case !strings.Contains(t.said, " Seccomp=2") || !strings.Contains(t.said, " NoNewPrivs=1"):
		return proto.Check{Name: "seccomp", State: "failed", Runbook: "runner-no-seccomp", Detail: "no filter of system calls holds in the container: " + t.said}
	default:
		return proto.Check{Name: "seccomp", State: "ok", Detail: "the project's own profile"}
	}
}

func checkUserland(t *trial) proto.Check {
	switch {
	case t.runtime == nil:
		return proto.Check{Name: "userland", State: "pending", Detail: "no container ran"}
	case t.usr != "":
		return proto.Check{Name: "userland", State: "failed", Runbook: "runner-no-userland", Detail: "run and shell have no programs: " + t.usr}
	default:
		return proto.Check{Name: "userland", State: "ok", Detail: "/usr of this machine, read-only"}
	}
}
