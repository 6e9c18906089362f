package redteam

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxmaker/internal/proto"
)

// A syscallRow is a system call that no program in a container may make.
type syscallRow struct {
	name string
	nr   uintptr
	args []string
	// free: an ordinary user may make it outside of a container, so that it is the
	// container that forbids it here.
	free bool
}

// forbidden is what the kernel answers to a call that the profile does not allow.
var forbidden = []string{"EPERM", "ENOSYS"}

func args(a ...any) (out []string) {
	for _, x := range a {
		out = append(out, fmt.Sprint(x))
	}
	return out
}

// callRows makes an attempt of each, and a control outside.
func callRows(r *rig, rows []syscallRow) (out []attempt) {
	for _, c := range rows {
		argv := append([]string{"sys", c.name, strconv.FormatUint(uint64(c.nr), 10)}, c.args...)
		a := r.attack(c.name, says(forbidden, c.name), argv...)
		if c.free {
			inside := a.check
			a.check = func(r *rig, res *proto.CallResult) {
				r.t.Helper()
				inside(r, res)
				if text := r.outsideBox(argv...); !strings.Contains(text, c.name+": ") || strings.Contains(text, ": EPERM") || strings.Contains(text, ": ENOSYS") {
					r.t.Errorf("control: outside, where nothing forbids it: %s", text)
				}
			}
		}
		out = append(out, a)
	}
	return out
}

const cwdFD = unix.AT_FDCWD

func namespaceCalls() family {
	return family{
		name: "mount and namespace calls", stage: armed,
		tries: func(r *rig) []attempt {
			var rows []syscallRow
			for name, flag := range map[string]uint64{
				"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID, "ipc": unix.CLONE_NEWIPC,
				"uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
			} {
				rows = append(rows,
					syscallRow{name: "unshare " + name, nr: unix.SYS_UNSHARE, args: args(flag), free: flag == unix.CLONE_NEWUSER},
					syscallRow{name: "clone " + name, nr: unix.SYS_CLONE, args: args(flag|uint64(unix.SIGCHLD), 0, 0, 0, 0), free: flag == unix.CLONE_NEWUSER},
				)
			}
			rows = append(rows,
				syscallRow{name: "unshare time", nr: unix.SYS_UNSHARE, args: args(uint64(unix.CLONE_NEWTIME))},
				syscallRow{name: "unshare user and mount", nr: unix.SYS_UNSHARE, args: args(uint64(unix.CLONE_NEWUSER | unix.CLONE_NEWNS)), free: true},
				syscallRow{name: "unshare files", nr: unix.SYS_UNSHARE, args: args(uint64(unix.CLONE_FILES)), free: true},
				syscallRow{name: "clone user, with bits above", nr: unix.SYS_CLONE, args: args(uint64(1)<<40|unix.CLONE_NEWUSER|uint64(unix.SIGCHLD), 0, 0, 0, 0)},
				syscallRow{name: "clone3", nr: unix.SYS_CLONE3, args: args("z:88", 64), free: true},
				syscallRow{name: "setns", nr: unix.SYS_SETNS, args: args(0, 0), free: true},
				syscallRow{name: "mount tmpfs", nr: unix.SYS_MOUNT, args: args("s:none", "s:/tmp", "s:tmpfs", 0, 0)},
				syscallRow{name: "mount proc", nr: unix.SYS_MOUNT, args: args("s:proc", "s:/tmp", "s:proc", 0, 0)},
				syscallRow{name: "remount the root for writing", nr: unix.SYS_MOUNT, args: args("s:none", "s:/", "z:1", uint64(unix.MS_REMOUNT|unix.MS_BIND), 0)},
				syscallRow{name: "remount /proc for writing", nr: unix.SYS_MOUNT, args: args("s:none", "s:/proc/sys", "z:1", uint64(unix.MS_REMOUNT|unix.MS_BIND), 0)},
				syscallRow{name: "bind", nr: unix.SYS_MOUNT, args: args("s:/", "s:/tmp", "z:1", uint64(unix.MS_BIND|unix.MS_REC), 0)},
				syscallRow{name: "overlay", nr: unix.SYS_MOUNT, args: args("s:overlay", "s:/usr", "s:overlay", 0, "s:lowerdir=/usr,upperdir=/tmp,workdir=/tmp")},
				syscallRow{name: "make shared", nr: unix.SYS_MOUNT, args: args("s:none", "s:/", "z:1", uint64(unix.MS_SHARED|unix.MS_REC), 0)},
				syscallRow{name: "umount2", nr: unix.SYS_UMOUNT2, args: args("s:/proc", unix.MNT_DETACH)},
				syscallRow{name: "umount2 of a masked file", nr: unix.SYS_UMOUNT2, args: args("s:/proc/kcore", unix.MNT_DETACH)},
				syscallRow{name: "pivot_root", nr: unix.SYS_PIVOT_ROOT, args: args("s:/tmp", "s:/tmp")},
				syscallRow{name: "chroot", nr: unix.SYS_CHROOT, args: args("s:/tmp")},
				syscallRow{name: "open_tree", nr: unix.SYS_OPEN_TREE, args: args(cwdFD, "s:/", 0), free: true},
				syscallRow{name: "open_tree, a clone", nr: unix.SYS_OPEN_TREE, args: args(cwdFD, "s:/", 1)},
				syscallRow{name: "move_mount", nr: unix.SYS_MOVE_MOUNT, args: args(cwdFD, "s:/proc", cwdFD, "s:/tmp", 0)},
				syscallRow{name: "fsopen", nr: unix.SYS_FSOPEN, args: args("s:tmpfs", 0)},
				syscallRow{name: "fspick", nr: unix.SYS_FSPICK, args: args(cwdFD, "s:/", 0)},
				syscallRow{name: "fsconfig", nr: unix.SYS_FSCONFIG, args: args(0, 6, 0, 0, 0), free: true},
				syscallRow{name: "fsmount", nr: unix.SYS_FSMOUNT, args: args(0, 0, 0)},
				syscallRow{name: "mount_setattr", nr: unix.SYS_MOUNT_SETATTR, args: args(cwdFD, "s:/", 0, "z:32", 32)},
				syscallRow{name: "statmount", nr: unix.SYS_STATMOUNT, args: args("z:64", "z:512", 512, 0)},
				syscallRow{name: "listmount", nr: unix.SYS_LISTMOUNT, args: args("z:64", "z:512", 64, 0)},
			)
			return append(callRows(r, rows),
				sh("by the system's own programs", "unshare -Ur id; unshare -m true; mount -t tmpfs none /tmp; umount /proc; nsenter -t 1 -m ls /; chroot /tmp; mount -o remount,rw /", lacks("uid=0", "uid=65534")),
				sh("the root is written to", "touch /x /usr/x /bin/x /etc/x /tool /etc/passwd; echo x >>/etc/passwd; rm -rf /tool /usr/bin/id; ls /x /usr/x /etc/x", nothingWritten),
			)
		},
	}
}

