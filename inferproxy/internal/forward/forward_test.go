package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// proxy is a forwarder at work.
type proxy struct {
	path   string
	counts *Counts
	logs   *safeBuffer
	stop   func() // ends it, waits for Serve, and fails the test on its error
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func start(t testing.TB, network, address string, change func(*Config)) *proxy {
	t.Helper()
	p := &proxy{path: filepath.Join(shortDir(t), "run", "in.sock"), counts: new(Counts), logs: new(safeBuffer)}
	c := Config{
		Network: network, Address: address, DialTimeout: 10 * time.Second, Linger: time.Hour, Conns: 64, Rate: 1e6,
		Peers: []uint32{uint32(os.Geteuid())}, Log: slog.New(slog.NewJSONHandler(p.logs, nil)),
	}
	if change != nil {
		change(&c)
	}
	l, err := Listen(p.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, l, p.counts) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// shortDir: the names of t.TempDir can be too long for a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	d, err := os.MkdirTemp("", "bx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

func (p *proxy) dial(t testing.TB) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// upstream serves each connection with handle until the test ends.
func upstream(t testing.TB, network string, handle func(stream)) (address string) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(shortDir(t), "up.sock")
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				s, ok := c.(stream)
				if !ok {
					t.Errorf("%T", c)
					return
				}
				handle(s)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

func echo(c stream) {
	io.Copy(c, c)
	c.CloseWrite()
}

func closeRead(c stream) {
	if r, ok := c.(interface{ CloseRead() error }); ok {
		r.CloseRead()
	}
}

func networks(t *testing.T, f func(t *testing.T, network string)) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) { f(t, network) })
	}
}

// send writes data in pieces of random sizes, then closes its half.
func send(c stream, data []byte, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	for len(data) > 0 {
		n := min(len(data), 1+r.IntN(1<<r.IntN(18)))
		if _, err := c.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return c.CloseWrite()
}

func noise(n int, seed uint64) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	b := make([]byte, n)
	r.Read(b)
	return b
}

// Whatever both sides send, in whatever pieces, arrives unchanged and ends
// with an end of file on both sides.
func TestBytesArriveUnchanged(t *testing.T) {
	networks(t, func(t *testing.T, network string) {
		type result struct {
			got []byte
			err error
		}
		answers := make(chan []byte, 1)
		results := make(chan result, 1)
		p := start(t, network, upstream(t, network, func(c stream) {
			done := make(chan error, 1)
			go func() { done <- send(c, <-answers, 7) }()
			got, err := io.ReadAll(c)
			results <- result{got, errors.Join(err, <-done)}
		}), nil)
		rapid.Check(t, func(r *rapid.T) {
			size := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 1<<20))
			out := noise(size.Draw(r, "request"), rapid.Uint64().Draw(r, "seed"))
			in := noise(size.Draw(r, "answer"), rapid.Uint64().Draw(r, "seed2"))
			c := p.dial(t)
			answers <- in
			sent := make(chan error, 1)
			go func() { sent <- send(c, out, 9) }()
			got, err := io.ReadAll(c)
			up := <-results
			if err := errors.Join(err, up.err, <-sent, c.Close()); err != nil {
				r.Fatal(err)
			}
			if !bytes.Equal(got, in) || !bytes.Equal(up.got, out) {
				r.Fatalf("answer equal: %v, request equal: %v", bytes.Equal(got, in), bytes.Equal(up.got, out))
			}
		})
	})
}

// A request that ends with a half-close gets its answer; an answer that ends
// first leaves the request's half open.
func TestHalfClose(t *testing.T) {
	networks(t, func(t *testing.T, network string) {
		t.Run("client first", func(t *testing.T) {
			p := start(t, network, upstream(t, network, func(c stream) {
				got, _ := io.ReadAll(c) // returns only if the half-close was passed on
				c.Write(append([]byte("got "), got...))
			}), nil)
			c := p.dial(t)
			io.WriteString(c, "question")
			c.CloseWrite()
			if got, err := io.ReadAll(c); err != nil || string(got) != "got question" {
				t.Errorf("%q %v", got, err)
			}
		})
		t.Run("upstream first", func(t *testing.T) {
			late := make(chan string, 1)
			p := start(t, network, upstream(t, network, func(c stream) {
				io.WriteString(c, "answer")
				c.CloseWrite()
				got, _ := io.ReadAll(c)
				late <- string(got)
			}), nil)
			c := p.dial(t)
			if got, err := io.ReadAll(c); err != nil || string(got) != "answer" {
				t.Errorf("%q %v", got, err)
			}
			io.WriteString(c, "afterwards")
			c.CloseWrite()
			if got := <-late; got != "afterwards" {
				t.Errorf("%q", got)
			}
		})
	})
}

