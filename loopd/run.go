package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"boxmaker/internal/daemon"
	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/agent"
	"boxmaker/loopd/internal/boot"
	"boxmaker/loopd/internal/broker"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/serve"
	"boxmaker/loopd/internal/session"
	"boxmaker/loopd/internal/settings"
	"boxmaker/loopd/internal/slot"

	"golang.org/x/sync/errgroup"
)

// refusal is an error that the owner must mend before loopd can start.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// brokerGrace is how long a resumed call waits for a brokerd that is starting.
const brokerGrace = 10 * time.Second

// retryPause stands before a failed request is sent once more.
const retryPause = 500 * time.Millisecond

// run opens everything, confines the process, and serves until it is told to end.
func run(d *daemon.Daemon, o options) error {
	set := settings.Default()
	if o.config != "" {
		var err error
		if set, err = settings.Load(o.config); err != nil {
			return &refusal{err}
		}
	}
	system, err := boot.SystemPrompt(set.Prompt.System)
	if err != nil {
		return &refusal{err}
	}
	root, err := os.OpenRoot(o.sessions)
	if err != nil {
		return fmt.Errorf("the sessions folder cannot be opened: %w (see runbook: session-log)", err)
	}
	defer root.Close()
	var listeners []net.Listener
	for name, path := range map[string]string{"loop": o.listen, "gateway": o.listenGateway} {
		if path == "" {
			continue
		}
		ln, err := d.Listener(name, path)
		if err != nil {
			return err
		}
		defer ln.Close()
		listeners = append(listeners, ln)
	}
	confined := d.Confine(confinement(o))
	store, err := session.OpenStore(root)
	if err != nil {
		return err
	}
	defer store.Close()

	model := llama.New(llama.Config{Socket: o.infer, Model: set.Upstream.Model, Limits: llama.Limits{
		FirstByte: time.Duration(set.Upstream.FirstByte), Load: time.Duration(set.Upstream.Load),
		Idle: time.Duration(set.Upstream.Idle), Reach: time.Duration(set.Upstream.Reach),
	}})
	gate := slot.New(slot.Slot{Name: "main", ID: set.Slots.Main}, slot.Slot{Name: "background", ID: set.Slots.Background})
	ag := agent.New(d.Context(), agent.Config{
		Store: store, Model: model, Broker: &broker.Client{Socket: o.broker, Grace: brokerGrace},
		Gate: gate, Settings: set, RetryPause: retryPause, Log: d.Log(), Now: time.Now,
	})
	bt := boot.New(boot.Config{Model: model, Settings: set, System: system, Log: d.Log()})
	return serveAll(d, listeners, serve.Config{Agent: ag, Store: store, Peers: o.peers, Log: d.Log(), Status: func() *proto.Status {
		s := bt.Status()
		s.Version, s.Confinement, s.Slots, s.OpenTurns = daemon.Version, confined, gate.States(), ag.OpenTurns()
		return s
	}}, ag, bt)
}

// serveAll runs listeners, self-test and agent until the first of them fails or
// the process is told to end.
func serveAll(d *daemon.Daemon, listeners []net.Listener, cfg serve.Config, ag *agent.Agent, bt *boot.Boot) error {
	g, ctx := errgroup.WithContext(d.Context())
	for _, ln := range listeners {
		g.Go(func() error { return serve.Serve(ctx, ln, cfg) })
	}
	d.Ready()
	g.Go(func() error {
		serving, err := bt.Run(ctx)
		if err != nil {
			if ctx.Err() == nil {
				err = &refusal{err}
			}
			return err
		}
		return ag.Serve(serving)
	})
	g.Go(func() error {
		defer context.AfterFunc(ctx, ag.End)()
		return ag.Wait()
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) && d.Context().Err() != nil {
		return nil
	}
	return err
}

// confinement is what loopd needs: its logs and two sockets. It needs no network.
// Started with relative paths it reaches the sockets from its working folder, even
// if its user may not enter the folders above.
func confinement(o options) daemon.Confinement {
	c := daemon.Confinement{
		ReadWrite: []string{o.sessions}, ReadOnly: []string{filepath.Dir(o.infer)},
		UID: uint32(o.uid), NoNetwork: true, DieWithParent: o.dieWithParent,
	}
	if o.broker != "" {
		c.ReadOnly = append(c.ReadOnly, filepath.Dir(o.broker))
	}
	return c
}
