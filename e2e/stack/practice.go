package stack

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// A Server is a practice model that the test runs itself, on a TCP port, in the
// place of the owner's llama-server. Unlike the one that `bxctl up` runs, it is
// not confined, so it can record what it is sent.
type Server struct {
	Address string // HOST:PORT
	Record  string // file with every chat request, see [Requests]

	s    *Stack
	args []string

	mu  sync.Mutex // guards what follows
	cmd *exec.Cmd
	end bool

	wg sync.WaitGroup // of the goroutine that waits for the process
}

// Serve starts a practice model with further flags and points the home at it:
// `bxctl init --upstream`. It is started again whenever it ends before the test
// does.
func (s *Stack) Serve(args ...string) *Server {
	s.TB.Helper()
	v := &Server{s: s, Record: filepath.Join(s.Home, "requests.jsonl"), Address: freePort(s)}
	v.args = append([]string{"-listen", "tcp:" + v.Address, "-record", v.Record}, args...)
	s.Must("", "init", "--upstream", "http://"+v.Address)
	s.TB.Cleanup(v.stop)
	if err := v.start(); err != nil {
		s.TB.Fatal(err)
	}
	return v
}

// freePort gives an address that nobody listens on now.
func freePort(s *Stack) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.TB.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (v *Server) start() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.end {
		return nil
	}
	cmd := exec.Command("practice", v.args...)
	cmd.Env = v.s.env // by which Processes finds it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("practice: %w", err)
	}
	v.cmd = cmd
	v.wg.Add(1)
	go func() {
		defer v.wg.Done()
		_ = cmd.Wait()
		if err := v.start(); err != nil {
			v.s.TB.Error(err)
		}
	}()
	return nil
}

func (v *Server) stop() {
	v.mu.Lock()
	v.end = true
	_ = v.cmd.Process.Kill()
	v.mu.Unlock()
	v.wg.Wait()
}

// Hold kills the server and keeps it away until Resume: nobody listens then.
func (v *Server) Hold() { v.stop() }

// Resume starts a server that was held, with further flags.
func (v *Server) Resume(args ...string) {
	v.s.TB.Helper()
	v.mu.Lock()
	v.end, v.args = false, append(v.args, args...)
	v.mu.Unlock()
	if err := v.start(); err != nil {
		v.s.TB.Fatal(err)
	}
}

// Fault orders a failure, such as {"kind":"stall"}; the server needs -faults.
func (v *Server) Fault(order string) {
	v.s.TB.Helper()
	r, err := http.Post("http://"+v.Address+"/practice/fault", "application/json", strings.NewReader(order))
	if err != nil {
		v.s.TB.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		v.s.TB.Fatalf("the fault %s was not taken: %s", order, r.Status)
	}
}
