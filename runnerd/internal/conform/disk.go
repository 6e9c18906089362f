package conform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// disks: a call that may write is ended before the disk is full, does not begin
// when it nearly is, and one that only reads is let alone.
func disks(t *testing.T, w *World) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small disk to fill")
	}
	disk := func(name, options string) string {
		dir := filepath.Join(w.Data, name)
		mkdir(t, dir, 0o755)
		if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			t.Skipf("no small disk can be mounted: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		if err := os.Lchown(dir, w.UID, w.UID); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	w.Stop(t)
	small, names := disk("small", "mode=755,size=64m"), disk("names", "mode=755,size=64m,nr_inodes=4096")
	w.Start(t) // whose mounts are those of its start
	for _, tc := range []struct{ dir, do, detail string }{
		{small, "fill", "leaves 6 MiB free"},
		{names, "many", "more files, and a call that may write leaves room for 409"},
	} {
		l := Launch("cat "+tc.dir+"/note", tc.do+" "+tc.dir, "stay")
		l.Mounts, l.Limits.MS = []proto.Mount{{Path: tc.dir, Write: true}}, 60_000
		e := w.Run(t, l)
		ended(t, e, proto.EndDisk, tc.detail)
		if !strings.Contains(string(e.Output), "ENOENT") { // it did run
			t.Errorf("%s", e.Output)
		}
		l.Input = "echo ran\n"
		e = w.Run(t, l)
		ended(t, e, proto.EndNoRoom, tc.detail)
		if len(e.Output) > 0 {
			t.Errorf("it ran: %s", e.Output)
		}
		l.Mounts[0].Write = false
		if e = w.Run(t, l); string(e.Output) != "ran\n" {
			t.Errorf("a call that only reads: %s %s", e.Reason, e.Detail)
		}
	}
}
