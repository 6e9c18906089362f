package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// environment: what the owner's shell says.
func environment(x *exam) {
	before := len(x.findings)
	if h := x.Getenv("BOXMAKER_HOME"); h != "" && !filepath.IsAbs(h) {
		x.bad(Warn, "BOXMAKER_HOME", fmt.Sprintf("it is a relative path (%q): in another folder bxctl would find another home", h), "set it to "+x.Layout.Home)
	}
	if h := x.Getenv("BOXMAKER_HOME"); h != "" && filepath.Clean(h) == "/" {
		x.bad(Fail, "BOXMAKER_HOME", "it is the root folder", "set it to a folder of its own")
	}
	for _, name := range []string{"LISTEN_FDS", "LISTEN_PID", "LD_PRELOAD", "GODEBUG"} {
		if v := x.Getenv(name); v != "" {
			x.bad(Warn, name, fmt.Sprintf("it is set (%.60q), and changes how programs run that you start", v), "unset it, unless you know why it is there")
		}
	}
	if tz := x.Getenv("TZ"); tz != "" && !strings.HasPrefix(tz, ":") {
		if _, err := time.LoadLocation(tz); err != nil && !strings.ContainsAny(tz, "0123456789") {
			x.bad(Warn, "TZ", fmt.Sprintf("there is no time zone %q: the clock tool would tell UTC", tz), "set it to a name such as Europe/Berlin, or unset it")
		}
	}
	x.who()
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Cur < 256 {
		x.bad(Warn, "ulimit -n", fmt.Sprintf("only %d files may be open at a time", files.Cur), "raise it to 1024 or more (ulimit -n)")
	}
	if len(x.findings) == before {
		x.ok("the environment", "BOXMAKER_HOME and the rest are in order")
	}
}

// who: the user that runs bxctl and the one that owns the home.
func (x *exam) who() {
	st, err := os.Stat(x.Layout.Home)
	if err != nil {
		return
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	me := uint32(os.Geteuid())
	switch {
	case !ok || sys.Uid == me:
	case me == 0:
		x.bad(Fail, x.Layout.Home, fmt.Sprintf("you are root, and the home belongs to uid %d: what root starts there, that user can no longer use", sys.Uid),
			"run bxctl as that user, or give the home to root: chown -R root "+x.Layout.Home)
	default:
		x.bad(Fail, x.Layout.Home, fmt.Sprintf("the home belongs to uid %d, and you are uid %d", sys.Uid, me),
			"run bxctl as that user, or name a home of your own with --home or BOXMAKER_HOME")
	}
	if run := x.Getenv("XDG_RUNTIME_DIR"); run != "" && strings.HasPrefix(x.Layout.Run, run+"/") {
		if st, err := os.Stat(run); err != nil {
			x.bad(Fail, "XDG_RUNTIME_DIR", run+" is not there: "+err.Error(), "log in anew (systemd makes it), or unset it")
		} else if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Uid != me {
			x.bad(Fail, "XDG_RUNTIME_DIR", fmt.Sprintf("%s belongs to uid %d (su keeps the variable of the former user)", run, sys.Uid), "unset it, or log in as this user")
		}
	}
}

func landlockABI() (int, error) {
	v, err := ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, errors.New("it is turned off at boot")
	case err != nil:
		return 0, errors.New("this kernel has none")
	}
	return v, nil
}

// namespaces tries whether a program can be started without a network, in the
// way in which bxctl up does it. self must be bxctl.
func namespaces(ctx context.Context, self string) error {
	cmd := exec.CommandContext(ctx, self, "version")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	return cmd.Run()
}

// kernel: what confinement needs of it.
func kernel(x *exam) {
	abi, err := x.Landlock()
	const todo = "a kernel of 6.7 or newer with landlock in /sys/kernel/security/lsm (boot with lsm=landlock,…)"
	switch {
	case err != nil:
		x.add(Finding{Looked: "Landlock", Verdict: Fail, Detail: "there is none: " + err.Error() + "; a fault in a program could use every file of its user", Mend: todo, Runbook: "confinement-landlock"})
	case abi < 4:
		x.add(Finding{Looked: "Landlock", Verdict: Warn, Detail: fmt.Sprintf("ABI %d can limit files only in part, and no connections (that begins with ABI 4)", abi), Mend: todo, Runbook: "confinement-landlock"})
	default:
		x.ok("Landlock", "ABI %d", abi)
	}
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	if err := x.Spaces(ctx); err != nil {
		mend := "allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0"
		if x.Root() {
			mend = "give this container CAP_SYS_ADMIN, or run Boxmaker outside of it"
		}
		x.add(Finding{Looked: "network namespaces", Verdict: Warn, Detail: "a program can't be started without a network: " + err.Error(), Mend: mend, Runbook: "confinement-network"})
		return
	}
	x.ok("network namespaces", "a program can be started without a network")
}

// clock: a sane year, and not behind what is written already.
func clock(x *exam) {
	now := x.Now()
	if y := now.Year(); y < 2025 || y > 2100 {
		x.bad(Fail, "the clock", fmt.Sprintf("it says the year %d", y), "set the clock (timedatectl set-ntp true)")
		return
	}
	newest, where := time.Time{}, ""
	for _, id := range x.sessions() {
		if t, file := x.newest(id); t.After(newest) {
			newest, where = t, file
		}
	}
	if newest.After(now.Add(2 * time.Minute)) {
		x.bad(Fail, "the clock", fmt.Sprintf("it says %s, and the newest record of %s is of %s: the clock was set back, or was wrong then",
			now.UTC().Format(time.RFC3339), where, newest.UTC().Format(time.RFC3339)), "set the clock (timedatectl set-ntp true)")
		return
	}
	x.ok("the clock", "%s, not behind any record", now.Format(time.RFC3339))
}

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
	case rec.Torn > 0 && newest && x.running().pid == 0:
		bad(Warn, "doctor-logs", fmt.Sprintf("its last %d bytes are the torn end that a crash leaves, after %d whole records", rec.Torn, rec.Records),
			"nothing to do: loopd keeps them beside the log and cuts them off when the session goes on")
	case rec.Torn > 0 && !newest:
		bad(Fail, "session-corrupt", fmt.Sprintf("a log that was finished long ago ends in the middle of a record (%d bytes)", rec.Torn), "put the file back from a backup")
	}
	return rec.Records
}
