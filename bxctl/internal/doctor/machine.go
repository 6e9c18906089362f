package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
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
	cmd.Env = []string{"BOXMAKER_HOME=/"} // it looks for none, but wants to know
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

// newestAudit gives the time of the audit log's last record, and its file; no
// time if it can't be read, which another check tells.
func (x *exam) newestAudit() (time.Time, string) {
	root, err := os.OpenRoot(x.Layout.Audit)
	if err != nil {
		return time.Time{}, ""
	}
	defer root.Close()
	files, err := chain.Files(root)
	if err != nil || len(files) == 0 {
		return time.Time{}, ""
	}
	name := files[len(files)-1]
	line, err := appendlog.LastLine(root, name)
	if err != nil || line == nil {
		return time.Time{}, ""
	}
	h, _, err := proto.AuditKind(line)
	if err != nil {
		return time.Time{}, ""
	}
	return h.Time, "audit/" + name
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
	if t, file := x.newestAudit(); t.After(newest) {
		newest, where = t, file
	}
	if newest.After(now.Add(2 * time.Minute)) {
		x.bad(Fail, "the clock", fmt.Sprintf("it says %s, and the newest record of %s is of %s: the clock was set back, or was wrong then",
			now.UTC().Format(time.RFC3339), where, newest.UTC().Format(time.RFC3339)), "set the clock (timedatectl set-ntp true)")
		return
	}
	x.ok("the clock", "%s, not behind any record", now.Format(time.RFC3339))
}
