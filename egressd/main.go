// Command egressd is the only way out for tools: for each call that may reach
// hosts it opens a door, a Unix socket that speaks HTTP proxy, resolves the
// names itself, and connects to addresses that it checked. It holds no secret
// and keeps nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"boxmaker/internal/config"
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
	// It moves bytes and computes nothing: a small heap and few threads keep it
	// small on a large machine.
	debug.SetGCPercent(40)
	runtime.GOMAXPROCS(min(4, runtime.GOMAXPROCS(0)))
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "egressd:", err)
		os.Exit(exitUsage)
	}
	d := daemon.New("egressd")
	err = run(d, o)
	d.Close()
	var no *config.Error
	switch {
	case errors.As(err, &no):
		fmt.Fprintln(os.Stderr, "egressd:", err)
		os.Exit(exitRefused)
	case err != nil && !errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "egressd:", err)
		os.Exit(exitFailed)
	}
}

// options are the command line.
type options struct {
	config, listen, doors, resolver string
	uid                             uint64
	dieWithParent                   bool
	peers                           []uint32
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("egressd", flag.ContinueOnError)
	f.StringVar(&o.config, "config", "", "configuration `file` (egressd.toml); none means all defaults")
	f.StringVar(&o.listen, "listen", "", "`socket` for brokerd")
	f.StringVar(&o.doors, "doors", "", "`folder` for the doors; brokerd is told their paths as they begin here")
	f.StringVar(&o.resolver, "resolver", "", "name server `ip:port` instead of the configured one")
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
		return o, fmt.Errorf("unexpected argument %q; everything is a flag (see egressd -h)", f.Arg(0))
	case o.listen == "" || o.doors == "":
		return o, errors.New("-listen and -doors are needed (see egressd -h); `bxctl up` starts egressd with both")
	case o.uid > 1<<31:
		return o, errors.New("-uid is out of range")
	}
	if len(o.peers) == 0 {
		o.peers = []uint32{0, uint32(os.Getuid())}
	}
	return o, nil
}
