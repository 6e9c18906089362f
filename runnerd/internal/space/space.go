// Package space keeps a call from filling the owner's disks: it looks how much is
// left of each file system that the call may write.
//
// It guarantees that a call which may write does not begin below the floor, and
// that one which gets there is told of within a moment; what it writes in that
// moment it cannot take back. It sees what is left and not who took it: another
// program can bring a call to the floor as well. Quotas it does not see; those
// stop a writer by themselves.
package space

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// interval is how often it is looked. A fast disk takes a few hundred MiB in it.
const interval = 100 * time.Millisecond

// Mend is what the owner can do.
const Mend = "; free some space, or lower disk_free in runnerd.toml (see runbook: runner-disk)"

// Of a small file system a share is the floor, so that it can be used at all.
const (
	share  = 10
	inodes = 16 << 10
)

// A Watch is that of one call.
type Watch struct {
	floor  int64
	places []place
	stat   func(fd int, st *unix.Statfs_t) error
}

type place struct {
	path string
	dir  *os.File
}

// Open opens the paths that a call may write. A floor of 0 watches nothing.
func Open(paths []string, floor int64) (*Watch, error) {
	w := &Watch{floor: floor, stat: unix.Fstatfs}
	if floor == 0 {
		return w, nil
	}
	for _, p := range paths {
		fd, err := unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("%s cannot be opened: %w", p, err)
		}
		w.places = append(w.places, place{p, os.NewFile(uintptr(fd), p)})
	}
	return w, nil
}

// Close ends it. It must not be called while Run runs.
func (w *Watch) Close() {
	for _, p := range w.places {
		_ = p.dir.Close()
	}
	w.places = nil
}

// Low says which file system is below the floor; empty: none is.
func (w *Watch) Low() string {
	for _, p := range w.places {
		var st unix.Statfs_t
		if err := w.stat(int(p.dir.Fd()), &st); err != nil {
			continue // what cannot be asked, as over a network that is gone, cannot be filled either
		}
		if why := low(&st, w.floor); why != "" {
			return "the file system of " + p.path + " has " + why
		}
	}
	return ""
}

// low judges one file system. Some have no count of inodes, and some no size.
func low(st *unix.Statfs_t, floor int64) string {
	size, left := uint64(st.Frsize), uint64(st.Bavail)
	if size == 0 {
		size = uint64(st.Bsize)
	}
	least := min(uint64(floor), st.Blocks*size/share)
	if st.Blocks > 0 && left*size < least {
		return fmt.Sprintf("%d MiB left, and a call that may write leaves %d MiB free", left*size>>20, least>>20)
	}
	if least := min(inodes, st.Files/share); st.Files > 0 && st.Ffree < least {
		return fmt.Sprintf("room for %d more files, and a call that may write leaves room for %d", st.Ffree, least)
	}
	return ""
}

// Run looks until ctx ends or something is low, which it tells once. Then it
// closes what is open.
func (w *Watch) Run(ctx context.Context, tell func(why string)) {
	defer w.Close()
	if len(w.places) == 0 {
		return
	}
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if why := w.Low(); why != "" {
				tell(why)
				return
			}
		}
	}
}
