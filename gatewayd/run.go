package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/gatewayd/internal/settings"
	"boxmaker/internal/config"
	"boxmaker/internal/daemon"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"

	"golang.org/x/sync/errgroup"
)

// maxConns holds an approval each, and what brokerd asks beside them.
const maxConns = 128

// maxLooks is for people, who ask how it is.
const maxLooks = 8

// settled is how long gatewayd lives before it ends for new settings: a supervisor
// would take ends that follow each other closely for crashes.
const settled = 20 * time.Second

// run opens what only root may, confines the process, and works until it is told to end.
func run(d *daemon.Daemon, o options) error {
	began := time.Now()
	state, err := os.OpenRoot(o.state)
	if err != nil {
		return &config.Error{What: "the folder of gatewayd's state cannot be opened", Do: "start gatewayd with bxctl up, which makes it", Runbook: "gatewayd-state", Err: err}
	}
	defer state.Close()
	set, err := settings.Read(o.config, state)
	if err != nil {
		return err
	}
	if set.Trouble != nil {
		d.Log().Error("the settings were changed and cannot be used; what held before still holds", "error", set.Trouble.Error())
	}
	chat, err := client(d, o, set.Settings)
	if err != nil {
		return err
	}
	l, err := d.Listener("gateway", o.listen)
	if err != nil {
		return err
	}
	defer l.Close()
	var status net.Listener
	if o.status != "" {
		if status, err = d.Listener("status", o.status); err != nil {
			return err
		}
		defer status.Close()
	}
	if _, err := x509.SystemCertPool(); err != nil { // it is read once, and out of reach later
		d.Log().Warn("the certificates that this machine trusts cannot be read", "error", err.Error())
	}
	// From here on as the user whom the files belong to, so that what is made is its own.
	confined := d.Confine(confinement(o, set.URL))
	p := parts{d: d, o: o, set: set, chat: chat, state: state, confined: confined, began: began}
	return p.serve(l, status)
}

// client makes the client of the server, with the token.
func client(d *daemon.Daemon, o options, set settings.Settings) (*mattermost.Client, error) {
	key := o.key
	if set.Secrets.Key != "" {
		key = set.Secrets.Key
	}
	store, err := secret.Open(secret.Config{Dir: o.secrets, File: settings.StoreName, Key: secret.Key{File: key}, Owner: int(o.secretsOwner)})
	if err != nil {
		return nil, noToken(err)
	}
	token, err := store.Get(settings.TokenName)
	if err != nil {
		return nil, noToken(err)
	}
	c, err := mattermost.New(mattermost.Config{URL: set.URL, Token: token, Plain: set.Plain, Log: d.Log()})
	if err != nil {
		return nil, noToken(err)
	}
	return c, nil
}

func noToken(err error) error {
	why := err.Error()
	var e *config.Error
	if errors.As(err, &e) { // without its mend: the setup does all of it
		why = e.What
	}
	return &config.Error{What: "the bot's token cannot be had: " + why, Do: "run bxctl mattermost setup", Runbook: "mattermost-token", Err: err}
}

// parts are what was opened.
type parts struct {
	d     *daemon.Daemon
	o     options
	set   *settings.Current
	chat  *mattermost.Client
	state *os.Root
	began time.Time

	confined []proto.Check
	front    front
	past     int64 // see bridge.BotConfig; of one life after the other
}

// serve does the work.
func (p *parts) serve(l, status net.Listener) error {
	server := &ipc.Server{Listener: l, Requests: proto.GatewayRequests, Peers: p.o.peers, MaxConns: maxConns, Log: p.d.Log(), Handle: p.answer}
	g, ctx := errgroup.WithContext(p.d.Context())
	g.Go(func() error { return ended(ctx, "the socket for brokerd", server.Serve(ctx)) })
	if status != nil {
		looks := &ipc.Server{Listener: status, Requests: proto.GatewayLooks, Peers: p.o.peersStatus, MaxConns: maxLooks, Log: p.d.Log(), Handle: p.answer}
		g.Go(func() error { return ended(ctx, "the socket for bxctl", looks.Serve(ctx)) })
	}
	g.Go(func() error { return p.live(ctx) })
	p.d.Ready()
	err := g.Wait()
	if p.d.Context().Err() != nil {
		return nil
	}
	return err
}

// ended makes an error of the end of a part that nobody asked for.
func ended(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil:
		return fmt.Errorf("%s ended by itself", what)
	}
	return err
}

// check is a row of the status, if the settings cannot be used as they are.
func (p *parts) check() []proto.Check {
	if p.set.Trouble == nil {
		return nil
	}
	return []proto.Check{{Name: "settings", State: "failed", Detail: "gatewayd.toml cannot be used, so that what held before still holds: " + p.set.Trouble.Error(), Runbook: "gatewayd-settings"}}
}

// confinement is what gatewayd needs: its state to write, loopd's socket, the port of
// its server, and what tells it how names are resolved.
func confinement(o options, server string) daemon.Confinement {
	return daemon.Confinement{
		ReadWrite:  []string{o.state},
		ReadOnly:   append([]string{filepath.Dir(o.loop)}, daemon.ResolverFiles()...),
		ConnectTCP: []uint16{mattermost.Port(server), 53},
		UID:        uint32(o.uid), DieWithParent: o.dieWithParent,
	}
}
