package toolinit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"
)

// Exit statuses.
const (
	exitOK    = 0
	exitUse   = 2
	exitMount = 126
	exitTerm  = 128 + int(syscall.SIGTERM)
)

// A Perform does what a call says, within its context.
type Perform func(ctx context.Context, in tool.Input, call *tool.Call, secrets map[string]string) tool.Output

// Main is the life of a container's first process, from its arguments to its
// exit status: it checks what was mounted, reads what to do, has it done and
// writes the one document that says what came of it.
func Main(perform Perform) int { return run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, perform) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer, do Perform) int {
	secrets, err := Secrets() // first: nothing else may have descriptor 3
	if err == nil {
		err = Harden()
	}
	if err != nil {
		return complain(stderr, exitUse, err)
	}
	entry, checks, err := parse(args)
	if err != nil {
		return complain(stderr, exitUse, err)
	}
	for _, c := range checks {
		if err := c.Verify(); err != nil {
			return complain(stderr, exitMount, err)
		}
	}
	if entry == ProbeEntry {
		return probe(stdout, stderr)
	}
	in, call, err := Input(entry, stdin)
	if err != nil {
		return complain(stderr, exitUse, err)
	}
	if err := write(stdout, within(in, call, secrets, do), in.Output); err != nil {
		return complain(stderr, exitUse, err)
	}
	return exitOK
}

// within has the call done within its time. A little of that is kept, so that a
// result that is not complete still gets out.
func within(in tool.Input, call *tool.Call, secrets map[string]string, do Perform) tool.Output {
	ctx := context.Background()
	if in.MS > 0 {
		d := time.Duration(in.MS) * time.Millisecond
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d-min(d/10, 500*time.Millisecond))
		defer cancel()
	}
	return do(ctx, in, call, secrets)
}

// Internal is the output of a call that could not be done for a reason of ours.
func Internal(why string) tool.Output {
	return tool.Output{Code: proto.CodeInternal, Text: string(proto.CodeInternal) + ": " + why + "."}
}

func complain(w io.Writer, code int, err error) int {
	fmt.Fprintln(w, err)
	return code
}

func parse(args []string) (entry string, checks []Check, err error) {
	for len(args) >= 2 && args[0] == "-check" {
		c, err := ParseCheck(args[1])
		if err != nil {
			return "", nil, err
		}
		checks, args = append(checks, c), args[2:]
	}
	if len(args) != 1 {
		return "", nil, fmt.Errorf("use: -check PATH=DEV:INO … ENTRY")
	}
	return args[0], checks, nil
}

// grace is how long a tool may take to end after SIGTERM.
const grace = 2 * time.Second

// Withstand is for a tool that starts programs. They have the uid of this
// process and may send it any signal; without it the Go runtime would end at
// some. The context that it gives ends on SIGTERM, and so does the process if the
// tool does not heed that.
//
// Other tools can't be reached from inside, and end on SIGTERM at once. Each
// signal that is asked for costs two switches of threads, and all of them 6 ms
// of the 17 ms that read_file took.
func Withstand(ctx context.Context) (context.Context, func()) {
	signal.Notify(make(chan os.Signal, 1), // never read: what does not fit is dropped
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS,
		syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGPIPE, syscall.SIGSTKFLT, syscall.SIGSYS)
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-c
		cancel()
		time.AfterFunc(grace, func() { os.Exit(exitTerm) })
	}()
	return ctx, cancel
}

// write writes the one document, however long the tool's text is.
func write(w io.Writer, out tool.Output, limit int64) error {
	s, gone := tooltext.Fit(out.Text, limit)
	out.Text, out.Dropped = s, out.Dropped+gone
	out.Diff = tooltext.Head(out.Diff, tool.MaxDiff)
	b, err := tool.EncodeOutput(out)
	if err != nil {
		return err
	}
	buf := bufio.NewWriter(w)
	_, _ = buf.Write(b)
	return buf.Flush()
}

// probe writes one line such as "toolkit Uid=1000 NoNewPrivs=1 Seccomp=2 CapBnd=0000000000000000".
func probe(stdout, stderr io.Writer) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return complain(stderr, exitUse, err)
	}
	line := "toolkit"
	for _, name := range []string{"Uid", "Gid", "NoNewPrivs", "Seccomp", "CapEff", "CapBnd"} {
		_, rest, _ := strings.Cut(string(status), "\n"+name+":")
		value, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		value, _, _ = strings.Cut(value, "\t")
		line += " " + name + "=" + value
	}
	_, _ = fmt.Fprintln(stdout, line)
	return exitOK
}
