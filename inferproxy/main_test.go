package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// build gives the real binary, as make build makes it.
func build(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "inferproxy")
	cmd := exec.Command("go", "build", "-trimpath", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// shortDir: the names of t.TempDir can be too long for a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	d, err := os.MkdirTemp("", "bx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

// launch starts the binary on a socket that is handed over to it, so that it
// can be dialled at once.
func launch(t testing.TB, bin string, args ...string) (cmd *exec.Cmd, socket string, stderr *bytes.Buffer) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "in.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	stderr = new(bytes.Buffer)
	cmd = exec.Command(bin, args...)
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = []string{"LISTEN_FDS=1"}, []*os.File{f}, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	l.SetUnlinkOnClose(false)
	l.Close()
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, socket, stderr
}

func TestFlags(t *testing.T) {
	up := "-upstream=tcp:127.0.0.1:8080"
	for _, tc := range []struct{ name, args, want string }{
		{"no upstream", "-listen x", "-upstream is missing: give tcp:HOST:PORT or unix:PATH"},
		{"no listener", up, "cannot listen: no socket was handed over and there is no -listen (see runbook: inferproxy-listen)"},
		{"unknown flag", "-upsteam x", "flag provided but not defined: -upsteam"},
		{"argument", up + " extra", `unexpected argument "extra"`},
		{"http", "-upstream http://host:80/", `-upstream "http://host:80/": want tcp:HOST:PORT or unix:PATH`},
		{"no port", "-upstream tcp:host", `-upstream "tcp:host": want tcp:HOST:PORT, such as`},
		{"port 0", "-upstream tcp:host:0", `-upstream "tcp:host:0": want tcp:HOST:PORT, such as`},
		{"port name", "-upstream tcp:host:http", `-upstream "tcp:host:http": want tcp:HOST:PORT, such as`},
		{"large port", "-upstream tcp:host:65536", `-upstream "tcp:host:65536": want tcp:HOST:PORT, such as`},
		{"no host", "-upstream tcp::80", `-upstream "tcp::80": want tcp:HOST:PORT, such as`},
		{"bare IPv6", "-upstream tcp:::1:80", `-upstream "tcp:::1:80": want tcp:HOST:PORT, such as`},
		{"no path", "-upstream unix:", "-upstream unix: has no path"},
		{"no conns", up + " -conns 0", "-conns 0: must be 1 to 16384"},
		{"no rate", up + " -rate 0", "-rate 0: must be over 0"},
		{"not a rate", up + " -rate NaN", "-rate NaN: must be over 0"},
		{"peer name", up + " -peer root", `invalid value "root" for flag -peer: not a user id`},
		{"folder is a file", up + " -listen /dev/null/x.sock", "cannot listen: mkdir /dev/null/: file exists"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(tc.args), func(string) string { return "" }, &stderr)
			if code == 0 || !strings.HasPrefix(stderr.String(), "inferproxy: "+tc.want) || !strings.Contains(stderr.String(), "(see runbook: inferproxy-") {
				t.Errorf("exit %d: %s", code, &stderr)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-help"}, os.Getenv, &stderr); code != 0 || !strings.Contains(stderr.String(), "-upstream") {
		t.Errorf("exit %d: %s", code, &stderr)
	}
}

func TestListenFlagServes(t *testing.T) {
	socket := filepath.Join(shortDir(t), "run", "in.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	r, w := io.Pipe()
	go func() {
		ended <- run(ctx, []string{"-listen", socket, "-upstream", "unix:/nowhere"}, func(string) string { return "" }, w)
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	lines.Scan() // "started": it listens
	go io.Copy(io.Discard, r)
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 502 Bad Gateway\r\nX-Boxmaker: upstream-unreachable\r\n") {
		t.Errorf("%q %v", got, err)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d", code)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket stays behind")
	}
}

// The real binary with a handed-over socket: it starts without an upstream,
// serves once there is one, and SIGTERM ends it though a connection is idle.
func TestProcess(t *testing.T) {
	up := filepath.Join(shortDir(t), "up.sock")
	cmd, socket, stderr := launch(t, build(t), "-upstream", "unix:"+up)
	ask := func() (string, net.Conn) {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(c, "a secret prompt")
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line, c
	}
	if line, c := ask(); line != "HTTP/1.1 502 Bad Gateway\r\n" {
		t.Errorf("%q", line)
	} else {
		c.Close()
	}
	l, err := net.Listen("unix", up)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(c, c)
		}
	}()
	line, idle := ask()
	defer idle.Close()
	if line != "a secret prompt\n" {
		t.Errorf("%q", line)
	}
	t.Logf("idle memory: %s", memory(t, cmd.Process.Pid))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if log := stderr.String(); strings.Contains(log, "secret") || !strings.Contains(log, `"msg":"ended","daemon":"inferproxy","accepted":2,"refused":0,"unreachable":1,"broken":0`) {
		t.Errorf("log: %s", log)
	}
}

func TestHandedDescriptorIsNoListener(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(build(t), "-upstream", "unix:/x")
	cmd.Env, cmd.ExtraFiles = []string{"LISTEN_FDS=1"}, []*os.File{f}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "descriptor 3 is not a listening socket (see runbook: inferproxy-listen)") {
		t.Errorf("%v: %s", err, out)
	}
}

// A user that is not on the list gets nothing. Needs root, to become another.
func TestOtherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can try as another user")
	}
	cmd, socket, stderr := launch(t, build(t), "-upstream", "unix:/nowhere", "-peer", "4242")
	if err := os.Chmod(filepath.Dir(socket), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	for uid, served := range map[uint32]bool{4242: true, 4243: false, 0: false} {
		if got := askAs(t, uid, socket); (got != "") != served {
			t.Errorf("uid %d got %q", uid, got)
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if !strings.Contains(stderr.String(), `"msg":"peer refused","daemon":"inferproxy","uid":4243`) {
		t.Errorf("log: %s", stderr)
	}
}

// askAs connects as another user. A child does so, since the user of a thread
// is not Go's to change. The test binary must be reachable for that user.
func askAs(t *testing.T, uid uint32, socket string) string {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.run=^$")
	cmd.Env = []string{"INFERPROXY_TEST_DIAL=" + socket}
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestMain(m *testing.M) {
	socket := os.Getenv("INFERPROXY_TEST_DIAL")
	if socket == "" {
		os.Exit(m.Run())
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	io.WriteString(c, "hello")
	io.Copy(os.Stdout, c)
}

// The forwarder links the standard library only.
func TestLinksOnlyTheStandardLibrary(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); strings.Join(got, " ") != "boxmaker/inferproxy/internal/forward boxmaker/inferproxy" {
		t.Errorf("links %v", got)
	}
}

// memory reads the proportional set size, in kB, after a while without work.
func memory(t testing.TB, pid int) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return "not readable: " + err.Error()
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Pss:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
