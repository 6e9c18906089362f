// Command runnerd starts containers for brokerd: one fresh, rootless container
// for each call that brokerd has decided on. It decides nothing, keeps nothing,
// and knows neither grants nor audit log; it is a program of its own because
// what starts containers must be able to mount, which Landlock forbids to a
// process and all that it starts.
//
// It never runs as root: started as root it makes what needs root, once, and
// then becomes the user given by -uid.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"

	"boxmaker/internal/daemon"
	"boxmaker/runnerd/internal/settings"
	"boxmaker/runnerd/internal/stage"
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
		fmt.Fprintln(os.Stderr, "runnerd:", err)
		os.Exit(exitUsage)
	}
	if os.Getuid() == 0 && o.uid == 0 {
		fmt.Fprintln(os.Stderr, "runnerd: it was started as root without -uid, and no tool is ever run by root; `bxctl up` gives it a user of its own (see runbook: runner-root)")
		os.Exit(exitRefused)
	}
	uid := 0
	if os.Getuid() == 0 {
		uid = int(o.uid)
	}
	set := settings.Default()
	if o.config != "" {
		set, err = settings.Load(o.config)
	}
	var ready stage.Info
	if err == nil {
		ready, err = stage.Enter(stage.Options{Bundles: o.bundles, Toolkit: o.toolkit, UID: uid, OneUser: set.Runtime == "podman"})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "runnerd:", err)
		os.Exit(exitRefused)
	}
	d := daemon.New("runnerd")
	err = run(d, o, set, ready)
	d.Close()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "runnerd:", err)
		os.Exit(exitFailed)
	}
}

// options are the command line.
type options struct {
	config, listen, toolkit, bundles string
	uid                              uint64
	dieWithParent                    bool
	peers                            []uint32
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("runnerd", flag.ContinueOnError)
	f.StringVar(&o.config, "config", "", "configuration `file` (runnerd.toml); none means all defaults")
	f.StringVar(&o.listen, "listen", "", "`socket` for brokerd")
	f.StringVar(&o.toolkit, "toolkit", "", "`file` of the toolkit program, which becomes the first process of every container; toolfetch lies beside it")
	f.StringVar(&o.bundles, "bundles", "", "`folder` for what a running call needs; it becomes this user's own")
	f.Uint64Var(&o.uid, "uid", 0, "user `id` to drop to when started as root")
	f.BoolVar(&o.dieWithParent, "die-with-parent", false, "end when the program that started this one ends")
	f.Func("peer", "user `id` that may connect (may be repeated; default: own)", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 32)
		o.peers = append(o.peers, uint32(n))
		return err
	})
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; everything is a flag (see runnerd -h)", f.Arg(0))
	case o.listen == "" || o.toolkit == "" || o.bundles == "":
		return o, errors.New("-listen, -toolkit and -bundles are needed (see runnerd -h); `bxctl up` starts runnerd with all of them")
	case o.uid > 1<<31:
		return o, errors.New("-uid is out of range")
	}
	return o, nil
}
