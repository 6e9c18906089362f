package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func childSignals() {
	d := New("test")
	fmt.Println("started")
	<-d.Context().Done()
	fmt.Println("ended")
	if os.Getenv("STUBBORN") != "" {
		select {} // only a second signal ends it
	}
	d.Close()
}

func TestSignals(t *testing.T) {
	for _, tc := range []struct {
		name, stubborn string
		signals        []os.Signal
		code           int
	}{
		{"SIGTERM", "", []os.Signal{syscall.SIGTERM}, 0},
		{"SIGINT", "", []os.Signal{syscall.SIGINT}, 0},
		{"SIGTERM twice", "1", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, 128 + 15},
		{"SIGTERM, SIGINT", "1", []os.Signal{syscall.SIGTERM, syscall.SIGINT}, 128 + 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := command(t, "signals")
			cmd.Env = append(cmd.Env, "STUBBORN="+tc.stubborn)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			for i, want := range []string{"started\n", "ended\n"} {
				b := make([]byte, len(want))
				if _, err := out.Read(b); err != nil || string(b) != want {
					t.Fatalf("%q %v, want %q", b, err, want)
				}
				if i < len(tc.signals) {
					cmd.Process.Signal(tc.signals[i])
				}
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != tc.code {
				t.Errorf("exit %d, want %d", code, tc.code)
			}
		})
	}
}

func TestCloseEndsTheContext(t *testing.T) {
	New("test").Close() // the first one starts a goroutine of os/signal, which stays
	before := runtime.NumGoroutine()
	d := New("test")
	d.Close()
	if d.Context().Err() == nil {
		t.Error("the context goes on")
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

func childListener() {
	d := New("test")
	defer d.Close()
	for _, name := range strings.Fields(os.Getenv("ASK")) {
		l, err := d.Listener(name, os.Getenv("AT")+"/"+name+".sock")
		if err != nil {
			show(name, err)
			continue
		}
		show(name, l.Addr())
		if err := l.Close(); err != nil {
			show(name, err)
		}
	}
	_, set := os.LookupEnv("LISTEN_FDS")
	show("set", set)
}

func TestListener(t *testing.T) {
	for _, tc := range []struct {
		name, env, ask, want string // %s is the folder
		files                string // kinds of descriptors that are handed over
	}{
		{"none handed over", "", "loop", "loop=%s/loop.sock", ""},
		{"one, named", "LISTEN_FDS=1 LISTEN_FDNAMES=loop", "loop", "loop=%s/0", "u"},
		{"one, unnamed", "LISTEN_FDS=1", "loop", "loop=%s/0", "u"},
		{"one, unnamed, asked for two", "LISTEN_FDS=1", "loop gateway", "loop=%s/0 gateway=%s/gateway.sock", "u"},
		{"two, by name", "LISTEN_FDS=2 LISTEN_FDNAMES=gateway:loop", "loop gateway", "loop=%s/1 gateway=%s/0", "uu"},
		{"another name", "LISTEN_FDS=1 LISTEN_FDNAMES=other", "loop", "loop=%s/loop.sock", "u"},
		{"of another process", "LISTEN_FDS=1 LISTEN_PID=1", "loop", "loop=%s/loop.sock", "u"},
		{"names do not fit", "LISTEN_FDS=2 LISTEN_FDNAMES=loop", "loop", "loop=%s/loop.sock", "uu"},
		{"not a number", "LISTEN_FDS=x", "loop", "loop=%s/loop.sock", ""},
		{"a file", "LISTEN_FDS=1", "loop", `loop=the socket "loop", handed over as descriptor 3, is not usable: it is not a socket: socket operation on non-socket; start this program with bxctl up, or without LISTEN_FDS (see runbook: socket-handed-over)`, "f"},
		{"a connection", "LISTEN_FDS=1", "loop", `loop=the socket "loop", handed over as descriptor 3, is not usable: it is not a listening socket; start this program with bxctl up, or without LISTEN_FDS (see runbook: socket-handed-over)`, "c"},
		{"a TCP listener", "LISTEN_FDS=1", "loop", `loop=the socket "loop", handed over as descriptor 3, is not usable: it is not a Unix socket; start this program with bxctl up, or without LISTEN_FDS (see runbook: socket-handed-over)`, "t"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := shortDir(t)
			cmd := command(t, "listener")
			cmd.Env = append(cmd.Env, strings.Fields(tc.env)...)
			cmd.Env = append(cmd.Env, "ASK="+tc.ask, "AT="+dir)
			for i, kind := range tc.files {
				cmd.ExtraFiles = append(cmd.ExtraFiles, descriptor(t, kind, fmt.Sprintf("%s/%d", dir, i)))
			}
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(tc.want, "%s", dir)
			if !strings.Contains(want, " is not usable") {
				want = strings.ReplaceAll(want, " ", "\n")
			}
			if got := string(out); got != want+"\nset=false\n" {
				t.Errorf("got  %q\nwant %q", got, want+"\nset=false\n")
			}
		})
	}
}

func descriptor(t *testing.T, kind rune, path string) *os.File {
	t.Helper()
	var f *os.File
	var err error
	switch kind {
	case 'u':
		var l *net.UnixListener
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
			t.Cleanup(func() { l.Close() })
			f, err = l.File()
		}
	case 't':
		var l *net.TCPListener
		if l, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err == nil {
			t.Cleanup(func() { l.Close() })
			f, err = l.File()
		}
	case 'c':
		var pair [2]int
		if pair, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); err == nil {
			syscall.Close(pair[1])
			f = os.NewFile(uintptr(pair[0]), "connection")
		}
	default:
		f, err = os.Create(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func childReady() {
	d := New("test")
	defer d.Close()
	d.Confine(Confinement{})
	d.Ready()
}

// The parent hears of readiness, also over an abstract socket, which a
// confined process could not connect to any more.
func TestReady(t *testing.T) {
	for name, at := range map[string]string{"path": filepath.Join(shortDir(t), "n.sock"), "abstract": "@" + filepath.Base(shortDir(t))} {
		t.Run(name, func(t *testing.T) {
			c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			cmd := command(t, "ready")
			cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+at)
			var log bytes.Buffer
			cmd.Stderr = &log
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v: %s", err, &log)
			}
			c.SetReadDeadline(time.Now().Add(10 * time.Second)) // it is there already, or never comes
			b := make([]byte, 100)
			n, err := c.Read(b)
			if string(b[:n]) != "READY=1\n" {
				t.Errorf("%q %v: %s", b[:n], err, &log)
			}
		})
	}
}

