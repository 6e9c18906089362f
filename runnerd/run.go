package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"boxmaker/internal/daemon"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/runnerd/internal/box"
	"boxmaker/runnerd/internal/crun"
	"boxmaker/runnerd/internal/engine"
	"boxmaker/runnerd/internal/podman"
	"boxmaker/runnerd/internal/runtime"
	"boxmaker/runnerd/internal/settings"
	"boxmaker/runnerd/internal/stage"

	"golang.org/x/sync/errgroup"
)

// noLandlock is what the report says instead of the rules.
const noLandlock = "it would forbid the containers' mounts; this program holds nothing and has a user of its own"

// run drops what is not needed, removes what a former start left, and serves.
func run(d *daemon.Daemon, o options, set settings.Settings, ready stage.Info) error {
	ln, err := d.Listener("runner", o.listen)
	if err != nil {
		return err
	}
	defer ln.Close()
	confined := d.Confine(daemon.Confinement{
		// A child has the death signal from its start, but loses it if the program was
		// started anew from another thread than the first.
		UID: uint32(o.uid), DieWithParent: o.dieWithParent || ready.Child, NoNetwork: true, NoLandlock: noLandlock,
	})
	if os.Geteuid() == 0 {
		return errors.New("root could not be given up, and no tool is ever run by root (see runbook: runner-root)")
	}
	e := engine.New(engine.Config{
		Runtime: candidate(set, ready), Cgroups: ready.Cgroups, Settings: set, Bundles: ready.Bundles, Log: d.Log(),
		Version: daemon.Version, Confined: confined, Notes: ready.Notes, Fetch: ready.Fetch,
		Host: box.Host{
			Toolkit: ready.Toolkit, Run: ready.Run, Root: set.Userland.Root, CA: certificates(), Hidden: ready.Hidden, Own: ready.Own,
			UID: os.Getuid(), GID: os.Getgid(),
		},
	})
	if err := e.Sweep(d.Context()); err != nil {
		d.Log().Error("what a former start left could not all be removed", "error", err.Error())
	}
	g, ctx := errgroup.WithContext(d.Context())
	g.Go(func() error {
		e.Status(ctx) // the first call need not wait for the trial
		return nil
	})
	g.Go(func() error {
		srv := ipc.Server{Listener: ln, Requests: proto.RunnerRequests, Peers: o.peers, MaxConns: 256, Log: d.Log(), Handle: handler(e)}
		return srv.Serve(ctx)
	})
	d.Ready()
	err = g.Wait()
	// Calls have ended with their connections; a runtime may keep something of its own.
	return errors.Join(err, e.Sweep(context.WithoutCancel(ctx)))
}

// handler answers one request; the connection's context is the container's life.
func handler(e *engine.Engine) func(context.Context, proto.Message, *ipc.Stream) {
	return func(ctx context.Context, req proto.Message, s *ipc.Stream) {
		switch m := req.(type) {
		case *proto.Launch:
			e.Launch(ctx, m, func(end *proto.Ended) { _ = s.Send(end) }) // whoever left does not hear it
		case *proto.GetRunner:
			_ = s.Send(e.Status(ctx))
		default:
			_ = s.Send(&proto.Error{Code: proto.ErrBadRequest, Text: "runnerd has no answer to this request", Runbook: "bad-request"})
		}
	}
}

// candidate is the runtime that the owner chose, or why it is not here.
func candidate(set settings.Settings, ready stage.Info) engine.Candidate {
	state := filepath.Join(ready.Bundles, set.Runtime)
	var rt runtime.Runtime
	var err error
	if set.Runtime == "podman" {
		rt, err = podman.New(set.Path, state)
	} else {
		rt, err = crun.New(set.Path, state)
	}
	return engine.Candidate{Runtime: rt, Err: err}
}

// certificates finds the bundle by which servers are known, with links resolved.
func certificates() string {
	for _, p := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"} {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return real
		}
	}
	return ""
}
