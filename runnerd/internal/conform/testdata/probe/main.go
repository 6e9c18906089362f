// Command probe stands in for toolkit in the conformance suite: it speaks its
// protocol, and does inside a container what its input says, one action per
// line. Actions and their arguments are separated by single spaces.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		child(os.Args[2:])
		return
	}
	args := os.Args[1:]
	if os.Getpid() == 1 {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) // as toolkit does
	}
	for len(args) > 1 && args[0] == "-check" {
		check(args[1])
		args = args[2:]
	}
	if args[0] == "probe" {
		fmt.Println("toolkit" + status("Seccomp") + status("NoNewPrivs"))
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		f := strings.Split(in.Text(), " ")
		act(f[0], f[1:])
	}
}

func check(arg string) {
	i := strings.LastIndex(arg, "=")
	var st unix.Stat_t
	err := unix.Lstat(arg[:i], &st)
	if got := fmt.Sprintf("%d:%d", st.Dev, st.Ino); err != nil || got != arg[i+1:] {
		fmt.Fprintln(os.Stderr, "mount:", arg[:i], "is", got, err)
		os.Exit(126)
	}
}

func status(name string) string {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return " " + name + "=" + strings.Join(strings.Fields(value), ",")
}

func say(what string, v ...any) { fmt.Println(what+":", strings.TrimSpace(fmt.Sprintln(v...))) }

func act(do string, a []string) {
	switch do {
	case "echo":
		fmt.Println(strings.Join(a, " "))
	case "complain":
		fmt.Fprintln(os.Stderr, strings.Join(a, " "))
	case "exit":
		n, _ := strconv.Atoi(a[0])
		os.Exit(n)
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	case "hold": // says that it lives, and does so until it is killed
		c := door()
		fmt.Fprintln(c, "holding")
		_, _ = io.Copy(io.Discard, c)
		select {}
	case "ask": // one line through the door and back
		c := door()
		fmt.Fprintln(c, strings.Join(a, " "))
		line, err := bufio.NewReader(c).ReadString('\n')
		say("answer", strings.TrimSpace(line), err)
	case "flood":
		b := make([]byte, 64<<10)
		for i := range b {
			b[i] = 'x'
		}
		for {
			_, _ = os.Stdout.Write(b)
		}
	case "eat":
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
		}
	case "fork":
		forkBomb()
	case "orphan":
		c := exec.Command("/proc/self/exe", "child", "hold")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err == nil {
			_, err = io.ReadFull(out, make([]byte, 1)) // it is there
		}
		say("orphan", err)
	case "secret":
		b, err := io.ReadAll(os.NewFile(3, "secrets"))
		say("secret", string(b), err)
	case "env":
		e := os.Environ()
		sort.Strings(e)
		say("env", strings.Join(e, " "))
	case "status":
		for _, n := range a {
			say(n, strings.TrimPrefix(status(n), " "+n+"="))
		}
	case "fds":
		fds()
	case "ls":
		for _, p := range a {
			es, err := os.ReadDir(p)
			var names []string
			for _, e := range es {
				names = append(names, e.Name())
			}
			say("ls "+p, strings.Join(names, " "), err)
		}
	case "cat":
		for _, p := range a {
			b, err := os.ReadFile(p)
			if len(b) > 200 {
				b = b[:200]
			}
			say("cat "+p, strconv.Quote(string(b)), errno(err))
		}
	case "write":
		for _, p := range a {
			say("write "+p, errno(os.WriteFile(p, []byte("written"), 0o644)))
		}
	case "move", "swap", "link", "symlink", "remove":
		say(strings.Join(append([]string{do}, a...), " "), errno(change(do, a)))
	case "grep":
		grep(a[0], a[1])
	case "host":
		n, _ := os.Hostname()
		say("host", n)
	case "run":
		out, err := exec.Command(a[0], a[1:]...).CombinedOutput()
		say("run", strings.TrimSpace(string(out)), err)
	case "net":
		network(a)
	case "calls":
		calls()
	case "dial": // what keeps from a socket, if something does
		c, err := net.Dial(a[0], a[1])
		say("dial "+a[0], errno(err))
		if err == nil {
			fmt.Fprintln(c, "dialled "+a[0])
			// What passes it on ends with us: it gets a moment, for nobody answers.
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = c.Read(make([]byte, 1))
			c.Close()
		}
	case "pair": // a pair's end is sent to another address
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err == nil {
			err = unix.Sendto(p[0], []byte("paired"), 0, &unix.SockaddrUnix{Name: a[0]})
		}
		say("pair", errno(err))
	case "stay":
		time.Sleep(time.Hour)
	case "many":
		n := 0
		var err error
		for ; err == nil && n < 1<<20; n++ {
			var f *os.File
			if f, err = os.Create(filepath.Join(a[0], strconv.Itoa(n))); err == nil {
				f.Close()
			}
		}
		say("many", n, errno(err))
	case "fill":
		fill(a[0])
	default:
		say("unknown action", do)
		os.Exit(3)
	}
}

