package realllama

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// patience bounds every wait. It only decides how long a broken test takes to
// fail. A model of the owner's may be a large one.
func patience() time.Duration {
	if shared.models[0].tiny() {
		return time.Minute
	}
	return 15 * time.Minute
}

// A server is one llama-server process. It listens on a Unix socket, or on a
// loopback port.
type server struct {
	t      *testing.T
	model  model
	socket string // empty if on a port
	addr   string
	args   []string
	log    string
	cmd    *exec.Cmd
	client *http.Client
}

// startServer starts llama-server with the flags of the repository's tests and
// returns when it answers. more comes last, so it can replace a flag.
func startServer(t *testing.T, m model, more ...string) *server {
	t.Helper()
	return serverOn(t, m, filepath.Join(shortDir(t), "llama.sock"), more...)
}

// startTCPServer is startServer on a loopback port.
func startTCPServer(t *testing.T, m model, more ...string) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	return serverOn(t, m, addr, more...)
}

func serverOn(t *testing.T, m model, where string, more ...string) *server {
	t.Helper()
	s := &server{t: t, model: m, log: filepath.Join(t.TempDir(), "llama.log")}
	s.args = []string{"-m", m.file, "--no-warmup", "-np", "3", "-c", "98304", "-ctk", "f16", "-ctv", "f16", "--sse-ping-interval", "1"}
	if m.tiny() {
		s.args = append(s.args, "-t", "1") // two threads spin on a busy machine
	}
	network := "unix"
	if host, port, err := net.SplitHostPort(where); err == nil {
		network, s.addr = "tcp", where
		s.args = append(s.args, "--host", host, "--port", port)
	} else {
		s.socket, s.addr = where, where
		s.args = append(s.args, "--host", where)
	}
	s.args = append(s.args, strings.Fields(os.Getenv("LLAMA_FLAGS"))...)
	s.args = append(s.args, more...)
	// The server closes a kept-alive connection at times, right when it is used again.
	s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.addr)
	}}}
	t.Cleanup(func() {
		s.kill()
		s.client.CloseIdleConnections()
		if t.Failed() {
			b, _ := os.ReadFile(s.log)
			t.Logf("the end of llama-server's log:\n%s", b[max(0, len(b)-4<<10):])
		}
	})
	s.start()
	return s
}

// start starts the process and waits until it is healthy.
func (s *server) start() {
	s.t.Helper()
	if s.socket != "" {
		_ = os.Remove(s.socket) // the file stays after an exit and blocks the next start
	}
	f, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	s.cmd = exec.Command(shared.server, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = f, f
	s.cmd.SysProcAttr = dieWithTest()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	waitUntil(s.t, "llama-server is healthy", func() bool {
		r, err := s.client.Get("http://llama/health")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// kill ends the process with SIGKILL.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// freeze stops the process in its tracks; thaw lets it go on.
func (s *server) freeze() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *server) thaw()   { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// get fetches a route.
func (s *server) get(route string, into any) {
	s.t.Helper()
	r, err := s.client.Get("http://llama" + route)
	if err != nil {
		s.t.Fatal(err)
	}
	s.decode(route, r, into)
}

// post sends a body to a route and gives the status.
func (s *server) post(route string, body, into any) int {
	s.t.Helper()
	raw, ok := body.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			s.t.Fatal(err)
		}
	}
	r, err := s.client.Post("http://llama"+route, "application/json", bytes.NewReader(raw))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.decode(route, r, into)
}

func (s *server) decode(route string, r *http.Response, into any) int {
	s.t.Helper()
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatalf("%s: %v", route, err)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			s.t.Fatalf("%s: %v\n%s", route, err, b)
		}
	}
	return r.StatusCode
}

// tokenize gives the tokens of a text, control tokens read as such.
func (s *server) tokenize(text string) []int {
	s.t.Helper()
	var out struct {
		Tokens []int `json:"tokens"`
	}
	s.post("/tokenize", object{"content": text, "parse_special": true}, &out)
	return out.Tokens
}

// slotState is an element of /slots.
type slotState struct {
	ID   int  `json:"id"`
	Busy bool `json:"is_processing"`
}

// waitFree waits until a slot is idle.
func (s *server) waitFree(slot int) {
	s.t.Helper()
	waitUntil(s.t, fmt.Sprintf("slot %d is free", slot), func() bool { return !s.busy(slot) })
}

// waitBusy waits until a slot works.
func (s *server) waitBusy(slot int) {
	s.t.Helper()
	waitUntil(s.t, fmt.Sprintf("slot %d is busy", slot), func() bool { return s.busy(slot) })
}

func (s *server) busy(slot int) bool {
	s.t.Helper()
	var all []slotState
	s.get("/slots", &all)
	for _, x := range all {
		if x.ID == slot {
			return x.Busy
		}
	}
	s.t.Fatalf("no slot %d in %v", slot, all)
	return false
}

// chat sends a chat request and reads its stream to the end.
func (s *server) chat(body []byte) *stream {
	s.t.Helper()
	r, err := s.client.Post("http://llama/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	st := &stream{Status: r.StatusCode}
	if _, err := io.Copy(st, r.Body); err != nil {
		s.t.Fatal(err)
	}
	return st
}

// chatUntil sends a chat request and reads its stream until ctx ends.
func (s *server) chatUntil(ctx context.Context, body []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://llama/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	r, err := s.client.Do(req)
	if err != nil {
		return // ctx ended first
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
}

// waitUntil looks again and again until ok. It waits for the state of another
// process, which tells of it in no other way.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience()); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited %v in vain until: %s", patience(), what)
}

// dieWithTest makes a child end when the test program does, even by a panic.
func dieWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// shortDir is a temporary folder whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	base := os.TempDir()
	if len(base) > 60 {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "bml-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
