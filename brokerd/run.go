package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"boxmaker/brokerd/internal/boot"
	"boxmaker/brokerd/internal/settings"
	"boxmaker/internal/daemon"
	"boxmaker/internal/secret"
)

// refusal is an error that the owner must mend before brokerd can start.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// run opens everything, confines the process, and serves until it is told to end.
func run(d *daemon.Daemon, o options) error {
	set := settings.Default()
	if o.config != "" {
		var err error
		if set, err = settings.Load(o.config); err != nil {
			return &refusal{err}
		}
	}
	if set.Secrets.Key != "" {
		o.key = set.Secrets.Key
	}
	key, err := o.secretKey()
	if err != nil {
		return &refusal{err}
	}
	h, err := boot.Hold(boot.Folders{Audit: o.audit, State: o.state, Grants: o.grants, Secrets: o.secrets, Key: key}, o.dropsTo())
	if err != nil {
		return err
	}
	defer h.Close()
	listen := func(name, path string) (net.Listener, error) { return d.Listener(name, path) }
	loopd, err := listen("broker", o.broker)
	if err != nil {
		return err
	}
	defer loopd.Close()
	owner, err := listen("owner", o.owner)
	if err != nil {
		return err
	}
	defer owner.Close()
	clock, err := boot.Clock()
	if err != nil {
		return err
	}
	own := append(o.own, o.grants, o.audit, o.state, o.secrets, filepath.Dir(o.key), filepath.Dir(o.config))
	if run, err := os.Getwd(); err == nil {
		own = append(own, run)
	}
	cfg := boot.Config{
		Audit: h.Audit, State: h.State, Grants: h.Grants(own...), Secrets: h.Secrets(), Settings: set,
		Clock: clock, Version: daemon.Version, Name: boot.Names(o.peersOwner...), Log: d.Log(),
		Known: o.known, Accept: o.accept, Gateway: o.chat,
	}
	if err := cfg.Parts(o.runner, o.egress, o.doors); err != nil {
		return err
	}
	cfg.Confined = d.Confine(confinement(o, h))
	b, err := boot.Open(cfg)
	if err != nil {
		return refusedOr(err)
	}
	defer b.Close()
	err = b.Serve(d.Context(), boot.Door{Listener: loopd, Peers: o.peersLoopd}, boot.Door{Listener: owner, Peers: o.peersOwner}, d.Ready)
	if errors.Is(err, context.Canceled) && d.Context().Err() != nil {
		return nil
	}
	return err
}

// secretKey finds the key. What was handed over is read and closed at once.
func (o options) secretKey() (secret.Key, error) {
	key := secret.FindKey(os.Getenv, o.key)
	if o.keyFD == 0 {
		return key, nil
	}
	f := os.NewFile(uintptr(o.keyFD), "key")
	defer f.Close()
	var err error
	key.Unlocked, err = secret.ReadUnlocked(f)
	return key, err
}

// refusedOr tells what starting again cannot mend from the rest.
func refusedOr(err error) error {
	var no *boot.Refused
	if errors.As(err, &no) {
		return &refusal{no}
	}
	return fmt.Errorf("brokerd cannot start: %w", err)
}

// dropsTo is the user that brokerd will be; 0 if it stays what it is.
func (o options) dropsTo() int {
	if os.Geteuid() == 0 {
		return int(o.uid)
	}
	return 0
}

// confinement is what brokerd needs: its log, its state and its doors to write;
// grants, secrets and key to read; and the sockets of runnerd, egressd and gatewayd. It
// needs no network.
func confinement(o options, h *boot.Held) daemon.Confinement {
	c := daemon.Confinement{
		ReadWrite: []string{o.audit, o.state}, ReadOnly: h.ReadOnly(),
		UID: uint32(o.uid), NoNetwork: true, DieWithParent: o.dieWithParent,
	}
	if o.doors != "" {
		c.ReadWrite = append(c.ReadWrite, o.doors)
	}
	for _, s := range []string{o.runner, o.egress, o.chat} {
		if s != "" {
			c.ReadOnly = append(c.ReadOnly, filepath.Dir(s))
		}
	}
	// Where a secret is added, brokerd goes through a door of egressd itself. All
	// doors are shared with runnerd's group, which brokerd's own folder shows.
	if up := filepath.Dir(filepath.Dir(o.egress)); filepath.Base(up) == "egressd" {
		c.ReadOnly = append(c.ReadOnly, up)
	}
	if g, ok := groupOf(o.doors); ok && o.dropsTo() != 0 {
		c.Groups = append(c.Groups, g)
	}
	return c
}

// groupOf is the group that may enter a folder, never that of root.
func groupOf(dir string) (uint32, bool) {
	fi, err := os.Stat(dir)
	if err != nil {
		return 0, false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return st.Gid, ok && st.Gid != 0
}
