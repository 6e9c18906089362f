package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit/nameserver"
)

// The program itself is this test binary once more.
const asProgram = "EGRESSD_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"enough", []string{"-listen", "a", "-doors", "b"}, ""},
		{"no doors", []string{"-listen", "a"}, "-doors"},
		{"no socket", []string{"-doors", "a"}, "-listen"},
		{"an argument", []string{"-listen", "a", "-doors", "b", "c"}, "unexpected"},
		{"an unknown flag", []string{"-allow", "a"}, "not defined"},
		{"a peer that is none", []string{"-peer", "me"}, "invalid"},
		{"a large uid", []string{"-listen", "a", "-doors", "b", "-uid", "4294967296"}, "-uid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(tc.args)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// run starts the program in a folder of its own and waits for its socket.
func start(t *testing.T, args ...string) (dir string, cmd *exec.Cmd) {
	t.Helper()
	dir, err := os.MkdirTemp("", "egressd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "doors"), 0o700); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-listen", "egress/e.sock", "-doors", "doors", "-peer", strconv.Itoa(os.Getuid()), "-die-with-parent"}, args...)
	if os.Getuid() == 0 {
		args = append(args, "-uid", "61234")
		for _, p := range []string{dir, filepath.Join(dir, "doors")} {
			if err := os.Chown(p, 61234, 61234); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = io.Discard
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for range 500 {
		if _, err := ask(t, dir, &proto.GetEgress{}); err == nil {
			return dir, cmd
		}
		time.Sleep(10 * time.Millisecond) // the program has no other way to say it here
	}
	t.Fatal("egressd does not answer")
	return "", nil
}

func ask(t *testing.T, dir string, m proto.Message) (proto.Message, error) {
	t.Helper()
	return ipc.Ask(t.Context(), filepath.Join(dir, "egress/e.sock"), proto.EgressEvents, m)
}

// The program as it runs: confined, as a user of its own, with a name server.
func TestProgram(t *testing.T) {
	ns := nameserver.Start(t, func(name string, _ int) []netip.Addr {
		if name == "web.example" {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return nil
	})
	web, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	go func() {
		for {
			c, err := web.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	port := web.Addr().(*net.TCPAddr).Port
	dir, cmd := start(t, "-resolver", ns.Addr)

	m, err := ask(t, dir, &proto.GetEgress{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range m.(*proto.EgressStatus).Confinement {
		if row.State != "ok" && !strings.HasPrefix(row.Detail, "not available") {
			t.Errorf("%s is %s: %s", row.Name, row.State, row.Detail)
		}
	}
	host := fmt.Sprintf("web.example:%d", port)
	c, err := ipc.Dial(context.Background(), filepath.Join(dir, "egress/e.sock"), proto.EgressEvents)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(&proto.OpenDoor{Call: "s/1/2/0", Allow: []string{host}, Local: []string{host}, Until: proto.Time(time.Now().Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Recv()
	if err != nil {
		t.Fatal(err)
	}
	door := filepath.Join(dir, got.(*proto.Door).Path)
	conn, err := net.Dial("unix", door)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\n\r\n", host)
	in := bufio.NewReader(conn)
	line, _ := in.ReadString('\n')
	rest, _ := io.ReadAll(in)
	if !strings.HasPrefix(line, "HTTP/1.1 200 ") || !strings.HasSuffix(string(rest), "hello") {
		t.Errorf("%q %q", line, rest)
	}
	r, err := ask(t, dir, &proto.CloseDoor{Call: "s/1/2/0"})
	if err != nil {
		t.Fatal(err)
	}
	if row := r.(*proto.EgressReport).Connections[0]; row.Verdict != proto.EgressPassed || row.Address != web.Addr().String() || row.Received != 5 {
		t.Errorf("%+v", row)
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}
