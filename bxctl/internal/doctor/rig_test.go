package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/bxctl/internal/fakeowner"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/config"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// The test binary also plays a bxctl up that holds the lock.
const lockEnv = "DOCTOR_TEST_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockEnv); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		}
		fmt.Println("held", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		_ = f.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func at() time.Time { return time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC) }

// A rig is a healthy installation of its own, which a row of a table breaks.
type rig struct {
	t    *testing.T
	dir  string
	l    config.Layout
	o    Options
	env  map[string]string
	up   *report.Up
	st   *proto.Status
	prop string // answer of /props

	broker *fakeowner.Broker
	stat   int // of /health
}

const (
	pidProxy, pidLoopd, pidPractice, pidBroker = 901, 902, 903, 904
	template                                   = "the template"
)

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "dr-") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // as root, the roles pass through
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, stat: http.StatusOK, env: map[string]string{"BOXMAKER_HOME": filepath.Join(dir, "home")}}
	r.l, err = config.Locate(func(n string) string { return r.env[n] })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (setup.Job{Layout: r.l, Now: at()}).Run(); err != nil {
		t.Fatal(err)
	}
	r.plain()
	r.o = Options{
		Layout: r.l, Self: filepath.Join(dir, "bin", "bxctl"), Version: "v1", Getenv: func(n string) string { return r.env[n] }, Now: at,
		Root: func() bool { return false }, Proc: filepath.Join(dir, "proc"), Temporary: []string{"/nowhere"},
		Build: func(path string) (Build, error) {
			return Build{Path: "boxmaker/" + filepath.Base(path), Revision: r.read(path), Go: "go1.26"}, nil
		},
		StatFS: func(string) (FileSystem, error) {
			return FileSystem{ID: "a", Free: 1 << 40, Size: 1 << 41, Inodes: 1 << 20, AllInodes: 1 << 21}, nil
		},
		Landlock: func() (int, error) { return 7, nil },
		Spaces:   func(context.Context) error { return nil },
		LookPath: func(program string) (string, error) {
			if program == "crun" {
				return "/usr/bin/crun", nil
			}
			return exec.LookPath(program)
		},
		RuntimeVersion: func(context.Context, string) (string, error) { return "1.14.3", nil },
	}
	for _, name := range []string{"bxctl", "loopd", "inferproxy", "practice", "brokerd", "runnerd", "egressd", "toolkit", "toolfetch"} {
		r.file("bin/"+name, "abc", 0o755)
	}
	r.session("chat-a", 1, 3)
	return r
}

// plain makes the home one of an ordinary user, if root made it.
func (r *rig) plain() {
	r.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	r.must(filepath.Walk(r.l.Home, func(path string, info os.FileInfo, err error) error {
		mode := os.FileMode(0o600)
		if err == nil && info.IsDir() {
			mode = 0o700
		}
		return errors.Join(err, os.Lchown(path, 0, 0), os.Chmod(path, mode))
	}))
}

func (r *rig) read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// file makes a file below the rig's folder.
func (r *rig) file(name, text string, mode os.FileMode) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	r.must(os.MkdirAll(filepath.Dir(path), 0o700))
	r.must(os.WriteFile(path, []byte(text), mode))
	r.must(os.Chmod(path, mode))
}

// grant writes a grant file.
func (r *rig) grant(name, text string, mode os.FileMode) {
	r.t.Helper()
	r.must(os.WriteFile(filepath.Join(r.l.Grants, name), []byte(text), mode))
	r.must(os.Chmod(filepath.Join(r.l.Grants, name), mode))
}

// toml replaces text in a config file.
func (r *rig) toml(name, old, text string) {
	r.t.Helper()
	path := filepath.Join(r.l.Config, name)
	was := r.read(path)
	if !strings.Contains(was, old) {
		r.t.Fatalf("%s has no %q", name, old)
	}
	r.must(os.WriteFile(path, []byte(strings.Replace(was, old, text, 1)), 0o600))
}

// session writes a log of n records.
func (r *rig) session(id string, epoch, n int) {
	r.t.Helper()
	r.must(os.MkdirAll(filepath.Join(r.l.Sessions, id), 0o700))
	root, err := os.OpenRoot(r.l.Sessions)
	r.must(err)
	defer root.Close()
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: epochFile(id, epoch)})
	r.must(err)
	for i := range n {
		var rec proto.Record = &proto.User{Origin: fmt.Sprintf("o-%d", i), Surface: proto.SurfaceAsk, Message: []byte(`{"role":"user","content":"x"}`)}
		if i == 0 {
			rec = &proto.Baseline{Model: "m", Sampling: []byte(`{}`), Tools: []byte(`[]`), System: []byte(`{"role":"system","content":"s"}`), Window: 4096}
		}
		line, err := proto.EncodeRecord(proto.Header{N: int64(i), Time: at().Add(-time.Hour)}, rec)
		r.must(err)
		r.must(log.Append(line))
	}
	r.must(log.Close())
}

func (r *rig) log(id string, epoch int) string {
	return filepath.Join(r.l.Sessions, epochFile(id, epoch))
}

