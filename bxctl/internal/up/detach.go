package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"

	"golang.org/x/sys/unix"
)

// Detach starts an up of its own session and returns when loopd is ready. The
// up goes on if ctx ends before that, or after the time wait.
func Detach(ctx context.Context, o Options, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	began := o.Now()
	if done, err := o.awaitRunning(ctx); done {
		return err
	}
	if err := refuse(o.Layout); err != nil {
		return err
	}
	key, err := o.unlockBefore()
	if err != nil {
		return err
	}
	defer closeKey(key)
	args := []string{"up", "--quiet"}
	if o.Model != "" {
		path, err := setup.CheckModel(o.Model)
		if err != nil {
			return err
		}
		args = append(args, "--model", path)
	}
	path := filepath.Join(o.Layout.Log, "up.out")
	if err := os.MkdirAll(o.Layout.Log, 0o700); err != nil {
		return broken("make the folder of the logs", err)
	}
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return broken("open "+path, err)
	}
	defer log.Close()
	cmd := exec.Command(o.Self, args...)
	cmd.Env, cmd.Dir = o.Environ, "/"
	cmd.Stdout, cmd.Stderr = log, log
	if key != nil {
		cmd.Args = append(cmd.Args, "--key-fd", "3")
		cmd.ExtraFiles = []*os.File{key}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return broken("start itself", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the child, or with this program
	lack, err := o.await(ctx, ended)
	var e *endedError
	if errors.As(err, &e) {
		return o.failed(path, e.err)
	}
	if err := o.awaited(err, lack); err != nil {
		return err
	}
	fmt.Fprintf(o.Out.W, "Boxmaker is ready after %s (pid %d, logs: bxctl logs).\n", term.Span(o.Now().Sub(began)), cmd.Process.Pid)
	if lack != "" {
		fmt.Fprintln(o.Out.W, term.Line(noTools(lack)))
	}
	return nil
}

// awaitRunning waits for an up that runs already. It is not done if none does,
// or if that one ends meanwhile.
func (o Options) awaitRunning(ctx context.Context) (done bool, err error) {
	awaitEnding(ctx, o.Layout)
	pid, err := Holder(o.Layout)
	if err != nil || pid == 0 {
		return false, nil //nolint:nilerr // the new up will meet it, and tells more
	}
	ended := make(chan error, 1)
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		var watch sync.WaitGroup
		watching, cancel := context.WithCancel(ctx)
		defer func() {
			cancel()
			watch.Wait()
			_ = unix.Close(fd)
		}()
		watch.Go(func() {
			if gone(watching, fd, time.Hour) {
				ended <- nil
			}
		})
	} else if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	lack, err := o.await(ctx, ended)
	var e *endedError
	if errors.As(err, &e) || err == nil && awaitEnding(ctx, o.Layout) {
		return false, nil
	}
	if err := o.awaited(err, lack); err != nil {
		return true, err
	}
	fmt.Fprintln(o.Out.W, running(o.Layout))
	if lack != "" {
		fmt.Fprintln(o.Out.W, term.Line(noTools(lack)))
	}
	return true, nil
}

// endedError: the new up ended before loopd was ready.
type endedError struct{ err error }

func (e *endedError) Error() string { return "up ended" }

// await shows what Boxmaker waits for until it is ready. lack is why tools are
// not available.
func (o Options) await(ctx context.Context, ended <-chan error) (lack string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case err := <-ended:
			cancel(&endedError{err})
		case <-ctx.Done():
		}
	}()
	show := func(s string) {
		if o.Out.InPlace() {
			fmt.Fprint(o.Out.W, o.Out.Erase()+o.Out.Dim(term.Clip(term.Line(s), o.Out.Width()-1)))
		} else {
			fmt.Fprintln(o.Out.W, term.Line(s))
		}
	}
	if o.Out.InPlace() {
		show("starting…")
	}
	err = Await(ctx, loop.Client{Path: o.Layout.Socket(roleLoopd, "bxctl", "loop")}, func(s string) { show("loopd is " + s) })
	if err == nil && slices.ContainsFunc(o.roles(), func(r report.Role) bool { return r.Name == roleBroker }) {
		lack, err = awaitTools(ctx, owner.At(o.Layout), o.roles, show)
	}
	if err != nil {
		err = context.Cause(ctx)
	}
	fmt.Fprint(o.Out.W, o.Out.Erase())
	cancel(nil)
	<-watched
	return lack, err
}

// roles are those of the up that runs, as its state file has them.
func (o Options) roles() []report.Role {
	st, err := State(o.Layout)
	if err != nil || st == nil {
		return nil
	}
	return st.Roles
}

// awaited explains a wait that had no end.
func (o Options) awaited(err error, lack string) error {
	switch {
	case err == nil:
		return nil
	case lack != "":
		return &fault.Fault{
			What: "Boxmaker runs, but tools are not available: " + lack, Means: "you can talk; each call of a tool is refused meanwhile",
			Do: "see bxctl status and bxctl logs brokerd; or end it with: bxctl down", Key: "brokerd-away",
		}
	}
	return &fault.Fault{
		What: "Boxmaker runs, but is not ready yet", Means: "it goes on trying by itself",
		Do: "see what it waits for with: bxctl status; or end it with: bxctl down", Key: "not-ready",
	}
}

// failed passes on what the new up wrote about its end.
func (o Options) failed(path string, cause error) error {
	f := &fault.Fault{What: "Boxmaker did not start", Key: "up-failed", Do: "see bxctl logs, and " + path}
	text := ""
	if b, err := os.ReadFile(path); err == nil {
		text = string(b)
	}
	i := strings.LastIndex("\n"+text, "\nbxctl: ")
	switch {
	case cause == nil:
		f.What, f.Do = "Boxmaker was stopped before it was ready", "start it again with: bxctl up --detach"
	case i >= 0:
		lines := strings.Split(strings.TrimSpace(text[i:]), "\n")
		f.What += ": " + strings.TrimPrefix(lines[0], "bxctl: ")
		var rest []string
		for _, l := range lines[1:] {
			rest = append(rest, strings.TrimPrefix(l, "  "))
		}
		f.Means = strings.Join(rest, "\n")
		f.Key, f.Do = "", ""
	default:
		f.Err = cause
		lines := strings.Split(strings.TrimSpace(text), "\n")
		f.Tail = lines[max(0, len(lines)-tailLen):]
	}
	return f
}
