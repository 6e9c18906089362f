// Command brokerd is the authority: it decides on each tool call by the owner's
// grants, asks the owner where they say so, keeps the audit log, and has allowed
// calls run in containers by runnerd. It holds the owner's secrets and needs no
// network: it reaches runnerd and egressd through Unix sockets, and answers loopd
// and the owner's tools on two more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"

	"boxmaker/brokerd/internal/audit"
	"boxmaker/internal/daemon"
	"boxmaker/internal/proto"
)

// Exit codes. exitRefused tells a supervisor that starting again cannot help:
// the owner has to change something first.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 78 // EX_CONFIG of sysexits.h
)

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "brokerd:", err)
		os.Exit(exitUsage)
	}
	d := daemon.New("brokerd")
	err = run(d, o)
	d.Close()
	var no *refusal
	switch {
	case errors.As(err, &no):
		fmt.Fprintln(os.Stderr, "brokerd:", no)
		os.Exit(exitRefused)
	case err != nil && !errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "brokerd:", err)
		os.Exit(exitFailed)
	}
}

// options are the command line.
type options struct {
	config, grants, audit, state, secrets, key string
	broker, owner, runner, egress, doors, chat string
	peersLoopd, peersOwner                     []uint32
	own                                        []string
	known                                      []proto.AuditHead
	accept                                     *proto.AuditHead
	keyFD                                      int // 0: none
	uid                                        uint64
	dieWithParent                              bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("brokerd", flag.ContinueOnError)
	f.StringVar(&o.config, "config", "", "configuration `file` (brokerd.toml); none means all defaults")
	f.StringVar(&o.grants, "grants", "", "`folder` of the owner's grants")
	f.StringVar(&o.audit, "audit", "", "`folder` of the audit log")
	f.StringVar(&o.state, "state", "", "`folder` of brokerd's own state")
	f.StringVar(&o.secrets, "secrets", "", "`folder` of the store of secrets")
	f.StringVar(&o.key, "key", "", "`file` with the key of that store")
	f.IntVar(&o.keyFD, "key-fd", 0, "`descriptor` from which the key is read, opened, if its file is encrypted with a passphrase")
	f.StringVar(&o.broker, "broker", "", "`socket` for loopd")
	f.StringVar(&o.owner, "owner", "", "`socket` for the owner's tools")
	f.StringVar(&o.runner, "runner", "", "`socket` of runnerd; none means that nothing can run")
	f.StringVar(&o.egress, "egress", "", "`socket` of egressd; none means that no call reaches the network")
	f.StringVar(&o.chat, "gateway", "", "`socket` of gatewayd; none means that no approval is shown in a chat")
	f.StringVar(&o.doors, "doors", "", "`folder` for sockets of calls whose requests get a secret added")
	f.Func("peer-loopd", "user `id` of loopd (may be repeated; default: own and root)", uids(&o.peersLoopd))
	f.Func("peer-owner", "user `id` of the owner (may be repeated; default: own and root)", uids(&o.peersOwner))
	f.Func("own", "a `folder` of Boxmaker in which nothing can be granted, beside those above (may be repeated)", func(s string) error {
		o.own = append(o.own, s)
		return nil
	})
	f.Func("anchor", "`N:HASH`, a head that the audit log must have (may be repeated)", func(s string) error {
		h, err := audit.ParseHead(s)
		o.known = append(o.known, h)
		return err
	})
	f.Func("accept", "`N:HASH`, the end of an audit log to go on with although it lacks such a head; that is put on record", func(s string) error {
		h, err := audit.ParseHead(s)
		o.accept = &h
		return err
	})
	f.Uint64Var(&o.uid, "uid", 0, "user `id` to drop to when started as root")
	f.BoolVar(&o.dieWithParent, "die-with-parent", false, "end when the program that started this one ends")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; everything is a flag (see brokerd -h)", f.Arg(0))
	case o.grants == "" || o.audit == "" || o.state == "" || o.secrets == "" || o.broker == "" || o.owner == "":
		return o, errors.New("-grants, -audit, -state, -secrets, -broker and -owner are needed (see brokerd -h); `bxctl up` starts brokerd with all of them")
	case o.keyFD != 0 && o.keyFD < 3:
		return o, errors.New("-key-fd is one of the standard descriptors")
	case o.uid > 1<<31:
		return o, errors.New("-uid is out of range")
	}
	for _, p := range []*[]uint32{&o.peersLoopd, &o.peersOwner} {
		if len(*p) == 0 {
			*p = []uint32{0, uint32(os.Getuid())}
		}
	}
	return o, nil
}

func uids(to *[]uint32) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseUint(s, 10, 32)
		*to = append(*to, uint32(n))
		return err
	}
}
