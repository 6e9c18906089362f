package crun

import (
	"fmt"
	"os"
	"sync"

	"boxmaker/internal/filestamp"

	"golang.org/x/sys/unix"
)

// A program is the runtime's executable, sealed in memory.
//
// crun does not run as the file that was started: a container could change that
// one. It copies itself into a sealed memory file and starts again from there,
// each time (libcrun/cloned_binary.c, which looks for exactly these seals on
// /proc/self/exe). A copy that was sealed once saves each call the copy, and
// the second work of the dynamic linker.
type program struct {
	path string

	mu     sync.Mutex // guards what follows
	of     filestamp.Stamp
	sealed string // path of the copy, for a child of this process; empty: the file itself is started
}

// seals are those that crun looks for; no more and no less.
const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// highFD keeps the copy's descriptor away from those that a child gets.
const highFD = 64

// current gives what to start: the copy of the file as it is now, or the file
// where no copy can be made, as of a script.
func (p *program) current() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var st unix.Stat_t
	if err := unix.Stat(p.path, &st); err != nil {
		return p.path // whose start will say so
	}
	if now := filestamp.Of(&st); now != p.of {
		// A former copy stays: a start may be about to use it, and a new runtime
		// comes seldom.
		p.of, p.sealed = now, ""
		if fd, err := seal(p.path); err == nil {
			p.sealed = fmt.Sprintf("/proc/self/fd/%d", fd)
		}
	}
	if p.sealed == "" {
		return p.path
	}
	return p.sealed
}

// seal copies an executable into a sealed memory file. The descriptor closes on
// exec.
func seal(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return -1, err
	}
	if len(text) < 4 || string(text[:4]) != "\x7fELF" {
		return -1, fmt.Errorf("crun: %s is no ELF file", path)
	}
	low, err := unix.MemfdCreate("crun", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("crun: memory file: %w", err)
	}
	f := os.NewFile(uintptr(low), "crun")
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return -1, fmt.Errorf("crun: memory file: %w", err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return -1, fmt.Errorf("crun: seal: %w", err)
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, highFD)
	if err != nil {
		return -1, fmt.Errorf("crun: memory file: %w", err)
	}
	return fd, nil
}
