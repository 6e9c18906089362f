package program

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
)

// wait lets the program end, reaping whatever was left to us meanwhile, and
// kills all that remains then.
func (p *process) wait(ctx context.Context) syscall.WaitStatus {
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
			p.ended = true
			p.kill()
		case <-done:
		}
	})
	state := p.reap()
	close(done)
	watch.Wait()
	p.kill()
	reapRest()
	p.out.end()
	p.err.end()
	p.secrets.end()
	return state
}

// first reports whether we are process 1. Everything that reaches beyond the
// program hangs on it: elsewhere it would reach other people's processes.
func first() bool { return os.Getpid() == 1 }

// reap waits for the program and, as process 1, for every orphan until then.
func (p *process) reap() syscall.WaitStatus {
	who := p.pid
	if first() {
		who = -1
	}
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(who, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0xff00 // somebody else reaped it: unknown, and not well
		case pid == p.pid:
			return ws
		}
	}
}

// kill ends the program and everything in its container but us. The kernel
// never delivers it to process 1 of the namespace that sends it.
func (p *process) kill() {
	if first() {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
}

// reapRest waits until nobody is left.
func reapRest() {
	for first() {
		_, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
