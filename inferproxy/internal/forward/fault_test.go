package forward

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

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

// levels hands on the level of each line that is logged.
type levels chan slog.Level

func (l levels) Enabled(context.Context, slog.Level) bool      { return true }
func (l levels) Handle(_ context.Context, r slog.Record) error { l <- r.Level; return nil }
func (l levels) WithAttrs([]slog.Attr) slog.Handler            { return l }
func (l levels) WithGroup(string) slog.Handler                 { return l }

// TestWhoLeft: a client that hangs up in the middle of an answer is no news, a
// server that does is.
func TestWhoLeft(t *testing.T) {
	networks(t, func(t *testing.T, network string) {
		for _, tc := range []struct {
			name   string
			handle func(stream)
			want   slog.Level
		}{
			{"the client", func(c stream) {
				for {
					if _, err := c.Write(make([]byte, 64<<10)); err != nil {
						return
					}
				}
			}, slog.LevelDebug},
			{"the server", func(c stream) { c.Read(make([]byte, 1)) }, slog.LevelInfo},
		} {
			t.Run(tc.name, func(t *testing.T) {
				got := make(levels, 10)
				p := start(t, network, upstream(t, network, tc.handle), func(c *Config) { c.Log, c.Linger = slog.New(got), time.Millisecond })
				c := p.dial(t)
				if tc.want == slog.LevelDebug {
					if _, err := io.ReadFull(c, make([]byte, 1000)); err != nil {
						t.Fatal(err)
					}
					c.Close()
				} else {
					for { // more than the server reads
						if _, err := c.Write(make([]byte, 64<<10)); err != nil {
							break
						}
					}
				}
				if level := <-got; level != tc.want {
					t.Errorf("logged as %v", level)
				}
			})
		}
	})
}
