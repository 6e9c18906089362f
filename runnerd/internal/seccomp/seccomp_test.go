package seccomp

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
)

type rules struct {
	DefaultAction   string   `json:"defaultAction"`
	DefaultErrnoRet int      `json:"defaultErrnoRet"`
	Architectures   []string `json:"architectures"`
	Syscalls        []struct {
		Names    []string `json:"names"`
		Action   string   `json:"action"`
		ErrnoRet int      `json:"errnoRet"`
		Args     []struct {
			Index    int    `json:"index"`
			Value    uint64 `json:"value"`
			ValueTwo uint64 `json:"valueTwo"`
			Op       string `json:"op"`
		} `json:"args"`
	} `json:"syscalls"`
}

// The conformance suite tries the profile on the kernel. This is what must not
// be allowed by any later edit.
func TestProfile(t *testing.T) {
	for _, door := range []bool{true, false} {
		t.Run(fmt.Sprintf("door %v", door), func(t *testing.T) { profileOf(t, door) })
	}
}

func profileOf(t *testing.T, door bool) {
	var r rules
	if err := json.Unmarshal(Profile(door), &r, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if r.DefaultAction != "SCMP_ACT_ERRNO" || r.DefaultErrnoRet != 38 {
		t.Errorf("by default: %s %d", r.DefaultAction, r.DefaultErrnoRet)
	}
	allowed := map[string]int{}
	unix := !door
	for _, s := range r.Syscalls {
		for _, n := range s.Names {
			if s.Action == "SCMP_ACT_ALLOW" && len(s.Args) == 0 {
				allowed[n]++
			}
			if s.Action != "SCMP_ACT_ALLOW" && s.Action != "SCMP_ACT_ERRNO" {
				t.Errorf("%s: %s", n, s.Action)
			}
		}
		if slices.Contains(s.Names, "socket") && len(s.Args) == 0 {
			t.Error("socket of any family")
		}
		if slices.Contains(s.Names, "socket") && len(s.Args) > 0 && s.Args[0].Value == 1 {
			unix = s.Action == "SCMP_ACT_ALLOW"
			if unix && (len(s.Args) < 2 || s.Args[1].Value != 15 || s.Args[1].ValueTwo != 1) {
				t.Error("UNIX sockets of any type")
			}
		}
		if slices.Contains(s.Names, "socketpair") && s.Action == "SCMP_ACT_ALLOW" && (len(s.Args) != 2 || s.Args[1].Value != 15 || s.Args[1].ValueTwo != 1 && s.Args[1].ValueTwo != 5) {
			t.Error("pairs of sockets that can be connected anew")
		}
	}
	if unix != door {
		t.Errorf("UNIX sockets: %v", unix)
	}
	for n, times := range allowed {
		if times > 1 {
			t.Errorf("%s stands %d times", n, times)
		}
	}
	for _, n := range []string{
		"unshare", "setns", "clone", "clone3", "mount", "umount2", "move_mount", "open_tree", "fsopen", "fsmount", "mount_setattr", "pivot_root", "chroot",
		"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "add_key", "request_key", "keyctl", "bpf", "perf_event_open",
		"io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "open_by_handle_at", "name_to_handle_at", "kexec_load", "kexec_file_load",
		"init_module", "finit_module", "delete_module", "swapon", "swapoff", "reboot", "syslog", "personality", "socket", "socketpair", "settimeofday", "clock_settime",
		"adjtimex", "quotactl", "acct", "iopl", "ioperm", "lookup_dcookie", "fanotify_init", "modify_ldt",
		"inotify_init", "inotify_init1", "inotify_add_watch", "fcntl",
		"chmod", "fchmod", "fchmodat", "fchmodat2", "creat", "mkdir", "mkdirat", "mknod", "mknodat", "open", "openat", "openat2",
	} {
		if allowed[n] > 0 {
			t.Errorf("%s is allowed with any arguments", n)
		}
	}
}
