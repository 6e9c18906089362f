// Command inferproxy is loopd's only way to the inference server: one Unix
// socket in, one fixed upstream out, bytes both ways. It holds nothing but the
// upstream's address, links the standard library only, and neither parses nor
// logs what passes through.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"boxmaker/inferproxy/internal/forward"
)

func main() {
	// A forwarder allocates little and computes nothing: a small heap and two
	// threads at work are enough, and keep its memory small on a large machine.
	debug.SetGCPercent(20)
	runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stderr))
}

// run is main with its surroundings given. Exit codes: 0 after a signal, 1 if
// it could not serve, 2 for wrong flags.
func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) int {
	c, listen, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "inferproxy: %v; see inferproxy -help (see runbook: inferproxy-flags)\n", err)
		return 2
	}
	l, err := forward.Handed(getenv)
	if l == nil && err == nil {
		if listen == "" {
			err = errors.New("no socket was handed over and there is no -listen")
		} else {
			l, err = forward.Listen(listen)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "inferproxy: cannot listen: %v (see runbook: inferproxy-listen)\n", err)
		return 1
	}
	var n forward.Counts
	c.Log.Info("started", "network", c.Network, "conns", c.Conns, "rate", c.Rate)
	err = c.Serve(ctx, l, &n)
	c.Log.Info("ended", "accepted", n.Accepted.Load(), "refused", n.Refused.Load(), "unreachable", n.Unreachable.Load(), "broken", n.Broken.Load())
	if err != nil {
		fmt.Fprintf(stderr, "inferproxy: stopped accepting: %v (see runbook: inferproxy-listen)\n", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (c forward.Config, listen string, err error) {
	c = forward.Config{DialTimeout: 10 * time.Second, Linger: 10 * time.Second, Log: slog.New(slog.NewJSONHandler(stderr, nil)).With("daemon", "inferproxy")}
	f := flag.NewFlagSet("inferproxy", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run tells of errors, once
	f.StringVar(&listen, "listen", "", "Unix socket to serve; a socket handed over with LISTEN_FDS=1 goes first")
	upstream := f.String("upstream", "", "where the inference server is: tcp:HOST:PORT or unix:PATH")
	f.IntVar(&c.Conns, "conns", 64, "connections at once")
	f.Float64Var(&c.Rate, "rate", 200, "connections accepted in a second")
	f.Func("peer", "user id that may connect; can be given several times (default: this user and root)", func(s string) error {
		uid, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return errors.New("not a user id")
		}
		c.Peers = append(c.Peers, uint32(uid))
		return nil
	})
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(stderr)
			f.PrintDefaults()
		}
		return c, "", err
	}
	if c.Peers == nil {
		c.Peers = []uint32{0, uint32(os.Geteuid())}
	}
	switch {
	case f.NArg() > 0:
		return c, "", fmt.Errorf("unexpected argument %q", f.Arg(0))
	case c.Conns < 1 || c.Conns > 1<<14:
		return c, "", fmt.Errorf("-conns %d: must be 1 to 16384", c.Conns)
	case !(c.Rate > 0 && c.Rate <= 1e6):
		return c, "", fmt.Errorf("-rate %v: must be over 0, at most 1000000", c.Rate)
	}
	return c, listen, setUpstream(&c, *upstream)
}

// setUpstream reads tcp:HOST:PORT or unix:PATH.
func setUpstream(c *forward.Config, s string) error {
	network, address, _ := strings.Cut(s, ":")
	c.Network, c.Address = network, address
	switch network {
	case "":
		return errors.New("-upstream is missing: give tcp:HOST:PORT or unix:PATH")
	case "unix":
		if address == "" {
			return errors.New("-upstream unix: has no path")
		}
		return nil
	case "tcp":
		host, port, err := net.SplitHostPort(address)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
			return fmt.Errorf("-upstream %q: want tcp:HOST:PORT, such as tcp:127.0.0.1:8080 or tcp:[::1]:8080", s)
		}
		return nil
	default:
		return fmt.Errorf("-upstream %q: want tcp:HOST:PORT or unix:PATH", s)
	}
}