func child(a []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	switch a[0] {
	case "hold":
		c := door()
		fmt.Fprintln(c, "orphan")
		fmt.Print("x")
		select {}
	case "do": // actions, separated by semicolons, where there is no input
		for _, line := range strings.Split(a[1], ";") {
			f := strings.Split(line, " ")
			act(f[0], f[1:])
		}
	}
}

func door() net.Conn {
	c, err := net.Dial("unix", "/run/egress.sock")
	if err != nil {
		say("door", err)
		os.Exit(4)
	}
	return c
}

func errno(err error) string {
	if err == nil {
		return "ok"
	}
	for e := err; e != nil; {
		if n, ok := e.(syscall.Errno); ok {
			return unix.ErrnoName(n)
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
	return err.Error()
}

// change changes names.
func change(do string, a []string) error {
	switch do {
	case "move":
		return os.Rename(a[0], a[1])
	case "swap":
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	case "link":
		return os.Link(a[0], a[1])
	case "symlink":
		return os.Symlink(a[0], a[1])
	default:
		return os.RemoveAll(a[0])
	}
}

// grep tells which files have a text.
func grep(dir, text string) {
	var found []string
	_ = filepath.WalkDir(dir, func(p string, _ os.DirEntry, _ error) error {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), text) {
			found = append(found, p)
		}
		return nil
	})
	say("grep", strings.Join(found, " "))
}

// forkBomb starts processes until it cannot, and tells how many there were.
func forkBomb() {
	n := 0
	for ; n < 100_000; n++ {
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
	say("forked", n)
}

func fds() {
	var open []string
	for fd := 0; fd < 1024; fd++ {
		if fl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && fl&unix.FD_CLOEXEC == 0 {
			open = append(open, strconv.Itoa(fd))
		}
	}
	say("fds", strings.Join(open, " "))
}

func network(targets []string) {
	ifs, err := net.Interfaces()
	var names []string
	for _, i := range ifs {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp == 0 {
			continue // the kernel's fallback devices, which are down
		}
		names = append(names, i.Name)
	}
	say("devices", strings.Join(names, " "), err)
	for _, t := range targets {
		proto, at, _ := strings.Cut(t, "!")
		c, err := net.DialTimeout(proto, at, 2*time.Second)
		if err == nil {
			c.Close()
		}
		say("dial "+t, err == nil)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	say("listen", errno(err))
	if err == nil {
		c, err := net.Dial("tcp", l.Addr().String())
		say("own loopback", errno(err))
		if err == nil {
			c.Close()
		}
	}
}

func fill(dir string) {
	f, err := os.Create(filepath.Join(dir, "big"))
	if err != nil {
		say("fill", errno(err))
		return
	}
	b := make([]byte, 1<<20)
	n := 0
	for ; n < 4096; n++ {
		if _, err = f.Write(b); err != nil {
			break
		}
	}
	say("fill", n, errno(err))
}