func nothingWritten(r *rig, res *proto.CallResult) {
	r.t.Helper()
	if strings.Count(res.Text, "Read-only file system") < 5 {
		r.t.Errorf("what cannot be written to is read-only: %s", res.Text)
	}
}

func kernelCalls() family {
	return family{
		name: "tracing, keyrings and other kernel calls", stage: armed,
		tries: func(r *rig) []attempt {
			rows := []syscallRow{
				{name: "ptrace attach", nr: unix.SYS_PTRACE, args: args(unix.PTRACE_ATTACH, 1, 0, 0)},
				{name: "ptrace seize", nr: unix.SYS_PTRACE, args: args(unix.PTRACE_SEIZE, 1, 0, 0)},
				{name: "ptrace traceme", nr: unix.SYS_PTRACE, args: args(unix.PTRACE_TRACEME, 0, 0, 0), free: true},
				{name: "process_vm_readv", nr: unix.SYS_PROCESS_VM_READV, args: args(1, "z:16", 1, "z:16", 1, 0)},
				{name: "process_vm_writev", nr: unix.SYS_PROCESS_VM_WRITEV, args: args(1, "z:16", 1, "z:16", 1, 0)},
				{name: "pidfd_getfd", nr: unix.SYS_PIDFD_GETFD, args: args(0, 1, 0), free: true},
				{name: "process_madvise", nr: unix.SYS_PROCESS_MADVISE, args: args(0, "z:16", 0, 0, 0), free: true},
				{name: "process_mrelease", nr: unix.SYS_PROCESS_MRELEASE, args: args(0, 0), free: true},
				{name: "kcmp", nr: unix.SYS_KCMP, args: args(1, 1, 0, 0, 0)},
				{name: "keyctl", nr: unix.SYS_KEYCTL, args: args(0, -3, 1), free: true},
				{name: "keyctl join", nr: unix.SYS_KEYCTL, args: args(1, "s:x"), free: true},
				{name: "add_key", nr: unix.SYS_ADD_KEY, args: args("s:user", "s:x", "s:v", 1, -3), free: true},
				{name: "request_key", nr: unix.SYS_REQUEST_KEY, args: args("s:user", "s:none", 0, 0), free: true},
				{name: "bpf", nr: unix.SYS_BPF, args: args(0, "z:128", 128)},
				{name: "perf_event_open", nr: unix.SYS_PERF_EVENT_OPEN, args: args("z:128", 0, -1, -1, 0), free: true},
				{name: "io_uring_setup", nr: unix.SYS_IO_URING_SETUP, args: args(1, "z:120")},
				{name: "io_uring_enter", nr: unix.SYS_IO_URING_ENTER, args: args(0, 0, 0, 0, 0, 0), free: true},
				{name: "io_uring_register", nr: unix.SYS_IO_URING_REGISTER, args: args(0, 0, 0, 0), free: true},
				{name: "io_setup", nr: unix.SYS_IO_SETUP, args: args(1, "z:8"), free: true},
				{name: "userfaultfd", nr: unix.SYS_USERFAULTFD, args: args(1), free: true},
				{name: "open_by_handle_at", nr: unix.SYS_OPEN_BY_HANDLE_AT, args: args(cwdFD, "z:64", 0)},
				{name: "name_to_handle_at", nr: unix.SYS_NAME_TO_HANDLE_AT, args: args(cwdFD, "s:/", "z:64", "z:8", 0), free: true},
				{name: "personality, no random addresses and more", nr: unix.SYS_PERSONALITY, args: args(0x0400000), free: true},
				{name: "init_module", nr: unix.SYS_INIT_MODULE, args: args("z:16", 16, "s:")},
				{name: "finit_module", nr: unix.SYS_FINIT_MODULE, args: args(0, "s:", 0)},
				{name: "delete_module", nr: unix.SYS_DELETE_MODULE, args: args("s:none", 0)},
				{name: "kexec_load", nr: unix.SYS_KEXEC_LOAD, args: args(0, 0, 0, 0)},
				{name: "kexec_file_load", nr: unix.SYS_KEXEC_FILE_LOAD, args: args(-1, -1, 0, 0, 0)},
				{name: "reboot", nr: unix.SYS_REBOOT, args: args(0, 0, 0, 0)},
				{name: "swapon", nr: unix.SYS_SWAPON, args: args("s:/tmp/none", 0)},
				{name: "swapoff", nr: unix.SYS_SWAPOFF, args: args("s:/tmp/none")},
				{name: "syslog", nr: unix.SYS_SYSLOG, args: args(3, "z:256", 256)},
				{name: "acct", nr: unix.SYS_ACCT, args: args("s:/tmp/none")},
				{name: "quotactl", nr: unix.SYS_QUOTACTL, args: args(0x800001, "s:/none", 0, 0), free: true},
				{name: "fanotify_init", nr: unix.SYS_FANOTIFY_INIT, args: args(0x200, 0), free: true},
				{name: "settimeofday", nr: unix.SYS_SETTIMEOFDAY, args: args("z:16", 0)},
				{name: "clock_settime", nr: unix.SYS_CLOCK_SETTIME, args: args(0, "z:16")},
				{name: "adjtimex", nr: unix.SYS_ADJTIMEX, args: args("z:256"), free: true},
				{name: "sethostname", nr: unix.SYS_SETHOSTNAME, args: args("s:owned", 5)},
				{name: "setdomainname", nr: unix.SYS_SETDOMAINNAME, args: args("s:owned", 5)},
				{name: "vhangup", nr: unix.SYS_VHANGUP},
				{name: "lookup_dcookie", nr: unix.SYS_LOOKUP_DCOOKIE, args: args(0, "z:8", 8)},
				{name: "move_pages", nr: unix.SYS_MOVE_PAGES, args: args(0, 0, 0, 0, 0, 0), free: true},
				{name: "set_mempolicy", nr: unix.SYS_SET_MEMPOLICY, args: args(0, 0, 0), free: true},
				{name: "vmsplice", nr: unix.SYS_VMSPLICE, args: args(1, "z:16", 0, 0), free: true},
				{name: "memfd_secret", nr: unix.SYS_MEMFD_SECRET, args: args(0)},
				{name: "a call from the future", nr: 1000},
			}
			return append(append(callRows(r, append(rows, archRows()...)), archTries(r)...),
				r.attack("a program in memory only", all(shows("uid=1000(box)"), lacks("memfd: ")), "memfd"),
				r.attack("set-user-id by call", says([]string{"EINVAL", "EPERM"}, "setuid"), "sys", "setuid", fmt.Sprint(unix.SYS_SETUID), "0"),
				r.attack("capabilities back", says([]string{"EPERM", "EINVAL"}, "capset"), "sys", "capset", fmt.Sprint(unix.SYS_CAPSET), "z:8", "z:24"),
				r.attack("new privileges back", says([]string{"EINVAL"}, "prctl"), "sys", "prctl", fmt.Sprint(unix.SYS_PRCTL), fmt.Sprint(unix.PR_SET_NO_NEW_PRIVS), "0", "0", "0", "0"),
				sh("what is in force", "grep -E '^(CapEff|CapBnd|CapPrm|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t' ' '",
					all(shows("NoNewPrivs: 1"), shows("Seccomp: 2"), shows("CapEff: 0000000000000000"), shows("CapBnd: 0000000000000000"), shows("CapPrm: 0000000000000000"), shows("CapAmb: 0000000000000000"))),
			)
		},
	}
}
