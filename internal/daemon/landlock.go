package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"boxmaker/internal/proto"
)

// Access rights of Landlock; see https://docs.kernel.org/userspace-api/landlock.html.
// Neither reading nor writing includes executing, special files, symlinks, or
// moves from folder to folder ("refer"). Both include dialling a Unix socket.
const (
	readFile  = landlock.AccessFSSet(ll.AccessFSReadFile | ll.AccessFSResolveUnix)
	readDir   = readFile | ll.AccessFSReadDir
	writeFile = readFile | ll.AccessFSWriteFile | ll.AccessFSTruncate
	writeDir  = writeFile | readDir | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock
	execFile  = landlock.AccessFSSet(ll.AccessFSReadFile | ll.AccessFSExecute)
	execDir   = execFile | ll.AccessFSReadDir
)

// landlocked is a set of rules, and then what came of them.
type landlocked struct {
	rules   []landlock.Rule
	missing []string // paths that do not exist
	abi     int      // of the kernel, 0 for none
	reason  string   // why abi is 0
	probe   string   // a folder that is readable now and must not be later; may be empty
	port    uint16   // a port that must not be reachable later
	anyTCP  bool     // every port may be connected to

	files, tcp, multipath bool // what trying out showed; multipath: there is a way round tcp
}

func landlockRules(c Confinement) (*landlocked, error) {
	l := &landlocked{anyTCP: c.AnyTCP}
	l.abi, l.reason = landlockABI()
	add := func(file, dir landlock.AccessFSSet, paths ...string) error {
		for _, p := range paths {
			info, err := os.Stat(p)
			switch {
			case errors.Is(err, os.ErrNotExist):
				l.missing = append(l.missing, p)
			case err != nil:
				return fmt.Errorf("landlock rule: %w", err)
			case info.IsDir():
				l.rules = append(l.rules, landlock.PathAccess(dir, p))
			default:
				l.rules = append(l.rules, landlock.PathAccess(file, p))
			}
		}
		return nil
	}
	errs := []error{add(readFile, readDir, c.ReadOnly...), add(writeFile, writeDir, c.ReadWrite...), add(execFile, execDir, c.Execute...)}
	for _, port := range c.ConnectTCP {
		if !c.AnyTCP {
			l.rules = append(l.rules, landlock.ConnectTCP(port))
		}
		if port == 53 || c.AnyTCP {
			l.rules = append(l.rules, landlock.BindUDP(0), landlock.ConnectSendUDP(port))
		}
	}
	for _, p := range []string{"/", "/proc", "/sys"} {
		if !slices.ContainsFunc(slices.Concat(c.ReadOnly, c.ReadWrite, c.Execute), func(allowed string) bool {
			return filepath.Clean(allowed) == "/" || filepath.Clean(allowed) == p
		}) && canRead(p) == nil {
			l.probe = p
			break
		}
	}
	for l.port = 1; slices.Contains(c.ConnectTCP, l.port); l.port++ {
	}
	return l, errors.Join(errs...)
}

// landlockABI asks the kernel. Scopes count only if the kernel has the repair
// of its signal scope (erratum 2), as go-landlock has it.
func landlockABI() (abi int, reason string) {
	v, err := ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, "it is turned off at boot (lsm=…)"
	case err != nil:
		return 0, "this kernel has none"
	}
	if errata, err := ll.LandlockGetErrata(); v >= 6 && (err != nil || errata&2 == 0) {
		return 5, ""
	}
	return v, ""
}

// restrict enforces the rules on all threads, as far as the kernel can, and
// tries out whether they hold.
func (l *landlocked) restrict() error {
	handled := landlock.V11
	if l.anyTCP {
		handled.HandledAccessNet &^= ll.AccessNetConnectTCP
	}
	if err := handled.BestEffort().Restrict(l.rules...); err != nil {
		return err
	}
	if l.abi == 0 {
		return nil
	}
	l.files = l.probe == "" || errors.Is(canRead(l.probe), unix.EACCES)
	tcp := canConnect(l.port, unix.IPPROTO_TCP)
	// systemd's RestrictAddressFamilies= lets no such socket be made at all.
	l.tcp = errors.Is(tcp, unix.EACCES) || errors.Is(tcp, unix.EAFNOSUPPORT)
	mptcp := canConnect(l.port, unix.IPPROTO_MPTCP)
	l.multipath = mptcp == nil || errors.Is(mptcp, unix.ECONNREFUSED) || errors.Is(mptcp, unix.EINPROGRESS)
	return nil
}

func (l *landlocked) check(err error) proto.Check {
	row := proto.Check{Name: "landlock", State: "ok"}
	fail := func(detail string) proto.Check {
		row.State, row.Detail, row.Runbook = "failed", detail, "confinement-landlock"
		return row
	}
	const why = "a fault in this program could read and write every file of its user"
	switch {
	case err != nil:
		return fail(fmt.Sprintf("not in force: %v; %s", err, why))
	case l.abi == 0:
		return fail("not available: " + l.reason + "; " + why)
	case !l.files:
		return fail("in force, but " + l.probe + " can still be read; " + why)
	case l.abi >= 4 && !l.tcp && !l.anyTCP:
		return fail("in force, but TCP connections are not limited")
	}
	row.Detail = fmt.Sprintf("ABI %d: %s", l.abi, strings.Join(features(l.abi, true), ", "))
	if l.anyTCP {
		row.Detail = strings.Replace(row.Detail, "TCP ports", "listening on TCP", 1)
	}
	if without := features(l.abi, false); len(without) > 0 {
		row.Detail += "; this kernel cannot limit " + strings.Join(without, ", ")
	}
	if len(l.missing) > 0 {
		row.Detail += "; left out, as they do not exist: " + strings.Join(l.missing, ", ")
	}
	if l.abi < 4 {
		return fail(row.Detail + "; a fault could truncate files or connect to anywhere")
	}
	return row
}

// features lists what an ABI can limit, or what it cannot.
func features(abi int, can bool) []string {
	var s []string
	for _, f := range []struct {
		from int
		what string
	}{
		{1, "files"}, {3, "truncation"}, {4, "TCP ports"}, {6, "signals and abstract sockets"}, {9, "Unix socket paths (ABI 9)"}, {10, "UDP (ABI 10)"},
	} {
		if (abi >= f.from) == can {
			s = append(s, f.what)
		}
	}
	return s
}

func canRead(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// canConnect tries a port of this machine. Nothing is sent.
func canConnect(port uint16, protocol int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
}
