package main

import (
	"fmt"
	"net/netip"
	"time"

	"boxmaker/egressd/internal/address"
	"boxmaker/egressd/internal/door"
	"boxmaker/egressd/internal/resolve"
	"boxmaker/egressd/internal/serve"
	"boxmaker/egressd/internal/settings"
	"boxmaker/internal/config"
	"boxmaker/internal/daemon"
	"boxmaker/internal/proto"
)

// headTime is how long a tool may take to say what it wants.
const headTime = 10 * time.Second

// run opens everything, confines the process, and serves until it is told to end.
func run(d *daemon.Daemon, o options) error {
	set := settings.Default()
	if o.config != "" {
		var err error
		if set, err = settings.Load(o.config); err != nil {
			return err
		}
	}
	if o.resolver != "" {
		set.Resolver = o.resolver
		if err := set.Validate(); err != nil {
			return &config.Error{What: "-resolver cannot be used: " + err.Error(), Do: "give an address with a port, or leave it out", Runbook: "config-bad-value"}
		}
	}
	if _, err := door.Sweep(o.doors); err != nil {
		return fmt.Errorf("the folder of the doors cannot be used: %w; start egressd with bxctl up, which makes it (see runbook: egressd-door)", err)
	}
	l, err := d.Listener("egress", o.listen)
	if err != nil {
		return err
	}
	defer l.Close()
	confined := d.Confine(confinement(o, set))
	limits := set.Limits
	d.Ready()
	err = serve.Serve(d.Context(), l, serve.Config{
		Door: door.Config{
			Dir: o.doors, Lookup: resolve.New(set.Resolver).Lookup, Here: address.Here,
			Connections: limits.Connections, Attempts: limits.Attempts, Bytes: int64(limits.Bytes),
			Idle: time.Duration(limits.Idle), Head: headTime, Dial: time.Duration(limits.Dial), Log: d.Log(),
		},
		Doors: limits.Doors, Peers: o.peers, Log: d.Log(),
		Status: func() *proto.EgressStatus {
			return &proto.EgressStatus{Version: daemon.Version, Confinement: confined}
		},
	})
	if d.Context().Err() != nil {
		return nil
	}
	return err
}

// confinement is what egressd needs: its doors, and what tells it how names are
// resolved. Which hosts it connects to changes with each call, so TCP is open.
func confinement(o options, set settings.Settings) daemon.Confinement {
	c := daemon.Confinement{
		ReadWrite: []string{o.doors}, ReadOnly: daemon.ResolverFiles(),
		AnyTCP: true, ConnectTCP: []uint16{53},
		UID: uint32(o.uid), DieWithParent: o.dieWithParent,
	}
	if at, err := netip.ParseAddrPort(set.Resolver); err == nil {
		c.ConnectTCP = []uint16{at.Port()}
	}
	return c
}
