// Package box describes one container, whichever runtime starts it: what is
// mounted where, what is run, with which limits.
//
// It guarantees that a box holds nothing of the machine but what the launch
// names and what is listed here: each granted path is opened without following
// any link and goes along with its device and inode, which the first process
// inside compares before anything else runs. The root file system is a folder
// of the call's own, made anew and mounted read-only; paths that would cover
// what makes a container a container are refused. It does not start anything,
// and does not say whether the call may run: that was decided before.
package box

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// Inside is the user and group of every process in a container.
const Inside = 1000

// Places inside every container.
const (
	Tool = "/tool"            // the toolkit
	Door = "/run/egress.sock" // the way out, if there is one
	caAt = "/etc/ssl/certs/ca-certificates.crt"
)

// Kind is what a mount shows.
type Kind int

// Kinds of mounts. All are nosuid and, but for the devices in /dev, nodev.
const (
	Bind  Kind = iota // a file or folder of the machine, with what is mounted below it
	Proc              // the processes of the container
	Tmpfs             // memory
)

// Mount is one mount, in the order in which they are made.
type Mount struct {
	Kind   Kind
	Source string // of Bind
	Dest   string
	File   bool  // of Bind: no folder
	Write  bool  // of Bind; the others can always be written
	Exec   bool  // programs there may be executed
	Dev    bool  // devices are made there
	Size   int64 // of Tmpfs, in bytes
	Mode   uint32
}

// Box is one container.
type Box struct {
	ID      string
	Dir     string // the call's own folder, as the runtime sees it
	RootFS  string
	Argv    []string
	Env     []string
	Mounts  []Mount
	Secrets bool // there is a descriptor 3
	Door    bool // there is a way out, which is a Unix socket
	Limits  Rlimits
	UID     int // outside
	GID     int
}

// Rlimits are the limits of each process. Zero means no limit of this kind.
type Rlimits struct {
	Data  int64 // bytes; RLIMIT_AS is none, since Go reserves more than it uses
	NProc int64 // counts all processes of the user outside, so that it is only a last resort
}

// Refused says why there is no box. Nothing was run.
type Refused struct {
	Reason proto.EndReason
	Detail string
}

func (r *Refused) Error() string { return string(r.Reason) + ": " + r.Detail }

func refuse(reason proto.EndReason, format string, a ...any) error {
	return &Refused{reason, fmt.Sprintf(format, a...)}
}

// Host is what a box is made of beside the launch.
type Host struct {
	Dir     string // folder of the call, as the runtime sees it; it exists
	Toolkit string // the static binary, as the runtime sees it
	Run     string // the run folder, as the runtime sees it, for the door
	Root    string // root file system of launches that name none
	CA      string // bundle of certificates; may be empty
	Hidden  string // folder that the runtime does not see; may be empty
	UID     int
	GID     int
}

// Make makes the box of a launch, and its root file system on disk. An error is
// a *Refused.
func Make(id string, l *proto.Launch, h Host) (*Box, error) {
	b := &Box{
		ID: id, Dir: h.Dir, RootFS: filepath.Join(h.Dir, "rootfs"), UID: h.UID, GID: h.GID, Secrets: len(l.Secrets) > 0, Door: l.Door != "",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"},
	}
	s, err := newSkeleton(b.RootFS)
	if err != nil {
		return nil, err
	}
	defer s.close()
	programs := l.Userland != proto.UserlandNone
	b.Mounts = []Mount{
		{Kind: Proc, Dest: "/proc"},
		{Kind: Tmpfs, Dest: "/dev", Size: 64 << 10, Mode: 0o755, Dev: true},
		{Kind: Tmpfs, Dest: "/tmp", Size: tmpSize(programs), Mode: 0o1777, Exec: programs},
		{Kind: Tmpfs, Dest: "/run", Size: 64 << 10, Mode: 0o755},
		{Kind: Bind, Source: h.Toolkit, Dest: Tool, File: true, Exec: true},
	}
	if programs {
		b.Mounts = append(b.Mounts, Mount{Kind: Tmpfs, Dest: "/dev/shm", Size: 64 << 20, Mode: 0o1777})
	}
	if err := b.userland(l, h, s); err != nil {
		return nil, err
	}
	if err := b.wayOut(l, h, s); err != nil {
		return nil, err
	}
	b.Argv = []string{Tool}
	if err := b.grants(l, h, s, programs); err != nil {
		return nil, err
	}
	b.Argv = append(b.Argv, l.Entry)
	return b, s.points(b.Mounts)
}

func tmpSize(programs bool) int64 {
	if programs {
		return 256 << 20
	}
	return 16 << 20
}

// wayOut mounts the door and the certificates by which a server is known.
func (b *Box) wayOut(l *proto.Launch, h Host, s *skeleton) error {
	if l.Door == "" {
		return nil
	}
	if !filepath.IsLocal(l.Door) || filepath.Clean(l.Door) != l.Door {
		return refuse(proto.EndInternal, "the door %q is no path below the run folder", l.Door)
	}
	source := filepath.Join(h.Run, l.Door)
	f, st, err := open(source)
	if err != nil {
		return refuse(proto.EndInternal, "the door %s cannot be opened: %v", l.Door, err)
	}
	f.Close()
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return refuse(proto.EndInternal, "the door %s is no socket", l.Door)
	}
	b.Mounts = append(b.Mounts, Mount{Kind: Bind, Source: source, Dest: Door, File: true, Write: true})
	if h.CA != "" && !s.covered(caAt) {
		b.Mounts = append(b.Mounts, Mount{Kind: Bind, Source: h.CA, Dest: caAt, File: true})
	}
	return nil
}