// run makes it a running installation: a process that holds the lock, sockets
// that answer, and a /proc that tells of well confined roles.
func (r *rig) run() {
	r.t.Helper()
	pid := r.hold()
	const uid = 4000
	r.up = &report.Up{PID: pid, Since: at(), Version: "v1", State: "running"}
	for i, name := range []string{"inferproxy", "loopd", "practice", "brokerd", "runnerd", "egressd"} {
		r.up.Roles = append(r.up.Roles, report.Role{Name: name, PID: pidProxy + i, Start: uint64(100 + i), Since: at(), State: "running", UID: uid})
		r.process(pidProxy+i, name, pid, uint64(100+i), uid)
	}
	r.process(pid, "bxctl", 1, 50, uid)
	r.board()
	r.st = &proto.Status{
		Version: "v1", State: "ready", Since: proto.Time(at()), Checks: []proto.Check{{Name: "cache", State: "ok"}}, Slots: []proto.SlotState{},
		Confinement: []proto.Check{{Name: "landlock", State: "ok"}},
	}
	fakeloop.At(r.t, r.l.Socket("loopd", "bxctl", "loop"), func(_ context.Context, _ proto.Message, out *ipc.Stream) { fakeloop.Send(out, r.st) })
	r.listen(r.l.Socket("inferproxy", "loopd", "infer"))
	for _, at := range [][]string{{"brokerd", "loopd", "broker"}, {"runnerd", "brokerd", "runner"}, {"egressd", "brokerd", "egress"}} {
		r.listen(r.l.Socket(at[0], at[1], at[2]))
	}
	r.broker = fakeowner.At(r.t, r.l.Socket("brokerd", "bxctl", "owner"))
	r.broker.SetStatus(func(st *proto.BrokerStatus) { st.Version = "v1" })
	r.prop = fmt.Sprintf(`{"build_info":"practice-1","total_slots":3,"chat_template":%q,"default_generation_settings":{"n_ctx":32768}}`, template)
	r.serve(r.listen(r.l.Socket("practice", "inferproxy", "llama")))
}

// hold starts a process that holds the lock of up.
func (r *rig) hold() int {
	r.t.Helper()
	self, err := os.Executable()
	r.must(err)
	cmd := exec.Command(self)
	cmd.Env = []string{lockEnv + "=" + filepath.Join(r.l.Run, "up.lock")}
	in, err := cmd.StdinPipe()
	r.must(err)
	out, err := cmd.StdoutPipe()
	r.must(err)
	r.must(cmd.Start())
	r.t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held <nil>\n" {
		r.t.Fatalf("the lock: %q, %v", line, err)
	}
	return cmd.Process.Pid
}

// board writes up.json.
func (r *rig) board() {
	r.t.Helper()
	b, err := json.Marshal(r.up)
	r.must(err)
	r.must(os.WriteFile(filepath.Join(r.l.Run, "up.json"), b, 0o600))
}

// process makes the files of one process in the rig's /proc.
func (r *rig) process(pid int, name string, parent int, start uint64, uid uint32) {
	r.t.Helper()
	dir := fmt.Sprintf("proc/%d/", pid)
	r.file(dir+"stat", fmt.Sprintf("%d (%s) S %d%s %d 0", pid, name, parent, strings.Repeat(" 0", 17), start), 0o600)
	r.file(dir+"status", fmt.Sprintf("Name:\t%s\nPPid:\t%d\nUid:\t%d\t%d\t%d\t%d\nNoNewPrivs:\t1\nCapInh:\t0\nCapPrm:\t0\nCapEff:\t0\nCapAmb:\t0\n", name, parent, uid, uid, uid, uid), 0o600)
	r.file(dir+"net/dev", "Inter-|\n face |\n    lo: 0 0\n  sit0: 0 0\n", 0o600)
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		r.file(dir+"net/"+table, "  sl  local_address rem_address   st\n", 0o600)
	}
	r.must(os.MkdirAll(filepath.Join(r.dir, dir, "fd"), 0o700))
	r.must(os.Symlink(filepath.Join(r.dir, "bin", name), filepath.Join(r.dir, dir, "exe")))
}

// edit replaces text in a file of the rig's /proc.
func (r *rig) edit(pid int, name, old, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, "proc", fmt.Sprint(pid), name)
	was := r.read(path)
	if !strings.Contains(was, old) {
		r.t.Fatalf("%s has no %q", path, old)
	}
	r.must(os.WriteFile(path, []byte(strings.Replace(was, old, text, 1)), 0o600))
}

// listen listens on a socket and takes connections without a word.
func (r *rig) listen(path string) net.Listener {
	r.t.Helper()
	ln, err := ipc.Listen(path)
	r.must(err)
	r.t.Cleanup(func() { ln.Close() })
	return ln
}

// serve answers as an inference server.
func (r *rig) serve(ln net.Listener) {
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case r.stat != http.StatusOK:
			w.WriteHeader(r.stat)
			fmt.Fprintf(w, `{"error":{"code":%d,"message":"Loading model","type":"unavailable_error"}}`, r.stat)
		case q.URL.Path == "/health":
			fmt.Fprint(w, `{"status":"ok"}`)
		default:
			fmt.Fprint(w, r.prop)
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	r.t.Cleanup(func() { srv.Close(); <-done })
}

func (r *rig) examine() Report {
	r.t.Helper()
	rep, err := Run(r.t.Context(), r.o)
	r.must(err)
	return rep
}
