// Command gatewayd is the owner's chat: a bot on a Mattermost server, by which the
// owner talks to the agent and decides on calls. It opens connections to that server
// alone and listens nowhere but on a Unix socket for brokerd; loopd it asks over
// another. It holds the bot's token and no other secret.
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

	"boxmaker/gatewayd/internal/bridge"
	"boxmaker/gatewayd/internal/probe"
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
	// It moves text and computes nothing: a small heap and few threads keep it
	// small on a large machine.
	debug.SetGCPercent(40)
	runtime.GOMAXPROCS(min(4, runtime.GOMAXPROCS(0)))
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		os.Exit(probe.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gatewayd:", err)
		os.Exit(exitUsage)
	}
	d := daemon.New("gatewayd")
	err = run(d, o)
	d.Close()
	var no *config.Error
	switch {
	case errors.As(err, &no):
		fmt.Fprintln(os.Stderr, "gatewayd:", err)
		os.Exit(exitRefused)
	case errors.Is(err, bridge.ErrChanged): // said already; the next start reads them
	case err != nil && !errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "gatewayd:", err)
		os.Exit(exitFailed)
	}
}

// options are the command line.
type options struct {
	config, state, secrets, key string
	loop, listen, status        string
	peers, peersStatus          []uint32
	uid, secretsOwner           uint64
	dieWithParent               bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("gatewayd", flag.ContinueOnError)
	f.StringVar(&o.config, "config", "", "configuration `file` (gatewayd.toml)")
	f.StringVar(&o.state, "state", "", "`folder` of gatewayd's own state")
	f.StringVar(&o.secrets, "secrets", "", "`folder` of the store with the bot's token")
	f.StringVar(&o.key, "key", "", "`file` with the key of that store")
	f.StringVar(&o.loop, "loop", "", "`socket` of loopd")
	f.StringVar(&o.listen, "listen", "", "`socket` for brokerd")
	f.StringVar(&o.status, "listen-status", "", "`socket` for the owner's bxctl, which may ask how gatewayd is and nothing else")
	f.Func("peer", "user `id` of brokerd (may be repeated; default: own and root)", uids(&o.peers))
	f.Func("peer-status", "user `id` that may use that of -listen-status (may be repeated; default: own and root)", uids(&o.peersStatus))
	f.Uint64Var(&o.uid, "uid", 0, "user `id` to drop to when started as root")
	f.Uint64Var(&o.secretsOwner, "secrets-owner", 0, "user `id` that store and key belong to, if it is another than that")
	f.BoolVar(&o.dieWithParent, "die-with-parent", false, "end when the program that started this one ends")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; everything is a flag (see gatewayd -h)", f.Arg(0))
	case o.config == "" || o.state == "" || o.secrets == "" || o.key == "" || o.loop == "" || o.listen == "":
		return o, errors.New("-config, -state, -secrets, -key, -loop and -listen are needed (see gatewayd -h); `bxctl up` starts gatewayd with all of them")
	case o.uid > 1<<31 || o.secretsOwner > 1<<31:
		return o, errors.New("-uid or -secrets-owner is out of range")
	}
	for _, peers := range []*[]uint32{&o.peers, &o.peersStatus} {
		if len(*peers) == 0 {
			*peers = []uint32{0, uint32(os.Getuid())}
		}
	}
	return o, nil
}

// uids collects user ids.
func uids(to *[]uint32) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseUint(s, 10, 32)
		*to = append(*to, uint32(n))
		return err
	}
}
