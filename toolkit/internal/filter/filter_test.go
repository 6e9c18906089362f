package filter

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// variable turns this test into a program that tries to make sockets.
const variable = "BOXMAKER_TEST_SOCKETS"

func TestMain(m *testing.M) {
	if os.Getenv(variable) != "" {
		fmt.Println(try())
		return
	}
	os.Exit(m.Run())
}

// try makes a socket of each kind, and says what came of it.
func try() string {
	var said []string
	add := func(name string, err error) {
		if err == nil {
			said = append(said, name+"=ok")
			return
		}
		said = append(said, name+"="+unix.ErrnoName(err.(syscall.Errno)))
	}
	_, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	add("unix", err)
	_, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	add("dgram", err)
	_, _, no := syscall.RawSyscall(unix.SYS_SOCKET, 7<<32|unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if no == 0 {
		add("high", nil)
	} else {
		add("high", no)
	}
	_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	add("inet", err)
	_, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	add("pair", err)
	return strings.Join(said, " ")
}

const (
	open = "unix=ok dgram=ok high=ok inet=ok pair=ok"
	shut = "unix=EAFNOSUPPORT dgram=EAFNOSUPPORT high=EAFNOSUPPORT inet=ok pair=ok"
)

// TestApply: the thread and what it starts have none, other threads have.
func TestApply(t *testing.T) {
	type result struct {
		own, child string
		err        error
	}
	c := make(chan result)
	go func() {
		runtime.LockOSThread() // and never back: the thread ends with its filter
		var r result
		if r.err = Apply(); r.err == nil {
			r.own = try()
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = []string{variable + "=1"}
			var out []byte
			out, r.err = cmd.Output()
			r.child = strings.TrimSpace(string(out))
		}
		c <- r
	}()
	r := <-c
	if r.err != nil {
		t.Fatal(r.err)
	}
	if r.own != shut || r.child != shut {
		t.Errorf("the thread: %s; what it started: %s", r.own, r.child)
	}
	if s := try(); s != open {
		t.Errorf("another thread: %s", s)
	}
}

// Always: a Unix socket is refused, what is of another architecture ends, and
// nothing else is touched.
func TestProgram(t *testing.T) {
	var steps []bpf.Instruction
	for _, s := range program() {
		steps = append(steps, bpf.RawInstruction{Op: s.Code, Jt: s.Jt, Jf: s.Jf, K: s.K}.Disassemble())
	}
	vm, err := bpf.NewVM(steps)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		some := func(name string, likely ...uint32) uint32 {
			return rapid.OneOf(rapid.SampledFrom(likely), rapid.Uint32()).Draw(t, name)
		}
		call, machine, family := some("call", unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, x32|unix.SYS_SOCKET), some("arch", arch, arch, arch, 0x40000003), some("family", 0, 1, 2, 1<<31|1)
		data := make([]byte, 64)
		for at, v := range map[int]uint32{atCall: call, atArch: machine, atArg: family, atArg + 4: some("high half", 0, 1)} {
			binary.BigEndian.PutUint32(data[at:], v) // as the machine in this test loads it
		}
		got, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		want := uint32(unix.SECCOMP_RET_ALLOW)
		switch {
		case machine != arch:
			want = unix.SECCOMP_RET_KILL_PROCESS
		case call >= x32:
			want = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		case call == unix.SYS_SOCKET && family == unix.AF_UNIX:
			want = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
		}
		if uint32(got) != want {
			t.Fatalf("%#x, want %#x", uint32(got), want)
		}
	})
}