// grants mounts what was granted, parents before what is below them, and has
// the first process check what it sees.
func (b *Box) grants(l *proto.Launch, h Host, s *skeleton, programs bool) error {
	mounts := slices.Clone(l.Mounts)
	slices.SortFunc(mounts, func(x, y proto.Mount) int { return strings.Compare(x.Path+"/", y.Path+"/") })
	for i, m := range mounts {
		if i > 0 && mounts[i-1].Path == m.Path {
			return refuse(proto.EndMount, "%s stands twice in the launch", m.Path)
		}
		if err := fit(m.Path, h.Hidden); err != nil {
			return err
		}
		f, st, err := open(m.Path)
		if err != nil {
			return refuse(proto.EndMount, "%s", because(m.Path, err))
		}
		f.Close()
		if t := st.Mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFDIR {
			return refuse(proto.EndMount, "%s is neither a file nor a folder", m.Path)
		}
		b.Mounts = append(b.Mounts, Mount{
			Kind: Bind, Source: m.Path, Dest: m.Path, File: st.Mode&unix.S_IFMT == unix.S_IFREG, Write: m.Write, Exec: programs,
		})
		b.Argv = append(b.Argv, "-check", fmt.Sprintf("%s=%d:%d", m.Path, st.Dev, st.Ino))
	}
	if err := b.hide(l); err != nil {
		return err
	}
	return s.room(mounts)
}

// hide covers what must not be seen in a granted tree: a folder by an empty one,
// a file by an empty one. It comes after all grants, so that it wins over one
// that lies below it. What does not exist needs no cover.
func (b *Box) hide(l *proto.Launch) error {
	paths := slices.Sorted(slices.Values(l.Hide))
	for _, p := range slices.Compact(paths) {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return refuse(proto.EndMount, "%q is no absolute, clean path", p)
		}
		if !slices.ContainsFunc(l.Mounts, func(m proto.Mount) bool { return p == m.Path || strings.HasPrefix(p, m.Path+"/") }) {
			return refuse(proto.EndInternal, "%s shall be hidden and is in nothing that was granted", p)
		}
		f, st, err := open(p)
		switch {
		case err == unix.ENOENT || err == unix.ENOTDIR:
			continue
		case err != nil:
			return refuse(proto.EndMount, "%s shall not be seen, and cannot be covered: %v", p, err)
		}
		f.Close()
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			b.Mounts = append(b.Mounts, Mount{Kind: Tmpfs, Dest: p, Size: 4 << 10, Mode: 0o555})
			continue
		}
		empty := filepath.Join(b.Dir, "empty")
		if err := os.WriteFile(empty, nil, 0o400); err != nil && !os.IsPermission(err) {
			return refuse(proto.EndInternal, "the cover of %s cannot be made: %v", p, err)
		}
		b.Mounts = append(b.Mounts, Mount{Kind: Bind, Source: empty, Dest: p, File: true})
	}
	return nil
}

// Check opens the granted paths again, after a runtime failed: it says which of
// them is to blame, if one is.
func Check(l *proto.Launch) error {
	for _, m := range l.Mounts {
		f, _, err := open(m.Path)
		if err != nil {
			return refuse(proto.EndMount, "%s", because(m.Path, err))
		}
		f.Close()
	}
	return nil
}

// fit refuses paths that would cover what makes the container, or that the
// runtime does not see as they are.
func fit(p, hidden string) error {
	switch {
	case !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsRune(p, 0):
		return refuse(proto.EndMount, "%q is no absolute, clean path", p)
	case p == "/" || p == "/run":
		return refuse(proto.EndMount, "%s as a whole cannot be granted: it would cover the container's own", p)
	}
	for _, own := range []string{"/proc", "/sys", "/dev", Tool, Door, hidden} {
		if own != "" && (p == own || strings.HasPrefix(p, own+"/")) {
			return refuse(proto.EndMount, "%s cannot be granted: %s is the container's own", p, own)
		}
	}
	return nil
}

// open opens a path without following a link in any of its parts.
func open(p string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, st, err
	}
	f := os.NewFile(uintptr(fd), p)
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, st, err
	}
	return f, st, nil
}

func because(p string, err error) string {
	switch err {
	case unix.ELOOP:
		return p + " has a symbolic link in it, and links are not followed: grant the path that it leads to"
	case unix.ENOENT, unix.ENOTDIR:
		return p + " does not exist"
	case unix.EACCES:
		return fmt.Sprintf("%s cannot be entered by uid %d, which runs the tools", p, os.Geteuid())
	default:
		return fmt.Sprintf("%s cannot be opened: %v", p, err)
	}
}

// Masked is what of /proc tells about the machine and not about the box.
func Masked() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/config.gz", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/modules", "/proc/sched_debug", "/proc/scsi", "/proc/softirqs", "/proc/timer_list",
	}
}
