// Package confined is `bxctl confined`: it shuts the process in and becomes
// another program. bxctl up starts the programs with it that do not confine
// themselves.
//
// It guarantees that the program has no way to new rights, runs as the uid
// that was named, and (but for -open) can open no file and reach no server
// that was not named. What the kernel cannot do is logged and not fatal.
package confined

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"

	"boxmaker/internal/daemon"
)

// Main runs `bxctl confined [flags] -- PROGRAM [ARG…]`. It returns only with
// an exit code of a failure.
func Main(args, env []string, stderr io.Writer) int {
	name := "confined"
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return code
	}
	f := flag.NewFlagSet("bxctl confined", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&name, "name", name, "`role`, for messages")
	c := daemon.Confinement{DieWithParent: true}
	f.Func("read", "`folder` or file to read, or whose sockets to dial", func(s string) error { c.ReadOnly = append(c.ReadOnly, s); return nil })
	f.BoolVar(&c.NoNetwork, "no-network", false, "say so if there is a network")
	f.Func("tcp", "`port` to connect to", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 16)
		c.ConnectTCP = append(c.ConnectTCP, uint16(n))
		return err
	})
	uid := f.Uint64("uid", 0, "user `id` to become, as root; 0 keeps the user")
	open := f.Bool("open", false, "only take away the way to new rights")
	if err := f.Parse(args); err != nil {
		return 2
	}
	argv := f.Args()
	if len(argv) == 0 || *uid > 1<<31 {
		return fail(2, errors.New("a program is needed behind --, and a uid below 2^31"))
	}
	if *open {
		return fail(1, execOpen(uint32(*uid), argv, env))
	}
	c.UID = uint32(*uid)
	if dynamic(argv[0]) { // make build links statically; a plain go build may not
		c.Execute = append(c.Execute, "/lib", "/lib64", "/usr/lib", "/usr/lib64")
		c.ReadOnly = append(c.ReadOnly, "/etc/ld.so.cache")
	}
	return fail(1, daemon.ExecConfined(argv[0], argv, env, c))
}

// dynamic reports whether a program needs a loader and libraries.
func dynamic(program string) bool {
	f, err := elf.Open(program)
	if err != nil {
		return false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return true
		}
	}
	return false
}
