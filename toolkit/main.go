// Command toolkit is the program inside a tool's container: its only one, or
// the first beside a userland. It reads what to do from standard input, does it
// and writes what came of it to standard output, as package tool says.
//
//	toolkit -check PATH=DEV:INO … ENTRY
//
// ENTRY is the name of a tool. Each -check names a mounted path and the device
// and inode that must stand there; if another does, nothing runs and the exit
// status is 126. The entry "probe" is no tool: it prints one line about the
// container and needs no input. A tool that fails is no failure of toolkit: status 0 and a
// code in the output. Status 2 is a use that makes no sense.
//
// It is made to be process 1 of a PID namespace: it reaps what is left to it,
// ends everything when its tool has ended, and cannot be read or traced by what
// it starts. It holds nothing that the call was not granted.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"boxmaker/internal/tool"
	"boxmaker/toolkit/internal/boot"
	"boxmaker/toolkit/internal/text"
)

// Exit statuses.
const (
	exitOK    = 0
	exitUse   = 2
	exitMount = 126
	exitTerm  = 128 + int(syscall.SIGTERM)
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	secrets, err := boot.Secrets() // first: nothing else may have descriptor 3
	if err == nil {
		err = boot.Harden()
	}
	if err != nil {
		return complain(stderr, exitUse, err)
	}
	if len(args) == 1 && args[0] == probeEntry {
		return probe(stdout, stderr)
	}
	ctx, stop := signals()
	defer stop()
	entry, checks, err := parse(args)
	if err != nil {
		return complain(stderr, exitUse, err)
	}
	for _, c := range checks {
		if err := c.Verify(); err != nil {
			return complain(stderr, exitMount, err)
		}
	}
	if entry == boot.ProbeEntry {
		fmt.Fprintln(stdout, boot.Probe())
		return exitOK
	}
	in, call, err := boot.Input(entry, stdin)
	if err != nil {
		return complain(stderr, exitUse, err)
	}
	if err := write(stdout, perform(ctx, in, call, secrets), in.Output); err != nil {
		return complain(stderr, exitUse, err)
	}
	return exitOK
}

func complain(w io.Writer, code int, err error) int {
	fmt.Fprintln(w, err)
	return code
}

func parse(args []string) (entry string, checks []boot.Check, err error) {
	for len(args) >= 2 && args[0] == "-check" {
		c, err := boot.ParseCheck(args[1])
		if err != nil {
			return "", nil, err
		}
		checks, args = append(checks, c), args[2:]
	}
	if len(args) != 1 {
		return "", nil, fmt.Errorf("use: toolkit -check PATH=DEV:INO … ENTRY")
	}
	return args[0], checks, nil
}

// grace is how long a tool may take to end after SIGTERM.
const grace = 2 * time.Second

// signals ends the context on SIGTERM, and the process if the tool does not
// heed that. All others that can be caught are caught and dropped: what runs
// inside may send them to us, and without a handler the Go runtime would end.
func signals() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c := make(chan os.Signal, 16)
	signal.Notify(c)
	go func() {
		for s := range c {
			if s == syscall.SIGTERM && ctx.Err() == nil {
				cancel()
				time.AfterFunc(grace, func() { os.Exit(exitTerm) })
			}
		}
	}()
	return ctx, func() { signal.Stop(c); cancel() }
}

// write writes the one document, however long the tool's text is.
func write(w io.Writer, out tool.Output, limit int64) error {
	s, gone := text.Fit(out.Text, limit)
	out.Text, out.Dropped = s, out.Dropped+gone
	out.Diff = text.Head(out.Diff, tool.MaxDiff)
	b, err := tool.EncodeOutput(out)
	if err != nil {
		return err
	}
	buf := bufio.NewWriter(w)
	_, _ = buf.Write(b)
	return buf.Flush()
}
