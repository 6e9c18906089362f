// Command attacker is what the families about processes run in a container: it
// does what a shell cannot. Each line that it prints is about one thing that it
// tried: "NAME: ok" or "NAME: ERRNO". Its first line is a mark, so that a test
// can tell a wall from a program that never ran.
//
//	attacker sys NAME NUMBER ARGUMENT…   one system call; s:TEXT is a pointer to text, z:N one to N zero bytes
//	attacker foreign KIND                a call by the numbers of another architecture, in a process of its own
//	attacker open r|w|x PATH…            opens each; x executes it
//	attacker dial NETWORK ADDRESS…       connects, and says a word where that means nothing
//	attacker ask N NETWORK ADDRESS TEXT… sends each text (quoted as in Go) on a connection of its own, N at once
//	attacker fds                         descriptors beyond 2
//	attacker fork N                      as many processes as there can be, up to N
//	attacker eat KIND MEBIBYTES          heap, tmpfs, shm, memfd or cache
//	attacker memfd                       executes a program that is in memory only
//	attacker signals                     every signal to process 1, and to all
//	attacker watch PATH MARK END         what others do to PATH, from MARK on until END is there
//	attacker hold FILE FOLDER            leases and signals
//	attacker leave HOW MARK FILE         leaves a process that writes to FILE; HOW: orphan, daemon, deaf, pipes, many
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	a := os.Args[1:]
	if a[0] == "stay" {
		stay(a[2])
	}
	fmt.Println("attacker ran")
	switch a[0] {
	case "sys":
		sys(a[1], a[2], a[3:])
	case "foreign":
		foreign(a[1])
	case "open":
		for _, p := range a[2:] {
			say(p, open(a[1], p))
		}
	case "dial":
		for _, to := range a[2:] {
			say(a[1]+" "+strings.ReplaceAll(to, "\x00", "@"), dial(a[1], to))
		}
	case "ask": // how many at once, network, address, texts
		ask(number(a[1]), a[2], a[3], a[4:])
	case "fds":
		fds()
	case "fork":
		fork(number(a[1]))
	case "eat":
		eat(a[1], number(a[2]))
	case "memfd":
		memfd()
	case "signals":
		signals()
	case "watch":
		watch(a[1], a[2], a[3])
	case "hold":
		hold(a[1], a[2])
	case "leave":
		leave(a[1], a[2], a[3])
	default:
		fmt.Println("no such attack:", a[0])
		os.Exit(2)
	}
}

func say(name string, err error) { fmt.Printf("%s: %s\n", name, word(err)) }

