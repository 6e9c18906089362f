package e2e

import (
	"os"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

const auditDisk = "size=256k,mode=0700"

// onAuditDisk is traced with the audit log on a small disk of its own.
func onAuditDisk(t *testing.T) *worker {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a full or read-only disk of the audit log needs root, which may mount one")
	}
	return traced(t, func(s *stack.Stack) {
		if err := unix.Mount("tmpfs", s.Layout.Audit, "tmpfs", 0, auditDisk); err != nil {
			t.Skipf("NOT TESTED: no tmpfs can be mounted here: %v", err)
		}
		t.Cleanup(func() {
			stack.Sweep(s.Home)
			if err := unix.Unmount(s.Layout.Audit, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	})
}

// stops makes calls until Boxmaker stops, and gives the turn that it stopped in.
func (w *worker) stops() *turn {
	w.t.Helper()
	for range 50 {
		u := w.begin(w.leave())
		select {
		case err := <-u.end:
			u.end <- err
			r, text := u.ended()
			w.want(r, text, proto.CallOK, "", "")
		case <-w.Ended():
			return u
		}
	}
	w.t.Fatal("it goes on and on")
	return nil
}

// settles is the end of a turn that was under way when Boxmaker stopped: what ran
// has its outcome, the model is told of it, and what did not run is no trace.
func (w *worker) settles(u *turn, before int) {
	w.t.Helper()
	r, text := u.ended()
	ran := w.traces() - before
	switch {
	case ran == 1:
		w.want(r, text, proto.CallOK, "", "")
	case ran == 0 && r.Outcome == proto.CallFailed:
		if !strings.HasPrefix(text, "internal: ") || !strings.Contains(text, "did not run") {
			w.t.Errorf("the model reads %q", text)
		}
	default:
		w.t.Errorf("%d traces, and the model reads %s %q", ran, r.Outcome, text)
	}
}

// The disk of the audit log gets full: nothing is allowed any more, Boxmaker stops
// and says why; with room again all goes on.
func TestFault_Authority_DiskFull(t *testing.T) {
	w := onAuditDisk(t)
	w.works()
	free := fill(t, w.Layout.Audit, 0)
	turn := w.stops()
	before := len(stack.AuditOf[*proto.AuditOutcome](w.Audit())) // each left its trace
	w.ends("brokerd", "no space left on device", "the disk is full", "free some space and start again (see runbook: disk-full)")
	w.complains("status", "(see runbook: not-running)")
	w.complains("doctor", "no space left on device", "disk-full")
	w.complains("up", "the disk is full", "(see runbook: disk-full)")
	free()
	w.Up()
	w.settles(turn, before)
	w.works()
	w.whole()
}

// The folder of the audit log has become read-only: nothing is allowed, and why is
// said; what was recorded can be read all the same.
func TestFault_Authority_ReadOnly(t *testing.T) {
	w := onAuditDisk(t)
	w.works()
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("tmpfs", w.Layout.Audit, "tmpfs", unix.MS_REMOUNT|flags, auditDisk); err != nil {
			t.Skipf("NOT TESTED: it can't be mounted anew: %v", err)
		}
	}
	w.Down() // which a log that is open to be written would not let happen
	remount(unix.MS_RDONLY)
	before, log := w.traces(), w.files()
	w.complains("up", "read-only file system", "(see runbook: state-read-only)")
	w.complains("doctor", w.Layout.Audit+": the file system is mounted read-only", "mount it read-write", "(see runbook: state-read-only)")
	if w.traces() != before || w.files() != log {
		t.Error("something has run")
	}
	w.whole() // it can be read
	remount(0)
	w.Up()
	w.works()
	w.whole()
}