// Fifty clients are connected before the first is served to its end, and the
// upstream never sees more than two of them at once; each is served.
func TestConnectionCap(t *testing.T) {
	var now, most atomic.Int64
	p := start(t, "unix", upstream(t, "unix", func(c stream) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		c.Read(make([]byte, 1))
		now.Add(-1)
		io.WriteString(c, "x")
	}), func(c *Config) { c.Conns = 2 })
	var clients []*net.UnixConn
	for range 50 {
		clients = append(clients, p.dial(t))
	}
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			io.WriteString(c, "x")
			if got, err := io.ReadAll(c); string(got) != "x" || err != nil {
				t.Errorf("%q %v", got, err)
			}
			c.Close()
		})
	}
	wg.Wait()
	if most.Load() != 2 {
		t.Errorf("%d at once, want 2", most.Load())
	}
}

func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began := newBucket(10), time.Now()
		for i, want := range []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 200, 300} { // a burst of ten, then one each 100 ms
			if !b.take(t.Context()) {
				t.Fatal("not taken")
			}
			if got := time.Since(began).Round(time.Millisecond); got != want*time.Millisecond {
				t.Errorf("token %d after %v, want %v ms", i, got, int64(want))
			}
		}
		time.Sleep(time.Hour) // no more than a burst is saved up
		began = time.Now()
		for range 11 {
			b.take(t.Context())
		}
		if got := time.Since(began).Round(time.Millisecond); got != 100*time.Millisecond {
			t.Errorf("11 tokens after an hour took %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if b.take(ctx) {
			t.Error("taken from an empty bucket")
		}
	})
}

// With one token and no hope of a second, the second client is not served
// while the first one goes on.
func TestAcceptRate(t *testing.T) {
	p := start(t, "unix", upstream(t, "unix", echo), func(c *Config) { c.Rate = 1e-6 })
	first, second := p.dial(t), p.dial(t)
	io.WriteString(second, "hello?")
	for range 200 {
		io.WriteString(first, "x")
		if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	p.stop()
	if got, _ := io.ReadAll(second); len(got) != 0 || p.counts.Accepted.Load() != 1 {
		t.Errorf("%q, %d accepted", got, p.counts.Accepted.Load())
	}
}

func TestManyAtOnce(t *testing.T) {
	networks(t, func(t *testing.T, network string) {
		p := start(t, network, upstream(t, network, echo), nil)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				data := noise(1<<16, uint64(i))
				c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.path, Net: "unix"})
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				go send(c, data, uint64(i))
				if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		wg.Wait()
	})
}

// The end of the context ends what is under way: idle connections, a stream,
// a client that waits for its turn, and one that says nothing to a 502.
func TestEndLetsNothingHang(t *testing.T) {
	t.Run("streams", func(t *testing.T) {
		release := make(chan struct{})
		up := upstream(t, "unix", func(c stream) { // one that does not care for an end of file
			io.CopyN(c, c, 1)
			<-release
		})
		t.Cleanup(func() { close(release) })
		p := start(t, "unix", up, func(c *Config) { c.Conns = 2 })
		idle, busy, waiting := p.dial(t), p.dial(t), p.dial(t)
		for _, c := range []*net.UnixConn{idle, busy} {
			io.WriteString(c, "x")
			io.ReadFull(c, make([]byte, 1))
		}
		p.stop() // would hang
		for _, c := range []*net.UnixConn{idle, busy, waiting} {
			io.ReadAll(c) // would hang
		}
	})
	t.Run("502", func(t *testing.T) {
		p := start(t, "unix", "/nowhere", nil)
		c := p.dial(t)
		for p.counts.Unreachable.Load() == 0 {
			runtime.Gosched()
		}
		p.stop()
		io.ReadAll(c)
	})
}
