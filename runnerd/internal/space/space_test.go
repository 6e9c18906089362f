package space

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

const gib = 1 << 30

func TestLow(t *testing.T) {
	for _, tc := range []struct {
		name  string
		st    unix.Statfs_t
		floor int64
		want  string
	}{
		{"plenty", unix.Statfs_t{Frsize: 4096, Blocks: 100 << 18, Bavail: 2 << 18, Files: 1 << 20, Ffree: 1 << 19}, gib, ""},
		{"at the floor", unix.Statfs_t{Frsize: 4096, Blocks: 100 << 18, Bavail: 1 << 18, Files: 1 << 20, Ffree: 1 << 19}, gib, ""},
		{"one block below", unix.Statfs_t{Frsize: 4096, Blocks: 100 << 18, Bavail: 1<<18 - 1, Files: 1 << 20, Ffree: 1 << 19}, gib, "1023 MiB left, and a call that may write leaves 1024 MiB free"},
		{"what is kept for root does not count", unix.Statfs_t{Frsize: 4096, Blocks: 100 << 18, Bfree: 50 << 18, Bavail: 0}, gib, "0 MiB left"},
		{"small and empty", unix.Statfs_t{Frsize: 4096, Blocks: 64 << 8, Bavail: 32 << 8}, gib, ""},
		{"small and full", unix.Statfs_t{Frsize: 4096, Blocks: 64 << 8, Bavail: 6 << 8}, gib, "6 MiB left, and a call that may write leaves 6 MiB free"},
		{"no inodes", unix.Statfs_t{Frsize: 4096, Blocks: 100 << 18, Bavail: 50 << 18, Files: 1 << 20, Ffree: 16<<10 - 1}, gib, "room for 16383 more files"},
		{"few inodes at all", unix.Statfs_t{Frsize: 4096, Blocks: 100 << 18, Bavail: 50 << 18, Files: 1000, Ffree: 100}, gib, ""},
		{"inodes are not counted", unix.Statfs_t{Frsize: 4096, Blocks: 100 << 18, Bavail: 50 << 18}, gib, ""},
		{"nothing is counted", unix.Statfs_t{}, gib, ""},
		{"only the size of a block", unix.Statfs_t{Bsize: 4096, Blocks: 100 << 18, Bavail: 1}, gib, "0 MiB left"},
	} {
		if got := low(&tc.st, tc.floor); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	w, err := Open([]string{dir}, gib)
	if err != nil || len(w.places) != 1 {
		t.Fatal(w, err)
	}
	w.Close()
	if w, err := Open([]string{dir}, 0); err != nil || len(w.places) != 0 || w.Low() != "" {
		t.Error(w, err)
	}
	if err := os.Symlink("/", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir + "/none", dir + "/link"} {
		if _, err := Open([]string{dir, p}, gib); err == nil {
			t.Errorf("%s was opened", p)
		}
	}
}

// TestRun: it tells once, soon after, and of nothing when the call ends before.
func TestRun(t *testing.T) {
	for name, full := range map[string]bool{"filled": true, "ends before": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := Open([]string{"/"}, gib)
				if err != nil {
					t.Fatal(err)
				}
				var left atomic.Int64
				left.Store(2 << 18)
				w.stat = func(_ int, st *unix.Statfs_t) error {
					*st = unix.Statfs_t{Frsize: 4096, Blocks: 100 << 18, Bavail: uint64(left.Load())}
					return nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				var told []string
				ended := false
				go func() { w.Run(ctx, func(why string) { told = append(told, why) }); ended = true }()
				time.Sleep(time.Hour)
				synctest.Wait()
				if len(told) != 0 || ended {
					t.Fatalf("%q %v", told, ended)
				}
				if full {
					left.Store(10)
					time.Sleep(interval)
				} else {
					cancel()
				}
				synctest.Wait()
				if !ended || full != (len(told) == 1) {
					t.Errorf("%q %v", told, ended)
				}
				cancel()
			})
		})
	}
}
