// Command loopd is the agent loop: session logs, prompt assembly, turns. It
// holds no credential and needs no network: it reaches the inference server
// through inferproxy's Unix socket, brokerd through another, and answers its
// clients on two more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"

	"boxmaker/internal/daemon"
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
		fmt.Fprintln(os.Stderr, "loopd:", err)
		os.Exit(exitUsage)
	}
	d := daemon.New("loopd")
	err = run(d, o)
	d.Close()
	var no *refusal
	switch {
	case errors.As(err, &no):
		fmt.Fprintln(os.Stderr, "loopd:", no)
		os.Exit(exitRefused)
	case err != nil && !errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "loopd:", err)
		os.Exit(exitFailed)
	}
}

// options are the command line.
type options struct {
	config, sessions, infer, broker string
	listen, listenGateway           string
	uid                             uint64
	dieWithParent                   bool
	peers                           []uint32
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("loopd", flag.ContinueOnError)
	f.StringVar(&o.config, "config", "", "configuration `file` (loopd.toml); none means all defaults")
	f.StringVar(&o.sessions, "sessions", "", "`folder` of the session logs")
	f.StringVar(&o.infer, "infer", "", "`socket` of inferproxy")
	f.StringVar(&o.broker, "broker", "", "`socket` of brokerd; none means that no tool can run")
	f.StringVar(&o.listen, "listen", "", "`socket` for the owner's clients")
	f.StringVar(&o.listenGateway, "listen-gateway", "", "`socket` for gatewayd; none if there is no gateway")
	f.Uint64Var(&o.uid, "uid", 0, "user `id` to drop to when started as root")
	f.BoolVar(&o.dieWithParent, "die-with-parent", false, "end when the program that started this one ends")
	f.Func("peer", "user `id` that may connect (may be repeated; default: own and root)", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 32)
		o.peers = append(o.peers, uint32(n))
		return err
	})
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; everything is a flag (see loopd -h)", f.Arg(0))
	case o.sessions == "" || o.infer == "" || o.listen == "":
		return o, errors.New("-sessions, -infer and -listen are needed (see loopd -h); `bxctl up` starts loopd with all of them")
	case o.uid > 1<<31:
		return o, errors.New("-uid is out of range")
	}
	if len(o.peers) == 0 {
		o.peers = []uint32{0, uint32(os.Getuid())}
	}
	return o, nil
}
