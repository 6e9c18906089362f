package up

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"

	"golang.org/x/sys/unix"
)

// Target is the systemd unit that pulls in all others of Boxmaker.
const Target = "boxmaker.target"

// UnitPrefix stands before the name of a role in that of its units.
const UnitPrefix = "boxmaker-"

// Names lists the roles that up can run, and up itself.
func Names() []string {
	return []string{"up", rolePractice, roleLlama, roleProxy, roleLoopd, roleBroker, roleRunner, roleEgress, roleGateway}
}

// Systemctl is the command that steers the units, for this user.
func Systemctl() string {
	if os.Geteuid() == 0 {
		return "systemctl"
	}
	return "systemctl --user"
}

// JournalCommand shows the logs of the units of some roles, or of all: what each
// printed, as it printed it, with the flags given.
func JournalCommand(roles []string, flags ...string) string {
	words := []string{"journalctl"}
	if os.Geteuid() != 0 {
		words = append(words, "--user")
	}
	for _, r := range roles {
		words = append(words, "-u "+UnitPrefix+r)
	}
	if len(roles) == 0 {
		words = append(words, "-u '"+UnitPrefix+"*'")
	}
	return strings.Join(append(append(words, "-o cat"), flags...), " ")
}

// RunBySystemd reports whether systemd listens on the owner's socket: it made
// the socket, by the kernel's word, and it is the one who may hand it over.
// It connects, which makes systemd start the units.
func RunBySystemd(l config.Layout) bool {
	return BySystemd(l.Socket(roleLoopd, "bxctl", "loop"))
}

// BySystemd is [RunBySystemd] for one socket.
func BySystemd(path string) bool { return listenerName(path) == "systemd" }

// refuse reports that systemd runs what up would run: its sockets must not be
// taken from it.
func refuse(l config.Layout) error {
	if !RunBySystemd(l) {
		return nil
	}
	return &fault.Fault{
		What: "systemd runs Boxmaker here", Means: "two that start the same programs would take each other's sockets",
		Do: "use " + Systemctl() + " status|restart|stop " + Target + "; or end that first: " + Systemctl() + " disable --now " + Target, Key: "run-by-systemd",
	}
}

// listenerName is the name of the process that listens on a Unix socket; empty
// if nobody does, or it can't be seen.
func listenerName(path string) string {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return ""
	}
	defer dir.Close()
	// The path may be too long for an address; this one never is.
	c, err := net.DialTimeout("unix", "/proc/self/fd/"+strconv.Itoa(int(dir.Fd()))+"/"+filepath.Base(path), time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ""
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ""
	}
	var peer *unix.Ucred
	if err := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || peer == nil || peer.Pid <= 0 {
		return ""
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(int(peer.Pid)) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

// Roles gives what up would run for the configuration as it stands, for those
// who start it in another way.
func Roles(o Options) ([]Role, setup.Settings, error) {
	in, err := o.prepare()
	if err != nil {
		return nil, in.Settings, err
	}
	roles, err := Plan(in)
	if err != nil {
		return nil, in.Settings, err
	}
	return roles, in.Settings, programs(roles)
}
