package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// proxy measures what inferproxy adds. Upstream is a server in this process,
// over TCP as an owner's llama-server usually is; direct requests go to the same.
func proxy(t *testing.T) []row {
	const body = "data: {}\n\n"
	bulk := int64(pick(1<<30, 1<<20))
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, body)
	})
	mux.HandleFunc("/bulk", func(w http.ResponseWriter, r *http.Request) {
		block := make([]byte, 64<<10)
		for left := bulk; left > 0; left -= int64(len(block)) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(ln) }()
	defer server.Close()

	sock := filepath.Join(t.TempDir(), "infer.sock")
	startProxy(t, sock, ln.Addr().String())
	direct := client("tcp", ln.Addr().String(), true)
	via := client("unix", sock, true)
	direct1, via1 := client("tcp", ln.Addr().String(), false), client("unix", sock, false)

	kept := added(t, pick(2000, 5), direct, via)
	fresh := added(t, pick(1000, 5), direct1, via1)
	var d, v []time.Duration
	for range pick(5, 1) {
		d = append(d, took(func() { get(t, direct, "/bulk") }))
		v = append(v, took(func() { get(t, via, "/bulk") }))
	}
	ratio := float64(median(d)) / float64(median(v))
	rate := float64(bulk) / (1 << 20) / median(v).Seconds()
	const limit = 200 * time.Microsecond
	return []row{
		{"inferproxy, added to a request on an open connection", us(kept), "<= 200 us", kept <= limit, ""},
		{"inferproxy, added to a request with a new connection", us(fresh), "<= 200 us", fresh <= limit, ""},
		{"inferproxy, throughput against a direct connection", fmt.Sprintf("%.2f", ratio), ">= 0.8", ratio >= 0.8, fmt.Sprintf("%.0f MiB/s", rate)},
	}
}

func us(d time.Duration) string { return fmt.Sprintf("%.0f us", float64(d)/1e3) }

// added is the difference of the medians of n requests each, in turns.
func added(t *testing.T, n int, direct, via *http.Client) time.Duration {
	var d, v []time.Duration
	for range n {
		d = append(d, took(func() { get(t, direct, "/small") }))
		v = append(v, took(func() { get(t, via, "/small") }))
	}
	return median(v) - median(d)
}

func client(network, address string, keep bool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: !keep,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
}

func get(t *testing.T, c *http.Client, path string) {
	r, err := c.Get("http://upstream" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
}

// startProxy runs inferproxy and returns when its socket accepts.
func startProxy(t *testing.T, sock, upstream string) {
	cmd := exec.Command("inferproxy", "-listen", sock, "-upstream", "tcp:"+upstream, "-rate", "100000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 1000 {
		if c, err := net.Dial("unix", sock); err == nil {
			c.Close()
			return
		}
		time.Sleep(5 * time.Millisecond) // another process's socket
	}
	t.Fatal("inferproxy does not listen")
}
