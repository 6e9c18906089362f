// Package filter takes Unix sockets away from what a thread starts.
//
// A program that has a way out runs in a container whose first process needs
// Unix sockets, to reach the door. The program does not: a server of the machine
// that has its socket in a granted folder would obey it. So its thread gets one
// more filter of system calls, which the kernel keeps for all that it starts and
// which nobody can take off again.
//
// It guarantees that no Unix socket can be made behind it, whichever way a call is
// made. It leaves everything else to the profile of the container, which forbids
// pairs of sockets that could be connected anew.
package filter

import (
	"fmt"
	"reflect"
	"runtime"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, see seccomp(2). The low half of the first
// argument is the family: the kernel takes no more of it either.
const (
	atCall = 0
	atArch = 4
	atArg  = 16
)

// x32 marks calls of the other way to call a 64-bit kernel of x86.
const x32 = 0x40000000

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func end(with uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
}

// program gives the filter. A call of another architecture has other numbers, so
// that it ends the process.
func program() []unix.SockFilter {
	return []unix.SockFilter{
		load(atArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		end(unix.SECCOMP_RET_KILL_PROCESS),
		load(atCall),
		jump(unix.BPF_JGE, x32, 4, 0),
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 2),
		load(atArg),
		jump(unix.BPF_JEQ, unix.AF_UNIX, 2, 0),
		end(unix.SECCOMP_RET_ALLOW),
		end(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		end(unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)),
	}
}

// Apply filters the calling thread, and all that it starts. Precondition: the
// goroutine is locked to its thread, and stays so until it ends.
func Apply() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("filter: no new rights: %w", err)
	}
	steps := program()
	set := &unix.SockFprog{Len: uint16(len(steps)), Filter: &steps[0]}
	// The address in a form that a call takes; what it points to lives until then.
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, reflect.ValueOf(set).Pointer(), 0, 0)
	runtime.KeepAlive(set)
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	return nil
}