func word(err error) string {
	var n syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &n):
		return unix.ErrnoName(n)
	default:
		return err.Error()
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// sys makes one call. What it points to stays alive until the end.
func sys(name, nr string, args []string) {
	var v [6]uintptr
	keep := make([][]byte, len(args))
	for i, a := range args {
		switch kind, rest, _ := strings.Cut(a, ":"); kind {
		case "s":
			keep[i] = append([]byte(rest), 0)
			v[i] = uintptr(unsafe.Pointer(&keep[i][0]))
		case "z":
			keep[i] = make([]byte, number(rest))
			v[i] = uintptr(unsafe.Pointer(&keep[i][0]))
		default:
			n, err := strconv.ParseInt(a, 0, 64)
			if err != nil {
				u, err := strconv.ParseUint(a, 0, 64)
				if err != nil {
					panic(err)
				}
				n = int64(u)
			}
			v[i] = uintptr(n)
		}
	}
	r, _, e := syscall.RawSyscall6(uintptr(number(nr)), v[0], v[1], v[2], v[3], v[4], v[5])
	if e != 0 {
		say(name, e)
		return
	}
	if n := uintptr(number(nr)); (n == unix.SYS_CLONE || n == unix.SYS_CLONE3) && r == 0 {
		syscall.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	say(name, nil)
	_ = keep
}

// foreign: a process that makes such a call is ended; in a program of many threads
// only the thread would be.
func foreign(kind string) {
	pid, _, e := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
	if e == 0 && pid == 0 {
		callForeign(kind)
		syscall.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	var ws syscall.WaitStatus
	_, err := syscall.Wait4(int(pid), &ws, 0, nil)
	if err == nil && ws.Signaled() {
		fmt.Printf("%s: ended by %s\n", kind, unix.SignalName(ws.Signal()))
		return
	}
	if err == nil && ws.ExitStatus() != 0 { // this machine has no such gate
		fmt.Printf("%s: fault\n", kind)
		return
	}
	say(kind, err)
}

func open(how, p string) error {
	switch how {
	case "x":
		return exec.Command(p).Run()
	case "w":
		f, err := os.OpenFile(p, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString("1\n")
		return err
	}
	f, err := os.OpenFile(p, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		_, err = f.Readdirnames(-1)
		return err
	}
	_, err = f.Read(make([]byte, 64))
	return err
}

func dial(network, to string) error {
	c, err := net.DialTimeout(network, to, 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("attacker\n"))
	return err
}

func fds() {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		say("fds", err)
		return
	}
	for _, d := range dir {
		if to, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && number(d.Name()) > 2 && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/proc/") {
			fmt.Printf("descriptor %s is %s\n", d.Name(), to)
		}
	}
}

func fork(most int) {
	n := 0
	for ; n < most; n++ {
		pid, _, e := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
		if e != 0 {
			break
		}
		if pid == 0 {
			for {
				_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
	fmt.Println("forked:", n)
}

// eat takes memory, a mebibyte at a time, and says how much it got. The kernel
// may end it before.
func eat(kind string, most int) {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = 'x'
	}
	var to *os.File
	var err error
	switch kind {
	case "heap":
		all := make([][]byte, 0, most)
		for range most {
			all = append(all, append([]byte(nil), block...))
		}
		fmt.Println("got:", len(all))
		return
	case "memfd":
		var fd int
		fd, err = unix.MemfdCreate("x", 0)
		to = os.NewFile(uintptr(fd), "memfd")
	case "tmpfs":
		to, err = os.Create("/tmp/full")
	case "shm":
		to, err = os.Create("/dev/shm/full")
	}
	if err != nil {
		say("eat", err)
		return
	}
	n := 0
	for ; n < most; n++ {
		if _, err = to.Write(block); err != nil {
			break
		}
	}
	say("eat", err)
	fmt.Println("got:", n)
}

func memfd() {
	fd, err := unix.MemfdCreate("x", 0)
	if err != nil {
		say("memfd", err)
		return
	}
	b, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		say("memfd", err)
		return
	}
	if _, err := unix.Write(fd, b); err != nil {
		say("memfd", err)
		return
	}
	say("memfd", syscall.Exec("/proc/self/fd/"+strconv.Itoa(fd), []string{"id"}, nil))
}

// signals leaves out SIGTERM, which asks process 1 to end the call and has a row
// of its own.
func signals() {
	for s := 1; s <= 64; s++ {
		if s != int(unix.SIGTERM) {
			_ = unix.Kill(1, unix.Signal(s))
		}
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGUSR1)
	_ = unix.Kill(-1, unix.SIGUSR1)
	say("after the signals", nil)
}

func leave(how, mark, file string) {
	n := 1
	if how == "many" {
		n = 20
	}
	for range n {
		c := exec.Command("/proc/self/exe", "stay", how+mark, file)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: how != "orphan"}
		if how == "pipes" {
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
		}
		if err := c.Start(); err != nil {
			say("leave", err)
			return
		}
	}
	for { // it must be there before we go
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	say("leave", nil)
}

// stay writes for as long as it lives.
func stay(file string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	f, err := os.OpenFile(filepath.Clean(file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		os.Exit(1)
	}
	for {
		_, _ = f.WriteString("alive\n")
		time.Sleep(time.Millisecond)
	}
}
