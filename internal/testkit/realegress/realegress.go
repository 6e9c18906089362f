// Package realegress starts the real egressd for tests of those that go through
// its doors. It is built from the source beside, so that there is no second
// idea of what a door does.
package realegress

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit/nameserver"
)

// Egress is a running egressd with a name server of its own.
type Egress struct {
	Dir    string // the run folder: paths of doors count from here
	Socket string
	Names  *nameserver.Server
	Pid    int
}

// program builds egressd, once for a test binary.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "egressd")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "egressd")
	build := exec.Command("go", "build", "-o", bin, "boxmaker/egressd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return bin, fmt.Errorf("egressd does not build: %w\n%s", err, out)
	}
	return bin, nil
})

// Main runs the tests of a package that uses this one, and removes what was
// built. It belongs into TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if bin, _ := program(); bin != "" {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// Start runs egressd until the test ends. zone may be nil: every name is then
// this machine.
func Start(t testing.TB, zone nameserver.Zone) *Egress {
	t.Helper()
	if zone == nil {
		zone = func(string, int) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} }
	}
	dir, err := os.MkdirTemp("", "egress")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "egressd", "doors"), 0o700); err != nil {
		t.Fatal(err)
	}
	e := &Egress{Dir: dir, Socket: filepath.Join(dir, "egressd", "e.sock"), Names: nameserver.Start(t, zone)}
	cmd := exec.Command(bin, "-listen", "egressd/e.sock", "-doors", "egressd/doors", "-resolver", e.Names.Addr, "-die-with-parent")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.Pid = cmd.Process.Pid
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for i := 0; ; i++ {
		if _, err := ipc.Ask(context.Background(), e.Socket, proto.EgressEvents, &proto.GetEgress{}); err == nil {
			return e
		} else if i > 500 {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // the program has no other way to say it here
	}
}

// Door opens a door of a call whose hosts are all local. close closes it and
// gives the report; the end of the test closes it, too.
func (e *Egress) Door(t testing.TB, call string, hosts ...string) (path string, close func() *proto.EgressReport) {
	t.Helper()
	c, err := ipc.Dial(context.Background(), e.Socket, proto.EgressEvents)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Send(&proto.OpenDoor{Call: call, Allow: hosts, Local: hosts, Until: proto.Time(time.Now().Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	m, err := c.Recv()
	d, ok := m.(*proto.Door)
	if err != nil || !ok {
		t.Fatalf("no door: %+v %v", m, err)
	}
	return filepath.Join(e.Dir, d.Path), func() *proto.EgressReport {
		m, err := ipc.Ask(context.Background(), e.Socket, proto.EgressEvents, &proto.CloseDoor{Call: call})
		if err != nil {
			t.Fatal(err)
		}
		return m.(*proto.EgressReport)
	}
}
