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
	"path/filepath"

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

	doors = "doors" // folders of doors: what else has a socket in the run folder is no way out
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
	Dir     string   // folder of the call, as the runtime sees it; it exists
	Toolkit string   // the static binary, as the runtime sees it
	Run     string   // the run folder, as the runtime sees it, for the door
	Root    string   // root file system of launches that name none
	CA      string   // bundle of certificates; may be empty
	Hidden  string   // folder that the runtime does not see; may be empty
	Own     []string // folders of this program's own
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
	if !filepath.IsLocal(l.Door) || filepath.Clean(l.Door) != l.Door || filepath.Base(filepath.Dir(l.Door)) != doors {
		return refuse(proto.EndInternal, "the door %q is no path of a door below the run folder", l.Door)
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

// Masked is what of /proc tells about the machine and not about the box.
func Masked() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/config.gz", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/modules", "/proc/sched_debug", "/proc/scsi", "/proc/softirqs", "/proc/timer_list",
	}
}
