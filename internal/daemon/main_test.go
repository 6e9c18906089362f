package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"boxmaker/internal/proto"
)

// What is tested here changes a whole process for good, so that a child does
// it: this test binary once more, told by an environment variable which of the
// children below to be. A child prints "key=value" lines.
const childVar = "DAEMON_TEST_CHILD"

func children() map[string]func() {
	return map[string]func(){
		"confined": childConfined, "exec": childExec, "probe": childProbe, "euid": childEUID,
		"signals": childSignals, "listener": childListener, "ready": childReady, "sleep": childSleep, "parent": childParent,
	}
}

func TestMain(m *testing.M) {
	name := os.Getenv(childVar)
	if name == "" {
		os.Exit(m.Run())
	}
	child := children()[name]
	if child == nil {
		fmt.Println("no such child:", name)
		os.Exit(3)
	}
	child()
}

// A world is what a child finds on disk.
type world struct {
	Confinement
	Dir      string // 0700; belongs to the user of the test
	State    string // below Dir; belongs to the user that the child becomes
	Inside   string // a file that the child may read
	Outside  string // a file that everybody may read, but the child not
	Allowed  string // a TCP address that it may connect to
	Denied   string // one that it may not
	Abstract string // an abstract socket outside
	Socket   string // a Unix socket below State
	SUID     string // a program that belongs to root and has the set-user-id bit
	Binary   string // for exec
	Relative bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "bx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{Dir: dir, State: dir + "/state", Inside: dir + "/config", Outside: dir + "-outside", Abstract: "@" + filepath.Base(dir), Socket: dir + "/state/s.sock"}
	t.Cleanup(func() { os.Remove(w.Outside) })
	for _, f := range []string{w.Inside, w.Outside} {
		if err := os.WriteFile(f, []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(w.State, 0o700); err != nil {
		t.Fatal(err)
	}
	listen := func(network, at string) string {
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	w.Allowed, w.Denied = listen("tcp", "127.0.0.1:0"), listen("tcp", "127.0.0.1:0")
	listen("unix", w.Abstract)
	listen("unix", w.Socket)
	w.ReadOnly, w.ReadWrite = []string{w.Inside, dir + "/none"}, []string{w.State, "/dev/null"} // os/exec opens the latter
	w.Execute = []string{"/proc/self/exe", "/lib", "/lib64", "/usr/lib"}                        // the libraries are for test binaries with cgo
	_, port, _ := net.SplitHostPort(w.Allowed)
	var n uint16
	fmt.Sscan(port, &n)
	w.ConnectTCP = []uint16{n}
	return w
}

// give makes all that the child needs belong to a user, and keeps the folder
// above it root's.
func (w *world) give(t *testing.T, uid int) {
	t.Helper()
	w.UID = uint32(uid)
	for _, f := range []string{w.State, w.Socket} {
		if err := os.Chown(f, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
}

// run starts a child and gives its lines, and its log.
func (w *world) run(t *testing.T, child string, change func(*exec.Cmd)) (lines map[string]string, log string) {
	t.Helper()
	b, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, child)
	cmd.Env = append(cmd.Env, "WORLD="+string(b))
	cmd.Dir = w.Dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if change != nil {
		change(cmd)
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("child %s: %v\n%s\n%s", child, err, &out, &errs)
	}
	lines = map[string]string{}
	for l := range strings.Lines(out.String()) {
		k, v, _ := strings.Cut(strings.TrimSuffix(l, "\n"), "=")
		lines[k] = v
	}
	return lines, errs.String()
}

func command(t *testing.T, child string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{childVar + "=" + child, "GORACE=atexit_sleep_ms=0"}
	return cmd
}

// theWorld is the child's side.
func theWorld() *world {
	w := new(world)
	if err := json.Unmarshal([]byte(os.Getenv("WORLD")), w); err != nil {
		panic(err)
	}
	return w
}

// outcome says how something went, in a word.
func outcome(err error) string {
	for _, e := range []struct {
		err  syscall.Errno
		name string
	}{{syscall.EACCES, "EACCES"}, {syscall.EPERM, "EPERM"}, {syscall.EXDEV, "EXDEV"}, {syscall.ECONNREFUSED, "ECONNREFUSED"}} {
		if err != nil && strings.Contains(err.Error(), e.err.Error()) {
			return e.name
		}
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func show(key string, v any) { fmt.Printf("%s=%v\n", key, v) }

func showRows(rows []proto.Check) {
	for _, r := range rows {
		show("row "+r.Name, r.State+": "+r.Detail)
		if (r.State == "ok") != (r.Runbook == "") {
			show("row "+r.Name, "a runbook key for a row that is "+r.State)
		}
	}
}

// statuses gives the distinct values of a field over all threads.
func statuses(tasks *os.Root, field string) string {
	seen := map[string]bool{}
	f, err := tasks.Open(".")
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err.Error()
	}
	for _, n := range names {
		b, err := tasks.ReadFile(n + "/status")
		if err != nil {
			return err.Error()
		}
		for l := range strings.Lines(string(b)) {
			if k, v, _ := strings.Cut(l, ":"); k == field {
				seen[strings.Join(strings.Fields(v), " ")] = true
			}
		}
	}
	var all []string
	for v := range seen {
		all = append(all, v)
	}
	return strings.Join(all, " / ")
}

func firstLine(r io.Reader) string {
	s := bufio.NewScanner(r)
	s.Scan()
	return s.Text()
}
