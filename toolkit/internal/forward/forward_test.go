package forward

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// door is a Unix socket that answers with serve.
func door(t *testing.T, serve func(*net.UnixConn)) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "d")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return at
}

func open(t *testing.T, door string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_ = l.Close()
	stop, err := Start(t.Context(), address, door)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return address
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// TestHalfClose: the end of the request is passed on, and the answer still comes.
func TestHalfClose(t *testing.T) {
	at := door(t, func(c *net.UnixConn) {
		b, err := io.ReadAll(c) // ends only with the client's end
		_, _ = fmt.Fprintf(c, "%d %v", len(b), err)
	})
	address := open(t, at)
	var wg sync.WaitGroup
	for n := range 80 { // more than may be open at one time
		wg.Go(func() {
			c := dial(t, address)
			if _, err := c.Write(bytes.Repeat([]byte("x"), n*1000)); err != nil {
				t.Error(err)
			}
			if err := c.CloseWrite(); err != nil {
				t.Error(err)
			}
			if b, err := io.ReadAll(c); string(b) != fmt.Sprintf("%d <nil>", n*1000) {
				t.Errorf("%d: %q, %v", n, b, err)
			}
		})
	}
	wg.Wait()
}

// TestServerFirst: the door may end its direction first.
func TestServerFirst(t *testing.T) {
	rest := make(chan string, 1)
	at := door(t, func(c *net.UnixConn) {
		_, _ = io.WriteString(c, "hello")
		_ = c.CloseWrite()
		b, _ := io.ReadAll(c)
		rest <- string(b)
	})
	c := dial(t, open(t, at))
	if b, err := io.ReadAll(c); string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := io.WriteString(c, "bye"); err != nil {
		t.Error(err)
	}
	_ = c.CloseWrite()
	if got := <-rest; got != "bye" {
		t.Errorf("%q", got)
	}
}

func TestNoDoor(t *testing.T) {
	c := dial(t, open(t, filepath.Join(t.TempDir(), "none")))
	if b, _ := io.ReadAll(c); len(b) > 0 { // the connection ends: closed, or reset
		t.Errorf("%q", b)
	}
}

// TestStop: connections that are open end with the forwarder.
func TestStop(t *testing.T) {
	at := door(t, func(c *net.UnixConn) { _, _ = io.Copy(io.Discard, c) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	stop, err := Start(t.Context(), address, at)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, address)
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	stop()
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("%q", b)
	}
	if _, err := Start(t.Context(), "127.0.0.1:99999", at); err == nil {
		t.Error("a port that is none")
	}
}

func TestEnv(t *testing.T) {
	env := strings.Join(Env(), "\n")
	for _, want := range []string{"HTTP_PROXY=http://127.0.0.1:3128", "HTTPS_PROXY=http://127.0.0.1:3128", "http_proxy=http://127.0.0.1:3128", "https_proxy=http://127.0.0.1:3128"} {
		if !strings.Contains(env, want) {
			t.Errorf("lacks %s", want)
		}
	}
}
