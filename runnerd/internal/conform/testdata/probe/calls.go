package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls tries what the profile must forbid, and some of what it must allow.
func calls() {
	zero := [256]byte{}
	p := uintptr(unsafe.Pointer(&zero))
	path := []byte("/tmp\x00")
	at := uintptr(unsafe.Pointer(&path[0]))
	raw := func(name string, nr uintptr, a ...uintptr) {
		var v [6]uintptr
		copy(v[:], a)
		r, _, e := syscall.RawSyscall6(nr, v[0], v[1], v[2], v[3], v[4], v[5])
		if e != 0 {
			say(name, unix.ErrnoName(e))
			return
		}
		if nr == unix.SYS_CLONE && r == 0 {
			syscall.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
		say(name, "ok")
	}
	for _, f := range []struct {
		name            string
		family, typ, pr int
	}{
		{"unix", 1, 1, 0},
		{"inet", 2, 1, 0},
		{"inet6", 10, 1, 0},
		{"netlink-route", 16, 3, 0},
		{"netlink-audit", 16, 3, 9},
		{"netlink-netfilter", 16, 3, 12},
		{"packet", 17, 3, 0},
		{"vsock", 40, 1, 0},
		{"alg", 38, 5, 0},
		{"bluetooth", 31, 5, 0},
		{"can", 29, 3, 1},
		{"xdp", 44, 3, 0},
		{"tipc", 30, 5, 0},
		{"rds", 21, 5, 0},
		{"ax25", 3, 5, 0},
		{"key", 15, 3, 2},
	} {
		raw("socket "+f.name, unix.SYS_SOCKET, uintptr(f.family), uintptr(f.typ), uintptr(f.pr))
	}
	for name, typ := range map[string]uintptr{"stream": 1, "datagram": 2, "raw": 3, "packets": 5, "datagram nonblock": 2 | syscall.SOCK_NONBLOCK} {
		raw("pair "+name, unix.SYS_SOCKETPAIR, 1, typ, 0, p)
	}
	raw("socket unix datagram", unix.SYS_SOCKET, 1, 2, 0)
	raw("socket high bits", unix.SYS_SOCKET, 1<<32|17, 3, 0)
	for name, flag := range map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
	} {
		raw("clone "+name, unix.SYS_CLONE, flag|uintptr(unix.SIGCHLD))
		raw("unshare "+name, unix.SYS_UNSHARE, flag)
	}
	raw("clone3", unix.SYS_CLONE3, p, 88)
	raw("clone", unix.SYS_CLONE, uintptr(unix.SIGCHLD))
	raw("setns", unix.SYS_SETNS, 0, 0)
	raw("mount", unix.SYS_MOUNT, at, at, at, 0, 0)
	raw("umount2", unix.SYS_UMOUNT2, at, 2)
	raw("pivot_root", unix.SYS_PIVOT_ROOT, at, at)
	raw("chroot", unix.SYS_CHROOT, at)
	raw("open_tree", unix.SYS_OPEN_TREE, ^uintptr(99), at, 1)
	raw("move_mount", unix.SYS_MOVE_MOUNT, 0, at, 0, at, 0)
	raw("fsopen", unix.SYS_FSOPEN, at, 0)
	raw("fsmount", unix.SYS_FSMOUNT, 0, 0, 0)
	raw("fspick", unix.SYS_FSPICK, 0, at, 0)
	raw("mount_setattr", unix.SYS_MOUNT_SETATTR, 0, at, 0, p, 32)
	raw("ptrace", unix.SYS_PTRACE, 16, 1, 0, 0)
	raw("process_vm_readv", unix.SYS_PROCESS_VM_READV, 1, p, 0, p, 0, 0)
	raw("process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, 1, p, 0, p, 0, 0)
	raw("pidfd_getfd", unix.SYS_PIDFD_GETFD, 0, 0, 0)
	raw("kcmp", unix.SYS_KCMP, 1, 1, 0, 0, 0)
	raw("keyctl", unix.SYS_KEYCTL, 0, 0, 0)
	raw("add_key", unix.SYS_ADD_KEY, at, at, p, 1, 0)
	raw("request_key", unix.SYS_REQUEST_KEY, at, at, 0, 0)
	raw("bpf", unix.SYS_BPF, 0, p, 128)
	raw("perf_event_open", unix.SYS_PERF_EVENT_OPEN, p, 0, 0, 0, 0)
	raw("io_uring_setup", unix.SYS_IO_URING_SETUP, 1, p)
	raw("io_uring_enter", unix.SYS_IO_URING_ENTER, 0, 0, 0, 0)
	raw("io_uring_register", unix.SYS_IO_URING_REGISTER, 0, 0, 0, 0)
	raw("io_setup", unix.SYS_IO_SETUP, 1, p)
	raw("userfaultfd", unix.SYS_USERFAULTFD, 0)
	raw("open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, 0, p, 0)
	raw("name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, 0, at, p, p, 0)
	raw("kexec_load", unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)
	raw("init_module", unix.SYS_INIT_MODULE, p, 1, at)
	raw("finit_module", unix.SYS_FINIT_MODULE, 0, at, 0)
	raw("delete_module", unix.SYS_DELETE_MODULE, at, 0)
	raw("swapon", unix.SYS_SWAPON, at, 0)
	raw("swapoff", unix.SYS_SWAPOFF, at)
	raw("reboot", unix.SYS_REBOOT, 0xfee1dead, 672274793, 0, 0)
	raw("syslog", unix.SYS_SYSLOG, 10, 0, 0)
	raw("acct", unix.SYS_ACCT, 0)
	raw("quotactl", unix.SYS_QUOTACTL, 0, at, 0, 0)
	raw("sethostname", unix.SYS_SETHOSTNAME, at, 3)
	raw("settimeofday", unix.SYS_SETTIMEOFDAY, p, 0)
	raw("clock_settime", unix.SYS_CLOCK_SETTIME, 0, p)
	raw("personality", unix.SYS_PERSONALITY, 0x0400000)
	raw("fanotify_init", unix.SYS_FANOTIFY_INIT, 0, 0)
	raw("lookup_dcookie", unix.SYS_LOOKUP_DCOOKIE, 0, p, 8)
	raw("setuid", unix.SYS_SETUID, 0)
	raw("setgid", unix.SYS_SETGID, 0)
	raw("mknod", unix.SYS_MKNODAT, ^uintptr(99), uintptr(unsafe.Pointer(&[]byte("/tmp/dev\x00")[0])), unix.S_IFCHR|0o600, 0x501)
	raw("mkfifo", unix.SYS_MKNODAT, ^uintptr(99), uintptr(unsafe.Pointer(&[]byte("/tmp/fifo\x00")[0])), unix.S_IFIFO|0o600, 0)
	bits(raw)
	raw("memfd_create", unix.SYS_MEMFD_CREATE, at, 0)
	raw("from the future", 1000, 0)
}

// bits tries each way in which a file can get the rights of its owner or group.
func bits(raw func(name string, nr uintptr, a ...uintptr)) {
	const cwd, create, temp = ^uintptr(99), unix.O_CREAT | unix.O_WRONLY, unix.O_TMPFILE | unix.O_WRONLY
	text := func(s string) uintptr { return uintptr(unsafe.Pointer(&append([]byte(s), 0)[0])) }
	made := text("/tmp/made")
	raw("open, plain", unix.SYS_OPENAT, cwd, made, create, 0o755)
	raw("chmod, plain", unix.SYS_FCHMODAT, cwd, made, 0o711)
	raw("open, odd mode of no file", unix.SYS_OPENAT, cwd, made, 0, 0o7777)
	for name, bit := range map[string]uintptr{"user": 0o4000, "group": 0o2000, "both": 0o6000, "user, with bits above": 1<<40 | 0o4000} {
		mode := bit | 0o755
		raw("chmod "+name, unix.SYS_FCHMODAT, cwd, made, mode)
		raw("fchmodat2 "+name, unix.SYS_FCHMODAT2, cwd, made, mode, 0)
		raw("fchmod "+name, unix.SYS_FCHMOD, 3, mode)
		raw("open "+name, unix.SYS_OPENAT, cwd, text("/tmp/open-"+name), create, mode)
		raw("open temporary "+name, unix.SYS_OPENAT, cwd, text("/tmp"), temp, mode)
		raw("mkdir "+name, unix.SYS_MKDIRAT, cwd, text("/tmp/dir-"+name), mode)
		raw("mknod "+name, unix.SYS_MKNODAT, cwd, text("/tmp/node-"+name), unix.S_IFREG|mode, 0)
		how := &unix.OpenHow{Flags: create, Mode: 0o4755}
		raw("openat2 "+name, unix.SYS_OPENAT2, cwd, text("/tmp/two-"+name), uintptr(unsafe.Pointer(how)), unix.SizeofOpenHow)
	}
}
