// Command bxctl is the owner's command line: it sets Boxmaker up, runs its
// programs, and talks to the agent. It holds no state of its own beside the
// configuration files; all rights come from the sockets that its user can open.
package main

import (
	"context"
	"os"
	"time"

	"boxmaker/bxctl/internal/cli"
	"boxmaker/bxctl/internal/confined"
)

func main() {
	// Not for owners: how bxctl up starts a program that does not confine
	// itself. It becomes that program, so it must stay small.
	if len(os.Args) > 1 && os.Args[1] == "confined" {
		os.Exit(confined.Main(os.Args[2:], os.Environ(), os.Stderr))
	}
	os.Exit(cli.Main(context.Background(), cli.Env{
		Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Now: time.Now,
	}))
}