func TestReadyWithoutAnybodyWaiting(t *testing.T) {
	for _, env := range []string{"", "NOTIFY_SOCKET=/nowhere/n.sock"} {
		cmd := command(t, "ready")
		cmd.Env = append(cmd.Env, env)
		if out, err := cmd.CombinedOutput(); err != nil || env != "" && !strings.Contains(string(out), "readiness cannot be told") {
			t.Errorf("%q: %v %s", env, err, out)
		}
	}
}

func childSleep() {
	w := theWorld()
	d := New("test")
	d.Confine(w.Confinement)
	fmt.Println("asleep")
	select {}
}

// childParent starts childSleep as bxctl up does, tells its pid and is killed.
func childParent() {
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{childVar + "=sleep", "WORLD=" + os.Getenv("WORLD")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	firstLine(out)
	fmt.Println(cmd.Process.Pid)
	select {}
}

// The signal of the parent's death survives the change of the user.
func TestDieWithParent(t *testing.T) {
	needRoot(t)
	for _, wanted := range []bool{true, false} {
		t.Run(fmt.Sprint(wanted), func(t *testing.T) {
			cmd := command(t, "parent")
			cmd.Env = append(cmd.Env, fmt.Sprintf(`WORLD={"UID":61234,"DieWithParent":%v}`, wanted))
			r, w, err := os.Pipe() // its end tells that grandchild and child are gone
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd.Stderr = w
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			var pid int
			fmt.Sscan(firstLine(out), &pid)
			if pid < 2 {
				cmd.Process.Kill()
				t.Fatal("no grandchild")
			}
			defer syscall.Kill(pid, syscall.SIGKILL)
			cmd.Process.Kill()
			cmd.Wait()
			if !wanted {
				if err := syscall.Kill(pid, 0); err != nil {
					t.Errorf("the control died as well: %v", err)
				}
				return
			}
			r.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.Copy(io.Discard, r); err != nil { // its end comes when the grandchild is gone
				t.Errorf("the grandchild lives on: %v", err)
			}
		})
	}
}
