package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockedBuffer is standard error for two goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func unixClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// start runs practice until the test ends and gives a client for it.
func start(t *testing.T, path string, args ...string) (client *http.Client, stop func() int, stderr *lockedBuffer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stderr = new(lockedBuffer)
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"-listen", "unix:" + path}, args...), func(string) string { return "" }, stderr)
	}()
	client = unixClient(path)
	for {
		if resp, err := client.Get("http://practice/health"); err == nil {
			_ = resp.Body.Close()
			break
		}
		select {
		case c := <-code:
			t.Fatalf("ended with %d: %s", c, stderr)
		case <-time.After(time.Millisecond):
		}
	}
	return client, func() int { cancel(); return <-code }, stderr
}

// A signal ends it at once, in the middle of a stream, and the socket is gone.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	path, rec := filepath.Join(dir, "run", "llama.sock"), filepath.Join(dir, "rec")
	client, stop, stderr := start(t, path, "-gen-tps", "5", "-record", rec, "-slots", "2", "-ctx", "1024")
	const secret = "a very private word"
	resp, err := client.Post("http://practice/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"`+secret+`"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if code := stop(); code != 0 {
		t.Errorf("ended with %d: %s", code, stderr)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
	if strings.Contains(stderr.String(), secret) {
		t.Error("the log has text of the conversation")
	}
	if b, err := os.ReadFile(rec); err != nil || !strings.Contains(string(b), secret) {
		t.Errorf("the recording is %q, %v", b, err)
	}
}

func TestRunRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		code int
		text string
	}{
		{"no address", nil, 1, "see runbook: practice-listen"},
		{"not a socket", []string{"-listen", "unix:" + file}, 1, "is in the way and is no socket"},
		{"unknown flag", []string{"-banana"}, 2, "flag provided but not defined"},
		{"unknown fault", []string{"-listen", "tcp:127.0.0.1:0", "-fault", "explode"}, 2, "unknown kind"},
		{"no slots", []string{"-slots", "0"}, 2, "1 to 64 slots"},
		{"an argument", []string{"x"}, 2, "no arguments"},
		{"record in no folder", []string{"-listen", "tcp:127.0.0.1:0", "-record", file + "/x"}, 1, "cannot record"},
		{"help", []string{"-help"}, 0, "-faults"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(t.Context(), tc.args, func(string) string { return "" }, &stderr); code != tc.code || !strings.Contains(stderr.String(), tc.text) {
				t.Errorf("code %d, want %d: %s", code, tc.code, stderr.String())
			}
		})
	}
}

// -fault orders work without -faults.
func TestFaultFlag(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	client, stop, _ := start(t, path, "-fault", "server-error,times=2")
	for _, want := range []int{500, 500, 200} {
		resp, err := client.Post("http://practice/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("status %d, want %d", resp.StatusCode, want)
		}
		_ = resp.Body.Close()
	}
	if code := stop(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}
