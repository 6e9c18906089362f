package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// sessions lists the folders that are sessions.
func (x *exam) sessions() []string {
	entries, err := os.ReadDir(x.Layout.Sessions)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && proto.CheckSession(e.Name()) == nil {
			out = append(out, e.Name())
		}
	}
	return out
}

// newest is the time of the last record of a session's last file.
func (x *exam) newest(id string) (time.Time, string) {
	epochs, _ := x.epochs(id)
	if len(epochs) == 0 {
		return time.Time{}, ""
	}
	root, err := os.OpenRoot(x.Layout.Sessions)
	if err != nil {
		return time.Time{}, ""
	}
	defer root.Close()
	name := epochFile(id, epochs[len(epochs)-1])
	line, err := appendlog.LastLine(root, name)
	if err != nil || line == nil {
		return time.Time{}, "" // told by the check of logs
	}
	h, _, err := proto.RecordKind(line)
	if err != nil {
		return time.Time{}, ""
	}
	return h.Time, name
}

func epochFile(id string, n int) string { return fmt.Sprintf("%s/%04d.jsonl", id, n) }

// epochs lists the numbers of a session's log files, and other names in its folder.
func (x *exam) epochs(id string) (numbers []int, others []string) {
	entries, err := os.ReadDir(filepath.Join(x.Layout.Sessions, id)) // sorted by name
	if err != nil {
		return nil, nil
	}
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".jsonl"))
		switch {
		case err == nil && n > 0 && e.Type().IsRegular() && epochFile(id, n) == id+"/"+e.Name():
			numbers = append(numbers, n)
		case strings.Contains(e.Name(), ".jsonl.torn-"), strings.HasPrefix(e.Name(), "."):
			// told by the check of leftovers
		default:
			others = append(others, id+"/"+e.Name())
		}
	}
	return numbers, others
}

// logs: every line of every session is as it was written.
func logs(x *exam) {
	root, err := os.OpenRoot(x.Layout.Sessions)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			x.skip(x.Layout.Sessions, "there is no such folder") // told by the check of the home
			return
		}
		x.add(Finding{Looked: x.Layout.Sessions, Verdict: Fail, Detail: err.Error(), Mend: "run bxctl as the user that set Boxmaker up", Runbook: "sessions-unreadable"})
		return
	}
	defer root.Close()
	before := len(x.findings)
	ids, records, files := x.sessions(), int64(0), 0
	for i, id := range ids {
		if x.ctx.Err() != nil {
			return
		}
		x.tell(fmt.Sprintf("logs: %d of %d sessions, %d records", i, len(ids), records))
		n, f := x.session(root, id)
		records, files = records+n, files+f
	}
	x.strangers()
	if len(x.findings) == before {
		x.ok(x.Layout.Sessions, "sessions %d, files %d, records %d: all as they were written", len(ids), files, records)
	}
}

// strangers: what is no session among the sessions.
func (x *exam) strangers() {
	entries, err := os.ReadDir(x.Layout.Sessions)
	if err != nil {
		return
	}
	var odd []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && (!e.IsDir() || proto.CheckSession(e.Name()) != nil) {
			odd = append(odd, fmt.Sprintf("%q", e.Name()))
		}
	}
	if len(odd) > 0 {
		x.bad(Warn, x.Layout.Sessions, "these are no sessions, and nothing reads them: "+some(odd), "move them out of the folder")
	}
}

// session scans all files of one session.
func (x *exam) session(root *os.Root, id string) (records int64, files int) {
	numbers, others := x.epochs(id)
	if len(others) > 0 {
		x.bad(Warn, filepath.Join(x.Layout.Sessions, id), "these files are no logs, and nothing reads them: "+some(others), "move them out of the folder")
	}
	switch {
	case len(numbers) == 0:
		x.add(Finding{Looked: id, Verdict: Fail, Runbook: "session-corrupt", Detail: "the folder of the session holds no log", Mend: "put the log back from a backup, or remove the empty folder"})
		return 0, 0
	case numbers[len(numbers)-1] != len(numbers):
		x.add(Finding{Looked: id, Verdict: Fail, Runbook: "session-corrupt", Detail: fmt.Sprintf("the log of an epoch before %d is gone", numbers[len(numbers)-1]), Mend: "put it back from a backup"})
	}
	for i, n := range numbers {
		got := x.file(root, epochFile(id, n), i == len(numbers)-1)
		records += got
	}
	return records, len(numbers)
}

// file scans one log.
func (x *exam) file(root *os.Root, name string, newest bool) int64 {
	rec, err := appendlog.Scan(root, name, func(n int64, line []byte) error {
		h, r, err := proto.DecodeTrustedRecord(line)
		switch {
		case err != nil:
			return err
		case h.N != n:
			return fmt.Errorf("%w: record %d stands in place %d", proto.ErrRecord, h.N, n)
		case (n == 0) != (r.Kind() == "baseline"):
			return fmt.Errorf("%w: a %s in place %d", proto.ErrRecord, r.Kind(), n)
		}
		return x.ctx.Err()
	})
	bad := func(v Verdict, key, detail, mend string) {
		x.add(Finding{Looked: "sessions/" + name, Verdict: v, Detail: detail, Mend: mend, Runbook: key})
	}
	switch {
	case x.ctx.Err() != nil:
	case errors.Is(err, proto.ErrVersion):
		bad(Fail, "session-version", fmt.Sprintf("after %d good records comes one of another version of Boxmaker: %v", rec.Records, errors.Unwrap(err)), "use the version that wrote it")
	case err != nil:
		text, key := split(err)
		bad(Fail, first(key, "session-corrupt"), text, "put the file back from a backup, or move the session's folder away to go on without it; "+
			"damage that comes again means bad memory or a bad disk")
	case rec.Records == 0:
		bad(Fail, "session-corrupt", "the log holds no whole record: its baseline is gone", "put the file back from a backup, or move the session's folder away")
	case rec.Torn > 0 && newest && x.quiet():
		bad(Warn, "doctor-logs", fmt.Sprintf("its last %d bytes are the torn end that a crash leaves, after %d whole records", rec.Torn, rec.Records),
			"nothing to do: loopd keeps them beside the log and cuts them off when the session goes on")
	case rec.Torn > 0 && !newest:
		bad(Fail, "session-corrupt", fmt.Sprintf("a log that was finished long ago ends in the middle of a record (%d bytes)", rec.Torn), "put the file back from a backup")
	}
	return rec.Records
}
