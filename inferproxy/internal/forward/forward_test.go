package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

func TestUnreachableUpstream(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, tc := range []struct{ name, network, address, kind string }{
		{"refused", "tcp", closed.Addr().String(), "refused"},
		{"no socket", "unix", filepath.Join(t.TempDir(), "none.sock"), "no-such-socket"},
		{"no socket, long path", "unix", "/tmp/" + strings.Repeat("x/", 60) + "none.sock", "no-such-socket"},
		{"silent", "tcp", silent(t), "timeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := start(t, tc.network, tc.address, func(c *Config) { c.DialTimeout = 300 * time.Millisecond })
			h := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", p.path)
			}}}
			for name, body := range map[string]string{"small": "x", "large": strings.Repeat("prompt ", 1<<20)} {
				r, err := h.Post("http://infer/v1/chat/completions", "application/json", strings.NewReader(body))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				text, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || r.StatusCode != 502 || r.Header.Get("X-Boxmaker") != "upstream-unreachable" || string(text) != "inferproxy cannot reach its upstream server" {
					t.Errorf("%s: %v %d %q %v", name, err, r.StatusCode, text, r.Header)
				}
			}
			p.stop()
			if p.counts.Unreachable.Load() != 2 || !strings.Contains(p.logs.String(), `"kind":"`+tc.kind+`"`) {
				t.Errorf("%d unreachable, log %s", p.counts.Unreachable.Load(), p.logs)
			}
			if strings.Contains(p.logs.String(), "prompt") {
				t.Error("content in the log")
			}
		})
	}
}

// silent is an address whose queue of waiting connections is full, so that a
// further one gets no answer at all.
func silent(t *testing.T) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*syscall.SockaddrInet4).Port}
	for range 4 { // more than enough to fill it
		c, err := net.DialTimeout("tcp", addr.String(), 100*time.Millisecond)
		if err != nil {
			break
		}
		t.Cleanup(func() { c.Close() })
	}
	return addr.String()
}

func TestPeerRefused(t *testing.T) {
	p := start(t, "unix", upstream(t, "unix", func(stream) { t.Error("the upstream was reached") }), func(c *Config) { c.Peers = []uint32{4242} })
	c := p.dial(t)
	if got, _ := io.ReadAll(c); len(got) != 0 {
		t.Errorf("%q", got)
	}
	p.stop()
	if p.counts.Refused.Load() != 1 {
		t.Errorf("%d refused", p.counts.Refused.Load())
	}
}

// What the upstream sent before it died arrives; then the connection ends, and
// the next one is served though there is room for one only.
func TestUpstreamDiesMidStream(t *testing.T) {
	networks(t, func(t *testing.T, network string) {
		p := start(t, network, upstream(t, network, func(c stream) {
			c.Read(make([]byte, 1))
			io.WriteString(c, "data: half a tok")
			if tcp, ok := c.(*net.TCPConn); ok {
				c.Read(make([]byte, 1)) // until the client has it all: a reset overtakes
				tcp.SetLinger(0)
			}
		}), func(c *Config) { c.Conns = 1 })
		for range 3 {
			c := p.dial(t)
			io.WriteString(c, "q")
			got := make([]byte, len("data: half a tok"))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "data: half a tok" {
				t.Fatalf("%q %v", got, err)
			}
			io.WriteString(c, "q")
			if rest, _ := io.ReadAll(c); len(rest) != 0 { // the point is that it returns
				t.Errorf("%q", rest)
			}
			c.Close()
		}
	})
}

// A server may refuse a request that it has not read to its end. The answer
// must get through although writing to that server fails.
func TestAnswerBeforeTheWholeRequest(t *testing.T) {
	networks(t, func(t *testing.T, network string) {
		p := start(t, network, upstream(t, network, func(c stream) {
			c.Read(make([]byte, 10))
			io.WriteString(c, "413 too large")
			closeRead(c)
			c.CloseWrite()
			io.Copy(io.Discard, c)
		}), nil)
		c := p.dial(t)
		written := make(chan error, 1)
		go func() { written <- send(c, noise(4<<20, 1), 1) }()
		if got, _ := io.ReadAll(c); string(got) != "413 too large" {
			t.Errorf("%q", got)
		}
		c.Close()
		<-written
	})
}

// When a server reads no more, its client can still write all that it has, and
// then read what the server has to say.
func TestServerReadsNoMore(t *testing.T) {
	closed, release := make(chan bool), make(chan bool)
	p := start(t, "unix", upstream(t, "unix", func(c stream) {
		closeRead(c)
		closed <- true
		<-release
		io.WriteString(c, "answer")
	}), nil)
	c := p.dial(t)
	<-closed
	if err := send(c, noise(4<<20, 1), 1); err != nil {
		t.Error(err)
	}
	close(release)
	if got, err := io.ReadAll(c); string(got) != "answer" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// A connection whose upstream is dead gives its place to the next client,
// although its own client keeps it open: one that only waits, and one that
// does not even read.
func TestDeadUpstreamFreesItsPlace(t *testing.T) {
	for _, tc := range []struct {
		name, network string
		die           func(c stream, dead chan<- bool)
		client        func(c *net.UnixConn)
	}{
		{"silent client", "tcp", func(c stream, dead chan<- bool) {
			c.(*net.TCPConn).SetLinger(0) // a reset
			dead <- true
		}, func(*net.UnixConn) {}},
		{"deaf client", "unix", func(c stream, dead chan<- bool) {
			closeRead(c)
			dead <- true
			c.Write(make([]byte, 64<<20)) // more than all buffers
		}, func(c *net.UnixConn) { io.WriteString(c, "meets the closed half") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var n atomic.Int64
			dead := make(chan bool, 1)
			p := start(t, tc.network, upstream(t, tc.network, func(c stream) {
				c.Read(make([]byte, 1))
				if n.Add(1) == 1 {
					tc.die(c, dead)
					return
				}
				io.WriteString(c, "served")
			}), func(c *Config) { c.Conns, c.Linger = 1, 10*time.Millisecond })
			first := p.dial(t)
			io.WriteString(first, "q")
			<-dead
			tc.client(first)
			second := p.dial(t)
			io.WriteString(second, "q")
			second.CloseWrite()
			if got, err := io.ReadAll(second); string(got) != "served" {
				t.Errorf("%q %v", got, err)
			}
		})
	}
}

// An HTTP client takes an answer before its question for a fault.
func TestNoAnswerWithoutAQuestion(t *testing.T) {
	p := start(t, "unix", "/nowhere", nil)
	c := p.dial(t)
	c.CloseWrite()
	if got, _ := io.ReadAll(c); len(got) != 0 {
		t.Errorf("%q", got)
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
