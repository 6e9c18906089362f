package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"boxmaker/internal/proto"
)

// A Confinement is what a process may still do after [Daemon.Confine]. The zero
// value allows nothing beyond what is open already: no files, no connections.
//
// Files and sockets that were opened before stay usable, os.Root handles too,
// but what is opened through them must lie below ReadOnly or ReadWrite. Relative
// paths count from the working folder. A path that does not exist is left out;
// the report names it. Time zones that are loaded later need
// /usr/share/zoneinfo, or time/tzdata.
type Confinement struct {
	// Files, or folders with all that is below. Unix sockets there may be
	// dialled. Nothing there may be executed, or moved from folder to folder.
	ReadOnly, ReadWrite []string
	// Programs, or folders of them, that may be read and executed.
	Execute []string
	// Ports that may be connected to, on any address. With 53 comes UDP, so
	// that names can be looked up.
	ConnectTCP []uint16
	// AnyTCP lets the process connect to every port, for a program whose
	// destinations change while it runs. ConnectTCP then names the ports of name
	// servers, which may be asked over UDP. Listening on plain TCP stays refused.
	AnyTCP bool
	// UID is the user and the group to become, if the process is root. 0 keeps
	// the user.
	UID uint32
	// Groups are kept or taken beside that of the user, when the process changes
	// it: for sockets that are another role's, and are shared by their group.
	Groups []uint32
	// DieWithParent arms PR_SET_PDEATHSIG with SIGKILL once more: the kernel
	// forgets it when the user changes.
	DieWithParent bool
	// NoNetwork expects that the process was started in a network namespace
	// without devices. It makes none.
	NoNetwork bool
	// NoLandlock leaves Landlock out and says why, in the report's words. There
	// is one good reason: Landlock forbids mount(2) to a process and to all its
	// children, so that a program that starts containers cannot have it. Paths
	// and ports above then bound nothing.
	NoLandlock string
}

// Confine gives up, for good and on all threads, what the process does not
// need. It is called after everything is opened that needs more: listeners and
// os.Root handles. The Landlock rules are made before the user
// changes, since the state may lie in a folder that the new user cannot enter.
//
// The rows tell what holds now. A row that is not ok says what is missing and
// why it matters. The process can neither be traced nor dump core afterwards.
func (d *Daemon) Confine(c Confinement) []proto.Check {
	rows := confine(c)
	logRows(d.log, rows)
	return rows
}

func logRows(log *slog.Logger, rows []proto.Check) {
	for _, r := range rows {
		level := slog.LevelInfo
		if r.State != "ok" {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "confined", "check", r.Name, "state", r.State, "detail", r.Detail)
	}
}

func confine(c Confinement) []proto.Check {
	_ = time.Local.String() // loads the zone, whose file is out of reach afterwards
	seen, seenErr := look() // what only an unconfined process can see
	defer seen.close()
	lock, lockErr := landlockRules(c)

	var errs []error
	do := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	do("no_new_privs", ll.AllThreadsPrctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	do("core limit", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
	if lockErr == nil && c.NoLandlock == "" {
		lockErr = lock.restrict()
	}
	do("ambient set", ll.AllThreadsPrctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
	dropBounding()
	parent := os.Getppid()
	if c.UID != 0 && os.Geteuid() == 0 {
		do("user", become(int(c.UID), c.Groups))
	}
	if c.DieWithParent {
		do("death signal", ll.AllThreadsPrctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
		if os.Getppid() != parent { // it ended just now, unnoticed
			os.Exit(1)
		}
	}
	do("dumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))

	status, err := seen.read()
	if err = errors.Join(seenErr, err); err != nil {
		return []proto.Check{{
			Name: "confinement", State: "failed", Runbook: "confinement-unknown",
			Detail: fmt.Sprintf("/proc/self/status cannot be read (%v), so that nothing can be said for certain", err),
		}}
	}
	landlock := lock.check(lockErr)
	if c.NoLandlock != "" {
		landlock = proto.Check{Name: "landlock", State: "skipped", Detail: "not used: " + c.NoLandlock}
	}
	return []proto.Check{
		checkPrivileges(status, errors.Join(errs...)),
		landlock,
		checkUser(c, status, seen.uidMap),
		checkNetwork(c, seen.interfaces, lock),
		checkCapabilities(status),
	}
}

// dropBounding empties the bounding set, so that no program can gain a
// capability by being executed. It needs CAP_SETPCAP: whoever lacks it is told
// by the report.
func dropBounding() {
	for capability := uintptr(0); capability < 64; capability++ {
		if err := ll.AllThreadsPrctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return // EINVAL after the last, EPERM for all
		}
	}
}

// become changes user and group on all threads, and drops all groups but those.
// Losing uid 0 clears the capabilities.
func become(id int, groups []uint32) error {
	var list []int
	for _, g := range groups {
		list = append(list, int(g))
	}
	if err := syscall.Setgroups(list); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setresgid(id, id, id); err != nil {
		return fmt.Errorf("setresgid %d: %w", id, err)
	}
	if err := syscall.Setresuid(id, id, id); err != nil {
		return fmt.Errorf("setresuid %d: %w", id, err)
	}
	return nil
}

// A view is what is looked at before the doors close.
type view struct {
	status     *os.File
	uidMap     string
	interfaces []net.Interface
}

func look() (view, error) {
	var v view
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return v, err
	}
	v.status = f
	if b, err := os.ReadFile("/proc/self/uid_map"); err == nil {
		v.uidMap = string(b)
	}
	v.interfaces, err = net.Interfaces()
	return v, err
}

func (v view) close() {
	if v.status != nil {
		v.status.Close()
	}
}

// read gives the fields of /proc/self/status as they are now.
func (v view) read() (map[string]string, error) {
	if v.status == nil {
		return nil, errors.New("not opened")
	}
	b := make([]byte, 16<<10)
	n, err := v.status.ReadAt(b, 0)
	if n == 0 {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(b[:n])) {
		k, value, _ := strings.Cut(line, ":")
		fields[k] = strings.TrimSpace(value)
	}
	return fields, nil
}
