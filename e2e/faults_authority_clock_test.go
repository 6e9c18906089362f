package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// shift makes the audit log what it would be had the clock been wrong by so much
// when it was written: other times, in the file of another month. It has to be at
// rest. What else holds its heads goes.
func (w *worker) shift(by time.Duration) {
	w.t.Helper()
	file := w.logFile()
	var out []byte
	name, prev := "", strings.Repeat("0", 64)
	for line := range bytes.Lines([]byte(read(w.t, file))) {
		h, _, err := proto.AuditKind(append(bytes.Clone(line[:bytes.LastIndex(line, []byte(`,"crc":"`))]), '}'))
		if err != nil {
			w.t.Fatal(err)
		}
		to := h.Time.Add(by)
		if name == "" {
			name = to.UTC().Format("2006-01") + ".jsonl"
		}
		line = bytes.Replace(line, []byte(proto.Time(h.Time)), []byte(proto.Time(to)), 1)
		line = bytes.Replace(line, []byte(h.Prev), []byte(prev), 1)
		body := line[:bytes.LastIndex(line, []byte(`,"crc":"`))]
		line = fmt.Appendf(bytes.Clone(body), `,"crc":"%08x"}`, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		sum := sha256.Sum256(line)
		prev = hex.EncodeToString(sum[:])
		out = append(append(out, line...), '\n')
	}
	w.write(file, string(out))
	w.move(file, filepath.Join(w.Layout.Audit, name))
	w.write(filepath.Join(w.Layout.Broker, "audit.head"), fmt.Sprintf("%d:%s\n", bytes.Count(out, []byte("\n")), prev))
	for _, dir := range []string{w.Layout.Anchors, w.Layout.Sessions} {
		files, err := filepath.Glob(dir + "/*")
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range files {
			if err := os.RemoveAll(f); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

const aYear = 366 * 24 * time.Hour

// The clock was a year ahead, and was set right: the log goes on in its file, what
// was used by then counts as used now, so that setting the clock gives no new
// calls, and the owner is told that the clock and the log do not fit.
func TestFault_Authority_ClockSetBack(t *testing.T) {
	w := traced(t, func(s *stack.Stack) {
		s.Grant("10-shell.toml", mayTrace+"[limits]\ncalls_per_hour = 2\n")
	})
	w.works()
	w.works()
	w.refused(proto.CallDenied, proto.CodeRateLimited, "")
	w.Down()
	w.shift(aYear)
	ahead := filepath.Base(w.logFile())
	w.complains("doctor", "the newest record of audit/"+ahead, "set the clock", "(see runbook: doctor-clock)")
	w.Up()
	w.refused(proto.CallDenied, proto.CodeRateLimited, "")
	w.do(call("read_file", map[string]any{"path": filepath.Join(w.Layout.Workspace, "notes.md")}), proto.CallOK, "", "42")
	if now := filepath.Base(w.logFile()); now != ahead {
		t.Errorf("the log goes on in %s, and not in %s", now, ahead)
	}
	w.whole()
	if r := w.Bxctl("", "doctor"); strings.Contains(r.Stdout, "doctor-clock") {
		t.Errorf("it is told of for ever:\n%s", r.Stdout)
	}
}

// The clock jumped ahead by a year: the log goes on in a new month, what was used
// is long ago, and a grant that ends meanwhile has ended.
func TestFault_Authority_ClockJumpedAhead(t *testing.T) {
	w := traced(t, func(s *stack.Stack) {
		s.Grant("10-shell.toml", mayTrace+"[limits]\ncalls_per_hour = 1\n")
		s.Grant("20-read.toml", fmt.Sprintf("expires = %s\ntool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"@WORKSPACE@\"]\n", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
	})
	w.works()
	w.refused(proto.CallDenied, proto.CodeRateLimited, "")
	w.Down()
	w.shift(-aYear)
	before := filepath.Base(w.logFile())
	w.Up()
	w.works()
	w.refused(proto.CallDenied, proto.CodeRateLimited, "")
	w.do(call("read_file", map[string]any{"path": filepath.Join(w.Layout.Workspace, "notes.md")}), proto.CallDenied, proto.CodeNoGrant, "")
	if now := filepath.Base(w.logFile()); now <= before {
		t.Errorf("the log goes on in %s, after %s", now, before)
	}
	w.whole()
}

// The machine slept while an approval waited, with its clock where it was: the time
// since boot tells. Nobody can approve any more, and nothing is written.
func TestFault_Authority_MachineSlept(t *testing.T) {
	slept := []string{"unshare", "--time", "--boottime", "86400", "--fork", "--kill-child"}
	if out, err := exec.Command(slept[0], append(slept[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: no time namespace can be made here: %v: %s", err, out)
	}
	w := traced(t, func(s *stack.Stack) {
		s.Grant("30-write.toml", "tool = \"write_file\"\nmode = \"ask\"\n[paths]\nwrite = [\"@WORKSPACE@\"]\n")
	})
	file := filepath.Join(w.Layout.Workspace, "new.txt")
	turn := w.begin(call("write_file", map[string]any{"path": file, "content": "x", "mode": "create"}))
	asked := w.WaitApproval()
	w.KillUp()
	w.Under = slept
	w.Up()
	r, text := turn.ended()
	w.want(r, text, proto.CallExpired, proto.CodeApprovalExpired, "approval-expired: ")
	if _, err := os.Stat(file); err == nil {
		t.Error("it was written")
	}
	if end := last[*proto.AuditApproval](w); end.Approval != asked.Approval || end.Verdict != proto.VerdictExpired {
		t.Errorf("on record: %+v", end)
	}
	w.complains("approve --yes "+asked.Code, "(see runbook: approval-gone)")
	w.works()
	w.whole()
	w.Down()
}
