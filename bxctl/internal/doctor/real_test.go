package doctor

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"boxmaker/bxctl/internal/report"
)

// The table works on a /proc of its own; here is the kernel's, with this process
// as the role that misbehaves.
func TestRealListener(t *testing.T) {
	x := &exam{Options: newRig(t).o.defaults(), ctx: t.Context()}
	x.Proc = "/proc"
	before, err := x.listening(os.Getpid(), "inferproxy-of-a-test")
	if err != nil || len(before) != 0 {
		t.Fatalf("%v, %v", before, err)
	}
	var want []string
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", at)
		if err != nil {
			continue // no IPv6 here
		}
		defer ln.Close()
		want = append(want, "tcp "+ln.Addr().String())
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	want = append(want, "udp "+udp.LocalAddr().String())
	slices.Sort(want)
	got, err := x.listening(os.Getpid(), "inferproxy-of-a-test")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	pids := map[int]string{os.Getppid(): "parent"}
	x.children(pids)
	if pids[os.Getppid()] != "parent" || pids[os.Getpid()] != "" { // never the examiner itself
		t.Errorf("%v", pids)
	}
}

func TestRealConfinement(t *testing.T) {
	x := &exam{Options: newRig(t).o.defaults(), ctx: t.Context(), check: "confinement", key: "k"}
	x.Proc = "/proc"
	x.confined(report.Role{Name: "loopd", PID: os.Getpid(), UID: 4321})
	if len(x.findings) != 1 {
		t.Fatalf("%+v", x.findings)
	}
	f := x.findings[0]
	for _, want := range []string{"it should run as uid 4321", "no-new-privileges is off"} {
		if f.Verdict != Fail || !strings.Contains(f.Detail, want) {
			t.Errorf("no %q in %+v", want, f)
		}
	}
	if x.startOf(os.Getpid()) == 0 || x.startOf(1<<30) != 0 {
		t.Error("start times")
	}
}

func TestRealMachine(t *testing.T) {
	if s, err := statFS(t.TempDir()); err != nil || s.Size <= 0 || s.Free > s.Size || s.ID == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := statFS("/proc"); err != nil || s.Type != 0x9fa0 {
		t.Errorf("%+v, %v", s, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := buildOf(self); err != nil || !strings.Contains(b.Path, "doctor") || b.Go == "" {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := buildOf("/dev/null"); err == nil {
		t.Error("a program without a build")
	}
	if v, err := landlockABI(); (v > 0) != (err == nil) {
		t.Errorf("%d, %v", v, err)
	}
	if err := namespaces(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("started a program that is not there")
	}
}

// A knock tells a socket that is served from one that is not.
func TestKnock(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.dir, strings.Repeat("long", 30), "s.sock")
	r.must(os.MkdirAll(filepath.Dir(path), 0o700))
	if err := knock(path); err == nil {
		t.Error("nothing is there")
	}
	r.listen(path)
	if err := knock(path); err != nil {
		t.Error(err)
	}
	gone := filepath.Join(r.dir, "gone.sock")
	stale(r, gone)
	if err := knock(gone); err == nil || !strings.Contains(err.Error(), syscall.ECONNREFUSED.Error()) {
		t.Errorf("%v", err)
	}
}

// The socket that llama-server makes itself is open to inferproxy's group, and
// its folder is not open to others; that is how bxctl up wants it.
func TestSocketOfLlama(t *testing.T) {
	r := newRig(t)
	path := r.l.Socket("llama", "inferproxy", "llama")
	stale(r, path)
	r.must(os.Chmod(path, 0o770))
	for _, f := range r.examine().Findings {
		if f.Check == "rights" && f.Verdict != OK {
			t.Errorf("%+v", f)
		}
	}
	r.must(os.Chmod(path, 0o777))
	if text := bads(r.examine()); !strings.Contains(text, "llama/inferproxy/llama.sock (0777)") {
		t.Errorf("an open socket is not named:\n%s", text)
	}
}
